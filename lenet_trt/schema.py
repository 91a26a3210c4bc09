"""Check data from outside once, where it is read; the code that uses the data trusts its types. Write JSON.

The types are the dataclasses and typed dictionaries that the code works with anyway; msgspec converts into them and
says which field does not fit. msgspec, and not pydantic: it checks plain dataclasses, needs no other package and is
imported in a hundredth of a second.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from lenet_trt.errors import LenetTrtError

_T = TypeVar("_T")

# JSON has numbers of any size; these can be added up and divided without end.
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Real = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
# Microseconds; a moment may lie before the first iteration, and nothing takes thirty years.
Us = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
Duration = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
Rate = Annotated[float, msgspec.Meta(gt=0, le=1e18)]

_LARGEST = 2 << 30
_SHOWN = 60


def read_json(path: Path, kind: type[_T], *, wanted: str, fix: str) -> _T:
    """Read a JSON file whose content has to be of a type.

    ``wanted`` says what the file should be ("a timeline of lenet-trt profile"), ``fix`` what to do where it is not.

    Raises:
        LenetTrtError: the file cannot be read, is no JSON, or a field does not fit; names the file and the field.
    """
    return checked(json_value(path, wanted=wanted, fix=fix), kind, str(path), wanted=wanted, fix=fix)


def json_value(path: Path, *, wanted: str, fix: str) -> Any:
    """Read a JSON file as plain values, whatever they are.

    Raises:
        LenetTrtError: the file cannot be read, is too large, or is no JSON.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}; wanted {wanted}") from error
    if len(data) > _LARGEST:
        raise LenetTrtError(f"{path} has more than {_LARGEST:,} bytes; wanted {wanted}: {fix}")
    return parsed(data, str(path), wanted=wanted, fix=fix)


def parsed(data: bytes | str, name: str, *, wanted: str, fix: str) -> Any:
    """Take JSON text apart into plain values; ``name`` says in errors where it is from.

    Raises:
        LenetTrtError: it is no JSON.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise LenetTrtError(f"{name} is not JSON ({error}); wanted {wanted}: {fix}") from error


def json_text(value: Any, **options: Any) -> str:
    """Return plain values as JSON, of two spaces a level unless the ``options`` of ``json.dumps`` say otherwise.

    Raises:
        LenetTrtError: JSON does not have such a value: NaN and infinity are no numbers of it.
    """
    try:
        return json.dumps(value, allow_nan=False, **{"indent": 2, **options})
    except (TypeError, ValueError) as error:
        raise LenetTrtError(f"{value!r:.200} cannot be kept as JSON ({error})") from error


def checked(data: Any, kind: type[_T], name: str, *, wanted: str, fix: str) -> _T:
    """Convert plain values into a type: dataclasses, typed dictionaries, and what is in them.

    Raises:
        LenetTrtError: a field is missing or does not fit; says which, what was seen and what was wanted.
    """
    try:
        return msgspec.convert(data, kind)
    except LenetTrtError as error:  # what a type demands of its fields together
        raise LenetTrtError(f"{name} is not {wanted}: {error}: {fix}") from error
    except (msgspec.ValidationError, RecursionError) as error:
        said, _, at = str(error).partition(" - at ")
        field = at.strip("`").removeprefix("$").removeprefix(".").partition("[...]")[0]
        place = f"{field} is {_seen(data, field)!r:.{_SHOWN}}; " if field else ""
        raise LenetTrtError(f"{name} is not {wanted}: {place}{said}: {fix}") from error


def _seen(data: Any, field: str) -> Any:
    """Return the value of a field, named as msgspec names fields: ``rows[3].node``."""
    for part in filter(None, re.split(r"\.|(?=\[)", field)):
        try:
            data = data[int(part[1:-1])] if part.startswith("[") else data[part]
        except (KeyError, IndexError, TypeError, ValueError):  # what the name leads to is as near as it gets
            break
    return data
