"""Compile kernels by NVRTC for any architecture, on any machine, without a GPU, a driver or nvcc.

A compiled kernel is kept in ``files.cache_dir("kernels")`` under a hash of everything that decides it, and found again
without loading the compiler. A hash of the image is kept with it: a damaged image is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from lenet_trt.cuda.nvrtc import INSTALL, Compiler, ask_nvrtc, bindings, check, chosen_file, compiler, loaded_compiler
from lenet_trt.cuda.waits import waits_before_memory
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import cache_dir, keep, sealed, unsealed
from lenet_trt.kernel.bind import Specialized
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import Constant
from lenet_trt.kernel.registry import plugins_dir
from lenet_trt.kernel.variants import Variant

Wanted = TypeVar("Wanted")
Made = TypeVar("Made")
_KEPT_AS = "4"  # the format of a kept module: a byte that says whether it waits, and the image


@dataclass(frozen=True)
class Module:
    """Hold a compiled variant: machine code for one architecture ("sm_90") or PTX ("compute_75").

    ``waits``: it waits itself for the kernel before it, so that it may be launched before that one has ended.
    """

    image: bytes = field(repr=False)
    target: str
    entry: str
    options: tuple[str, ...]
    waits: bool = False


def compile_for_launch(specialized: Specialized, variant: Variant, sm: int) -> Module:
    """Compile a variant for a GPU of this machine, with line information: profilers then point at the source."""
    return compile_variant(specialized, variant, target_for(sm), line_info=True)


def compile_variant(
    specialized: Specialized, variant: Variant, target: str, *, line_info: bool = False, maps: bool = True
) -> Module:
    """Compile a variant for ``target``, or take it from the cache.

    ``target``: "sm_90" for machine code, or "compute_75" for PTX, which newer GPUs take too, except the PTX of a
    variant for a single architecture. Without ``line_info`` the image may leave this machine: it contains only machine
    code, and neither the source's text nor its path. ``maps``: it will be launched with its tensor maps, if it has any.

    Raises:
        LenetTrtError: the compiler refuses the source (the message has its log), the target is unknown or not one of
            the variant's, or NVRTC or its headers are not installed.
    """
    sm = sm_of(target)
    if not variant.runs_on(sm):
        name = f"{specialized.kernel.name} {variant.name}"
        others = "alone" if variant.only_sm else "or newer"
        raise LenetTrtError(f"{name} needs sm_{variant.min_sm} {others}, not {target}")
    return _compile(specialized, variant, target, line_info, maps, chosen_file())


def compile_ahead(
    wanted: Iterable[tuple[Specialized, Variant, str]], *, line_info: bool = False, progress: bool = False
) -> None:
    """Compile variants for targets on all cores, into the cache; an error comes again where the variant is asked for.

    ``progress``: see ``compile_each``.
    """
    compile_each(lambda each: compile_variant(*each, line_info=line_info), dict.fromkeys(wanted), progress=progress)


def compile_each(
    compile_one: Callable[[Wanted], Made], wanted: Iterable[Wanted], *, progress: bool = False
) -> list[Future[Made]]:
    """Call ``compile_one`` for each of ``wanted``, on all cores; return what each call returned or raised, in order.

    Ctrl-C waits only for what is being compiled. ``progress``: show on standard error how many are compiled.
    """
    from tqdm import tqdm

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        started = [pool.submit(compile_one, each) for each in wanted]
        shown = tqdm(None, "Compiling kernels", len(started), disable=not progress, leave=False, file=sys.stderr)
        for _ in as_completed(started):
            shown.update()
        shown.close()
    finally:
        pool.shutdown(cancel_futures=True)
    return started


def sm_of(target: str) -> int:
    """Return the architecture number in "sm_90" or "compute_75".

    Raises:
        LenetTrtError: the compiler here does not know the architecture.
    """
    kind, _, number = target.partition("_")
    if kind not in ("sm", "compute") or not number.isdecimal() or int(number) not in architectures():
        known = ", ".join(f"sm_{sm}" for sm in architectures())
        raise LenetTrtError(
            f"there is no target {target!r}; this compiler knows {known}, and compute_XX for PTX of them"
        )
    return int(number)


def architectures() -> tuple[int, ...]:
    """Return the architectures for which the installed NVRTC compiles, oldest first."""
    return compiler().architectures


def nvrtc_version() -> str:
    """Return the compiler's version, such as "13.0"."""
    return compiler().version


