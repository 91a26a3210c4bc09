"""Read the rows of Nsight Systems' SQLite export, whichever version wrote them; times in nanoseconds, as traced.

The API calls include synchronisation, so its own table is not read. Source: the schema is what ``nsys export`` 2025.3
writes; NVIDIA's page "SQLite Export Schema Reference" says what other versions lack or add.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lenet_trt.trace.readers.database import Database
from lenet_trt.trace.readers.nvtx import Range
from lenet_trt.trace.timeline import Activity, Kind

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
EVENTS = (KERNEL, MEMCPY, MEMSET, GRAPH, RUNTIME)
NVTX = "NVTX_EVENTS"
GRAPH_NODES = ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS")
# A file with any of these tables is an export of Nsight Systems.
_KNOWN = frozenset({*EVENTS, NVTX, "StringIds", "META_DATA_EXPORT", "TARGET_INFO_GPU"})

ALWAYS = (-(1 << 62), 1 << 62)
_PUSH_POP, _START_END, _DOMAIN = 59, 60, 75
_THREAD = (1 << 24) - 1
# CUpti_ActivityMemcpyKind; 11 to 13 are Nsight Systems' own, for managed memory. Arrays are memory of the device.
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 3: "HtoD", 4: "DtoH", 5: "DtoD", 6: "DtoD", 7: "DtoD", 8: "DtoD", 9: "HtoH"}
_DIRECTIONS |= {10: "PtoP", 11: "HtoD", 12: "DtoH", 13: "DtoD"}
_VERSION = re.compile(r"_v\d{4,}$")  # of cudaMalloc_v3020: the version in which the call appeared
_MOST_WARNINGS = 5
_WARNINGS = (2, 3)  # warnings and errors; 1 is for information, 4 for details
# Nsight Systems says this at the end of every capture range, even when nothing is missing.
_ALWAYS_SAID = re.compile(r"Not all (?:NVTX|CUDA) events might have been collected\.")
_RANGED = "Profiling started due to cudaProfilerStart"

_COMMON = ("start", "end", "streamId", "correlationId")
_WHO = ("globalPid", "graphNodeId")
_SIZES = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_SHARED = ("staticSharedMemory", "dynamicSharedMemory")


@dataclass(frozen=True)
class RecordedCall:
    """Hold an API call; ``thread`` contains the process, as Nsight Systems numbers threads."""

    name: str
    thread: int
    start: int
    end: int
    correlation: int | None


@dataclass(frozen=True)
class GpuWork:
    """Hold GPU work; process and correlation identify the call that submitted it (the launch, for a graph's work)."""

    activity: Activity
    process: int
    graph_node: int | None


@dataclass(frozen=True)
class GraphNode:
    """Hold a node that was put into a CUDA graph, or copied from another node when the graph was instantiated."""

    start: int
    thread: int
    node: int
    original: int | None


class NsysRows:
    """Read the rows of an export, and on which machine what was traced."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._strings = {key: str(value or "") for key, value in database.rows("StringIds", ("id", "value"))}

    def ranges(self) -> Iterator[Range]:
        """Yield the NVTX ranges; a range that was still open ends with the last event."""
        domains = {}
        rows = []
        columns = ("start", "end", "eventType", "text", "globalTid")
        for row in self.database.rows(NVTX, columns, ("textId", "domainId")):
            start, end, kind, text, thread, text_id, domain = row
            name = str(text or self._strings.get(text_id) or "")
            self._check(NVTX, start, start if end is None else end)
            if kind == _DOMAIN:
                domains[process_of(thread), domain] = name
            elif kind in (_PUSH_POP, _START_END):
                rows.append((start, end, name, thread or 0, domain))
        last = max((row[1] or row[0] for row in rows), default=0)
        for start, end, name, thread, domain in rows:
            yield Range(name, domains.get((process_of(thread), domain), ""), thread, start, end or last)

    def calls(self, window: tuple[int, int] = ALWAYS) -> Iterator[RecordedCall]:
        """Yield the API calls that began in the window."""
        columns = ("start", "end", "globalTid", "nameId")
        where = "start >= ? AND start < ?"
        for start, end, thread, name, correlation in self.database.rows(
            RUNTIME, columns, ("correlationId",), where, window
        ):
            self._check(RUNTIME, start, end)
            yield RecordedCall(_VERSION.sub("", self._string(name)), thread or 0, start, end, correlation or None)

    def calls_named(self, pattern: str) -> list[RecordedCall]:
        """Return the API calls of the whole trace whose names begin like this."""
        keys = [key for key, value in self._strings.items() if re.match(pattern, value)]
        columns = ("start", "end", "globalTid", "nameId")
        found = []
        for key in keys:
            for start, end, thread, name in self.database.rows(RUNTIME, columns, where="nameId = ?", values=(key,)):
                self._check(RUNTIME, start, end)
                found.append(RecordedCall(_VERSION.sub("", self._string(name)), thread or 0, start, end, None))
        return sorted(found, key=lambda call: call.start)

    def work(self, since: int = ALWAYS[0]) -> Iterator[GpuWork]:
        """Yield kernels, copies, fillings and graphs that began at this moment or later."""
        names = ("demangledName", "shortName")
        for row in self._rows(KERNEL, since, (), (*names, *_SIZES, "registersPerThread", *_SHARED)):
            sizes = [row[name] for name in _SIZES]
            shared = [row[name] for name in _SHARED]
            yield _work(
                "kernel",
                self._string(row["demangledName"] or row["shortName"]),
                row,
                grid=None if None in sizes else tuple(sizes[:3]),
                block=None if None in sizes else tuple(sizes[3:]),
                registers=row["registersPerThread"],
                shared_bytes=None if None in shared else sum(shared),
            )
        for row in self._rows(MEMCPY, since, ("copyKind",), ("bytes",)):
            direction = _DIRECTIONS.get(row["copyKind"])
            name = f"[CUDA memcpy {direction or 'of an unknown kind'}]"
            yield _work("memcpy", name, row, bytes=row["bytes"], direction=direction)
        for row in self._rows(MEMSET, since, (), ("bytes",)):
            yield _work("memset", "[CUDA memset]", row, bytes=row["bytes"])
        for row in self._rows(GRAPH, since, (), ("graphId",)):
            yield _work("layer", f"CUDA graph {row['graphId']} as a whole", {**row, "graphNodeId": None})

    def graph_nodes(self) -> Iterator[GraphNode]:
        """Yield when, and by which thread, nodes were put into CUDA graphs."""
        columns = ("start", "globalTid", "graphNodeId")
        # Older versions keep the nodes in the table that now has only graphs.
        table = next((name for name in GRAPH_NODES if "graphNodeId" in self.database.columns(name)), GRAPH_NODES[0])
        for start, thread, node, original in self.database.rows(table, columns, ("originalGraphNodeId",)):
            self._check(table, start, start if node is not None else None)
            yield GraphNode(start, thread or 0, node, original or None)

    def devices(self) -> set[int]:
        """Return the numbers of the GPUs that did something."""
        found: set[int] = set()
        for table in (KERNEL, MEMCPY, MEMSET, GRAPH):
            found.update(device for (device,) in self.database.rows(table, (), ("deviceId",)) if device is not None)
        return found

    def overhead_us(self, begin: int, end: int) -> float:
        """Return how long Nsight Systems itself kept the host busy in this time."""
        rows = self.database.rows("PROFILER_OVERHEAD", ("start", "end"))
        return sum(max(0, min(last or 0, end) - max(first or 0, begin)) for first, last in rows) / 1e3

    def command(self) -> str | None:
        """Return the command line that was profiled."""
        found = dict(self.database.rows("META_DATA_CAPTURE", ("name", "value")))
        arguments = [found.get("PROCESS_0:COMMAND")]
        while arguments[-1] is not None:
            arguments.append(found.get(f"PROCESS_0:ARGUMENT_{len(arguments) - 1}"))
        return shlex.join(map(str, arguments[:-1])) or None

    def version(self) -> str:
        """Return the version that exported the file."""
        exported = dict(self.database.rows("META_DATA_EXPORT", ("name", "value")))
        found = exported.get("EXPORT_PRODUCT_VERSION") or exported.get("EXPORT_SCHEMA_VERSION")
        return str(found or "of an old version")

    def environment(self) -> dict[str, Any]:
        """Return GPU, driver and machine, as far as the export has them."""
        found: dict[str, Any] = {}
        used = self.devices()
        optional = ("id", "computeMajor", "computeMinor", "smCount", "totalMemory")
        for name, number, major, minor, count, memory in self.database.rows("TARGET_INFO_GPU", ("name",), optional):
            if found and number not in used:
                continue
            capability = None if major is None else f"{major}.{minor}"
            found = {"gpu": name, "compute_capability": capability, "multiprocessors": count, "memory_bytes": memory}
        system = dict(self.database.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value")))
        found["driver"] = system.get("NvDriverVersion")
        cuda = str(system.get("CudaDriverVersion") or "")
        found["cuda_driver"] = f"{int(cuda) // 1000}.{int(cuda) % 1000 // 10}" if cuda.isdecimal() else None
        return {key: value for key, value in found.items() if value}

    def _rows(self, table: str, since: int, needed: Sequence[str], optional: Sequence[str]) -> Iterator[dict[str, Any]]:
        needed = (*_COMMON, *needed)
        optional = (*_WHO, *optional)
        for row in self.database.rows(table, needed, optional, "start >= ?", (since,)):
            self._check(table, row[0], row[1])
            yield dict(zip((*needed, *optional), row, strict=True))

    def _check(self, table: str, start: int | None, end: int | None) -> None:
        """Refuse spans that only damage makes: SQLite may still read an overwritten page as rows."""
        if start is None or end is None or end < start:
            raise self.database.damaged(f"a row of {table} is from {start} to {end}")

    def _string(self, key: int | None) -> str:
        return self._strings.get(key or 0) or f"(name {key})"


def is_export(tables: frozenset[str]) -> bool:
    """Say whether these tables are an export of Nsight Systems."""
    return bool(tables & _KNOWN)


def process_of(thread: int | None) -> int:
    """Return the process of a thread, as Nsight Systems numbers both."""
    return (thread or 0) & ~_THREAD


def thread_of(thread: int) -> int:
    """Return the operating system's number of a thread."""
    return thread & _THREAD


def nsys_warnings(database: Database, processes: Set[int] = frozenset()) -> list[str]:
    """Return Nsight Systems' warnings, each once: of ``processes``, or of other programs where these have none."""
    rows = list(database.rows("DIAGNOSTIC_EVENT", ("text",), ("severity", "globalPid")))
    ranged = any(_RANGED in str(text) for text, _, _ in rows)
    said = [
        " ".join(str(text).split())
        for text, severity, process in rows
        if (severity is None or severity in _WARNINGS)
        and (not processes or process is None or process <= 0 or process in processes)
    ]
    kept = (text for text in dict.fromkeys(said) if not (ranged and _ALWAYS_SAID.fullmatch(text)))
    return [f"Nsight Systems: {text}" for text in islice(kept, _MOST_WARNINGS)]


def _work(kind: Kind, name: str, row: dict[str, Any], **more: Any) -> GpuWork:
    activity = Activity(
        kind,
        name,
        row["start"],
        row["end"],
        stream=row["streamId"] or 0,
        correlation=row["correlationId"],
        **more,
    )
    return GpuWork(activity, row["globalPid"] or 0, row["graphNodeId"] or None)
