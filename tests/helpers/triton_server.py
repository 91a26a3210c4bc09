"""A real Triton server for tests, on loopback: the one inside the package nvidia-pytriton, with its Python backend."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

# A folder with the content of the package: pip install --no-deps --target FOLDER nvidia-pytriton
FOLDER_ENVIRONMENT = "LENET_TRT_TRITON"
_START_SECONDS = 600
_NEEDED = ("numpy", "onnxruntime")


def folder() -> Path:
    """Where the package is; skips where it is not."""
    named = os.environ.get(FOLDER_ENVIRONMENT)
    spec = importlib.util.find_spec("pytriton") if named is None else None
    parent = Path(named) if named else Path(spec.origin).parents[1] if spec and spec.origin else None
    if parent is None:
        pytest.skip(
            "there is no Triton server: pip install --no-deps --target FOLDER nvidia-pytriton, and let "
            f"{FOLDER_ENVIRONMENT} name FOLDER"
        )
    assert (parent / "pytriton" / "tritonserver").is_dir(), f"{parent} has no Triton server"
    return parent


def backends(parent: Path, into: Path) -> Path:
    """A folder of backends whose Python is this one, with the packages that the model imports."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = parent / "pytriton/tritonserver/python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.is_file():
        pytest.skip(f"the Triton server has no Python backend for Python {version}")
    python = into / "python"
    shutil.copytree(parent / "pytriton/tritonserver/backends/python", python)
    shutil.copy(stub, python)
    for program in (python / stub.name, parent / "pytriton/tritonserver/bin/tritonserver"):
        program.chmod(0o755)
    # The backend does not look at PYTHONPATH; it does look into its own folder.
    for package in {Path(importlib.util.find_spec(name).origin).parents[1] for name in _NEEDED}:
        for entry in package.iterdir():
            target = python / entry.name
            if not target.exists() and entry.suffix not in (".pth", ".dist-info"):
                target.symlink_to(entry)
    return into


class Server:
    """A running server; ``kill`` ends it at once and ``start`` starts it again, at the same ports."""

    def __init__(self, repository: Path, scratch: Path, arguments: Sequence[str] = ()) -> None:
        parent = folder()
        self.repository, self.scratch = repository, scratch
        self._ports = _free_ports(3)
        self.http, self.grpc = (f"127.0.0.1:{port}" for port in self._ports[:2])
        self._shared = f"lenet_trt_test_{os.getpid()}_"
        self._log = scratch / "triton.log"
        libraries = [parent / "nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR")]
        self._environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
        self._words = [
            str(parent / "pytriton/tritonserver/bin/tritonserver"),
            f"--model-repository={repository}",
            f"--backend-directory={backends(parent, scratch / 'backends')}",
            *(f"--{name}-address=127.0.0.1" for name in ("http", "grpc", "metrics")),
            *(f"--{name}-port={port}" for name, port in zip(("http", "grpc", "metrics"), self._ports, strict=True)),
            "--exit-timeout-secs=5",
            *arguments,
        ]
        self.process: subprocess.Popen[bytes] | None = None
        self._groups: list[int] = []

    def start(self) -> None:
        """Start the server, and wait until it is ready."""
        # What a killed server left behind still holds locks in its shared memory, so each start has names of its own.
        shared = f"--backend-config=python,shm-region-prefix-name={self._shared}{len(self._groups)}_"
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [*self._words, shared], env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self._groups.append(self.process.pid)
        for _ in range(_START_SECONDS * 10):
            if self.process.poll() is not None:
                break
            if self.get("v2/health/ready") == 200:
                return
            time.sleep(0.1)
        self.kill()
        pytest.fail(f"Triton did not start:\n{self.log()[-4000:]}")

    def kill(self) -> None:
        """End it at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        for left in Path("/dev/shm").glob(f"{self._shared}*"):
            left.unlink(missing_ok=True)

    def stop(self) -> None:
        """Let it end by itself, and end what servers that were killed left behind: the processes of their models."""
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def get(self, path: str) -> int:
        """The HTTP status of an address; 0 where nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return int(error.code)
        except OSError:
            return 0

    def log(self) -> str:
        """What it wrote."""
        return self._log.read_text(errors="replace")


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
