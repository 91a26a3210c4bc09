"""List what each release of TensorRT and TensorRT-RTX can do: code asks for a capability, never for a version.

A release is described by what it changed; the others are as the one before.

Source: the bindings and headers of tensorrt 8.5.3, 8.6.0, 10.0, 10.16 and 11.4 and of tensorrt_rtx 1.7.1; the change
logs of TensorRT and onnx-tensorrt. The types of TensorRT-RTX were found by building LeNet-5 for each target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.types import ELEMENT_TYPES


class LocalFunctions(Enum):
    """Name what a parser does with a node whose operator is both a model-local function and a registered plugin."""

    UNREAD = "it does not read functions"
    FIRST = "it takes the function"
    AFTER_PLUGINS = "it takes the plugin"


@dataclass(frozen=True)
class Capabilities:
    """Hold what one release can do.

    ``builds_without_gpu``: for GPUs that are not here. ``oldest_sm`` and ``newest_sm``: the GPUs that its engines run
    on. ``lowest_sm``: the arithmetic types and the GPUs on which each of them starts. ``fp32_gemm_sm``: where fp32
    matrix products start.

    ``half_scales``: the scales of quantized tensors may be float16, so that what is not quantized is.

    ``strongly_typed``: a network takes its types from the model; without it they are constraints on its layers.
    ``explicit_batch_flag``: a network with a batch axis has to be asked for. ``optimization_level``, ``timing_cache``,
    ``progress_monitor``: it has them. ``external_tactics``: the libraries whose handles it makes for plugins.

    ``opset``: the newest that its ONNX parser is documented for. ``functions``: see ``LocalFunctions``.
    ``zero_points``: it reads DequantizeLinear without one. ``names_failed_nodes``: the parser's errors say the node's
    operator and name.

    ``python_plugins``: IPluginV3 in Python. ``ptx_plugins``: ahead-of-time ``tensorrt.plugin``. ``library_majors``:
    the TensorRT whose headers a plugin library may be made from. ``loads_libraries``: its registry loads them.
    ``library_layer``: the type of their layers. ``creator_list``: what its registry calls the list of all plugin
    creators. ``program_option``: the option by which ``trtexec`` opens a plugin library.

    ``runtime_cache``: what the engine compiles when it first runs can be kept. ``shares_profiles``: several execution
    contexts of one engine may use the same optimization profile.
    """

    builds_without_gpu: bool = False
    oldest_sm: int = 50
    newest_sm: int = 90
    lowest_sm: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({"fp32": 0, "fp16": 0, "int8": 0}))
    fp32_gemm_sm: int = 0
    half_scales: bool = False
    strongly_typed: bool = False
    explicit_batch_flag: bool = True
    optimization_level: bool = False
    timing_cache: bool = True
    progress_monitor: bool = False
    external_tactics: tuple[str, ...] = ("CUBLAS", "CUBLAS_LT", "CUDNN")
    opset: int = 17
    functions: LocalFunctions = LocalFunctions.UNREAD
    zero_points: bool = False
    names_failed_nodes: bool = False
    python_plugins: bool = False
    ptx_plugins: bool = False
    library_majors: tuple[int, ...] = (8,)
    loads_libraries: bool = False
    library_layer: str = "PLUGIN_V2"
    creator_list: str = "plugin_creator_list"
    program_option: str = "--plugins"
    runtime_cache: bool = False
    shares_profiles: bool = False


# The types that networks have had from TensorRT 10 on; bf16 and fp8 need a GPU whose tensor cores take them.
_LATER = {each.arithmetic: each.lowest_sm for each in map(ELEMENT_TYPES.__getitem__, ("bfloat16", "float8_e4m3fn"))}
_TYPES = MappingProxyType({"fp32": 0, "fp16": 0, "int8": 0, **_LATER})

_8_5 = Capabilities()
_8_6 = replace(_8_5, optimization_level=True, loads_libraries=True, program_option="--staticPlugins")
_9_0 = replace(_8_6, library_majors=(9,))
_10_0 = replace(
    _9_0,
    oldest_sm=70,
    lowest_sm=_TYPES,
    half_scales=True,
    strongly_typed=True,
    explicit_batch_flag=False,
    progress_monitor=True,
    external_tactics=(),  # off unless asked for
    opset=20,
    functions=LocalFunctions.FIRST,
    zero_points=True,
    names_failed_nodes=True,
    library_majors=(10,),
    library_layer="PLUGIN_V3",
    creator_list="all_creators",
    shares_profiles=True,
)
_10_1 = replace(_10_0, python_plugins=True)  # the first parser that imports IPluginV3
_10_5 = replace(_10_1, oldest_sm=75)
_10_7 = replace(_10_5, functions=LocalFunctions.AFTER_PLUGINS)
_10_8 = replace(_10_7, newest_sm=121)
_10_9 = replace(_10_8, ptx_plugins=True)
_10_15 = replace(_10_9, opset=24)
_11_0 = replace(_10_15, library_majors=(11,))
_RTX_1_7 = replace(
    _11_0,
    builds_without_gpu=True,
    lowest_sm=_TYPES,
    fp32_gemm_sm=80,
    timing_cache=False,
    library_majors=(10, 11),
    ptx_plugins=False,
    runtime_cache=True,
    program_option="--dynamicPlugins",  # a library that is only opened registers itself in full TensorRT
)

RELEASES: Mapping[str, Mapping[tuple[int, int], Capabilities]] = {
    "rtx": {(1, 7): _RTX_1_7},
    "tensorrt": {
        (8, 5): _8_5,
        (8, 6): _8_6,
        (9, 0): _9_0,
        (10, 0): _10_0,
        (10, 1): _10_1,
        (10, 5): _10_5,
        (10, 7): _10_7,
        (10, 8): _10_8,
        (10, 9): _10_9,
        (10, 15): _10_15,
        (11, 0): _11_0,
    },
}


def taken_by_some_release(sm: int) -> bool:
    """Say whether there is a release of full TensorRT for GPUs of this compute capability."""
    return any(can.oldest_sm <= sm <= can.newest_sm for can in RELEASES["tensorrt"].values())


def capabilities(flavor: str, version: str) -> Capabilities:
    """Return what a version of a flavor can do: like the newest described release that is not newer.

    Raises:
        LenetTrtError: the version is older than all of them.
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    releases = RELEASES[flavor]
    known = [release for release in releases if release <= (major, minor)]
    if not known:
        oldest = ".".join(map(str, min(releases)))
        raise LenetTrtError(f"version {version} is too old; {oldest} or newer is wanted")
    return releases[max(known)]
