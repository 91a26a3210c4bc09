"""Fixtures that more than one test module needs."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from shared_session import note_passed, passed_before, session_folder

# Each worker of pytest-xdist has a core; threads of libraries would wait for each other there, and by spinning.
_IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if _IS_WORKER:
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

# On a busy machine any example can take long.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a module together, and let a worker that is done take tests from another."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rest", action="store_true", help="leave out what passed with the same $LENET_TRT_TESTS_KEPT before"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--rest``, keep the tests that have not passed yet."""
    if config.getoption("rest"):
        passed = passed_before()
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lasts as long as the session: thousands of tests, and the modules."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what passed, once: in the process that hears of all tests."""
    if report.when == "call" and report.passed and not _IS_WORKER:
        note_passed(report.nodeid)


@pytest.fixture
def no_ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of Ray in which no cluster has left its address; the paths of its sockets have to be short."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """Let tests of Ctrl-C work in the background too, where a shell starts programs deaf to it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep the user's cache out of the tests, and the tests out of it; kernels are compiled once for all workers."""
    folder = tmp_path_factory.mktemp("cache")
    kernels = session_folder(tmp_path_factory) / "kernels"
    kernels.mkdir(exist_ok=True)
    (folder / "kernels").symlink_to(kernels)
    os.environ["LENET_TRT_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def one_thread_of_onnx_runtime() -> None:
    """Give ONNX Runtime one thread in a worker, where a test does not ask for more; no environment variable can."""
    if not _IS_WORKER:
        return
    from lenet_trt.onnx_model.onnx_runtime import onnx_runtime

    onnxruntime = onnx_runtime()

    class OneThread(onnxruntime.SessionOptions):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.intra_op_num_threads = 1

    class Session(onnxruntime.InferenceSession):  # type: ignore[misc]
        def __init__(self, path_or_bytes: object, sess_options: object = None, *rest: object, **named: object) -> None:
            super().__init__(path_or_bytes, sess_options or OneThread(), *rest, **named)

    onnxruntime.SessionOptions, onnxruntime.InferenceSession = OneThread, Session


@pytest.fixture(scope="session")
def lenet5() -> Path:
    """The shipped LeNet-5 as ONNX."""
    from lenet_trt.export.lenet5 import SHIPPED

    return SHIPPED


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The plugin library for a version of TensorRT; skips where it cannot be compiled."""
    from library_probes import library_for

    return partial(library_for, tmp_path_factory)
