"""Colour images into a network of three channels: files of every form, normalization, other sizes, many classes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.images.batches import batches
from lenet_trt.images.form import NORMALIZATIONS, Form, Scaling, form_of
from lenet_trt.onnx_model.ports import Port
from networks import CLASSES, SHAPE, WEIGHT, colour_model

COLOURS = np.random.default_rng(1).integers(0, 256, (5, *SHAPE), dtype=np.uint8)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("colours.npy", COLOURS)
    return colour_model(tmp_path / "colours.onnx")


def best_by_hand(mean: tuple[float, ...], deviation: tuple[float, ...], pixels: np.ndarray = COLOURS) -> np.ndarray:
    scaled = pixels.astype(np.float64) / 255
    scaled = (scaled - np.reshape(mean, (1, -1, 1, 1))) / np.reshape(deviation, (1, -1, 1, 1))
    return np.argsort(-(scaled.reshape(len(pixels), -1) @ WEIGHT), axis=1)


def answers(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["run", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", [*NORMALIZATIONS, None])
def test_pixels_are_normalized_as_the_option_says(
    name: str | None, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [] if name is None else ["--normalize", name]
    found = answers(capsys, str(model), "colours.npy", *options)["images"]
    wanted = best_by_hand(*NORMALIZATIONS[name or "none"])
    assert [entry["class"] for entry in found] == wanted[:, 0].tolist()
    assert [[each["class"] for each in entry["top"]] for entry in found] == wanted[:, :5].tolist()


def test_a_mean_and_a_deviation_of_ones_own(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answers(capsys, str(model), "colours.npy", "--mean=0.1,0.9,-1", "--std", "2,0.1,1", "--top", "3")["images"]
    assert [[each["class"] for each in entry["top"]] for entry in found] == best_by_hand((0.1, 0.9, -1), (2, 0.1, 1))[
        :, :3
    ].tolist()


@pytest.mark.parametrize("batch", [2, 5])
def test_a_network_of_fixed_batch_takes_them_too(
    batch: int, model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fixed = colour_model(tmp_path / "fixed.onnx", (batch, *SHAPE))
    found = answers(capsys, str(fixed), "colours.npy", "--normalize", "imagenet")["images"]
    assert [entry["class"] for entry in found] == best_by_hand(*NORMALIZATIONS["imagenet"])[:, 0].tolist()


def test_every_form_of_file_gives_the_same_pixels(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for index, image in enumerate(COLOURS):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / "folder" / f"{index}.png")
    np.save(tmp_path / "first.npy", COLOURS)
    np.save(tmp_path / "last.npy", COLOURS.transpose(0, 2, 3, 1))
    np.savez(tmp_path / "archive.npz", images=COLOURS)
    np.save(tmp_path / "one.npy", COLOURS[0].transpose(1, 2, 0))
    for name in ("folder", "first.npy", "last.npy", "archive.npz"):
        (found,) = batches([str(tmp_path / name)], Form(*SHAPE), 10)
        assert np.array_equal(found.pixels, COLOURS), name
    (found,) = batches([str(tmp_path / "one.npy")], Form(*SHAPE), 10)
    assert np.array_equal(found.pixels, COLOURS[:1])


def test_a_grey_picture_has_three_equal_channels(tmp_path: Path) -> None:
    Image.fromarray(COLOURS[0, 0]).save(tmp_path / "grey.png")
    (found,) = batches([str(tmp_path / "grey.png")], Form(*SHAPE), 10)
    assert np.array_equal(found.pixels, np.repeat(COLOURS[:1, :1], 3, axis=1))


def test_what_has_another_form_is_refused_with_what_was_seen_and_wanted(tmp_path: Path) -> None:
    np.save(tmp_path / "grey.npy", COLOURS[:, 0])
    with pytest.raises(LenetTrtError, match=r"shape \[5, 6, 4\]; wanted RGB images \[n, 3, 6, 4\] or \[n, 6, 4, 3\]"):
        list(batches([str(tmp_path / "grey.npy")], Form(*SHAPE), 10))
    with pytest.raises(UsageError, match="MNIST's images have another form"):
        list(batches([], Form(*SHAPE), 10))


def test_resize_covers_the_size_and_keeps_the_middle(tmp_path: Path) -> None:
    wide = np.zeros((60, 120, 3), np.uint8)
    wide[:, 40:80] = 200  # of 120 columns the middle 40 are what is left, 60 x 40 like 6 x 4
    Image.fromarray(wide).save(tmp_path / "wide.png")
    with pytest.raises(LenetTrtError, match=r"120 pixels wide and 60 high; .* 4 pixels wide and 6 high: .* --resize"):
        list(batches([str(tmp_path / "wide.png")], Form(*SHAPE), 10))
    (found,) = batches([str(tmp_path / "wide.png")], Form(*SHAPE, resize=True), 10)
    assert found.pixels.shape == (1, *SHAPE)
    assert (found.pixels[0, :, 1:-1, 1:-1] == 200).all()


def test_a_network_without_inputs_takes_no_images() -> None:
    with pytest.raises(UsageError, match="the network takes no input; images go into"):
        form_of(())


def test_names_top_and_labels_of_many_classes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = best_by_hand(*NORMALIZATIONS["imagenet"])
    labels = [best[0, 0], best[1, 1], best[2, 2], best[3, 10], best[4, 0]]
    Path("labels.txt").write_text("\n".join(map(str, labels)))
    Path("names.txt").write_text("\n".join(f"kind {index}" for index in range(CLASSES)))
    options = [str(model), "colours.npy", "--normalize", "imagenet", "--labels", "labels.txt", "--names", "names.txt"]
    found = answers(capsys, *options)
    assert (found["accuracy"], found["top5_accuracy"]) == (0.4, 0.8)
    assert found["images"][1]["name"] == f"kind {best[1, 0]}"
    assert answers(capsys, *options, "--top", "2")["top2_accuracy"] == 0.6
    assert main(["run", *options]) == 0
    said = capsys.readouterr().out
    assert f"{best[1, 0]} kind {best[1, 0]}" in said
    assert f"(label {labels[1]} kind {labels[1]})" in said
    assert "top-5 accuracy 80.00% (4 of 5)" in said
    assert main(["run", *options, "--csv", "--top", "2"]) == 0
    first = next(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [int(first["class1"]), int(first["class2"])] == best[0, :2].tolist()
    Path("names.txt").write_text("one\ntwo\n")
    assert main(["run", *options]) == 1
    assert "there are 2 class names, and the network has 30 classes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--normalize", "imagenet", "--mean", "0"], "--normalize names a mean and a deviation"),
        (["--mean", "1,2"], "--mean has 2 values; wanted 1 or 3"),
        (["--size", "7x4"], "--size 7x4: the network takes images float32 [n, 3, 6, 4]"),
        (["--normalize", "imagenet", "--throughput"], "--throughput sends pixels as bytes"),
    ],
)
def test_options_that_contradict_are_refused(
    options: list[str], told: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(model), "colours.npy", *options]) == 2
    assert told in capsys.readouterr().err


def test_networks_of_any_size_want_one() -> None:
    port = Port("images", "float32", ("n", 3, "h", "w"))
    with pytest.raises(UsageError, match="say which with --size"):
        form_of([port])
    assert form_of([port], (8, 9)).shape == (3, 8, 9)
    with pytest.raises(UsageError, match=r"images go into \[n, 1, height, width\] or"):
        form_of([Port("images", "float32", ("n", 4, 8, 8))])


def test_one_value_is_for_all_channels_and_the_type_is_that_of_the_network() -> None:
    scaled = Scaling((0.5,), (0.25,))(COLOURS, Port("images", "float16", ("n", *SHAPE)))
    assert scaled.dtype == np.float16
    assert np.allclose(scaled, (COLOURS / 255 - 0.5) / 0.25, atol=1e-3)


@pytest.mark.parametrize(("channels", "wanted"), [(1, "1, for grey images"), (3, "1 or 3, one per channel")])
def test_values_for_other_channels_are_refused(channels: int, wanted: str) -> None:
    pixels = np.zeros((2, channels, 4, 4), np.uint8)
    with pytest.raises(UsageError, match=f"^--mean has 2 values; wanted {wanted}$"):
        Scaling((0.1, 0.2))(pixels, Port("images", "float32", ("n", channels, 4, 4)))
