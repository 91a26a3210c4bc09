"""Find the files from which the figures of a document are made."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lenet_trt.bench.record import Record, load_record
from lenet_trt.errors import LenetTrtError

NOT_MEASURED = "not measured"


@dataclass
class Sources:
    """Hold the folder of the records, the document to fill, and the pictures that the document asks for."""

    records: Path
    document: Path
    pictures: dict[Path, bytes] = field(default_factory=dict)

    def record(self, name: str) -> Record | None:
        """Read a record, or return None where there is none.

        Raises:
            LenetTrtError: the record is damaged.
        """
        path = self.path(name)
        return load_record(path) if path.is_file() else None

    def path(self, name: str) -> Path:
        """Return the path of a record from its name, such as "h200/kernels"."""
        return self.records / f"{name}.json"

    def data(self, path: Path) -> Any:
        """Read a JSON file.

        Raises:
            LenetTrtError: it cannot be read.
        """
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LenetTrtError(f"{path} cannot be read as JSON: {error}") from error

    def link(self, path: Path) -> str:
        """Return a path as the document links to it."""
        return Path(os.path.relpath(path, self.document.parent)).as_posix()
