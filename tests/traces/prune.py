"""Make a small file of an export of Nsight Systems, with nothing of the machine in it: prune.py IN.sqlite OUT.sqlite.gz

What the readers read stays as it was. What goes: tables that they do not read, texts that nothing refers to, the
machine's name, its environment and its folders, and the GPU's number.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

KEPT = {
    *(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE", "RUNTIME")),
    *("NVTX_EVENTS", "CUDA_GRAPH_NODE_EVENTS", "StringIds", "PROFILER_OVERHEAD", "DIAGNOSTIC_EVENT"),
    *("TARGET_INFO_GPU", "TARGET_INFO_SYSTEM_ENV", "META_DATA_EXPORT", "META_DATA_CAPTURE"),
}
NAMED = {
    "TARGET_INFO_SYSTEM_ENV": ("NvDriverVersion", "CudaDriverVersion"),
    "META_DATA_EXPORT": ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"),
}


def prune(source: Path, target: Path) -> None:
    """Copy, prune, compress."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "pruned.sqlite"
        shutil.copy(source, copy)
        connection = sqlite3.connect(copy)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in tables - KEPT:
            connection.execute(f"DROP TABLE {table}")
        for table, names in NAMED.items():
            marks = ", ".join("?" * len(names))
            connection.execute(f"DELETE FROM {table} WHERE name NOT IN ({marks})", names)
        connection.execute(
            "DELETE FROM META_DATA_CAPTURE WHERE name <> 'PROCESS_0:COMMAND' AND name NOT LIKE 'PROCESS_0:ARGUMENT_%'"
        )
        for name, value in list(connection.execute("SELECT name, value FROM META_DATA_CAPTURE")):
            values = (os.path.basename(value), name)
            connection.execute("UPDATE META_DATA_CAPTURE SET value = ? WHERE name = ?", values)
        connection.execute("DELETE FROM DIAGNOSTIC_EVENT WHERE text LIKE '%/%'")
        connection.execute("UPDATE TARGET_INFO_GPU SET uuid = '', busLocation = ''")
        connection.execute(f"DELETE FROM StringIds WHERE id NOT IN ({' UNION '.join(references(connection))})")
        connection.commit()
        connection.execute("VACUUM")
        connection.close()
        data = copy.read_bytes()
    folders = re.findall(rb"/[a-z]+/", data)
    if folders:
        raise SystemExit(f"{folders[0]!r} is still in {source}")
    target.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{target}: {len(data)} bytes, compressed {target.stat().st_size}")


def references(connection: sqlite3.Connection) -> list[str]:
    """Queries for the texts that rows refer to."""
    found = []
    for table in KEPT - {"StringIds"}:
        for row in list(connection.execute(f"PRAGMA table_info({table})")):
            if row[1] in ("nameId", "textId", "demangledName", "shortName", "mangledName"):
                found.append(f"SELECT {row[1]} FROM {table} WHERE {row[1]} IS NOT NULL")
    return found


if __name__ == "__main__":
    prune(Path(sys.argv[1]), Path(sys.argv[2]))
