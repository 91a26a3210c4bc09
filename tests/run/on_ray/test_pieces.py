"""Which images go into which shard, and how each kind of file is read in parts; Ray is not needed for it."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.idx import idx_bytes
from lenet_trt.export.mnist import test_set as mnist
from lenet_trt.images.form import Form
from lenet_trt.images.ranges import count_images, read_range
from lenet_trt.run.on_ray.pieces import (
    PARQUET,
    PICTURE,
    SEVERAL,
    ImagePiece,
    default_shard,
    find_pieces,
    fingerprint,
    shards_of,
)
from ray_data import FORM, png, write_sources

pa = pytest.importorskip(
    "pyarrow", reason="the images of run --ray are read with PyArrow: pip install 'lenet-trt[ray]'"
)
pq = pytest.importorskip("pyarrow.parquet")

from lenet_trt.run.on_ray.place import place  # noqa: E402
from lenet_trt.run.on_ray.read import Reader  # noqa: E402

IMAGES = mnist()[0][:50]


@pytest.mark.parametrize("size", [1, 7, 64, 700])
def test_every_image_is_in_one_shard_and_comes_back_as_it_is(size: int, tmp_path: Path) -> None:
    sources = write_sources(tmp_path / "data")
    where = place(str(sources.folder))
    shards = list(shards_of(find_pieces([where], FORM), size))
    reader = Reader((where,), FORM)
    names: list[str] = []
    for shard in shards:
        read = reader(shard)
        assert len(read.names) == len(read.errors) <= size
        names += read.names
        pixels = iter(read.pixels)
        for name, error in zip(read.names, read.errors, strict=True):
            wanted = sources.pixels[name]
            assert (wanted is None) == (error is not None), error
            if wanted is not None:
                assert np.array_equal(next(pixels)[0], wanted)
            else:
                assert error is not None
                assert "damaged picture" in error
        assert next(pixels, None) is None
    assert sorted(names) == sorted(sources.pixels)


@given(
    counts=st.lists(st.tuples(st.sampled_from([PICTURE, SEVERAL, PARQUET]), st.integers(1, 40)), max_size=12),
    size=st.integers(1, 30),
)
def test_shards_hold_each_image_once_and_cut_only_what_is_larger(counts: list[tuple[str, int]], size: int) -> None:
    pieces = [ImagePiece(0, kind, f"p{index}", f"f{index}", 0, count) for index, (kind, count) in enumerate(counts)]
    shards = list(shards_of(pieces, size))
    seen = [(piece.path, piece.first + index) for shard in shards for piece in shard for index in range(piece.count)]
    assert seen == [(piece.path, index) for piece in pieces for index in range(piece.count)]
    assert all(0 < sum(piece.count for piece in shard) <= size for shard in shards)
    whole = {piece.path: piece.count for shard in shards for piece in shard}
    assert all(whole[piece.path] == piece.count for piece in pieces if piece.count <= size)


def test_other_images_have_another_fingerprint(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    np.save(folder / "a.npy", IMAGES)

    def seen(size: int) -> str:
        return fingerprint(list(shards_of(find_pieces([place(str(folder))], FORM), size)))

    first = seen(10)
    assert seen(10) == first
    assert seen(9) != first
    np.save(folder / "a.npy", IMAGES[::-1])
    os.utime(folder / "a.npy", ns=(0, 1))
    changed = seen(10)
    assert changed != first, "as many images, and other ones"
    (folder / "b.png").write_bytes(png(IMAGES[0]))
    assert seen(10) != changed


def test_a_shard_has_as_many_images_as_its_memory_allows() -> None:
    assert default_shard(FORM) == 65536
    assert default_shard(Form(3, 224, 224)) == (64 << 20) // (3 * 224 * 224)
    assert default_shard(Form(3, 60000, 60000)) == 1


@pytest.mark.parametrize("kind", ["idx", "idx.gz", "npy", "npy with channels", "npz", "fortran"])
def test_a_part_of_a_file_is_what_the_whole_file_has_there(kind: str) -> None:
    data = io.BytesIO()
    if kind.startswith("idx"):
        raw = idx_bytes(IMAGES)
        data.write(gzip.compress(raw) if kind == "idx.gz" else raw)
    elif kind == "npz":
        np.savez(data, images=IMAGES)
    else:
        array = IMAGES[:, None] if "channels" in kind else IMAGES
        np.save(data, np.asfortranarray(array) if kind == "fortran" else array)
    data.seek(0)
    assert count_images(data, "f", FORM) == 50
    for first, count in ((0, 50), (13, 1), (49, 1), (10, 20)):
        data.seek(0)
        assert np.array_equal(read_range(data, "f", FORM, first, count)[:, 0], IMAGES[first : first + count])
    data.seek(0)
    with pytest.raises(LenetTrtError, match="ends before its image 59"):
        read_range(data, "f", FORM, 40, 20)


def test_colour_images_keep_their_axes() -> None:
    colours = np.random.default_rng(0).integers(0, 255, (6, 5, 4, 3), np.uint8)
    for array in (colours, colours.transpose(0, 3, 1, 2).copy()):
        data = io.BytesIO()
        np.save(data, array)
        data.seek(0)
        form = Form(3, 5, 4)
        assert count_images(data, "f", form) == 6
        data.seek(0)
        assert np.array_equal(read_range(data, "f", form, 2, 3), colours.transpose(0, 3, 1, 2)[2:5])
    data = io.BytesIO()
    np.save(data, colours[0])
    data.seek(0)
    assert count_images(data, "f", Form(3, 5, 4)) == 1


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_that_was_cut_or_grew_is_found_by_its_header(change: int) -> None:
    for write in (lambda file: file.write(idx_bytes(IMAGES)), lambda file: np.save(file, IMAGES)):
        data = io.BytesIO()
        write(data)
        raw = data.getvalue()
        raw = raw[:change] if change < 0 else raw + b"x"
        with pytest.raises(LenetTrtError, match="its header promises"):
            count_images(io.BytesIO(raw), "f", FORM)


def test_a_damaged_file_of_a_folder_is_one_row_and_a_named_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    bad = tmp_path / "data" / "bad.npy"
    np.save(bad, IMAGES)
    bad.write_bytes(bad.read_bytes()[:-5])
    (tmp_path / "data" / "good.png").write_bytes(png(IMAGES[0]))
    where = place(str(tmp_path / "data"))
    read = Reader((where,), FORM)(next(iter(shards_of(find_pieces([where], FORM), 10))))
    assert read.names == [str(bad), str(tmp_path / "data" / "good.png")]
    assert read.errors[0] is not None
    assert "cut short" in read.errors[0]
    assert read.errors[1] is None
    with pytest.raises(LenetTrtError, match="cut short"):
        list(find_pieces([place(str(bad))], FORM))


def test_a_file_that_vanishes_between_is_an_error_of_its_images(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, IMAGES)
    where = place(str(path))
    pieces = list(find_pieces([where], FORM))
    path.unlink()
    read = Reader((where,), FORM)(pieces)
    assert len(read.names) == 50
    assert all(error is not None and "cannot be read" in error for error in read.errors)


FORMS = {
    "pictures": lambda: pa.array([png(image) for image in IMAGES]),
    "structs": lambda: pa.array([{"bytes": png(image), "path": None} for image in IMAGES]),
    "flat lists": lambda: pa.array([image.ravel() for image in IMAGES]),
    "nested lists": lambda: pa.array([image.tolist() for image in IMAGES]),
    "tensors": lambda: pa.FixedShapeTensorArray.from_numpy_ndarray(IMAGES),
}


@pytest.mark.parametrize("form", FORMS)
def test_parquet_holds_pictures_or_pixels(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": FORMS[form](), "x": list(range(50))}), path, row_group_size=8)
    where = place(path.as_uri())  # a URI, as of a far file system
    for size in (3, 8, 50):
        shards = list(shards_of(find_pieces([where], FORM), size))
        reads = [Reader((where,), FORM)(shard) for shard in shards]
        assert [error for read in reads for error in read.errors] == [None] * 50
        assert np.array_equal(np.concatenate([read.pixels for read in reads])[:, 0], IMAGES)


def test_a_row_without_an_image_is_an_error_of_that_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"p": pa.array([png(IMAGES[0]), None, b"", png(IMAGES[1][:20])])}), path)
    where = place(str(path))
    (shard,) = shards_of(find_pieces([where], FORM), 10)
    errors = Reader((where,), FORM)(shard).errors
    assert errors[0] is None
    assert [error is None for error in errors] == [True, False, False, False]
    assert "is empty; wanted a picture or pixels" in str(errors[1])
    assert f"{path}[2]" in str(errors[2])
    assert "is 28 pixels wide and 20 high" in str(errors[3])


def test_what_is_no_source_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "two.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    cases = {
        "absent.npy": "does not exist",
        "empty": "holds no images",
        "two.parquet": "has no column image; it has a, b",
        "bad.parquet": "damaged Parquet file",
    }
    for name, message in cases.items():
        with pytest.raises(LenetTrtError, match=message):
            list(find_pieces([place(str(tmp_path / name))], FORM))
    with pytest.raises(LenetTrtError, match="PyArrow does not open it"):
        place("nonsense://bucket/x")
