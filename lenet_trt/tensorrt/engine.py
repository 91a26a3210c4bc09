"""Build one serialized TensorRT engine from one ONNX model, with the same code for every flavor and release."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from lenet_trt.errors import LenetTrtError, documentation
from lenet_trt.files import write_atomic
from lenet_trt.kernel.registry import kernel
from lenet_trt.onnx_model.profiles import Profile
from lenet_trt.tensorrt.flavors import Flavor
from lenet_trt.tensorrt.readable import readable
from lenet_trt.tensorrt.routes import chosen_route
from lenet_trt.tensorrt.routes.failures import reporting
from lenet_trt.tensorrt.routes.protocol import Route
from lenet_trt.tensorrt.weak_types import constrain

if TYPE_CHECKING:
    from onnx import ModelProto

VERBOSITIES = ("layer_names_only", "detailed", "none")

# The first builder of a block of `builder_kept`; None outside of such a block.
_kept: list[Any] | None = None


@contextmanager
def builder_kept() -> Iterator[None]:
    """Keep the first builder of this block until its end, so that later builds in it start at once.

    TensorRT loads its kernels for the first builder, which takes seconds, and unloads them with the last one. While
    they are loaded they take memory, of the host and of the GPU: with TensorRT 8.6 some gigabytes.
    """
    global _kept
    if _kept is not None:
        yield
        return
    _kept = []
    try:
        yield
    finally:
        _kept = None


@dataclass(frozen=True)
class BuildOptions:
    """Hold the options of the builder; None leaves TensorRT's default.

    ``workspace_mib`` bounds scratch memory; ``timing_cache`` is a file that is read if it is there and written after;
    ``profiling_verbosity`` decides how much of a layer the engine inspector and ``trtexec`` can tell later. ``tf32``
    lets float32 layers multiply in TF32, with 10 bits of mantissa, on GPUs that have it: TensorRT's default, not ours.
    ``quick_search``: each of TensorRT's kernels is timed once, for layers that take long.
    """

    optimization_level: int | None = None
    workspace_mib: int | None = None
    timing_cache: Path | None = None
    profiling_verbosity: str = "detailed"
    tf32: bool = False
    quick_search: bool = False


def engine_from_onnx(
    model: ModelProto,
    flavor: Flavor,
    *,
    profiles: Mapping[str, Profile],
    targets: Sequence[int] = (),
    options: BuildOptions | None = None,
    plugins: Sequence[str] = (),
    route: Route | None = None,
    library: Path | None = None,
    half_allowed: bool = False,
    progress: bool = False,
) -> bytes:
    """Build an engine and return its bytes.

    ``targets`` are compute capabilities (86); none means the flavor's default. ``plugins`` names the kernel of each
    plugin node: the build fails unless TensorRT made a plugin layer of each. ``route``: the way of the kernels into
    TensorRT (None: the flavor's default). ``library``: the plugin library, for the route that has one.
    ``half_allowed``: where networks do not take their types from the model, and the model has no fp16 itself, layers
    may compute in it.

    Raises:
        LenetTrtError: TensorRT refused the model or could not build it; the message has TensorRT's own words.
        KeyboardInterrupt: Ctrl-C, at the builder's next step.
    """
    options = options or BuildOptions()
    trt, can = flavor.trt, flavor.can
    flavor.check_gpu()
    flavor.check_parser()
    given = model
    if not plugins:
        route = None
    else:
        route = route or chosen_route(flavor, None)
        given = route.parsed(model, flavor, targets)
        route.register(flavor, [kernel(name) for name in dict.fromkeys(plugins)], library)
    given = readable(given, can)
    log = error_log(trt)
    builder = trt.Builder(log)
    if _kept is not None and not _kept:
        _kept.append(builder)
    network = builder.create_network(_network_flags(flavor, route))
    parser = trt.OnnxParser(network, log)
    with reporting():
        parsed = parser.parse(given.SerializeToString())
    if not parsed:
        raise LenetTrtError(_parse_failure(flavor, parser, given))
    if route is not None:
        _check_plugins(network, getattr(trt.LayerType, route.layer_type(flavor)), plugins)

    config = builder.create_builder_config()
    _add_profiles(builder, config, profiles)
    _set_targets(flavor, config, targets)
    cache = _set_options(flavor, config, options)
    if not can.strongly_typed:
        constrain(trt, network, config, model, half_allowed=half_allowed)
    if route is not None:
        _leave_out_external_tactics(flavor, config)
    with reporting(), _monitored(flavor, config, progress) as interrupted:
        plan = builder.build_serialized_network(network, config)
    if interrupted():
        raise KeyboardInterrupt
    if plan is None:
        said = "; ".join(dict.fromkeys(log.errors)) or "it gave no reason"
        raise LenetTrtError(f"{flavor.product} could not build this model: {said}")
    if cache is not None and options.timing_cache is not None:
        write_atomic(options.timing_cache, bytes(cache.serialize()))
    return bytes(plan)


def error_log(trt: Any) -> Any:
    """Return the logger that keeps errors for our own message and shows warnings; earlier errors are gone."""
    log = _one_log(trt)
    log.errors.clear()
    return log


@cache
def _one_log(trt: Any) -> Any:
    """Return one logger for all builders and runtimes: TensorRT warns of a second one and does not use it."""

    class ErrorLog(trt.ILogger):
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, msg: str) -> None:
            if severity in (trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR):
                self.errors.append(msg.strip())
            elif severity == trt.ILogger.Severity.WARNING:
                tqdm.write(f"TensorRT warns: {msg}", file=sys.stderr)

    return ErrorLog()


def _network_flags(flavor: Flavor, route: Route | None) -> int:
    known = flavor.trt.NetworkDefinitionCreationFlag
    names = [*(route.network_flags if route is not None else ())]
    if flavor.can.strongly_typed:
        names.append("STRONGLY_TYPED")
    if flavor.can.explicit_batch_flag:
        names.append("EXPLICIT_BATCH")
    return sum(1 << int(getattr(known, name)) for name in names)


def _parse_failure(flavor: Flavor, parser: Any, model: ModelProto) -> str:
    """Say which node TensorRT's parser stopped at and why, in its words and ours."""
    parts = []
    for index in range(parser.num_errors):
        error = parser.get_error(index)
        if flavor.can.names_failed_nodes:
            operator, name = error.node_operator(), error.node_name()
        else:
            operator, name = _node_at(model, error.node())
        where = f"{operator} node {name!r}: " if operator else ""
        if "Plugin not found" in error.desc():
            parts.append(
                f"{where}neither TensorRT nor a registered plugin knows the operator {operator}: rewrite that node, "
                f"or write a plugin for it ({documentation('write-a-plugin')})"
            )
        else:
            parts.append(f"{where}{error.desc()}")
    return f"{flavor.product} cannot read this model: " + "; ".join(parts or ["its parser gave no reason"])


def _node_at(model: ModelProto, index: int) -> tuple[str, str]:
    nodes = model.graph.node
    return (nodes[index].op_type, nodes[index].name) if 0 <= index < len(nodes) else ("", "")


def _check_plugins(network: Any, layer_type: Any, wanted: Sequence[str]) -> None:
    """Prove that each plugin that the model asks for is a plugin layer of the network."""
    layers = (network.get_layer(index) for index in range(network.num_layers))
    found = sum(layer.type == layer_type for layer in layers)
    if found != len(wanted):
        raise LenetTrtError(
            f"the model has {len(wanted)} plugin nodes ({', '.join(wanted) or 'none'}) and TensorRT made "
            f"{found} plugin layers: the others became ordinary operators. Is every plugin registered?"
        )


def _add_profiles(builder: Any, config: Any, profiles: Mapping[str, Profile]) -> None:
    if not profiles:
        return
    profile = builder.create_optimization_profile()
    for name, shapes in profiles.items():
        profile.set_shape(name, shapes.min, shapes.opt, shapes.max)
    config.add_optimization_profile(profile)


def _set_targets(flavor: Flavor, config: Any, targets: Sequence[int]) -> None:
    if not targets or not flavor.can.builds_without_gpu:
        return
    trt = flavor.trt
    config.num_compute_capabilities = len(targets)
    for index, sm in enumerate(targets):
        config.set_compute_capability(getattr(trt.ComputeCapability, f"SM{sm}"), index)


def _set_options(flavor: Flavor, config: Any, options: BuildOptions) -> Any:
    """Apply the options; return the timing cache in use, or None."""
    trt = flavor.trt
    change = config.set_flag if options.tf32 else config.clear_flag
    change(trt.BuilderFlag.TF32)
    config.profiling_verbosity = getattr(trt.ProfilingVerbosity, options.profiling_verbosity.upper())
    if options.optimization_level is not None:
        config.builder_optimization_level = options.optimization_level
    if options.quick_search:
        config.avg_timing_iterations = 1
    if options.workspace_mib is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace_mib << 20)
    if options.timing_cache is None:
        return None
    path = options.timing_cache
    cache = config.create_timing_cache(path.read_bytes() if path.exists() else b"")
    if cache is None or not config.set_timing_cache(cache, False):
        raise LenetTrtError(f"{path} is not a timing cache of this TensorRT and GPU: delete it, or name another")
    return cache


