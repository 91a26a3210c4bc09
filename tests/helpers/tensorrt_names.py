"""Look up in TensorRT's bindings every name of theirs that the code uses; print those that are not there.

A script, run in a process of its own: ``python tensorrt_names.py rtx|tensorrt|tensorrt8 FILE...``. It also compares
what the bindings have with what ``lenet_trt.tensorrt.capabilities`` says of that version. TensorRT 8 is for CPython
3.10 and older: the variable ``LENET_TRT_TENSORRT8_PYTHON`` names an interpreter that has it (for 8.6.0 and 8.5.3 empty
libraries in the place of cuBLAS and cuDNN on LD_LIBRARY_PATH are enough).
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

# What each file, by its folder and name, calls objects of TensorRT's classes.
CLASSES: dict[str, dict[str, str]] = {
    "tensorrt/engine.py": {
        "builder": "Builder",
        "cache": "ITimingCache",
        "config": "IBuilderConfig",
        "error": "ParserError",
        "layer": "ILayer",
        "network": "INetworkDefinition",
        "parser": "OnnxParser",
        "profile": "IOptimizationProfile",
    },
    "routes/python.py": {"builder": "IExprBuilder"},
    "tensorrt/weak_types.py": {
        "config": "IBuilderConfig",
        "layer": "ILayer",
        "network": "INetworkDefinition",
        "tensor": "ITensor",
    },
    "runtimes/tensorrt.py": {
        "cache": "IRuntimeCache",
        "config": "IRuntimeConfig",
        "context": "IExecutionContext",
        "engine": "ICudaEngine",
        "inspector": "EngineInspector",
        "runtime": "Runtime",
    },
}
# Used for some releases alone.
NOT_IN_8 = {"IProgressMonitor", "IBuilderConfig.progress_monitor", "ParserError.node_name", "ParserError.node_operator"}
NOT_IN_8_5 = {"IBuilderConfig.builder_optimization_level"}
RTX_ONLY = {
    "ComputeCapability",
    "IBuilderConfig.num_compute_capabilities",
    "IBuilderConfig.set_compute_capability",
    "ICudaEngine.create_runtime_config",
    "IRuntimeConfig.create_runtime_cache",
    "IRuntimeConfig.set_runtime_cache",
    "IRuntimeCache",
}


def used_names(file: Path) -> Iterator[str]:
    """The dotted names below the TensorRT module that a file uses: ``Builder.create_network``, ``LayerType``."""
    classes = CLASSES.get("/".join(file.parts[-2:]), {})
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if not chain or not isinstance(node, ast.Name):
            continue
        if node.id == "trt":
            yield ".".join(chain)
        elif node.id in classes:
            yield f"{classes[node.id]}.{chain[0]}"


def has(module: ModuleType, name: str) -> bool:
    """Whether the dotted name exists; attributes of instances and enum members count."""
    found: object = module
    for part in name.split("."):
        if part.startswith("__") or isinstance(found, property):
            return True
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def differences(module: ModuleType, flavor: str) -> list[str]:
    """Where the bindings and what is said of their version's capabilities disagree."""
    from lenet_trt.tensorrt.capabilities import capabilities

    can = capabilities(flavor, module.__version__)
    told = {
        "NetworkDefinitionCreationFlag.STRONGLY_TYPED": can.strongly_typed,
        "NetworkDefinitionCreationFlag.PREFER_AOT_PYTHON_PLUGINS": can.ptx_plugins,
        "IBuilderConfig.builder_optimization_level": can.optimization_level,
        "IBuilderConfig.set_compute_capability": can.builds_without_gpu,
        "ICudaEngine.create_runtime_config": can.runtime_cache,
        "IProgressMonitor": can.progress_monitor,
        "ParserError.node_operator": can.names_failed_nodes,
        "IPluginV3": can.python_plugins,
        "IPluginRegistry.load_library": can.loads_libraries,
        "DataType.BF16": "bf16" in can.lowest_sm,
        f"LayerType.{can.library_layer}": True,
        f"IPluginRegistry.{can.creator_list}": True,
        **{f"TacticSource.{name}": True for name in can.external_tactics},
    }
    if can.explicit_batch_flag:  # a name without effect in some later releases
        told["NetworkDefinitionCreationFlag.EXPLICIT_BATCH"] = True
    if flavor == "tensorrt":  # later releases have it too, and ours needs none
        told.pop("ICudaEngine.create_runtime_config")
    return sorted(name for name, there in told.items() if has(module, name) != there)


def main(flavor: str, files: list[str]) -> None:
    """Print the version, the number of names looked up, those that are missing, and what is told wrongly."""
    others = RTX_ONLY
    if flavor == "tensorrt":
        from tensorrt_stubs import load_bindings

        module = load_bindings()
    elif flavor == "tensorrt8":
        sys.setdlopenflags(os.RTLD_LAZY)
        module = importlib.import_module("tensorrt")
        others = RTX_ONLY | NOT_IN_8 | (NOT_IN_8_5 if module.__version__.startswith("8.5") else set())
    else:
        module = importlib.import_module("tensorrt_rtx")
        others = set()
    names = {name for file in files for name in used_names(Path(file))}
    names = {name for name in names if not any(name == only or name.startswith(f"{only}.") for only in others)}
    missing = sorted(name for name in names if not has(module, name))
    print(f"{module.__version__}: {len(names)} names, missing: {', '.join(missing) or 'none'}")
    wrong = differences(module, flavor.rstrip("8"))
    print(f"told wrongly: {', '.join(wrong) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
