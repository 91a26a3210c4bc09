"""Trace with CUPTI in the process, through NVIDIA's binding ``cupti-python``: kernels, copies and API calls.

It is used in place of torch.profiler because it needs no torch, gives times as integers in nanoseconds, and has the
same records as Nsight Systems, which is built on CUPTI too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

from lenet_trt.profile.ranges import is_iteration
from lenet_trt.profile.request import RecorderError
from lenet_trt.trace.demangle import demangled
from lenet_trt.trace.timeline import Activity, ApiCall, HostRange, Iteration, Timeline

_BUFFER_BYTES = 8 << 20
_NS = 1e3  # nanoseconds in a microsecond
_FORCED = 1  # flush buffers that are not full
_DIRECTIONS = {"HTOD": "HtoD", "DTOH": "DtoH", "DTOD": "DtoD", "HTOH": "HtoH", "PTOP": "PtoP"}


class Cupti:
    """Record from ``start`` to ``stop``, once in a process.

    Raises:
        RecorderError: the binding or CUPTI itself is missing, or does not fit the driver.
    """

    def __init__(self) -> None:
        try:
            from cupti import cupti

            self.version = metadata.version("cupti-python")
        except ImportError as error:
            raise RecorderError(
                f"CUPTI's binding cannot be imported ({error}): pip install 'lenet-trt[profile]'"
            ) from error
        self._cupti = cupti
        kind = cupti.ActivityKind
        self._kinds = (kind.CONCURRENT_KERNEL, kind.MEMCPY, kind.MEMSET, kind.RUNTIME, kind.DRIVER)
        self._activities: list[Activity] = []
        self._calls: list[ApiCall] = []
        self._ranges: list[HostRange] = []
        self._zero = 0  # nanoseconds since 1970 have too many digits for a float of microseconds

    def start(self) -> None:
        """Start recording.

        Raises:
            RecorderError: CUPTI refuses, for example beside another profiler or with a driver that is too old.
        """
        cupti = self._cupti
        try:
            self._zero = cupti.get_timestamp()
            cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._completed)
            for kind in self._kinds:
                cupti.activity_enable(kind)
        except Exception as error:  # CUPTI's errors and those of a missing library share no base class
            raise RecorderError(
                f"CUPTI (cupti-python {self.version}) does not start: {error or type(error).__name__}. Its major "
                "version must be the driver's, and no other profiler may be attached"
            ) from error

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """Mark a range with CUPTI's clock."""
        begin = self._cupti.get_timestamp()
        try:
            yield
        finally:
            self._ranges.append(HostRange(name, self._us(begin), self._us(self._cupti.get_timestamp())))

    def _us(self, moment: int) -> float:
        return (moment - self._zero) / _NS

    def stop(self) -> Recorded:
        """Stop recording, and return what was recorded; times in microseconds since ``start``."""
        cupti = self._cupti
        cupti.activity_flush_all(_FORCED)
        for kind in self._kinds:
            cupti.activity_disable(kind)
        return Recorded(self.version, self._activities, self._calls, self._ranges)

    def _completed(self, records: Sequence[Any]) -> None:
        """Read the records of a buffer; they are not valid after this function returns."""
        kind = self._cupti.ActivityKind
        for record in records:
            which = record.kind
            begin, end = self._us(record.start), self._us(record.end)
            if which == kind.CONCURRENT_KERNEL:
                self._activities.append(_kernel(record, begin, end))
            elif which == kind.MEMCPY:
                direction = self._cupti.ActivityMemcpyKind(record.copy_kind).name
                self._activities.append(_copy(record, begin, end, _DIRECTIONS.get(direction)))
            elif which == kind.MEMSET:
                self._activities.append(_memset(record, begin, end))
            else:
                runtime = which == kind.RUNTIME
                names = self._cupti.runtime_api_trace_cbid if runtime else self._cupti.driver_api_trace_cbid
                self._calls.append(_call(record, begin, end, names))


@dataclass(frozen=True)
class Recorded:
    """Hold what CUPTI recorded, and the ranges that were marked meanwhile."""

    version: str
    activities: Sequence[Activity]
    api_calls: Sequence[ApiCall]
    ranges: Sequence[HostRange]

    def timeline(self) -> Timeline:
        """Make a timeline of the marked inferences and the GPU work that they submitted; the first begins at 0."""
        marked = [entry for entry in self.ranges if is_iteration(entry.name)]
        if not marked:
            raise RecorderError("CUPTI recorded no inference")
        zero, end = marked[0].start_us, marked[-1].end_us
        starts = [entry.start_us for entry in marked]
        calls = sorted((call for call in self.api_calls if zero <= call.start_us < end), key=lambda call: call.start_us)
        asked = {call.correlation: bisect_right(starts, call.start_us) - 1 for call in calls}
        activities = sorted(
            (entry for entry in self.activities if entry.correlation in asked), key=lambda entry: entry.start_us
        )
        return Timeline(
            f"CUPTI, cupti-python {self.version}",
            iterations=tuple(
                Iteration(index, entry.start_us - zero, entry.end_us - zero) for index, entry in enumerate(marked)
            ),
            activities=tuple(
                replace(entry, iteration=asked[entry.correlation], **_from(zero, entry)) for entry in activities
            ),
            api_calls=tuple(replace(call, **_from(zero, call)) for call in calls),
            ranges=tuple(replace(entry, **_from(zero, entry)) for entry in self.ranges),
        )


def _from(zero: float, entry: Activity | ApiCall | HostRange) -> dict[str, Any]:
    return {"start_us": entry.start_us - zero, "end_us": entry.end_us - zero}


def _kernel(record: Any, begin: float, end: float) -> Activity:
    return Activity(
        "kernel",
        demangled(record.name),
        begin,
        end,
        stream=record.stream_id,
        correlation=record.correlation_id,
        grid=(record.grid_x, record.grid_y, record.grid_z),
        block=(record.block_x, record.block_y, record.block_z),
        registers=record.registers_per_thread,
        shared_bytes=record.static_shared_memory + record.dynamic_shared_memory,
    )


def _copy(record: Any, begin: float, end: float, direction: str | None) -> Activity:
    return Activity(
        "memcpy",
        f"[CUDA memcpy {direction or 'of an unknown kind'}]",
        begin,
        end,
        stream=record.stream_id,
        correlation=record.correlation_id,
        bytes=record.bytes,
        direction=direction,
    )


def _memset(record: Any, begin: float, end: float) -> Activity:
    return Activity(
        "memset",
        "[CUDA memset]",
        begin,
        end,
        stream=record.stream_id,
        correlation=record.correlation_id,
        bytes=record.bytes,
    )


def _call(record: Any, begin: float, end: float, names: Any) -> ApiCall:
    try:
        name = re.sub(r"_v\d{4,}$", "", names(record.cbid).name)
    except ValueError:  # the call is newer than the binding
        name = f"CUDA call {record.cbid}"
    return ApiCall(name, begin, end, record.thread_id, record.correlation_id)
