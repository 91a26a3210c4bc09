"""Say whether the kernels of an earlier commit compile to the same machine code as those of this working tree.

A record in docs/results names its commit. Its times hold for today's kernels where the code is the same:

    python scripts/same_code.py 9f0c102 lenet5 batched_matvec      kernels of a record
    python scripts/same_code.py 9f0c102                            all kernels of that commit

Each variant is compiled for the first example of its kernel that it fits, and for each type; examples of few inputs may
hide what only several steps of a loop have, so --example names another one. What differs is compiled again. Needs git
and NVRTC; no GPU.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lenet_trt", "export", "plugins")  # the last two are subpackages of the first where it is installed
Digests = Mapping[str, tuple[str, ...]]  # of a variant's launches
# Seldom, NVRTC compiles one source in two ways: a variant is compiled again before its code counts as changed.
MORE_TRIES = 3

# Runs in either tree, with what both have in common; a variant of older commits is one launch, and has no parts.
_DIGESTS = """
import hashlib, json, struct, sys
from dataclasses import replace
from itertools import product
from lenet_trt.cuda.compile import compile_variant
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import cases

def code(cubin):
    # The sections .text.NAME of an ELF file of 64 bits.
    (table,), (size, count, of_names) = struct.unpack_from("<Q", cubin, 0x28), struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    names = cubin[sections[of_names][4]:]
    texts = [cubin[at : at + length] for name, _, _, _, at, length in sections if names[name:].startswith(b".text")]
    return hashlib.sha256(b"".join(sorted(texts))).hexdigest()

found = {}
for name in sys.argv[3:] or registry.kernels():
    kernel = registry.kernels().get(name)
    if kernel is None:
        continue
    if sys.argv[2]:
        kernel = replace(kernel, examples=kernel.examples[int(sys.argv[2]) :][:1])
    first = {}
    for case in cases(kernel, int(sys.argv[1])):
        first.setdefault((case.bound.types.name, case.variant.name), case.bound.specialized)
    for types, variant in product(kernel.types, kernel.variants):
        call = first.get((types.name, variant.name))
        if call is not None:
            parts = getattr(variant, "parts", (variant,))
            found[f"{name} {types.name} {variant.name}"] = [
                code(compile_variant(call, part, f"sm_{sys.argv[1]}").image) for part in parts
            ]
print(json.dumps(found))
"""


def digests(tree: Path, sm: str, example: str, kernels: Sequence[str]) -> Digests:
    """Return the hash of the machine code of each kernel, type and variant of an installed tree."""
    words = [sys.executable, "-c", _DIGESTS, sm, example, *kernels]
    with tempfile.TemporaryDirectory(dir=tree) as cache:  # of its own, so that everything is compiled
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1", "LENET_TRT_CACHE": cache}
        done = subprocess.run(words, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"the kernels in {tree} could not be compiled (see above)")
    found: dict[str, list[str]] = json.loads(done.stdout)
    return {name: tuple(each) for name, each in found.items()}


def install(tree: Path) -> Path:
    """Lay a checkout out as it is when it is installed."""
    for name in PACKAGES[1:]:
        shutil.move(tree / name, tree / PACKAGES[0] / name)
    return tree


def at_commit(commit: str, folder: Path) -> Path:
    """Write the sources of a commit into a folder."""
    done = subprocess.run(["git", "-C", ROOT, "archive", commit, *PACKAGES], stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{commit} is no commit of {ROOT} with these sources")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data") if sys.version_info >= (3, 12) else archive.extractall(folder)
    return install(folder)


def here(folder: Path) -> Path:
    """Copy the sources of the working tree into a folder."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return install(folder)


def main() -> None:
    """Print a line a kernel: how many of its variants have the same code, and which have not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the earlier commit")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="kernels (default: all)")
    parser.add_argument("--sm", default="90", help="the architecture to compile for (default: 90)")
    parser.add_argument(
        "--example", type=int, metavar="N", help="the example of each kernel (default: the first that a variant fits)"
    )
    given = parser.parse_args()
    example = "" if given.example is None else str(given.example)
    words = given.sm, example, given.kernels
    with tempfile.TemporaryDirectory(prefix="lenet-trt-code-") as folder:
        trees = at_commit(given.commit, Path(folder) / "before"), here(Path(folder) / "now")
        before, now = ({name: {each} for name, each in digests(tree, *words).items()} for tree in trees)
        for _ in range(MORE_TRIES):
            again = sorted({name.split()[0] for name in changed_of(before, now) if name in now})
            if not again:
                break
            for tree, seen in zip(trees, (before, now), strict=True):
                for name, each in digests(tree, given.sm, example, again).items():
                    seen.setdefault(name, set()).add(each)
    for kernel in dict.fromkeys(name.split()[0] for name in before):
        mine = [name for name in before if name.split()[0] == kernel]
        changed = [name.removeprefix(f"{kernel} ") for name in changed_of(before, now) if name in mine]
        told = f"; not: {', '.join(changed)}" if changed else ""
        print(f"{kernel}: {len(mine) - len(changed)} of {len(mine)} the same{told}")


def changed_of(before: Mapping[str, set[tuple[str, ...]]], now: Mapping[str, set[tuple[str, ...]]]) -> list[str]:
    """Return the variants that never had the same code."""
    return [name for name in before if before[name].isdisjoint(now.get(name, set()))]


if __name__ == "__main__":
    main()
