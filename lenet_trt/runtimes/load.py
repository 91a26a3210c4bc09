"""Load any engine, ONNX or fused ONNX file as a Python function, on a runtime that works here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import sha256_file
from lenet_trt.runtimes.table import Runtime, candidates
from lenet_trt.tensorrt.sidecar import model_path

if TYPE_CHECKING:
    from lenet_trt.runtimes.network import Network
    from lenet_trt.tensorrt.sidecar import Sidecar


def load(
    path: Path | str,
    runtime: str = "auto",
    *,
    trust: bool = False,
    library: Path | str | None = None,
    threads: int | None = None,
) -> Network:
    """Load an engine, an ONNX or a fused ONNX file; call what comes back: ``load(path)(batch)``.

    ``runtime``: "tensorrt" (an engine), "graph" (torch and our kernels in a CUDA graph), "ort" (ONNX Runtime, on the
    GPU where its package can), "ort-cpu", or "auto": the first of these that works here; ``network.reason`` says why.
    An engine is run from the ONNX that it was built from where TensorRT cannot run it. ``trust`` takes an engine that
    no sidecar vouches for: an engine can contain code. ``library`` is the plugin library of an engine that needs one;
    without it the one that it was built with is looked for, beside the engine and in the current folder. ``threads``
    is the number of processor cores that a runtime on the CPU uses for a call (None: all of them).

    Raises:
        UsageError: the runtime is unknown, or not for this file.
        LenetTrtError: the file is damaged, no sidecar vouches for it, or the runtime cannot run it here.
    """
    path = Path(path)
    chosen = candidates(runtime)
    for_onnx = [each for each in chosen if not each.takes_engines]
    if path.suffix == ".onnx":
        if not for_onnx:
            raise UsageError(
                f"{path} is not an engine: build one with lenet-trt build {path}, or choose another runtime"
            )
        return _from_onnx(path, for_onnx, "", threads)
    itself = len(for_onnx) < len(chosen)
    return _from_engine(path, itself, for_onnx, trust, Path(library) if library is not None else None, threads)


def _from_engine(
    path: Path, itself: bool, for_onnx: Sequence[Runtime], trust: bool, library: Path | None, threads: int | None
) -> Network:
    """Run the engine ``itself`` where that was chosen and is possible, else the ONNX beside it."""
    from lenet_trt.tensorrt.vouch import engine_obstacle, flavor_of, vouched

    try:
        sidecar = vouched(path)
    except LenetTrtError as error:
        if not path.is_file() or not trust:
            raise LenetTrtError(f"{error}{_about_trust(path)}") from error
        if not itself:
            raise UsageError(
                f"--trust runs the engine itself: that needs --runtime tensorrt, not {for_onnx[0].name}"
            ) from error
        return _tensorrt(path, None, library)
    if itself and not for_onnx:
        return _tensorrt(path, sidecar, library)
    beside = f"the ONNX from which {path.name} was built"
    if not itself:
        return _from_onnx(_built_from(path, sidecar), for_onnx, beside, threads)
    try:
        reason = engine_obstacle(path, sidecar, flavor_of(sidecar, library), library)
    except LenetTrtError as error:
        reason = str(error)
    if reason is None:
        return _tensorrt(path, sidecar, library)
    since = f"{beside}, since the engine does not run here ({reason})"
    return _from_onnx(_built_from(path, sidecar), for_onnx, since, threads)


def _about_trust(path: Path) -> str:
    from lenet_trt.tensorrt.plan_header import read_header

    try:
        read_header(path)
    except LenetTrtError:  # what is no engine does not become one by trust
        return ""
    return "; an engine can contain code, so it is run only with --trust (trust=True)"


def _built_from(engine: Path, sidecar: Sidecar) -> Path:
    onnx = model_path(engine)
    if not onnx.is_file() or sha256_file(onnx) != sidecar.onnx.sha256:
        raise LenetTrtError(
            f"{engine} cannot run here, and {onnx}, the model from which it was built, is missing or was changed: "
            "build it again with --force"
        )
    return onnx


def _tensorrt(path: Path, sidecar: Sidecar | None, library: Path | None) -> Network:
    from lenet_trt.runtimes.network import Network
    from lenet_trt.runtimes.tensorrt import TensorRt

    why = "it is an engine, and its sidecar vouches for it" if sidecar else "it is an engine, and it was trusted"
    return Network(TensorRt(path, sidecar, library), why)


def _from_onnx(path: Path, chosen: Sequence[Runtime], note: str, threads: int | None) -> Network:
    """Try the runtimes in order; what is not taken leaves its reason."""
    from lenet_trt.onnx_model.plugin_nodes import refuse_copy
    from lenet_trt.onnx_model.read import load_model
    from lenet_trt.runtimes.network import Network

    model = load_model(path)
    refuse_copy(model, str(path))
    passed_over = []
    tried = [each for each in chosen if len(chosen) == 1 or each.obstacle() is None]
    for runtime in tried:
        why = "asked for" if len(chosen) == 1 else runtime.reason()
        assert runtime.make is not None
        try:
            found = Network(runtime.make(model, threads), why)
        except LenetTrtError as error:
            if runtime is tried[-1]:
                raise
            passed_over.append(f"{runtime.title} cannot ({error})")
            continue
        # When there is no GPU, the note of an engine says so already.
        reasons = (note, why, *passed_over) if why not in note else (note, *passed_over)
        found.reason = "; ".join(filter(None, reasons))
        return found
    raise AssertionError("there is always one to try")
