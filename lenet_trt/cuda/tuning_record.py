"""Write and read the record of ``tune -o``: the choices of several kernels for one GPU, with the times behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lenet_trt.cuda.environment import commit, environment
from lenet_trt.cuda.tuning_file import Tuning
from lenet_trt.files import write_atomic
from lenet_trt.schema import Count, Duration, read_json

SUITE = "tune"


@dataclass(frozen=True)
class TuneRecord:
    """Hold a run of ``tune``; ``ladders`` of which ``timed`` were timed in ``seconds``."""

    suite: str
    command: str
    environment: Mapping[str, Any]
    ladders: Count
    timed: Count
    seconds: Duration
    problems: tuple[str, ...]
    tunings: tuple[Tuning, ...]
    commit: str | None = None


def tuning_record_of(
    command: str, tunings: Sequence[Tuning], ladders: int, timed: int, seconds: float, problems: Sequence[str]
) -> TuneRecord:
    """Return the record of a run on this machine."""
    return TuneRecord(
        *(SUITE, command, environment(), ladders, timed, round(seconds, 1)), tuple(problems), tuple(tunings), commit()
    )


def tuning_record_text(record: TuneRecord) -> str:
    """Return the record as JSON, a line for each call."""
    plain = asdict(record)
    tunings = ",\n".join(map(_tuning_text, plain.pop("tunings")))
    head = json.dumps(plain, indent=1).removesuffix("\n}")
    return f'{head},\n "tunings": [\n{tunings}\n ]\n}}\n'


def write_tuning_record(path: Path, record: TuneRecord) -> None:
    """Write the record.

    Raises:
        LenetTrtError: it cannot be written.
    """
    write_atomic(path, tuning_record_text(record).encode())


def read_tuning_record(path: Path) -> TuneRecord:
    """Read a record.

    Raises:
        LenetTrtError: it is damaged, or is something else.
    """
    return read_json(path, TuneRecord, wanted="a record of lenet-trt tune -o", fix="tune again with -o")


def _tuning_text(tuning: dict[str, Any]) -> str:
    lists = {name: tuning.pop(name) for name in ("choices", "calls")}
    head = json.dumps(tuning).removesuffix("}")
    parts = [f'"{name}": [{",".join(_line(each) for each in rows)}]' for name, rows in lists.items()]
    return f"  {head}, {', '.join(parts)}}}"


def _line(value: object) -> str:
    return f"\n    {json.dumps(value)}"
