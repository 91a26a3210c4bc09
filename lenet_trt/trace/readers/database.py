"""Read an SQLite file of another program: it is opened read-only, and its tables and columns may vary."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lenet_trt.errors import LenetTrtError

MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
# SQLite takes about ten steps for a row of a table, and a row has at least about ten bytes; tables are read more than
# once. A view that needs more steps than this does not come from Nsight Systems.
_STEPS_A_CALL = 10_000
_FREE_STEPS = 5_000_000
_STEPS_A_BYTE = 100
# These columns hold texts; all other columns that are read hold whole numbers.
_TEXTS = frozenset({"name", "text", "value"})


class Database:
    """Read rows one after the other; a table or column that is missing gives no rows.

    Raises:
        LenetTrtError: the file cannot be read, is no SQLite file, or was cut off (shorter than its header says).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_size(path)
        try:
            self._connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
            self._connection.text_factory = _text
            self._left = _FREE_STEPS + _STEPS_A_BYTE * path.stat().st_size
            self._connection.set_progress_handler(self._spent, _STEPS_A_CALL)
            tables = self._connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            self._tables = {str(name): self._read_columns(str(name)) for (name,) in tables}
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self.damaged(str(error)) from error

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __contains__(self, table: str) -> bool:
        return table in self._tables

    def tables(self) -> frozenset[str]:
        """Return the names of the tables."""
        return frozenset(self._tables)

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns; none where the table is missing."""
        return self._tables.get(table, frozenset())

    def count(self, table: str) -> int:
        """Return the number of rows of a table; 0 where the table is missing."""
        if table not in self._tables:
            return 0
        return int(next(self._rows(f"SELECT count(*) FROM {_quoted(table)}", ()))[0])

    def rows(
        self,
        table: str,
        needed: Sequence[str],
        optional: Sequence[str] = (),
        where: str = "",
        values: Sequence[Any] = (),
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the columns ``needed`` and ``optional`` of every row; an optional column that is missing gives None.

        Raises:
            LenetTrtError: a needed column is missing (another version wrote the file), a page is damaged, or a value
                has another type than its column, which only damage causes.
        """
        columns = self._tables.get(table)
        if columns is None:
            return
        missing = [name for name in needed if name not in columns]
        if missing:
            raise LenetTrtError(
                f"{self.path}: its table {table} has no column {', '.join(missing)} (it has "
                f"{', '.join(sorted(columns))}): no known version of Nsight Systems writes that; "
                "export the report again with nsys export --type sqlite of version 2022 or later"
            )
        chosen = [_quoted(name) if name in columns else "NULL" for name in (*needed, *optional)]
        condition = f" WHERE {where}" if where else ""
        kinds = [str if name in _TEXTS else int for name in (*needed, *optional)]
        for row in self._rows(f"SELECT {', '.join(chosen)} FROM {_quoted(table)}{condition}", values):
            if not all(value is None or type(value) is kind for value, kind in zip(row, kinds, strict=True)):
                raise self.damaged(f"a row of {table} has values of the wrong kind")
            yield row

    def _rows(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.OperationalError as error:
            if self._left >= 0:
                raise self.damaged(str(error)) from error
            raise LenetTrtError(
                f"{self.path}: a table has more rows than a file of this size can hold: export the report again"
            ) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self.damaged(str(error)) from error

    def _spent(self) -> bool:
        """Count SQLite's steps; True stops it: a view may produce rows without end, a table cannot."""
        self._left -= _STEPS_A_CALL
        return self._left < 0

    def _read_columns(self, table: str) -> frozenset[str]:
        return frozenset(str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})"))

    def damaged(self, why: str) -> LenetTrtError:
        """Make the error for a damaged file."""
        return LenetTrtError(f"{self.path} is a damaged SQLite file ({why}): copy it or export the report again")


def _check_size(path: Path) -> None:
    """Compare the file's size with its header: SQLite reads a file that was cut off until it meets the end."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    if not header.startswith(MAGIC):
        raise LenetTrtError(f"{path} is not an SQLite file")
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    current = header[24:28] == header[92:96]  # an old SQLite does not keep the number of pages
    if len(header) < _HEADER_BYTES or (current and size < page * pages):
        raise LenetTrtError(
            f"{path} was cut off: it has {size} bytes, and its header says {page * pages}; copy it or export it again"
        )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
