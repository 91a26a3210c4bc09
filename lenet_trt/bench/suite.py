"""Define the options of a suite, and the recording that collects its rows, also when it is interrupted."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lenet_trt.bench.record import Record, Row, RowCase, as_json
from lenet_trt.cuda.environment import Clocks, clocks, commit, environment
from lenet_trt.cuda.gpus import gpus
from lenet_trt.cuda.timing import TimingPlan
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import write_atomic
from lenet_trt.tensorrt.engine import builder_kept

STOPPED, SHARED = "stopped", "shared"
# A GPU that is busier than this before a suite begins has another user too; nvidia-smi's figure lags behind.
BUSY_PERCENT = 5
_SETTLING_S = 2.0
# Between two rows the record is written where it was not for this long.
KEPT_EVERY_S = 10.0
QUICK = TimingPlan(rounds=3, burst=5, settle=3, budget_s=3.0)


@dataclass(frozen=True)
class SuiteOptions:
    """Hold the options of a suite. ``batches`` None: the suite's own; ``quick``: few timings and cases.

    ``only``: take the workloads whose name contains one of these texts; suites with ``TAKES_ONLY`` have it.
    ``command``: what to type for the same run again. ``trtexec``, ``trtexec_flags`` and ``library`` are for suites with
    engines: the program that builds them, its further flags, and the plugin library; None: the ones found here.
    ``resume`` is a record whose timings the suites ``engines`` and ``zoo`` keep. For ``zoo``: ``models`` is the folder
    of exported networks, ``engines`` that of engines, ``jobs`` how many networks to build at once before any is timed,
    ``precisions`` which to measure (None: all), and ``build_only`` whether to build alone. ``best_peers`` is for
    ``engines``: time all the ways in which TensorRT chooses kernels. ``record``: the file of the record, which gets
    what there is while the suite runs, so that a process that is killed loses little.
    """

    quick: bool = False
    batches: tuple[int, ...] | None = None
    command: str = ""
    only: tuple[str, ...] = ()
    trtexec: str | None = None
    trtexec_flags: tuple[str, ...] = ()
    library: Path | None = None
    models: Path | None = None
    engines: Path | None = None
    jobs: int = 1
    resume: Record | None = None
    precisions: tuple[str, ...] | None = None
    build_only: bool = False
    best_peers: bool = False
    record: Path | None = None

    @property
    def plan(self) -> TimingPlan:
        """Return how often to time."""
        return QUICK if self.quick else TimingPlan()


class Recording:
    """Collect the rows of a record one by one; ``say`` tells people on standard error what is being measured."""

    def __init__(self, suite: str, options: SuiteOptions) -> None:
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self.details: dict[str, Any] = {}
        self.interrupted = False
        self._suite, self._options = suite, options
        self._left_out: list[str] = []
        self._begin = self._kept = time.monotonic()
        # Asked now: a later error on the GPU must not lose what was measured.
        self._environment = environment()
        self._clocks: list[Mapping[str, float | None]] = []

    def wants(self, name: str, whole: Container[str] = ()) -> bool:
        """Return whether to measure the workload of that name: all, or those that ``only`` names.

        A text that is one of the names ``whole`` stands for that workload alone.
        """
        only = self._options.only
        if not only or any(name == text if text in whole else text in name for text in only):
            return True
        self._left_out.append(name)
        return False

    def add(self, row: Row) -> None:
        """Keep a row, and from time to time all rows on disk."""
        self.rows.append(row)
        now = time.monotonic()
        if self._options.record is not None and now - self._kept >= KEPT_EVERY_S:
            write_atomic(self._options.record, as_json(self._record(interrupted=True)).encode())
            self._kept = now

    def cannot(self, backend: str, case: RowCase, problem: BaseException | str, **extra: Any) -> None:
        """Keep a row of a backend that cannot run here, with the reason."""
        if isinstance(problem, str):
            why = problem
        elif isinstance(problem, LenetTrtError):
            why = str(problem)
        else:
            why = f"{type(problem).__name__}: {problem}"
        self.add(Row(backend, case, None, " ".join(why.split())[:400] or "it gave no reason", extra))

    def say(self, text: str) -> None:
        """Print what is being done on standard error, with the seconds since the start."""
        print(f"[{time.monotonic() - self._begin:6.1f} s] {self._suite}: {text}", file=sys.stderr, flush=True)

    def sample_clocks(self) -> None:
        """Note the GPU's clocks now; nothing where there is no GPU or no nvidia-smi."""
        now = _clocks()
        if now is not None:
            self._clocks.append({"second": round(time.monotonic() - self._begin, 1), **asdict(now)})

    def begin(self) -> None:
        """Note the clocks before anything runs, and whether somebody else uses the GPU."""
        now = _clocks()
        if now is not None and (now.busy_percent or 0) > BUSY_PERCENT:
            time.sleep(_SETTLING_S)  # the load may be from a program that just ended here
            now = _clocks()
        if now is not None and (now.busy_percent or 0) > BUSY_PERCENT:
            self.details[SHARED] = f"the GPU was {now.busy_percent:.0f}% busy before anything of this ran"
            self.say(f"{self.details[SHARED]}: another process uses it, so times are too long")
        self.sample_clocks()

    def finish(self) -> Record:
        """Return the record of what was measured until now, and of what the resumed record has.

        Raises:
            UsageError: no workload has a name that ``only`` gives; says which names there are.
        """
        if self._left_out and not self.rows and not self.interrupted:
            texts = " or ".join(map(repr, self._options.only))
            raise UsageError(
                f"--only: no workload of the suite {self._suite} has {texts} in its name; they are "
                + ", ".join(dict.fromkeys(self._left_out))
            )
        return self._record(interrupted=self.interrupted)

    def _record(self, *, interrupted: bool) -> Record:
        old = self._options.resume
        measured = {row.key for row in self.rows}
        return Record(
            suite=self._suite,
            command=self._options.command,
            date=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            commit=commit(),
            environment=self._environment,
            plan=asdict(self._options.plan),
            rows=(*self.rows, *(row for row in (old.timed if old else ()) if row.key not in measured)),
            notes=tuple(self.notes),
            clocks=(*(old.clocks if old else ()), *self._clocks),
            details=self.details,
            seconds=round((old.seconds if old else 0.0) + time.monotonic() - self._begin, 1),
            interrupted=interrupted,
        )


def _clocks() -> Clocks | None:
    try:
        return clocks() if gpus().devices else None
    except LenetTrtError:
        return None


@contextmanager
def recording(suite: str, options: SuiteOptions) -> Iterator[Recording]:
    """Record a suite: Ctrl-C or a failure ends the block, and what was measured until then stays.

    >>> with recording("sweep", options) as found:
    ...     found.add(Row("ours", {"batch": 1}, stats))
    >>> return found.finish()
    """
    found = Recording(suite, options)
    found.begin()
    try:
        with builder_kept():
            yield found
    except KeyboardInterrupt:
        found.interrupted = True
        found.say("interrupted: what was measured until here is kept")
    except Exception as problem:
        if not found.rows:
            raise
        found.interrupted = True
        found.details[STOPPED] = f"{type(problem).__name__}: {problem}"
        found.say(f"stopped ({found.details[STOPPED]}): what was measured until here is kept")
        if not isinstance(problem, LenetTrtError):
            traceback.print_exc()
    found.sample_clocks()
