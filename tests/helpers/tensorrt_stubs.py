"""Full TensorRT's real Python bindings without its libraries, which are not on PyPI.

The wheel ``tensorrt-cu13-bindings`` imports once libraries of the right names define the few functions that it links
to. Those are made here by ``cc``, empty; calling one of them ends the process. So what can be tested is that all that
the code uses exists (names and signatures), and what of TensorRT is Python (``tensorrt.plugin``), no behaviour else.

Run in a process of its own, since the bindings of two flavors do not live together: ``run_with_bindings(script)``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

_SYMBOLS = {
    "libnvinfer.so.11": (
        "createInferBuilder_INTERNAL",
        "createInferRefitter_INTERNAL",
        "createInferRuntime_INTERNAL",
        "getBuilderPluginRegistry",
        "getPluginRegistry",
    ),
    "libnvinfer_plugin.so.11": ("initLibNvInferPlugins",),
    "libnvonnxparser.so.11": (
        "createNvOnnxParser_INTERNAL",
        "createNvOnnxParserRefitter_INTERNAL",
        "getNvOnnxParserVersion",
    ),
}


def missing() -> str | None:
    """Why the bindings cannot be used here, or None."""
    if importlib.util.find_spec("tensorrt_bindings") is None:
        return "TensorRT's bindings are not installed: pip install --no-deps tensorrt-cu13-bindings==11.4.0.106"
    if shutil.which("cc") is None:
        return "there is no C compiler (cc) to make stub libraries with"
    return None


def load_bindings() -> ModuleType:
    """Import the bindings as ``tensorrt`` in this process, over stub libraries."""
    with tempfile.TemporaryDirectory() as folder:
        for library in _build(Path(folder)):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        import tensorrt_bindings

    sys.modules["tensorrt"] = tensorrt_bindings
    import tensorrt_bindings.plugin

    sys.modules["tensorrt.plugin"] = tensorrt_bindings.plugin
    return tensorrt_bindings


def run_with_bindings(script: Path, *arguments: str) -> str:
    """Run a script that calls ``load_bindings`` in a process of its own and return what it prints."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{script.name} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def _build(folder: Path) -> list[Path]:
    libraries = []
    for name, symbols in _SYMBOLS.items():
        source = folder / f"{name}.c"
        source.write_text(
            "#include <stdlib.h>\n" + "".join(f"void *{symbol}(void) {{ abort(); }}\n" for symbol in symbols)
        )
        library = folder / name
        command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(library), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        libraries.append(library)
    return libraries
