"""Make docs/results/README.md and the picture of the sweep from a record that scripts/gpu_bench.py wrote.

python scripts/results_page.py docs/results/h200.json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import page, record, sweep_svg

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import write_atomic

DOCS = Path(__file__).resolve().parent.parent / "docs"


def pages(source: Path) -> dict[Path, str]:
    """Every file that is made from the record, and what is in it."""
    data = record.load(source)
    made = {DOCS / "results" / "README.md": page.render(data, source.name)}
    picture = sweep_svg.render(data)
    if picture is not None:
        made[DOCS / "images" / "lenet5_sweep.svg"] = picture
    return made


def main(arguments: list[str] | None = None) -> int:
    """Write the files and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, metavar="FILE.json")
    try:
        for path, text in pages(parser.parse_args(arguments).record).items():
            write_atomic(path, text.encode())
            print(path)
    except LenetTrtError as error:
        print(f"results_page: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
