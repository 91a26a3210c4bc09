"""Which kernels there are, and what is said when a folder is not one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel import registry

KERNELS = Path(__file__).parents[1] / "kernels"


@pytest.fixture
def own_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that $LENET_TRT_PLUGINS names."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(folder))
    return folder


def copy_kernel(folder: Path, name: str = "matmul_act_rowsum") -> Path:
    return Path(shutil.copytree(KERNELS / "matmul_act_rowsum", folder / name))


def test_every_folder_of_the_toolkit_is_a_kernel_of_its_name() -> None:
    folders = {path.parent.name for path in registry.plugins_dir().glob("*/__init__.py")}
    assert folders
    assert set(registry.kernels()) == folders
    assert list(registry.kernels()) == sorted(folders)
    for name in folders:
        assert registry.kernel(name) is registry.kernels()[name]


def test_kernels_of_ones_own_are_found(own_plugins: Path) -> None:
    folder = copy_kernel(own_plugins)
    kernel = registry.kernel("matmul_act_rowsum")
    assert kernel.source_dir == folder
    assert set(registry.kernels()) > {"matmul_act_rowsum"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("maxpol2", r"did you mean maxpool2\?"),
        ("LENET5", r"did you mean lenet5\?"),
        ("zzz", r"\$LENET_TRT_PLUGINS names the folder .*;"),
    ],
)
def test_an_unknown_name_gets_one_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"^there is no kernel '{name}': {hint} `lenet-trt plugins` lists them$"):
        registry.kernel(name)


def test_the_folder_of_one_kernel_is_told_from_the_folder_above_it(
    own_plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_kernel(own_plugins)
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(folder))
    with pytest.raises(LenetTrtError, match=rf"names {folder}, .* one kernel: .* above it, {own_plugins}$"):
        registry.kernels()


def test_two_folders_of_one_name_are_refused(own_plugins: Path) -> None:
    (own_plugins / "maxpool2").mkdir()
    (own_plugins / "maxpool2" / "__init__.py").write_text("")
    with pytest.raises(LenetTrtError, match=r"two kernels are called maxpool2: .*rename one folder"):
        registry.kernels()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "declares no KERNEL"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("KERNEL = 1", "declares no KERNEL"),
        ("raise ValueError('broken')", "ValueError: broken"),
    ],
)
def test_a_folder_that_declares_no_kernel_is_named(own_plugins: Path, text: str, problem: str) -> None:
    (own_plugins / "mine").mkdir()
    (own_plugins / "mine" / "__init__.py").write_text(text)
    with pytest.raises(LenetTrtError, match=problem) as caught:
        registry.kernel("mine")
    assert str(own_plugins / "mine" / "__init__.py") in str(caught.value)


def test_a_folder_of_another_name_than_its_kernel_is_refused(own_plugins: Path) -> None:
    copy_kernel(own_plugins, "other")
    with pytest.raises(LenetTrtError, match="declares a kernel called matmul_act_rowsum; give both the same name"):
        registry.kernel("other")


def test_an_environment_variable_that_names_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LENET_TRT_PLUGINS", "/no/such/folder")
    with pytest.raises(LenetTrtError, match=r"\$LENET_TRT_PLUGINS names /no/such/folder, which is no folder"):
        registry.kernels()


def test_a_checkout_that_is_not_installed_finds_its_kernels(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    code = "from lenet_trt.kernel import registry; print(registry.kernel('maxpool2').source_dir)"
    # -S leaves out site-packages, and so the installed package; what is needed of it is named.
    site = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), site])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == root / "plugins" / "maxpool2"


def test_importing_the_registry_loads_neither_torch_nor_tensorrt() -> None:
    code = (
        "import sys; from lenet_trt.kernel import registry; registry.kernels();"
        "print([name for name in ('torch', 'tensorrt', 'tensorrt_rtx', 'onnx') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == "[]"


def test_a_kernel_of_ones_own_may_have_modules_beside_its_declaration(own_plugins: Path) -> None:
    folder = copy_kernel(own_plugins)
    text = (folder / "__init__.py").read_text()
    (folder / "sizes.py").write_text("ROWS_OF_A_BLOCK = 7\n")
    (folder / "extra.py").write_text("from .sizes import ROWS_OF_A_BLOCK\nSTEPS = (ROWS_OF_A_BLOCK,)\n")
    (folder / "__init__.py").write_text(f"from . import sizes\n{text}")
    registry.load_kernel.cache_clear()
    assert registry.kernel("matmul_act_rowsum").source_dir == folder
    extra = registry.part("matmul_act_rowsum", "extra")
    assert extra is not None
    assert extra.STEPS == (7,)
    assert registry.part("matmul_act_rowsum", "nothing") is None
