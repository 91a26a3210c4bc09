"""A user's own labelled images guard the accuracy of a build, for networks of any images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.build.labelled import LabelledImages, judge
from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.images.form import NORMALIZATIONS, ImageOptions, Scaling
from lenet_trt.onnx_model.read import load_model
from lenet_trt.tensorrt.flavors import installed
from networks import CLASSES, SHAPE, WEIGHT, colour_model

IMAGES = np.random.default_rng(1).integers(0, 256, (50, *SHAPE), dtype=np.uint8)
MEAN, DEVIATION = NORMALIZATIONS["imagenet"]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A classifier of colour images; colours.npy and kinds.npy, of which it gets four fifths right, normalized."""
    monkeypatch.chdir(tmp_path)
    scaled = (IMAGES / 255 - np.reshape(MEAN, (1, -1, 1, 1))) / np.reshape(DEVIATION, (1, -1, 1, 1))
    labels = (scaled.reshape(len(IMAGES), -1) @ WEIGHT).argmax(axis=1)
    labels[::5] = (labels[::5] + 1) % CLASSES
    np.save("colours.npy", IMAGES)
    np.save("kinds.npy", labels)
    return colour_model(tmp_path / "colours.onnx")


def broken(path: Path) -> Path:
    """The same network with the weights of a class lost."""
    return colour_model(path, weight=np.where(np.arange(CLASSES) % 3 == 0, -WEIGHT, WEIGHT))


def labelled() -> LabelledImages:
    return LabelledImages(("colours.npy",), "kinds.npy", ImageOptions(Scaling(MEAN, DEVIATION)))


def test_both_models_are_judged_by_the_same_images(model: Path, tmp_path: Path) -> None:
    before = load_model(model)
    same = judge(before, before, labelled())
    assert (same.correct, same.correct_before, same.total, same.difference) == (40, 40, 50, 0)
    worse = judge(load_model(broken(tmp_path / "broken.onnx")), before, labelled())
    assert worse.correct < worse.correct_before == 40
    assert worse.difference > 0.1
    raw = judge(before, before, LabelledImages(("colours.npy",), "kinds.npy"))
    assert raw.correct != 40, "without the mean and the deviation it is another input"


def test_nan_differs_from_numbers_without_end(model: Path, tmp_path: Path) -> None:
    lost = load_model(colour_model(tmp_path / "lost.onnx", weight=WEIGHT * np.float32(np.nan)))
    found = judge(lost, load_model(model), labelled())
    assert (found.correct, found.difference) == (0, np.inf)


@pytest.mark.usefixtures("model")
def test_what_cannot_be_judged_is_said(model: Path) -> None:
    before = load_model(model)
    with pytest.raises(UsageError, match="name their classes with --labels"):
        judge(before, before, LabelledImages(("colours.npy",)))
    np.save("high.npy", np.full(len(IMAGES), CLASSES))
    with pytest.raises(LenetTrtError, match="there is a label 30; the model has 30 classes"):
        judge(before, before, LabelledImages(("colours.npy",), "high.npy"))
    with pytest.raises(UsageError, match="read twice"):
        LabelledImages(("-",), "kinds.npy").sha256()


@pytest.mark.skipif(not installed()["rtx"], reason="TensorRT-RTX is not installed")
def test_a_build_counts_right_answers_and_refuses_a_drop(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["build", str(model), "--fp16", "-o", "c.engine", "--images", "colours.npy", "--labels", "kinds.npy"]
    words += ["--normalize", "imagenet"]
    assert main(words) == 0
    assert "80.00% of 50 images of colours.npy" in capsys.readouterr().out
    found = json.loads(Path("c.json").read_text())["evaluation"]
    assert (found["correct"], found["correct_before"], found["total"]) == (40, 40, 50)
    assert main(words) == 0
    assert "up to date" in capsys.readouterr().out
    np.save("kinds.npy", np.zeros(len(IMAGES), np.int64))
    assert main(words) == 0
    assert "up to date" not in capsys.readouterr().out, "other labels were never judged"


@pytest.mark.skipif(not installed()["rtx"], reason="TensorRT-RTX is not installed")
def test_an_engine_that_lost_more_than_is_allowed_now_is_not_up_to_date(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["build", str(model), "--bf16", "-o", "c.engine", "--images", "colours.npy", "--labels", "close.npy"]
    assert _close_labels(model) > 0, "bfloat16 changes no answer: the test needs other images"
    assert main([*words, "--max-drop", "100"]) == 0
    assert main([*words, "--max-drop", "0"]) == 1
    assert "more than the 0 allowed" in capsys.readouterr().err
    assert main([*words, "--max-drop", "0", "--force"]) == 1


def _close_labels(model: Path) -> int:
    """Write labels that the model gets all right, of images that bfloat16 gets some of wrong; how many."""
    from lenet_trt.onnx_model.precision import convert

    images = np.random.default_rng(3).integers(0, 256, (2000, *SHAPE), dtype=np.uint8)
    np.save("colours.npy", images)
    np.save("close.npy", (images.reshape(len(images), -1).astype(np.float64) @ WEIGHT).argmax(axis=1))
    before = load_model(model)
    found = judge(convert(before, "bf16"), before, LabelledImages(("colours.npy",), "close.npy"))
    return found.correct_before - found.correct


@pytest.mark.parametrize("options", [["--labels", "kinds.npy"], ["--normalize", "imagenet"], ["--resize"]])
def test_options_of_images_need_images(options: list[str], model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", str(model), *options]) == 2
    assert "--images" in capsys.readouterr().err