def target_for(sm: int) -> str:
    """Return the target for a GPU of that architecture: machine code, or PTX where it is too new."""
    if sm in architectures():
        return f"sm_{sm}"
    older = [known for known in architectures() if known <= sm]
    same_family = [known for known in older if known // 10 == sm // 10]
    if same_family:  # machine code runs on a later minor revision of its architecture
        return f"sm_{max(same_family)}"
    if not older:
        raise LenetTrtError(f"sm_{sm} is older than what NVRTC {nvrtc_version()} compiles for")
    return f"compute_{max(older)}"


@cache
def source_sha256(kernel: Kernel, variant: Variant | None = None) -> str:
    """Hash the kernel's source and the files that it includes; of all variants or of one."""
    variants = kernel.variants if variant is None else (variant,)
    files: dict[Path, None] = {}
    for each in variants:
        for part in each.parts:
            _collect(kernel.source_dir / part.source, _source_dirs(kernel), files)
    digest = hashlib.sha256()
    for path in files:
        data = path.read_bytes()
        digest.update(f"{path.name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


@cache
def cuda_include_dir() -> Path:
    """Return the folder of cuda_fp16.h: from NVIDIA's packages, else from a CUDA toolkit.

    Raises:
        LenetTrtError: neither is installed.
    """
    for folder in _include_candidates():
        if (folder / "cuda_fp16.h").is_file() and (folder / "crt" / "host_defines.h").is_file():
            return folder
    raise LenetTrtError(f"the CUDA headers (cuda_fp16.h, crt/host_defines.h) are not here: {INSTALL}")


def _include_candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield from (path.parent for path in sorted(Path(root).glob("*/include/cuda_fp16.h"), reverse=True))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    yield Path("/usr/local/cuda/include")


def _source_dirs(kernel: Kernel) -> tuple[Path, ...]:
    """Return the folders for the source's own #include "..." lines."""
    return tuple(dict.fromkeys((kernel.source_dir, kernel.source_dir.parent, plugins_dir())))


def _collect(path: Path, include_dirs: tuple[Path, ...], found: dict[Path, None]) -> None:
    if path in found:
        return
    found[path] = None
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
        for folder in (path.parent, *include_dirs):
            if (folder / name).is_file():
                _collect((folder / name).resolve(), include_dirs, found)
                break  # the compiler reports files that are not found


@lru_cache(maxsize=1024)
def _compile(
    specialized: Specialized, variant: Variant, target: str, line_info: bool, maps: bool, compiled_by: Path | None
) -> Module:
    kernel = specialized.kernel
    entry = kernel.entry(variant)
    options = _options(specialized, variant, target, line_info, maps)
    for chosen in (compiler, loaded_compiler):  # these differ where a library brought its own compiler
        path = _kept_at(specialized, variant, target, options, chosen())
        with contextlib.suppress(OSError):  # not compiled yet, or the cache cannot be read
            kept = unsealed(path.read_bytes())
            if kept is not None:  # otherwise the file is damaged
                return Module(kept[1:], target, entry, options, waits=bool(kept[0]))
    image, waits = _run_nvrtc(kernel, variant, options, path.suffix)
    keep(path, sealed(bytes([waits]) + image), "compiled kernels")
    return Module(image, target, entry, options, waits)


def _kept_at(
    specialized: Specialized, variant: Variant, target: str, options: tuple[str, ...], compiled_by: Compiler
) -> Path:
    """Return the cache path of the module; its name depends on everything that decides its content."""
    kernel = specialized.kernel
    headers = (cuda_include_dir() / "cuda_fp16.h").stat()  # this file stands for its package
    parts = (
        _KEPT_AS,
        source_sha256(kernel, variant),
        kernel.entry(variant),
        compiled_by.identity,
        f"{headers.st_size} {int(headers.st_mtime)}",
        *options,
    )
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    suffix = "ptx" if target.startswith("compute_") else "cubin"
    return cache_dir("kernels") / f"{kernel.name}-{variant.name}-{target}-{key[:24]}.{suffix}"


def _options(
    specialized: Specialized, variant: Variant, target: str, line_info: bool, maps: bool = True
) -> tuple[str, ...]:
    include_dirs = (*_source_dirs(specialized.kernel), cuda_include_dir())
    macros = (*specialized.macros, *_launch_macros(specialized, variant, maps))
    return (
        f"--gpu-architecture={target}{'a' if variant.only_sm else ''}",
        "--std=c++17",
        *(("--generate-line-info",) if line_info else ()),
        *(f"--include-path={folder}" for folder in include_dirs),
        *(f"--define-macro={macro}" for macro in macros),
    )


def _launch_macros(specialized: Specialized, variant: Variant, maps: bool) -> Iterator[str]:
    """Yield the macros that the source asserts; without a shared-memory size where calls differ in it.

    The number of tensor maps is among them only where some are declared; without ``maps`` it is 0.
    """
    launch = specialized.launch(variant)
    yield f'LAUNCH_ENTRY="{specialized.kernel.entry(variant)}"'
    yield f"LAUNCH_THREADS={math.prod(launch.block)}"
    yield f"LAUNCH_BLOCK_X={launch.block[0]}"
    if isinstance(launch.shared_bytes, Constant):
        yield f"LAUNCH_SHARED_BYTES={launch.shared_bytes.value}"
    if declared := specialized.maps(variant):
        yield f"LAUNCH_MAPS={len(declared) if maps else 0}"


def compiler_log(specialized: Specialized, variant: Variant, target: str) -> str:
    """Compile a variant for machine code, and return what the compiler says of its registers and memory."""
    options = (*_options(specialized, variant, target, False), "--ptxas-options=-v")
    nvrtc = bindings()
    with _compiled(specialized.kernel, variant, options) as program:
        return _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace")


def _run_nvrtc(kernel: Kernel, variant: Variant, options: tuple[str, ...], suffix: str) -> tuple[bytes, bool]:
    """Return the image, and whether its kernel waits for the one before it."""
    nvrtc = bindings()
    with _compiled(kernel, variant, options) as program:
        ptx = image = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        if suffix != ".ptx":
            image = _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    entry = kernel.entry(variant)
    marker = f".entry {entry}(".encode()
    if marker not in ptx:
        raise LenetTrtError(f'{kernel.source_dir / variant.source} defines no extern "C" __global__ function {entry}')
    body = ptx.partition(marker)[2].partition(b"\n{\n")[2].partition(b"\n}\n")[0].decode()
    weights = {f"{entry}_param_{number}" for number, tensor in enumerate(kernel.inputs) if tensor.weight}
    return image, waits_before_memory(body, weights)


@contextlib.contextmanager
def _compiled(kernel: Kernel, variant: Variant, options: tuple[str, ...]) -> Iterator[Any]:
    """Compile, and hold NVRTC's program.

    Raises:
        LenetTrtError: the compiler refuses the source; the message has its log.
    """
    nvrtc = bindings()
    source = kernel.source_dir / variant.source
    program = ask_nvrtc(nvrtc.nvrtcCreateProgram(source.read_bytes(), str(source).encode(), 0, [], []))
    try:
        encoded = [option.encode() for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            raise LenetTrtError(
                f"{kernel.name} {variant.name} does not compile ({status.name}, NVRTC {nvrtc_version()}, "
                f"{' '.join(o for o in options if not o.startswith('--include-path'))}):\n"
                + log.decode(errors="replace").rstrip("\0\n ")
            )
        yield program
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(size: Any, get: Any, program: Any) -> bytes:
    buffer = bytes(int(ask_nvrtc(size(program))))
    check(*get(program, buffer))  # writes into the buffer
    return buffer
