"""Find what the GPU can do: measured once on the GPU here, or read from a data sheet on request."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sys
import uuid
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any, TypedDict

from lenet_trt.cuda.driver import ask, current_context, driver
from lenet_trt.cuda.environment import environment
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import cache_dir, keep
from lenet_trt.floors.floor import Ceilings
from lenet_trt.schema import checked, read_json

SCHEMA = 1
_WANTED = "a GPU's ceilings, as lenet-trt roofline --json prints them"
_FIX = "measure again with lenet-trt roofline --refresh"


def measured_ceilings(refresh: bool = False) -> Ceilings:
    """Return the ceilings of the GPU here, from an earlier measurement or measured now (always with ``refresh``).

    A stored measurement belongs to one GPU: its name, UUID, driver and highest clocks, the kernels' sources, and the
    torch whose cuBLAS took part.

    Raises:
        LenetTrtError: there is no GPU, or too little of its memory is free.
    """
    identity = _identity()
    path = _cache_path(identity)
    if not refresh:
        with contextlib.suppress(LenetTrtError):  # there is no stored measurement, or it is damaged
            return ceilings_in(path)
    from lenet_trt.floors.ceilings_kernels.measure import measure_gpu

    print(
        f"measuring the ceilings of the {identity['gpu']} (once; this takes some seconds)", file=sys.stderr, flush=True
    )
    found = measure_gpu(str(identity["gpu"]))
    found = replace(found, details={**found.details, "identity": identity})
    keep(path, (json.dumps(ceilings_json(found), indent=1) + "\n").encode(), "the GPU's ceilings")
    return found


def datasheet(name: str) -> Ceilings:
    """Return the peak figures that NVIDIA states for a GPU; no program quite reaches them.

    Raises:
        UsageError: the list has no such GPU; the message says which GPUs it has.
    """
    from lenet_trt.floors.datasheet import ceilings_of

    return ceilings_of(name)


def ceilings_json(ceilings: Ceilings) -> dict[str, Any]:
    """Return the ceilings as plain data."""
    return {"schema": SCHEMA, **asdict(ceilings)}


def ceilings_from_json(data: Mapping[str, Any], path: Path) -> Ceilings:
    """Read ceilings from plain data; ``path`` names their file in errors.

    Raises:
        LenetTrtError: the data is no ceilings, or has another schema.
    """
    if data.get("schema") != SCHEMA:
        raise LenetTrtError(
            f"{path} holds no ceilings of schema {SCHEMA} (its schema: {data.get('schema')!r:.60}): {_FIX}"
        )
    found = checked(data, Ceilings, str(path), wanted=_WANTED, fix=_FIX)
    checked(found.details, CeilingDetails, f"details in {path}", wanted="of ceilings", fix=_FIX)
    if "fp32" not in found.flop_per_s:
        raise LenetTrtError(f"{path} is not {_WANTED}: flop_per_s has no fp32: {_FIX}")
    return found


def ceilings_in(path: Path) -> Ceilings:
    """Read ceilings from a file: the output of ``roofline --json``, or a stored measurement.

    Raises:
        LenetTrtError: the file cannot be read, or holds no ceilings.
    """
    data = read_json(path, dict[str, Any], wanted=_WANTED, fix=_FIX)
    inner = data.get("ceilings", data)
    if not isinstance(inner, dict):
        raise LenetTrtError(f"{path} is not {_WANTED}: ceilings is {inner!r:.60}: {_FIX}")
    return ceilings_from_json({"schema": SCHEMA, **inner} if inner is not data else inner, path)


class CeilingDetails(TypedDict, total=False):
    """Type the parts of the details that the code reads; there may be more."""

    document: str
    notes: list[str]
    origins: dict[str, str]


def _identity() -> dict[str, Any]:
    """Return what decides the figures: this GPU, its driver and clocks, and the measuring code."""
    context = current_context()
    cuda = driver()
    device = ask(cuda.cuDeviceGet(context.device), "cannot use the GPU")
    attribute = cuda.CUdevice_attribute
    clock_khz, memory_khz = (
        int(ask(cuda.cuDeviceGetAttribute(which, device), "cannot read the GPU's clocks"))
        for which in (attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE, attribute.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
    )
    name = ask(cuda.cuDeviceGetName(256, device), "cannot ask for the GPU's name").split(b"\0")[0].decode()
    raw = ask(cuda.cuDeviceGetUuid(device), "cannot ask for the GPU's UUID").bytes
    return {
        "gpu": name,
        "uuid": str(uuid.UUID(bytes=bytes(raw)[:16])),
        "driver": environment().get("driver"),
        "clock_mhz": clock_khz // 1000,
        "memory_clock_mhz": memory_khz // 1000,
        "torch": _version("torch"),
        "kernels": _kernels_sha256(),
    }


def _kernels_sha256() -> str:
    from lenet_trt.cuda.compile import source_sha256
    from lenet_trt.floors.ceilings_kernels import KERNELS

    return hashlib.sha256("\n".join(source_sha256(kernel) for kernel in KERNELS).encode()).hexdigest()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cache_path(identity: Mapping[str, Any]) -> Path:
    key = hashlib.sha256(json.dumps({**identity, "schema": SCHEMA}, sort_keys=True).encode()).hexdigest()[:16]
    return cache_dir("ceilings") / f"{re.sub(r'[^a-z0-9]+', '-', str(identity['gpu']).lower())}-{key}.json"
