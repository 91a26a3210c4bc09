"""What the plugin library asks of the CUDA driver, seen by one that records it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from declared_kernels import declared
from kernel_data import section, with_number
from lenet_trt.cuda.compile import cuda_include_dir
from lenet_trt.kernel import Kernel, registry
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.tensorrt.library import encode
from lenet_trt.tensorrt.library.encode import TunedGpu
from library_probes import CORE, Core, compiled, data_of, headers_of, missing_compiler
from shared_session import made_once

WEIGHTS = ["6,1,5,5", "6", "16,6,5,5", "16", "120,256", "120", "84,120", "84", "10,84", "10"]
LAUNCHED = "cuLaunchKernel "
OVERLAPPING = "cuLaunchKernelEx "
FAILED_EXECUTION = 7  # nvinfer1::ErrorCode


def shapes(batch: int, outputs: int | None = None) -> list[str]:
    """Shapes of LeNet-5's inputs and output."""
    return [f"{batch},1,28,28", *WEIGHTS, f"{batch if outputs is None else outputs},10"]


# One for each way to launch; the older one is slow, as its library and its probe are compiled for it.
@pytest.fixture(scope="module", params=[pytest.param("8.6", marks=pytest.mark.slow), "11.1"])
def probe(request: pytest.FixtureRequest, library, tmp_path_factory: pytest.TempPathFactory):
    """Run steps of the probe for one TensorRT; gives the lines that it and the driver print, and those of stderr."""
    file = library(request.param)
    headers = headers_of(request.param)
    assert headers is not None
    includes = [f"-isystem{include}" for include in (headers.folder, cuda_include_dir())]
    options = ("-rdynamic", "-Wno-deprecated-declarations", *includes)
    program = made_once(
        tmp_path_factory, f"launch_probe-{request.param}", lambda path: compiled("launch_probe", path, *options)
    )
    driver = made_once(
        tmp_path_factory, "driver/libcuda.so.1", lambda path: compiled("recording_driver", path, "-shared", "-fPIC")
    )
    kernel = registry.kernel("lenet5")
    usual = tmp_path_factory.mktemp("launch") / "data"
    usual.write_bytes(data_of(bound(kernel), ["sm_86", "sm_90"]))

    def run(*steps: str, data: Path = usual, **environment: str) -> tuple[list[str], str]:
        record = {"LD_LIBRARY_PATH": str(driver.parent), "RECORD_ARGUMENTS": "p" * 11 + "ip", **environment}
        command = [program, file, data, *steps]
        done = subprocess.run(command, env={**os.environ, **record}, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout.splitlines(), done.stderr

    return run


def bound(kernel: Kernel):
    """A call of the kernel in fp32."""
    return kernel.bind_axes({"n": 3}, kernel.types_named("fp32"))


def test_everything_is_loaded_before_and_a_launch_is_one_call(probe) -> None:
    lines, _ = probe("attach", "run", *shapes(3), "run", *shapes(1000), "run", *shapes(1000))
    after = lines[lines.index("attached") + 1 :]
    addresses = " ".join(str(256 * i) for i in range(1, 12))
    output = 256 * 12
    assert after == [
        f"{LAUNCHED}24 1 1 512 1 1 0 stream 7 with {addresses} 3 {output}",
        "run: prepared 0 enqueued 0 allocations 0",
        *2
        * [
            f"{LAUNCHED}125 1 1 512 1 1 219536 stream 7 with {addresses} 1000 {output}",
            "run: prepared 0 enqueued 0 allocations 0",
        ],
        *[line for line in after if line == "cuModuleUnload"],
    ]
    assert "cuFuncSetAttribute 8 219536" in lines
    assert lines.count("cuModuleLoadData") == 7


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a kernel that waits itself for the one before it."""
    path = tmp_path_factory.mktemp("waiting") / "data"
    path.write_bytes(data_of(bound(registry.kernel("lenet5")), ["sm_90"], waits=True))
    return path


def test_a_kernel_that_waits_itself_is_launched_before_the_one_in_front_has_ended(probe, waiting: Path) -> None:
    lines, _ = probe("attach", "run", *shapes(3), data=waiting)
    addresses = " ".join(str(256 * i) for i in range(1, 12))
    assert f"{OVERLAPPING}24 1 1 512 1 1 0 stream 7 with {addresses} 3 {256 * 12}" in lines
    assert "run: prepared 0 enqueued 0 allocations 0" in lines
    assert not any(line.startswith(LAUNCHED) for line in lines)


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"LENET_TRT_OVERLAP": "0"}, id="switched off"),
        pytest.param({"RECORD_CUDA": "12020"}, id="driver that cannot capture it"),
    ],
)
def test_where_launches_may_not_overlap_a_launch_is_a_usual_one(probe, tmp_path: Path, environment) -> None:
    data = tmp_path / "data"
    data.write_bytes(data_of(bound(registry.kernel("lenet5")), ["sm_90"], cuda=12000, waits=True))
    lines, _ = probe("attach", "run", *shapes(3), data=data, **environment)
    assert sum(line.startswith(LAUNCHED) for line in lines) == 1
    assert not any(line.startswith(OVERLAPPING) for line in lines)


def test_a_library_that_does_not_know_the_section_launches_one_after_the_other(waiting: Path) -> None:
    assert not section(waiting.read_bytes(), encode.OVERLAPPING).flags & encode.MUST_KNOW


def test_an_overlapping_image_that_is_not_there_is_refused(core: Core, waiting: Path, tmp_path: Path) -> None:
    data = waiting.read_bytes()
    _, begin, size = section(data, encode.OVERLAPPING)
    (tmp_path / "data").write_bytes(with_number(data, begin + size - 2, 999))
    assert "the section of overlapping images names one that is not there" in core.ask("load", tmp_path / "data")


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a kernel with two launches."""
    kernel = declared("split_softmax")
    path = tmp_path_factory.mktemp("split") / "data"
    path.write_bytes(data_of(kernel.bind_axes({"n": 3, "w": 1025}, kernel.types[0]), ["sm_90"]))
    return path


def test_the_launches_of_a_call_follow_each_other_with_one_workspace(probe, split: Path) -> None:
    lines, _ = probe("attach", "run", "3,2500", "3,2500", data=split, RECORD_ARGUMENTS="piipp")
    after = lines[lines.index("attached") + 1 :]
    assert after[:3] == [
        *2 * [f"{LAUNCHED}9 1 1 128 1 1 0 stream 7 with 256 2500 3 512 4096"],
        "run: prepared 0 enqueued 0 allocations 0",
    ]
    entries = ["split_softmax_split", "split_softmax_split_2", "split_softmax_row"]
    assert [line for line in lines if line.startswith("cuModuleGetFunction")] == [
        f"cuModuleGetFunction {entry}" for entry in entries
    ]


def test_the_workspace_is_that_of_the_largest_sizes(probe, split: Path) -> None:
    lines, _ = probe("workspace", "7,3000", "7,3000", data=split)
    assert lines[-1] == "workspace 168"


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("without", "there is no workspace; split_softmax (fp32) needs 72 bytes"),
        ("aslant", "the workspace is at an address that is no multiple of 16 bytes"),
    ],
)
def test_a_workspace_that_is_none_is_refused_where_one_is_needed(probe, split: Path, step: str, why: str) -> None:
    shapes = ["3,2500", "3,2500"]
    lines, errors = probe("attach", step, *shapes, "run", *shapes, data=split, RECORD_ARGUMENTS="piipp")
    assert why in errors
    assert sum(line.startswith(LAUNCHED) for line in lines) == 2
    small = ["3,20", "3,20"]
    lines, errors = probe("attach", step, *small, data=split, RECORD_ARGUMENTS="pip")
    assert not errors
    assert sum(line.startswith(LAUNCHED) for line in lines) == 1


