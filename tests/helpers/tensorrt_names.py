"""Look up in TensorRT's bindings every name of theirs that the code uses; print those that are not there.

A script, run in a process of its own: ``python tensorrt_names.py rtx|tensorrt FILE...``.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

# What each file calls objects of TensorRT's classes.
CLASSES: dict[str, dict[str, str]] = {
    "engine.py": {
        "builder": "Builder",
        "cache": "ITimingCache",
        "config": "IBuilderConfig",
        "error": "ParserError",
        "layer": "ILayer",
        "network": "INetworkDefinition",
        "parser": "OnnxParser",
        "profile": "IOptimizationProfile",
    },
    "python.py": {"builder": "IExprBuilder"},
    "tensorrt.py": {
        "cache": "IRuntimeCache",
        "config": "IRuntimeConfig",
        "context": "IExecutionContext",
        "engine": "ICudaEngine",
        "runtime": "Runtime",
    },
}
# Used for one flavor alone.
FULL_ONLY = {"NetworkDefinitionCreationFlag.PREFER_AOT_PYTHON_PLUGINS"}
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
    classes = CLASSES.get(file.name, {})
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


def main(flavor: str, files: list[str]) -> None:
    """Print the version, the number of names looked up, and those that are missing."""
    if flavor == "tensorrt":
        from tensorrt_stubs import load_bindings

        module = load_bindings()
    else:
        module = importlib.import_module("tensorrt_rtx")
    names = {name for file in files for name in used_names(Path(file))}
    others = RTX_ONLY if flavor == "tensorrt" else FULL_ONLY
    names = {name for name in names if not any(name == only or name.startswith(f"{only}.") for only in others)}
    missing = sorted(name for name in names if not has(module, name))
    print(f"{module.__version__}: {len(names)} names, missing: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
