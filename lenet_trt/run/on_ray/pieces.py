"""Which images there are, and which of them make a shard: found by names and headers, without reading images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from lenet_trt.errors import LenetTrtError
from lenet_trt.images.files import PICTURE_SUFFIXES
from lenet_trt.images.form import Form
from lenet_trt.images.ranges import count_images
from lenet_trt.run.on_ray import parquet
from lenet_trt.run.on_ray.place import DataPlace, FoundFile

# What a folder holds besides pictures, told by the name; every other file of a folder is left alone.
_IDX_SUFFIXES = ("-idx3-ubyte", "-idx3-ubyte.gz", "-idx4-ubyte", "-idx4-ubyte.gz", ".idx", ".idx.gz")
_SUFFIXES = (*PICTURE_SUFFIXES, ".npy", ".npz", *_IDX_SUFFIXES, ".parquet", ".pq")
_THREADS = 16
_DEFAULT_IMAGES = 1 << 16
_DEFAULT_BYTES = 64 << 20

PICTURE, SEVERAL, PARQUET = "picture", "several", "parquet"


@dataclass(frozen=True)
class ImagePiece:
    """Some images of one file: ``count`` of them from number ``first`` on.

    ``source`` is the number of the place in the file system of which ``path`` is meant. ``stamp`` changes with the
    file. ``damage`` says why the file cannot be read; such a piece counts as one image.
    """

    source: int
    kind: str
    path: str
    name: str
    first: int
    count: int
    stamp: str = ""
    damage: str | None = None

    def names(self) -> list[str]:
        """Return the name of a picture, or FILE[index] for each image of a file of several."""
        if self.kind == PICTURE or self.damage is not None:
            return [self.name]
        return [f"{self.name}[{index}]" for index in range(self.first, self.first + self.count)]


def find_pieces(places: Sequence[DataPlace], form: Form, column: str | None = None) -> Iterator[ImagePiece]:
    """Find the images of files and folders, in the order given, and in a folder in the order of paths.

    Raises:
        LenetTrtError: a place is not there or holds no images, or a file that was named itself is damaged.
    """
    for number, where in enumerate(places):
        listed = where.files()
        if listed is None:
            yield from _pieces(where, number, form, column, True, where.itself())
            continue
        wanted = [each for each in listed if each.name.lower().endswith(_SUFFIXES)]
        if not wanted:
            raise LenetTrtError(f"{where.given} holds no images; wanted files that end in {', '.join(_SUFFIXES)}")
        with ThreadPoolExecutor(_THREADS) as pool:
            for pieces in pool.map(partial(_pieces, where, number, form, column, False), wanted):
                yield from pieces


def shards_of(pieces: Iterable[ImagePiece], images: int) -> Iterator[list[ImagePiece]]:
    """Group pieces into shards of at most ``images``; a piece is cut where it is larger than a shard alone.

    The same pieces make the same shards, so that a later start knows what is missing.
    """
    shard: list[ImagePiece] = []
    held = 0
    for piece in pieces:
        first, left = piece.first, piece.count
        while left:
            if held and held + left > images:
                yield shard
                shard, held = [], 0
            count = min(left, images)
            before = shard[-1] if shard else None
            if before and before.path == piece.path and before.first + before.count == first:
                shard[-1] = replace(before, count=before.count + count)
            else:
                shard.append(replace(piece, first=first, count=count))
            first, left, held = first + count, left - count, held + count
    if shard:
        yield shard


def default_shard(form: Form) -> int:
    """Return how many images a shard has where nobody says it: 65,536, or what 64 MiB of pixels are."""
    channels, height, width = form.shape
    return max(1, min(_DEFAULT_IMAGES, _DEFAULT_BYTES // (channels * height * width)))


def fingerprint(shards: Iterable[Sequence[ImagePiece]]) -> str:
    """Hash which images are in which shard, with the stamps of their files."""
    digest = hashlib.sha256()
    for shard in shards:
        for piece in shard:
            text = f"{piece.name}\0{piece.first}\0{piece.count}\0{piece.stamp}\n"
            digest.update(text.encode("utf-8", "surrogateescape"))
        digest.update(b"\n")
    return digest.hexdigest()


def _pieces(
    where: DataPlace, source: int, form: Form, column: str | None, named: bool, file: FoundFile
) -> list[ImagePiece]:
    """Describe one file; damage is an error where the file was ``named``, and else a piece that says so."""
    piece = partial(ImagePiece, source, path=file.path, name=file.name, stamp=f"{file.size} {file.changed_ns}")
    if file.name.lower().endswith(PICTURE_SUFFIXES):
        return [piece(kind=PICTURE, first=0, count=1)]
    try:
        with where.open(file.path) as opened:
            if parquet.is_parquet(opened):
                groups = parquet.groups_of(opened, file.name, column)
                return [piece(kind=PARQUET, first=first, count=count) for first, count in groups if count]
            count = count_images(opened, file.name, form)
    except LenetTrtError as error:
        if named:
            raise
        return [piece(kind=SEVERAL, first=0, count=1, damage=str(error))]
    except OSError as error:
        if named:
            raise LenetTrtError(f"{file.name} cannot be read: {error.strerror or error}") from error
        return [piece(kind=SEVERAL, first=0, count=1, damage=f"{file.name} cannot be read: {error}")]
    return [piece(kind=SEVERAL, first=0, count=count)] if count else []
