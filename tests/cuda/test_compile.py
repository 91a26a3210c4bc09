"""Kernels compiled without a GPU: every one for every architecture, once, and with the compiler's words on failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lenet_trt.cuda import compile as compiling
from lenet_trt.cuda import nvrtc
from lenet_trt.cuda.compile import Module, architectures, compile_variant, source_sha256, target_for
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.bind import Specialized
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import bounds
from lenet_trt.kernel.variants import Variant

# What the sources tell apart (`lenet-trt check NAME` compiles for all); two more, and the PTX that later GPUs take.
GENERATIONS = ("sm_75", "sm_80", "sm_90")
FEW_TARGETS = ("sm_75", "sm_90")
TARGETS = (*GENERATIONS, "sm_89", "sm_120", "compute_75")
# Kernels that are all of an engine: nothing runs before them that they would have to wait for.
ALONE = ("batched_matvec", "conv5x5_bias", "conv5x5_bias_relu_pool2", "lenet5", "lenet5_int8")


def every_variant() -> list[object]:
    return [
        pytest.param(kernel, variant, id=f"{kernel.name}-{variant.name}")
        for kernel in registry.kernels().values()
        for variant in kernel.variants
    ]


def builds(kernel: Kernel, variant: Variant) -> list[tuple[Specialized, str]]:
    """The first size that fits for every target; in all types and with every attribute for every generation.

    Other sizes are built for two generations.
    """
    found: dict[tuple[Specialized, str], None] = {}
    fitting = [
        bound
        for bound in bounds(kernel)
        if bound.fits(variant) and (variant.types is None or bound.types.name in variant.types)
    ]
    first = fitting[0].axes
    defaults = {attribute.name: attribute.examples[0] for attribute in kernel.attributes}
    changes = {}
    for bound in fitting:
        changed = sum(bound.attributes[name] != value for name, value in defaults.items())
        changed += bound.types is not kernel.types[0]
        changes[bound] = changed, any(bound.axes[name] != first[name] for name in kernel.static_axes)
    most = max(1, min(changed + resized for changed, resized in changes.values()))
    for bound, (changed, resized) in changes.items():
        targets = FEW_TARGETS if resized else GENERATIONS if changed else TARGETS
        for target in targets if changed + resized <= most else ():
            if variant.supports(compiling.sm_of(target), bound.types):
                found[bound.specialized, target] = None
    return list(found)


@pytest.fixture
def scale(tmp_path: Path) -> Kernel:
    """A kernel in a folder of its own, which tests may change."""
    folder = tmp_path / "maxpool2"
    folder.mkdir()
    original = registry.kernel("maxpool2")
    (folder / "kernel.cu").write_bytes((original.source_dir / "kernel.cu").read_bytes())
    return replace(original, source_dir=folder)


def first_of(kernel: Kernel) -> tuple[Specialized, Variant]:
    return next(bounds(kernel)).specialized, kernel.variants[-1]


@pytest.mark.parametrize(
    ("kernel", "variant"), [pytest.param(k, k.variants[0], id=k.name) for k in registry.kernels().values()]
)
def test_every_kernel_compiles(kernel: Kernel, variant: Variant) -> None:
    specialized, target = builds(kernel, variant)[0]
    check_image(kernel, compile_variant(specialized, variant, target))


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "variant"), every_variant())
def test_every_variant_compiles_for_every_generation(kernel: Kernel, variant: Variant) -> None:
    """The first variant in every way that ``builds`` says, the others in one way for each generation."""
    wanted = builds(kernel, variant)
    if variant is not kernel.variants[0]:
        ways = {target: (specialized, target) for specialized, target in reversed(wanted)}
        wanted = [way for target, way in ways.items() if target in GENERATIONS]
    with ThreadPoolExecutor() as pool:
        modules = list(pool.map(lambda build: compile_variant(build[0], variant, build[1]), wanted))
    assert modules
    for module in modules:
        check_image(kernel, module)


def test_the_sources_tell_no_other_generations_apart() -> None:
    sources = [path for path in registry.plugins_dir().rglob("*") if path.suffix in (".cu", ".cuh")]
    asked = [found for path in sources for found in re.findall(r"__CUDA_ARCH__\W+(\d+)", path.read_text())]
    assert {f"sm_{int(number) // 10}" for number in asked} == set(GENERATIONS[1:])


def check_image(kernel: Kernel, module: Module) -> None:
    assert module.image.startswith(b"//" if module.target.startswith("compute_") else b"\x7fELF")
    assert bytes(registry.plugins_dir()) not in module.image  # it may go into an engine
    assert module.waits == (compiling.sm_of(module.target) >= 90 and kernel.name not in ALONE)


def test_every_kernel_of_networks_waits_before_it_touches_memory() -> None:
    kernels = [kernel for name, kernel in registry.kernels().items() if name not in ALONE]
    with ThreadPoolExecutor() as pool:
        modules = list(pool.map(lambda kernel: compile_variant(*newest(kernel), "sm_90"), kernels))
    assert [module.entry for module in modules if not module.waits] == []


def newest(kernel: Kernel) -> tuple[Specialized, Variant]:
    """Return the first variant that an H100 runs, with an example that fits."""
    return next(
        (bound.specialized, variant)
        for variant in kernel.variants
        for bound in bounds(kernel)
        if variant.supports(90, bound.types) and bound.fits(variant)
    )


def test_whether_a_kernel_waits_is_kept(scale: Kernel) -> None:
    specialized, variant = first_of(scale)
    for target, waits in (("sm_90", True), ("compute_90", True), ("sm_86", False)):
        assert compile_variant(specialized, variant, target).waits == waits
        compiling._compile.cache_clear()
        assert compile_variant(specialized, variant, target).waits == waits


def test_a_compiled_kernel_is_kept_and_found_again(scale: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    specialized, variant = first_of(scale)
    image = compile_variant(specialized, variant, "sm_86").image
    compiling._compile.cache_clear()
    monkeypatch.setattr(compiling, "_run_nvrtc", lambda *_: pytest.fail("was compiled again"))
    assert compile_variant(specialized, variant, "sm_86").image == image


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-40], lambda data: data[:99] + b"?" + data[100:]]
)
def test_a_damaged_kernel_is_compiled_again(
    scale: Kernel, damage: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LENET_TRT_CACHE", str(tmp_path / "cache"))
    specialized, variant = first_of(scale)
    compiling._compile.cache_clear()
    image = compile_variant(specialized, variant, "sm_86").image
    (path,) = (tmp_path / "cache" / "kernels").iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    compiling._compile.cache_clear()
    assert compile_variant(specialized, variant, "sm_86").image == image
    assert path.read_bytes() == whole


@pytest.mark.parametrize("target", ["sm_86", "compute_86"])
def test_an_image_names_the_source_only_where_line_information_is_asked_for(scale: Kernel, target: str) -> None:
    specialized, variant = first_of(scale)
    path = str(scale.source_dir).encode()
    assert path in compile_variant(specialized, variant, target, line_info=True).image
    image = compile_variant(specialized, variant, target).image
    assert not [text for text in (path, b"kernel.cu", b"common.cuh", b"nv_debug_ptx_txt") if text in image]


def test_a_kernel_that_is_kept_is_found_without_loading_the_compiler() -> None:
    program = (
        "import sys; from lenet_trt.kernel import registry; from lenet_trt.kernel.examples import bounds;"
        "from lenet_trt.cuda.compile import *; k = registry.kernel('maxpool2'); s = next(bounds(k)).specialized;"
        "compile_variant(s, k.variants[-1], target_for(89));"
        "print('cuda.bindings.nvrtc' in sys.modules, 'libnvrtc' in open('/proc/self/maps').read())"
    )
    answers = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert answers[1] == ["False", "False"], answers


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of which NVRTC is taken to be loaded, to be replaced as an upgrade does."""
    monkeypatch.setenv("LENET_TRT_CACHE", str(tmp_path / "cache"))
    site = tmp_path / "site-packages"
    library = site / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"x" * 100)
    os.utime(library, (1000, 1000.25))
    (site / "nvidia_cuda_nvrtc-13.0.48.dist-info").mkdir()
    monkeypatch.setattr(nvrtc, "_loaded_library", lambda: library)
    return library


