"""Which route is taken, what each needs, and what is said when a plugin or its library is missing or fails."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lenet_trt.cuda.compile import source_sha256
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel import registry
from lenet_trt.tensorrt.flavors import Flavor, select
from lenet_trt.tensorrt.routes import ROUTES, chosen_route
from lenet_trt.tensorrt.routes.failures import remembered, reporting

ONE = "maxpool2"


def flavor(name: str, version: str) -> Flavor:
    """That release, as far as it says what it can do."""
    return Flavor(name, select("rtx").trt, version, "test")


@pytest.mark.parametrize(
    ("name", "version", "usual"),
    [
        ("rtx", "1.7.1.116", "python"),
        ("tensorrt", "8.6.0", "library"),
        ("tensorrt", "10.0.1", "library"),
        ("tensorrt", "10.8.0", "python"),
        ("tensorrt", "10.9.0", "ptx"),
        ("tensorrt", "11.4.0", "ptx"),
    ],
)
def test_where_nobody_chooses_the_first_route_that_the_release_takes_is_taken(
    name: str, version: str, usual: str
) -> None:
    found = flavor(name, version)
    assert chosen_route(found, None) is ROUTES[usual]
    for asked, route in ROUTES.items():
        if route.obstacle(found) is None:
            assert chosen_route(found, asked) is route


@pytest.mark.parametrize(
    ("name", "version", "asked", "said"),
    [
        ("rtx", "1.7.1.116", "ptx", r"full TensorRT alone, from 10\.9 on.*takes plugins by python, library$"),
        ("tensorrt", "8.6.0", "python", r"from 10\.1 on; .* takes plugins by library$"),
        ("tensorrt", "10.8.0", "ptx", r"from 10\.9 on.*takes plugins by python, library$"),
        ("tensorrt", "11.4.0", "c++", r"there is no such route; .* takes plugins by ptx, python, library$"),
    ],
)
def test_a_route_that_the_release_does_not_take_is_refused_with_those_that_it_takes(
    name: str, version: str, asked: str, said: str
) -> None:
    with pytest.raises(UsageError, match=f"--plugin-route {asked.replace('+', '.')}: .*{said}"):
        chosen_route(flavor(name, version), asked)


def test_what_the_process_that_runs_an_engine_needs() -> None:
    assert [name for name, route in ROUTES.items() if route.needs_library] == ["library"]
    assert {name: route.program_obstacle() for name, route in ROUTES.items()} == {
        "ptx": None,
        "python": "its plugins need Python",
        "library": None,
    }
    assert {name: route.network_flags for name, route in ROUTES.items()} == {
        "ptx": ("PREFER_AOT_PYTHON_PLUGINS",),
        "python": (),
        "library": (),
    }
    old, new = flavor("tensorrt", "8.6.0"), flavor("tensorrt", "10.9.0")
    assert (ROUTES["library"].layer_type(old), ROUTES["library"].layer_type(new)) == ("PLUGIN_V2", "PLUGIN_V3")
    assert {ROUTES[name].layer_type(new) for name in ("ptx", "python")} == {"PLUGIN_V3"}


def test_the_route_by_a_library_needs_one_to_build_and_to_load() -> None:
    rtx, route = select("rtx"), ROUTES["library"]
    for use in (
        lambda: route.register(rtx, [registry.kernel(ONE)], None),
        lambda: route.load(rtx, [{"kernel": ONE}], None),
    ):
        with pytest.raises(LenetTrtError, match="none was given: make it with lenet-trt library"):
            use()
    route.load_any(rtx, None)  # an engine of others may need none
    with pytest.raises(LenetTrtError, match="none\\.so"):
        route.load_any(rtx, Path("none.so"))


def test_a_kernel_that_changed_since_the_engine_was_built_is_not_registered() -> None:
    rtx, route = select("rtx"), ROUTES["python"]
    kernel = registry.kernel(ONE)
    route.load(rtx, [{"kernel": ONE, "source_sha256": source_sha256(kernel)}], None)
    assert rtx.trt.get_plugin_registry().get_creator(ONE, "1", "lenet_trt") is not None
    with pytest.raises(LenetTrtError, match=f"the kernel {ONE} changed since the engine was built.*build .* again"):
        route.load(rtx, [{"kernel": ONE, "source_sha256": "0" * 64}], None)
    with pytest.raises(LenetTrtError, match="there is no kernel 'gone'"):
        route.load(rtx, [{"kernel": "gone", "source_sha256": "0" * 64}], None)


def test_an_engine_of_unknown_origin_finds_every_kernel_in_python() -> None:
    rtx = select("rtx")
    ROUTES["python"].load_any(rtx, None)
    creators = rtx.trt.get_plugin_registry()
    assert all(creators.get_creator(name, kernel.version, "lenet_trt") for name, kernel in registry.kernels().items())
    ROUTES["python"].load_any(flavor("tensorrt", "8.6.0"), None)  # which has no such plugins, and needs none
    ROUTES["ptx"].load_any(rtx, None)
    ROUTES["ptx"].load(rtx, [{"kernel": ONE}], None)


class Plugin:
    """What TensorRT calls, and whose exceptions it prints and forgets."""

    kernel = SimpleNamespace(name=ONE)

    @remembered
    def enqueue(self, error: BaseException | None) -> str:
        if error is not None:
            raise error
        return "done"


def called(error: BaseException | None) -> Any:
    try:
        return Plugin().enqueue(error)
    except BaseException:  # as TensorRT does
        return "TensorRT's own message"


def reported(*errors: BaseException | None, tensorrt: BaseException | None = None) -> None:
    """A call of TensorRT in which plugins fail one after the other, and then TensorRT itself."""
    with reporting():
        for error in errors:
            called(error)
        if tensorrt is not None:
            raise tensorrt


def test_what_fails_in_a_plugin_is_the_error_of_the_call_around_it() -> None:
    reported(None)
    assert called(ValueError("wrong")) == "TensorRT's own message", "TensorRT has to see that it failed"
    with pytest.raises(LenetTrtError, match=rf"the plugin {ONE} \(enqueue\) failed: ValueError: wrong$") as raised:
        reported(ValueError("wrong"), ValueError("what follows from it"))
    assert isinstance(raised.value.__cause__, ValueError)
    reported(None)


def test_the_error_of_a_plugin_comes_before_that_of_tensorrt() -> None:
    with pytest.raises(LenetTrtError, match="failed: x has shape"):
        reported(LenetTrtError("x has shape"), tensorrt=RuntimeError("TensorRT could not"))
    with pytest.raises(RuntimeError, match="TensorRT could not"):
        reported(tensorrt=RuntimeError("TensorRT could not"))


def test_a_run_that_fails_for_ever_keeps_a_few_errors() -> None:
    from lenet_trt.tensorrt.routes import failures

    with pytest.raises(LenetTrtError, match="number 0"):
        reported(*(ValueError(f"number {number}") for number in range(1000)))
    assert len(failures._failures) < 100
