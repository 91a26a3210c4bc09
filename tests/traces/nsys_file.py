"""Files as Nsight Systems exports them, made row by row, so that the right answer is known."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROCESS = 7 << 24
THREAD = PROCESS | 1001
OTHER_THREAD = PROCESS | 1002

KERNEL = {
    **dict.fromkeys(("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"), "INT"),
    **dict.fromkeys(("demangledName", "shortName", "mangledName", "registersPerThread"), "INT"),
    **dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), "INT"),
    **dict.fromkeys(("staticSharedMemory", "dynamicSharedMemory", "graphNodeId"), "INT"),
}
MEMORY = {
    **dict.fromkeys(("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"), "INT"),
    **dict.fromkeys(("bytes", "graphNodeId"), "INT"),
}
TABLES: Mapping[str, Mapping[str, str]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": {**MEMORY, "copyKind": "INT"},
    "CUPTI_ACTIVITY_KIND_MEMSET": {**MEMORY, "value": "INT"},
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": {**{k: v for k, v in MEMORY.items() if k != "bytes"}, "graphId": "INT"},
    "CUPTI_ACTIVITY_KIND_RUNTIME": dict.fromkeys(
        ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue"), "INT"
    ),
    "NVTX_EVENTS": {
        **dict.fromkeys(("start", "end", "eventType", "globalTid", "textId", "domainId", "rangeId"), "INT"),
        "text": "TEXT",
    },
    "CUDA_GRAPH_NODE_EVENTS": dict.fromkeys(
        ("start", "end", "nameId", "globalTid", "graphNodeId", "originalGraphNodeId"), "INT"
    ),
    "CUDA_GRAPH_EVENTS": dict.fromkeys(("start", "end", "globalTid", "graphNodeId", "originalGraphNodeId"), "INT"),
    "TARGET_INFO_GPU": {
        **dict.fromkeys(("id", "computeMajor", "computeMinor", "smCount", "totalMemory"), "INT"),
        "name": "TEXT",
    },
    "TARGET_INFO_SYSTEM_ENV": {"name": "TEXT", "value": "TEXT"},
    "META_DATA_CAPTURE": {"name": "TEXT", "value": "TEXT"},
    "META_DATA_EXPORT": {"name": "TEXT", "value": "TEXT"},
    "DIAGNOSTIC_EVENT": {"severity": "INT", "globalPid": "INT", "text": "TEXT"},
    "PROFILER_OVERHEAD": {"start": "INT", "end": "INT"},
}


class NsysFile:
    """Makes an export; tables appear with their first row, as those of Nsight Systems do. Times are nanoseconds.

    ``without`` are columns that this version does not have yet.
    """

    def __init__(self, path: Path, without: tuple[str, ...] = ()) -> None:
        self.path = path
        self._without = without
        self._connection = sqlite3.connect(path)
        self._connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        self._strings: dict[str, int] = {}
        self._made: set[str] = set()
        self._correlation = 100
        self._domains: set[str] = set()

    def row(self, table: str, **values: Any) -> None:
        """Put a row into a table."""
        columns = {name: kind for name, kind in TABLES[table].items() if name not in self._without}
        if table not in self._made:
            self._made.add(table)
            declared = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            self._connection.execute(f"CREATE TABLE {table} ({declared})")
        values = {name: value for name, value in values.items() if name in columns}
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" * len(values))
        self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))

    def string(self, value: str) -> int:
        """The number that stands for a text."""
        if value not in self._strings:
            self._strings[value] = len(self._strings) + 1
            self._connection.execute("INSERT INTO StringIds VALUES (?, ?)", (self._strings[value], value))
        return self._strings[value]

    def call(self, name: str, start: int, end: int, thread: int = THREAD, correlation: int | None = None) -> int:
        """Record an API call; gives its correlation."""
        self._correlation += 1
        number = self._correlation if correlation is None else correlation
        self.row(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            globalTid=thread,
            correlationId=number,
            nameId=self.string(name),
        )
        return number

    def kernel(self, name: str, start: int, end: int, correlation: int, **more: Any) -> None:
        """Record a kernel."""
        known = {"streamId": 7, "deviceId": 0, "globalPid": PROCESS, "gridX": 3, "gridY": 2, "gridZ": 1, "blockX": 128}
        known |= {"blockY": 1, "blockZ": 1, "registersPerThread": 32, "staticSharedMemory": 16}
        known |= {"dynamicSharedMemory": 1024, "demangledName": self.string(name), "shortName": self.string(name[:4])}
        self.row(
            "CUPTI_ACTIVITY_KIND_KERNEL", **{**known, "start": start, "end": end, "correlationId": correlation, **more}
        )

    def copy(self, kind: int, count: int, start: int, end: int, correlation: int, **more: Any) -> None:
        """Record a copy."""
        known = {"streamId": 7, "globalPid": PROCESS, "bytes": count, "copyKind": kind, "correlationId": correlation}
        self.row("CUPTI_ACTIVITY_KIND_MEMCPY", **{**known, "start": start, "end": end, **more})

    def range(
        self, name: str, start: int, end: int | None, domain: str = "lenet_trt", thread: int = THREAD, **more: Any
    ) -> None:
        """Record a range that was pushed and popped."""
        if domain and domain not in self._domains:
            self._domains.add(domain)
            self.row("NVTX_EVENTS", start=0, eventType=75, globalTid=thread, text=domain, domainId=_domain_id(domain))
        known = {"eventType": 59, "globalTid": thread, "text": name, "domainId": _domain_id(domain)}
        self.row("NVTX_EVENTS", **{**known, "start": start, "end": end, **more})

    def launch(self, name: str, start: int, end: int, host: int, thread: int = THREAD) -> int:
        """Record a kernel and the call that launched it 1 us before."""
        correlation = self.call("cudaLaunchKernel_v7000", host, host + 500, thread)
        self.kernel(name, start, end, correlation)
        return correlation

    def done(self) -> Path:
        """Write the file."""
        self._connection.commit()
        self._connection.close()
        return self.path


def _domain_id(domain: str) -> int:
    """Any number will do, and 0 is the default domain's."""
    return sum(domain.encode())
