"""Find the kernels: the folders in ``plugins/`` and in the user's own ``$LENET_TRT_PLUGINS``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import lenet_trt
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel.declaration import Kernel

ENVIRONMENT = "LENET_TRT_PLUGINS"
_PACKAGE = "lenet_trt.plugins"


def kernels() -> Mapping[str, Kernel]:
    """Return every kernel by name, in alphabetical order.

    Raises:
        LenetTrtError: two folders have one name, or a folder's declaration cannot be loaded.
    """
    return {name: load_kernel(folder) for name, folder in sorted(_folders().items())}


def kernel(name: str) -> Kernel:
    """Return the kernel of that name; only its own folder is imported.

    Raises:
        UsageError: no kernel has that name.
        LenetTrtError: it cannot be loaded.
    """
    folders = _folders()
    if name not in folders:
        import difflib

        by_lower_case = {folder.lower(): folder for folder in folders}
        close = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
        hint = f"did you mean {by_lower_case[close[0]]}?" if close else f"${ENVIRONMENT} names the folder of your own;"
        raise UsageError(f"there is no kernel {name!r}: {hint} `lenet-trt plugins` lists them")
    return load_kernel(folders[name])


@cache
def plugins_dir() -> Path:
    """Return the folder of the toolkit's own kernels; ``common.cuh`` is in it."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:  # a checkout that is not installed
        folder = Path(lenet_trt.__file__).resolve().parent.parent / "plugins"
        _import_package(_PACKAGE, folder)
        return folder
    return Path(next(iter(spec.submodule_search_locations)))


def _folders() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for parent in _parents():
        folders = [folder for folder in sorted(parent.iterdir()) if (folder / "__init__.py").is_file()]
        if not folders and (parent / "__init__.py").is_file():
            raise LenetTrtError(
                f"${ENVIRONMENT} names {parent}, which is the folder of one kernel: name the folder above it, "
                f"{parent.parent}"
            )
        for folder in folders:
            if folder.name in found:
                raise LenetTrtError(
                    f"two kernels are called {folder.name}: {found[folder.name]} and {folder}; rename one folder"
                )
            found[folder.name] = folder
    return found


def _parents() -> Iterator[Path]:
    yield plugins_dir()
    for text in filter(None, os.environ.get(ENVIRONMENT, "").split(os.pathsep)):
        parent = Path(text).expanduser().resolve()
        if not parent.is_dir():
            raise LenetTrtError(f"${ENVIRONMENT} names {text}, which is no folder")
        if parent != plugins_dir().resolve():
            yield parent


def part(name: str, what: str) -> ModuleType | None:
    """Return the module ``what`` in the kernel's folder, such as "steps" or "workloads", or None where it has none.

    Raises:
        LenetTrtError: there is no such kernel, or the module cannot be imported.
    """
    kernel(name)  # the folder's own module comes first
    folder = _folders()[name]
    for path in (folder / f"{what}.py", folder / what / "__init__.py"):
        if path.is_file():
            return _imported(path, lambda: importlib.import_module(f"{_module_name(folder)}.{what}"))
    return None


@cache
def load_kernel(folder: Path) -> Kernel:
    """Load the kernel that a folder declares.

    Raises:
        LenetTrtError: the folder declares no kernel or one of another name, or it cannot be imported.
    """
    name, path = _module_name(folder), folder / "__init__.py"
    own = name.startswith(_PACKAGE)
    module = _imported(path, lambda: importlib.import_module(name) if own else _import_package(name, folder))
    declared = getattr(module, "KERNEL", None)
    if not isinstance(declared, Kernel):
        raise LenetTrtError(f"{path} declares no KERNEL = Kernel(...)")
    if declared.name != folder.name:
        raise LenetTrtError(f"{folder} declares a kernel called {declared.name}; give both the same name")
    return declared


def _module_name(folder: Path) -> str:
    return f"{_PACKAGE}.{folder.name}" if folder.parent == plugins_dir() else f"lenet_trt_plugin_{folder.name}"


def _imported(path: Path, load: Callable[[], ModuleType]) -> ModuleType:
    try:
        return load()
    except LenetTrtError:
        raise
    except Exception as error:
        raise LenetTrtError(f"cannot load {path}: {type(error).__name__}: {error}") from error


def _import_package(name: str, folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