def test_a_second_launch_that_fails_is_told(probe, split: Path) -> None:
    shapes = ["3,2500", "3,2500"]
    lines, errors = probe(
        "attach", "run", *shapes, data=split, RECORD_ARGUMENTS="piipp", RECORD_FAIL="cuLaunchKernel", RECORD_FAIL_AT="2"
    )
    assert "cannot launch variant split: CUDA_ERROR_LAUNCH_FAILED" in errors
    assert "run: prepared 0 enqueued 1 allocations" in "\n".join(lines)


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a kernel whose launch has a tensor map of its first input."""
    kernel = registry.kernel("linear_half")
    path = tmp_path_factory.mktemp("mapped") / "data"
    path.write_bytes(
        data_of(kernel.bind_axes({"n": 300, "in": 320, "out": 264}, kernel.types_named("fp16")), ["sm_90"])
    )
    return path


MAPPED_SHAPES = ["300,320", "10,1,33,4,8,8", "264", "300,264"]
ENCODED = "cuTensorMapEncodeTiled "


def test_a_tensor_map_is_made_of_the_input_of_each_call(probe, mapped: Path) -> None:
    lines, _ = probe(
        "halves", "attach", "run", *MAPPED_SHAPES, "run", *MAPPED_SHAPES, data=mapped, RECORD_ARGUMENTS="pppipp"
    )
    after = lines[lines.index("attached") + 1 :]
    made = f"{ENCODED}type 6 of 256 axis 320 box 32 step 1 stride 640 axis 300 box 128 step 1 options 0 2 2 0"
    assert after[0] == made
    assert after[1].endswith("stream 7 with 256 512 768 300 1024 256")
    assert after[2] == "run: prepared 0 enqueued 0 allocations 0"
    assert after[3:6] == after[:3]


def test_a_tensor_map_that_the_driver_refuses_is_told(probe, mapped: Path) -> None:
    failing = {"RECORD_FAIL": ENCODED.strip(), "RECORD_ARGUMENTS": "pppipp"}
    lines, errors = probe("halves", "attach", "run", *MAPPED_SHAPES, "run", *MAPPED_SHAPES, data=mapped, **failing)
    assert "cannot make the tensor map of x for variant by8_wgmma: CUDA_ERROR_LAUNCH_FAILED" in errors
    assert sum(line.startswith(LAUNCHED) for line in lines) == 1
    # A thread that has no CUDA context makes it in that of the plugin.
    lines, errors = probe("halves", "attach", "run", *MAPPED_SHAPES, data=mapped, RECORD_STATUS="201", **failing)
    assert [line.split()[0] for line in lines[lines.index("attached") + 1 :][:3]] == 2 * [ENCODED.strip()] + [
        "cuLaunchKernel"
    ]
    assert not errors


def test_a_driver_without_tensor_maps_is_an_error_before_the_first_launch(probe, mapped: Path, tmp_path: Path) -> None:
    compiled("recording_driver", tmp_path / "libcuda.so.1", "-shared", "-fPIC", "-DWITHOUT_MAPS")
    _, errors = probe("halves", "attach", "run", *MAPPED_SHAPES, data=mapped, LD_LIBRARY_PATH=str(tmp_path))
    assert "needs tensor maps, and the NVIDIA driver here has no cuTensorMapEncodeTiled: update it" in errors


def test_shapes_that_change_without_notice_are_planned_in_the_enqueue(probe) -> None:
    lines, _ = probe("attach", "unprepared", *shapes(3), "unprepared", *shapes(40))
    assert [line.split(" with")[0] for line in lines if line.startswith(LAUNCHED)] == [
        f"{LAUNCHED}24 1 1 512 1 1 0 stream 7",
        f"{LAUNCHED}80 1 1 512 1 1 0 stream 7",
    ]
    assert lines.count("unprepared: prepared 0 enqueued 0 allocations 0") == 2


def test_execution_contexts_share_what_is_loaded_and_the_last_one_unloads_it(probe) -> None:
    lines, _ = probe("attach", "run", *shapes(3), "attach", "run", *shapes(5))
    assert lines.count("cuModuleLoadData") == 7
    assert sum(line.startswith(LAUNCHED) for line in lines) == 2
    lines, _ = probe("attach", "drop", "attach", "run", *shapes(3), "drop")
    assert lines.count("cuModuleLoadData") == 14
    assert lines.count("cuModuleUnload") == 14


def test_each_cuda_context_has_modules_of_its_own(probe) -> None:
    lines, _ = probe("attach", "run", *shapes(3), "context", "2", "attach", "run", *shapes(3))
    assert lines.count("cuModuleLoadData") == 14
    assert sum(line.startswith(LAUNCHED) for line in lines) == 2


def test_a_launch_that_fails_names_the_node_and_the_next_one_works(probe, request) -> None:
    lines, errors = probe("attach", "run", *shapes(3), "run", *shapes(3), RECORD_FAIL="cuLaunchKernel")
    assert [line.split(" allocations")[0] for line in lines if line.startswith("run")] == [
        "run: prepared 0 enqueued 1",
        "run: prepared 0 enqueued 0",
    ]
    problem = "plugin node node (lenet5 (fp32), enqueue): cannot launch variant cluster8: CUDA_ERROR_LAUNCH_FAILED"
    assert problem in errors
    if "8.6" not in request.node.name:  # TensorRT 8 gives its plugins no recorder
        assert [line for line in lines if line.startswith("recorded")] == [f"recorded {FAILED_EXECUTION} {problem}"]


def test_a_thread_without_a_cuda_context_launches_in_that_of_the_plugin(probe) -> None:
    steps = ("attach", "context", "0", "run", *shapes(3))
    lines, errors = probe(*steps, RECORD_FAIL="cuLaunchKernel", RECORD_STATUS="201")
    assert sum(line.startswith(LAUNCHED) for line in lines) == 2
    assert "run: prepared 0 enqueued 0 allocations 0" in lines
    assert not errors


@pytest.mark.slow
def test_threads_with_contexts_of_their_own_have_no_race(tmp_path: Path) -> None:
    if missing_compiler():
        pytest.skip(str(missing_compiler()))
    sanitized = ("-g", "-O1", "-fsanitize=thread")
    program = compiled("threads_probe", tmp_path / "probe", *sanitized, sources=CORE)
    compiled("recording_driver", tmp_path / "libcuda.so.1", "-shared", "-fPIC", *sanitized)
    (tmp_path / "data").write_bytes(data_of(bound(registry.kernel("lenet5")), ["sm_90"]))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command = [program, tmp_path / "data", "8", "40"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(LAUNCHED) == 8 * 40 * 3
    assert done.stdout.count("cuModuleLoadData") == done.stdout.count("cuModuleUnload")


@pytest.mark.parametrize(
    ("step", "wanted", "why"),
    [
        ("run", shapes(3, 4), "y has shape [4, 10]; lenet5 wants [n, 10]: 3 there, not 4"),
        ("run", ["3,1,28,27", *shapes(3)[1:]], "x has shape [3, 1, 28, 27]"),
        ("misaligned", shapes(3), "x is at an address that is no multiple of 16 bytes"),
        ("null", shapes(3), "x has no address"),
        ("run", shapes(3_000_000), "at most 2147483647 elements"),
    ],
)
def test_what_is_wrong_fails_the_enqueue_and_nothing_is_launched(probe, step, wanted, why) -> None:
    lines, errors = probe("attach", step, *wanted, "run", *shapes(3))
    assert why in errors
    failed, worked = (line for line in lines if line.startswith((f"{step}:", "run:")))
    assert "enqueued 1" in failed
    assert "enqueued 0" in worked
    assert sum(line.startswith(LAUNCHED) for line in lines) == 1


@pytest.mark.parametrize("step", ["run", "unprepared"])
def test_sizes_that_the_kernel_is_not_for_are_refused_as_soon_as_they_are_known(probe, step, tmp_path: Path) -> None:
    """At the latest in the enqueue, where TensorRT gave no notice of them."""
    kernel = declared("average_pool3")
    call = kernel.bind_axes({"n": 3, "c": 6, "h": 5, "w": 9}, kernel.types[0], {"pad": 0})
    (tmp_path / "data").write_bytes(data_of(call, ["sm_90"]))
    arguments = {"data": tmp_path / "data", "RECORD_ARGUMENTS": "piiiiip"}
    lines, errors = probe("attach", step, "3,6,2,9", "3,6,1,7", "run", "3,6,5,9", "3,6,3,7", **arguments)
    where = "enqueue" if step == "unprepared" else "onShapeChange" if "onShapeChange" in errors else "configurePlugin"
    assert f"plugin node node (average_pool3 (fp32), {where}): average_pool3 wants 3 <= h + 2 * pad" in errors
    failed, worked = (line for line in lines if line.startswith((f"{step}:", "run:")))
    assert "enqueued 1" in failed
    assert "enqueued 0" in worked
    assert sum(line.startswith(LAUNCHED) for line in lines) == 1


def test_an_empty_batch_is_done_without_a_launch(probe) -> None:
    lines, _ = probe("attach", "run", *shapes(0))
    assert "run: prepared 0 enqueued 0 allocations 0" in lines
    assert not any(line.startswith(LAUNCHED) for line in lines)


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        (
            {"RECORD_SM": "120"},
            "has no image for this GPU, which is sm_120, but for sm_86, sm_90: embed",
        ),
        ({"RECORD_CUDA": "12040"}, "compiled by CUDA 13.0, and the driver here knows 12.4: update the driver"),
        ({"RECORD_NO_GPU": "1"}, "the NVIDIA driver sees no GPU"),
        ({"RECORD_FAIL": "cuModuleLoadData"}, "cannot load the kernel's image for sm_90: CUDA_ERROR_LAUNCH_FAILED"),
    ],
)
def test_a_gpu_that_cannot_run_it_is_an_error_with_the_nodes_name(probe, environment, why: str) -> None:
    steps = ["attach"] if "RECORD_FAIL" in environment else ["attach", "run", *shapes(3)]
    _, errors = probe(*steps, **environment)
    assert why in errors
    assert "plugin node node (lenet5 (fp32)" in errors


@pytest.mark.parametrize(("driver", "why"), [("12000", ""), ("11080", "12.8, and the driver here knows 11.8: update")])
def test_what_cuda_12_compiled_runs_from_its_first_driver_on(probe, tmp_path: Path, driver: str, why: str) -> None:
    (tmp_path / "older").write_bytes(data_of(bound(registry.kernel("lenet5")), ["sm_90"], cuda=12080))
    lines, errors = probe("attach", "run", *shapes(3), data=tmp_path / "older", RECORD_CUDA=driver)
    assert any(line.startswith(LAUNCHED) for line in lines) is not bool(why)
    assert why in errors
    assert ("CUDA 12 needs 525 or newer" in errors) is bool(why)


def test_a_gpu_with_little_shared_memory_goes_without_the_variant(probe) -> None:
    lines, errors = probe("attach", "run", *shapes(1000), RECORD_SHARED=str(100 * 1024))
    assert "node: this GPU has too little shared memory for variant split" in errors
    assert f"{LAUNCHED}132 1 1 192 1 1 98144 stream 7" in "\n".join(lines)


def test_a_tactic_is_a_variant_in_place_of_the_declared_one(probe, request: pytest.FixtureRequest) -> None:
    if "8.6" in request.node.name:
        pytest.skip("TensorRT 8 knows no tactics of plugins")
    lines, _ = probe("attach", "tactic", "7", "run", *shapes(3))
    assert f"{LAUNCHED}3 1 1 384 1 1 0" in "\n".join(lines)
    # For many images the declaration chooses another one, which the timing of three says nothing of.
    declared, _ = probe("attach", "run", *shapes(1000))
    lines, _ = probe("attach", "tactic", "7", "run", *shapes(1000))
    assert [line for line in lines if line.startswith(LAUNCHED)] == [
        line for line in declared if line.startswith(LAUNCHED)
    ]
    lines, _ = probe("attach", "tactic", "1", "run", *shapes(3), "tactic", "2147483647", "run", *shapes(3))
    assert sum(line.startswith(f"{LAUNCHED}24 1 1 512") for line in lines) == 2


def test_tensorrt_times_the_declared_choice_and_every_other_variant_that_can_run(probe, request) -> None:
    if "8.6" in request.node.name:
        pytest.skip("TensorRT 8 knows no tactics of plugins")
    lines, _ = probe("tactics", *shapes(3))
    # 2, cluster8, is what the declaration chooses for three images: it would be timed twice.
    assert lines[-1 - lines.count("cuModuleUnload")] == "configured 0 tactics 1 3 4 5 6 7 8"
    lines, _ = probe("tactics", *shapes(1000))
    assert "configured 0 tactics 1 23 24 25 27 28 29" in lines
    lines, _ = probe("tactics", *shapes(3), RECORD_NO_GPU="1")
    assert lines == ["configured 0 tactics 1"]
    lines, _ = probe("tactics", *shapes(3), RECORD_SM="120")
    assert lines == ["configured 0 tactics 1"]
    lines, errors = probe("tactics", "3,1,28,27", *shapes(3)[1:])
    assert lines[-1].startswith("configured 1 tactics")
    assert "plugin node node (lenet5 (fp32), configurePlugin): x has shape [-1, 1, 28, 27]" in errors


def test_the_choice_that_was_measured_on_this_gpu_is_launched(probe, tmp_path: Path) -> None:
    choice = TunedChoice("fp32", {}, {}, "n", 2, 5, "portable2")
    for name, grid in (("NVIDIA H200", "2 1 1 384"), ("NVIDIA H100", "24 1 1 512")):
        (tmp_path / "data").write_bytes(
            data_of(bound(registry.kernel("lenet5")), ["sm_90"], tuned=[TunedGpu(name, 90, 132, (choice,))])
        )
        lines, _ = probe("attach", "run", *shapes(3), data=tmp_path / "data")
        assert f"{LAUNCHED}{grid} 1 1 0 stream 7" in "\n".join(lines)
