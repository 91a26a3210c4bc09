"""Which flavor is taken and why, and what it refuses before TensorRT does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from lenet_trt.cuda.gpus import Gpu
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.onnx_model.precision import convert
from lenet_trt.onnx_model.profiles import Profile
from lenet_trt.tensorrt import flavors as flavors
from lenet_trt.tensorrt.engine import engine_from_onnx
from lenet_trt.tensorrt.flavors import Flavor, select
from lenet_trt.tensorrt.library.targets import targets_for


@pytest.fixture(scope="module")
def rtx() -> Flavor:
    return select("rtx")


def gpu(sm: int) -> Gpu:
    return Gpu(0, "a GPU", sm, 8 << 30)


def test_auto_takes_rtx_and_says_why() -> None:
    found = select()
    assert found.name == "rtx"
    assert "default" in found.reason


def test_a_flavor_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flavors, "installed", lambda: {"rtx": True, "tensorrt": False})
    with pytest.raises(LenetTrtError, match=r"pip install 'lenet-trt\[tensorrt\]'"):
        select("tensorrt")
    monkeypatch.setattr(flavors, "installed", lambda: {"rtx": False, "tensorrt": False})
    with pytest.raises(LenetTrtError, match="pip install tensorrt-rtx"):
        select()


@pytest.mark.parametrize(
    ("text", "sm"), [("8.6", 86), ("86", 86), ("sm_86", 86), ("7.5", 75), ("12.1", 121), ("121", 121)]
)
def test_targets_are_read_as_people_write_them(rtx: Flavor, text: str, sm: int) -> None:
    assert rtx.targets([text, text]) == (sm,)


@pytest.mark.parametrize("text", ["9.0", "8.7", "10.0", "abc", "", "8", "12", "8.6.1", "-1"])
def test_an_unknown_target_lists_the_known_ones(rtx: Flavor, text: str) -> None:
    with pytest.raises(UsageError, match=r"7\.5, 8\.0, 8\.6, 8\.9, 12\.0, 12\.1") as error:
        rtx.targets([text])
    assert ("--flavor tensorrt" in str(error.value)) == (text in ("9.0", "8.7", "10.0"))


@pytest.mark.parametrize("read", [lambda text: select().targets([text]), lambda text: targets_for([text])])
def test_several_targets_in_one_value_are_to_be_repeated(read: Callable[[str], object]) -> None:
    with pytest.raises(UsageError, match=r"--sm 8.6, 9.0: wanted one .* repeat it: --sm 8\.6 --sm 9\.0$"):
        read("8.6, 9.0")


def test_current_needs_a_gpu(rtx: Flavor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flavors, "first_gpu", lambda: None)
    with pytest.raises(UsageError, match="this machine has none"):
        rtx.targets(["current"])
    monkeypatch.setattr(flavors, "first_gpu", lambda: gpu(89))
    assert rtx.targets(["current"]) == (89,)
    monkeypatch.setattr(flavors, "first_gpu", lambda: gpu(90))
    with pytest.raises(UsageError, match="--flavor tensorrt"):
        rtx.targets(["current"])
    assert not rtx.supports(gpu(90))


def test_full_tensorrt_builds_for_the_gpu_present(rtx: Flavor, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Flavor("tensorrt", rtx.trt, "11.4.0", "test")
    monkeypatch.setattr(flavors, "first_gpu", lambda: gpu(90))
    assert full.targets(["9.0"]) == (90,)
    with pytest.raises(UsageError, match="builds for the GPU that it runs on"):
        full.targets(["8.6"])


def test_fp8_starts_at_ada(rtx: Flavor) -> None:
    rtx.check_types(frozenset({"fp8"}), [89, 120], has_fp32_gemm=False)
    with pytest.raises(UsageError, match=r"no fp8 on compute capability 8.6 \(it starts at 8.9\)"):
        rtx.check_types(frozenset({"fp8"}), [89, 86], has_fp32_gemm=False)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (
            "raise ImportError('libnvinfer.so.11: cannot open shared object file')",
            "TensorRT is installed but does not load (libnvinfer.so.11: cannot open",
        ),
        ("__version__ = '8.4.3'", "version 8.4.3 is too old; 8.5 or newer is wanted"),
    ],
)
def test_a_full_tensorrt_that_does_not_do_says_why(tmp_path: Path, module: str, told: str) -> None:
    (tmp_path / "tensorrt.py").write_text(module)
    program = "from lenet_trt.tensorrt.flavors import select; select('tensorrt')"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert told in answer.stderr


# What TensorRT-RTX really does with each precision on each target, and that we say so before it does.
@pytest.mark.parametrize("sm", [75, 80, 86, 89, 120, 121])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_the_precision_table_is_tensorrts_own(rtx: Flavor, lenet5: Path, precision: str, sm: int) -> None:
    model = convert(onnx.load(lenet5), precision)
    expected = True
    try:
        rtx.check_types(frozenset({"fp32", precision}), [sm], precision == "fp32")
    except UsageError:
        expected = False
    profile = {"images": Profile((1, 1, 28, 28), (8, 1, 28, 28), (64, 1, 28, 28))}
    built = True
    try:
        engine_from_onnx(model, rtx, profiles=profile, targets=[sm])
    except LenetTrtError:
        built = False
    assert built == expected


def test_a_build_says_that_tensorrt_rtx_was_imported_too_early(tmp_path: Path) -> None:
    """Its parser would end the process at the first plugin."""
    program = (
        "import sys, tensorrt_rtx\n"
        "from lenet_trt.cli import main\n"
        f"sys.exit(main(['build', '--fp32', '--plugins', 'lenet5', '-o', {str(tmp_path / 'm.engine')!r}]))\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "call lenet_trt.tensorrt.flavors.select('rtx') before import tensorrt_rtx" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "m.engine").exists()


def test_an_unknown_operator_ends_in_an_error_and_not_in_an_abort(tmp_path: Path) -> None:
    """The parser looks for a plugin by loading libtensorrt_rtx.so, which the wheel does not have under that name."""
    graph = helper.make_graph(
        [helper.make_node("Unheard", ["x"], ["y"], name="the_node", domain="some.where")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("some.where", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    answer = subprocess.run(
        [sys.executable, "-m", "lenet_trt.build", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.engine")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "Unheard node 'the_node'" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "m.engine").exists()