def _leave_out_external_tactics(flavor: Flavor, config: Any) -> None:
    """Keep TensorRT from opening libraries for plugins: ours need none, and they cost time and memory."""
    if not flavor.can.external_tactics:
        return
    sources = flavor.trt.TacticSource
    left_out = sum(1 << int(getattr(sources, name)) for name in flavor.can.external_tactics)
    config.set_tactic_sources(config.get_tactic_sources() & ~left_out)


def _monitored(flavor: Flavor, config: Any, progress: bool) -> AbstractContextManager[Callable[[], bool]]:
    """Let a build be watched and stopped; yields a function that tells whether Ctrl-C came."""
    if flavor.can.progress_monitor:
        return _with_monitor(flavor.trt, config, progress)
    return _without_monitor(flavor, progress)


@contextmanager
def _without_monitor(flavor: Flavor, progress: bool) -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end the process, since this TensorRT cannot be asked to stop; nothing is written yet.

    Among several builds there are results to keep: there Ctrl-C counts when TensorRT has built this engine. It must
    not be raised before: in TensorRT's messages, which come through Python, it would be lost.
    """
    if progress:
        tqdm.write(f"{flavor.product} builds, which can take minutes; it does not tell how far it is", file=sys.stderr)
    stopped = threading.Event()
    with _on_ctrl_c(signal.SIG_DFL if _kept is None else lambda number, frame: stopped.set()):
        yield stopped.is_set


@contextmanager
def _with_monitor(trt: Any, config: Any, progress: bool) -> Iterator[Callable[[], bool]]:
    """Show TensorRT's own progress on stderr, and let Ctrl-C stop it at its next step.

    Yields a function that tells whether Ctrl-C came. TensorRT runs in C++, where a Python exception cannot pass, so
    the signal only sets a mark that the monitor answers with.
    """
    stopped = threading.Event()
    bar = tqdm(desc="Building engine", unit="step", file=sys.stderr, disable=not progress, leave=False)

    class Monitor(trt.IProgressMonitor):
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            bar.total = (bar.total or 0) + num_steps
            bar.set_description(phase_name, refresh=False)

        def phase_finish(self, phase_name: str) -> None:
            bar.refresh()

        def step_complete(self, phase_name: str, step: int) -> bool:
            bar.update()
            return not stopped.is_set()

    monitor = Monitor()  # TensorRT keeps no reference of its own
    config.progress_monitor = monitor
    with closing(bar), _on_ctrl_c(lambda number, frame: stopped.set()):
        yield stopped.is_set


@contextmanager
def _on_ctrl_c(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Handle Ctrl-C so in this block; in another thread than the main one, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
