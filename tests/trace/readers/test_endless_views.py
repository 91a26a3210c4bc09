"""An nsys database is a program too: a view in it can ask SQLite to count without end."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from nsys_file import TABLES, NsysFile

# What a row of the view has in a column of this kind; "i" counts the rows.
_COUNTED = {"INT": "i", "TEXT": "'t' || i"}

# A reader that goes on without end, or keeps every row, is killed: the test then fails, and does not hang.
PROGRAM = """
import os, resource, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # whose buffers, one a core, count as memory
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
from lenet_trt.cli import main
sys.exit(main(["profile", "--from", sys.argv[1], "-o", sys.argv[1] + ".json"]))
"""


@pytest.mark.parametrize("rows", ["none", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "StringIds", "NVTX_EVENTS", "TARGET_INFO_GPU"])
def test_a_view_that_never_ends_is_stopped(tmp_path: Path, table: str, rows: str) -> None:
    file = NsysFile(tmp_path / "trace.sqlite")
    file.launch("gemm", 6000, 16000, 3000)
    path = file.done()
    _replace_by_view(path, table, "i < 0" if rows == "none" else "i > 0")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode != -signal.SIGXCPU, "the view was read without end"
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"lenet-trt profile: error: {path}: a table has more rows")


def _replace_by_view(path: Path, table: str, condition: str) -> None:
    """Put a view that counts without end in the place of a table; it gives all of its rows, or none."""
    kinds = TABLES.get(table, {"id": "INT", "value": "TEXT"})
    columns = ", ".join(f"{_COUNTED[kind]} AS '{name}'" for name, kind in kinds.items())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(
            f"CREATE VIEW {table} AS WITH RECURSIVE c(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM c) "
            f"SELECT {columns} FROM c WHERE {condition}"
        )
        connection.commit()