def as_a_new_process() -> None:
    for each in (compiling._compile, source_sha256, nvrtc.loaded_compiler, nvrtc._kept, nvrtc.bindings):
        each.cache_clear()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "change", ["nothing", "part of a second", "size", "time", "distribution", "gone", "another", "linker", "broken"]
)
def test_another_compiler_in_its_place_compiles_again(
    change: str, scale: Kernel, stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specialized, variant = first_of(scale)
    as_a_new_process()
    compile_variant(specialized, variant, "sm_86")
    before = set((tmp_path / "cache" / "kernels").iterdir())
    if change == "size":
        stand_in.write_bytes(b"y" * 101)
        os.utime(stand_in, (1000, 1000))
    elif change == "time":
        os.utime(stand_in, (1000, 1001))
    elif change == "part of a second":  # which is lost where images of containers are packed
        os.utime(stand_in, (1000, 1000))
    elif change == "distribution":
        next(stand_in.parents[3].glob("*.dist-info")).rename(
            stand_in.parents[3] / "nvidia_cuda_nvrtc-13.0.88.dist-info"
        )
    elif change == "gone":
        elsewhere = stand_in.rename(tmp_path / "libnvrtc.so.13")
        monkeypatch.setattr(nvrtc, "_loaded_library", lambda: elsewhere)
    elif change == "another":
        (tmp_path / "libnvrtc.so.13").write_bytes(b"z")
        monkeypatch.setattr(nvrtc, "_loaded_library", lambda: tmp_path / "libnvrtc.so.13")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    elif change == "linker":
        monkeypatch.setattr(nvrtc, "_LINKER_CACHE", tmp_path)  # as if ldconfig had been run: asked again, same answer
    elif change == "broken":
        for answers in (tmp_path / "cache" / "nvrtc").iterdir():
            answers.write_text("{")
    as_a_new_process()
    compile_variant(specialized, variant, "sm_86")
    assert bool(nvrtc.loaded_compiler.cache_info().currsize) == (change not in ("nothing", "part of a second"))
    as_a_new_process()
    again = change in ("size", "time", "distribution", "gone", "another")
    assert len(set((tmp_path / "cache" / "kernels").iterdir()) - before) == again


def test_other_headers_compile_again(scale: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LENET_TRT_CACHE", str(tmp_path / "cache"))
    include = tmp_path / "include"
    include.symlink_to(compiling.cuda_include_dir())
    headers = tmp_path / "headers"
    headers.mkdir()
    for path in include.iterdir():
        (headers / path.name).symlink_to(path)
    (headers / "cuda_fp16.h").unlink()
    (headers / "cuda_fp16.h").write_bytes((include / "cuda_fp16.h").read_bytes())
    monkeypatch.setattr(compiling, "cuda_include_dir", lambda: headers)
    specialized, variant = first_of(scale)
    for count in (1, 2):
        os.utime(headers / "cuda_fp16.h", (count, count))
        compiling._compile.cache_clear()
        compile_variant(specialized, variant, "sm_86")
        assert len(list((tmp_path / "cache" / "kernels").iterdir())) == count
    compiling._compile.cache_clear()


@pytest.mark.parametrize("change", ["source", "shared header", "macro", "target"])
def test_what_goes_into_a_module_decides_which_is_found(
    scale: Kernel, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files() -> set[str]:
        return {path.name for path in compiling.cache_dir("kernels").iterdir()}

    monkeypatch.setenv("LENET_TRT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "common.cuh").write_bytes((registry.plugins_dir() / "common.cuh").read_bytes())
    specialized, variant = first_of(scale)
    compile_variant(specialized, variant, "sm_87")
    before = files()
    target = "sm_87"
    if change == "source":
        with open(scale.source_dir / "kernel.cu", "a") as file:
            file.write("// more\n")
    elif change == "shared header":
        with open(tmp_path / "common.cuh", "a") as file:
            file.write("// more\n")
    elif change == "macro":
        specialized = list(bounds(scale))[-1].specialized
    else:
        target = "sm_88"
    compiling._compile.cache_clear()
    source_sha256.cache_clear()
    compile_variant(specialized, variant, target)
    assert len(files() - before) == 1


def test_the_source_hash_covers_included_files_and_nothing_else(scale: Kernel, tmp_path: Path) -> None:
    before = source_sha256(scale)
    (scale.source_dir / "unrelated.cuh").write_text("// nobody includes this")
    source_sha256.cache_clear()
    assert source_sha256(scale) == before
    (tmp_path / "common.cuh").write_text("// shadows the toolkit's own")
    source_sha256.cache_clear()
    assert source_sha256(scale) != before


def test_processes_that_compile_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    code = (
        "from lenet_trt.kernel import registry; from lenet_trt.kernel.examples import bounds;"
        "from lenet_trt.cuda.compile import *;"
        "k = registry.kernel('maxpool2'); s = next(bounds(k)).specialized;"
        "print(hash(compile_variant(s, k.variants[-1], 'sm_80').image[:4] == b'\\x7fELF'))"
    )
    env = {"LENET_TRT_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert [process.communicate()[0].strip() for process in running] == ["1"] * 4
    assert len(list((tmp_path / "kernels").iterdir())) == 1


def test_a_compiler_error_comes_with_kernel_variant_target_and_log(scale: Kernel) -> None:
    (scale.source_dir / "kernel.cu").write_text("#include <cuda_fp16.h>\nthis is no CUDA\n")
    specialized, variant = first_of(scale)
    with pytest.raises(LenetTrtError) as caught:
        compile_variant(specialized, variant, "sm_80")
    message = str(caught.value)
    assert message.startswith("maxpool2 narrow does not compile")
    assert "--gpu-architecture=sm_80" in message
    assert "kernel.cu(2): error" in message


def test_the_source_can_check_the_declared_launch(scale: Kernel) -> None:
    specialized, variant = first_of(scale)
    with open(scale.source_dir / "kernel.cu", "a") as file:
        file.write("static_assert(LAUNCH_THREADS == kThreads);\nstatic_assert(LAUNCH_SHARED_BYTES == 0);\n")
    assert compile_variant(specialized, variant, "sm_80").image
    other = replace(variant, launch=replace(variant.launch, block=(128, 1, 1)))
    with pytest.raises(LenetTrtError, match="static assertion failed"):
        compile_variant(specialized, other, "sm_80")


def test_a_source_without_the_entry_is_named(scale: Kernel) -> None:
    specialized, variant = first_of(scale)
    for target in ("sm_80", "compute_80"):
        with pytest.raises(LenetTrtError, match=r'kernel\.cu defines no extern "C" __global__ function pool'):
            compile_variant(specialized, replace(variant, entry="pool"), target)


@pytest.mark.parametrize("target", ["sm_70", "sm_9", "90", "cuda_90", "sm_90a", "sm_"])
def test_an_unknown_target_lists_the_known_ones(target: str, scale: Kernel) -> None:
    with pytest.raises(LenetTrtError, match=f"no target '{target}'; this compiler knows sm_75, sm_80"):
        compile_variant(*first_of(scale), target)


def test_a_target_older_than_the_variant_is_refused(scale: Kernel) -> None:
    specialized, variant = first_of(scale)
    with pytest.raises(LenetTrtError, match="maxpool2 narrow needs sm_90 or newer, not sm_89"):
        compile_variant(specialized, replace(variant, min_sm=90), "sm_89")


def test_a_variant_for_one_architecture_is_compiled_with_all_that_it_has_and_for_no_other(scale: Kernel) -> None:
    specialized, variant = first_of(scale)
    portable = compile_variant(specialized, variant, "compute_90")
    assert b".target sm_90\n" in portable.image
    hopper = replace(variant, min_sm=90, only_sm=True)
    assert b".target sm_90a\n" in compile_variant(specialized, hopper, "compute_90").image
    assert compile_variant(specialized, hopper, "sm_90").options[0] == "--gpu-architecture=sm_90a"
    for target in ("sm_89", "sm_100", "compute_75", "compute_100"):
        with pytest.raises(LenetTrtError, match=f"maxpool2 narrow needs sm_90 alone, not {target}"):
            compile_variant(specialized, hopper, target)


def test_a_cache_that_cannot_be_written_only_warns(scale: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LENET_TRT_CACHE", "/proc/no-such-folder")
    specialized, variant = first_of(scale)
    with pytest.warns(
        RuntimeWarning, match="are not kept: /proc/no-such-folder/kernels cannot be written; LENET_TRT_CACHE"
    ):
        assert compile_variant(specialized, variant, "sm_75").image


@pytest.mark.parametrize(
    ("sm", "target"), [(75, "sm_75"), (90, "sm_90"), (91, "sm_90"), (122, "sm_121"), (130, "compute_121")]
)
def test_the_target_for_a_gpu(sm: int, target: str) -> None:
    assert target_for(sm) == target


def test_a_gpu_older_than_the_compiler_is_refused() -> None:
    with pytest.raises(LenetTrtError, match=f"sm_70 is older than .*{compiling.nvrtc_version()}"):
        target_for(70)
    assert min(architectures()) == 75
