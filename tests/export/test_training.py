"""Training and the verb `train`, on a small part of the test set laid out as a data set (needs torch)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.cli import main
from lenet_trt.export import load_weights, mnist
from lenet_trt.files import sha256_file

Writer = Callable[[mnist.Split, mnist.Split], Path]


def test_weights_are_written_under_their_usual_ending_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "-o", "weights.onnx"]) == 2
    assert "wanted a file name that ends in .safetensors" in capsys.readouterr().err


class TestWithTorch:
    @pytest.fixture(autouse=True)
    def _needs_torch(self) -> None:
        pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

    def test_verb_trains_and_records(
        self,
        data_folder: Writer,
        test_split: mnist.Split,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        folder = data_folder(test_split[:4800], test_split[4800:5800])
        output = tmp_path / "out" / "small.safetensors"
        assert main(["train", "--data", str(folder), "-o", str(output), "--epochs", "2", "--json"]) == 0
        told = capsys.readouterr()
        record = json.loads(told.out)
        assert record.pop("written") == [str(output), str(output.with_suffix(".json"))]
        assert record == {
            key: value
            for key, value in json.loads(output.with_suffix(".json").read_text()).items()
            if key not in ("weights", "sha256")
        }
        assert record["test_accuracy"] > 0.6
        assert (record["training_images"], record["validation_images"], record["test_images"]) == (4400, 400, 1000)
        assert len(record["epochs"]) == 2
        assert record["epochs"][1]["loss"] < record["epochs"][0]["loss"]
        assert str(folder) not in json.dumps(record)
        assert json.loads(output.with_suffix(".json").read_text())["sha256"] == sha256_file(output)
        assert "epoch 2 of 2: loss" in told.err
        load_weights(output)

    def test_seed_decides(self, test_split: mnist.Split) -> None:
        from lenet_trt.export.train import Recipe, train

        def trained(seed: int) -> np.ndarray:
            return train(test_split[:300], Recipe(epochs=1, seed=seed), progress=False).weights()["fc1.weight"]

        np.testing.assert_array_equal(trained(1), trained(1))
        assert not np.array_equal(trained(1), trained(2))

    @pytest.mark.parametrize("images", [1, 2, 129])
    def test_tiny_data_sets_train(self, test_split: mnist.Split, images: int) -> None:
        from lenet_trt.export.train import Recipe, train

        done = train(test_split[:images], Recipe(epochs=1), progress=False)
        assert done.training_images + done.validation_images == images
        assert all(np.isfinite(value).all() for value in done.weights().values())

    def test_distortion_is_small_and_each_image_its_own(self, test_split: mnist.Split) -> None:
        import torch

        from lenet_trt.export.train import Recipe, distorted

        images = torch.from_numpy(mnist.network_input(test_split.images[:1])).repeat(64, 1, 1, 1)
        random = torch.Generator().manual_seed(0)
        still = Recipe(rotation_degrees=0, scale_share=0, shift_pixels=0)
        assert torch.allclose(distorted(images, still, random), images, atol=1e-5)
        moved = distorted(images, Recipe(), random)
        assert not torch.equal(moved[0], moved[1])
        rows = torch.arange(28, dtype=torch.float32)
        centre = (moved.sum(dim=3)[:, 0] * rows).sum(dim=1) / moved.sum(dim=(1, 2, 3))
        before = (images.sum(dim=3)[:, 0] * rows).sum(dim=1) / images.sum(dim=(1, 2, 3))
        assert (centre - before).abs().max() < 4

    def test_wrong_data_fails_before_training(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        output = tmp_path / "w.safetensors"
        assert main(["train", "--data", str(tmp_path), "-o", str(output)]) == 1
        assert "has neither train-images-idx3-ubyte" in capsys.readouterr().err
        assert not output.exists()

    def test_no_network_says_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("LENET_TRT_CACHE", str(tmp_path))
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # the discard port: nobody answers
        assert main(["train", "-o", str(tmp_path / "w.safetensors")]) == 1
        told = capsys.readouterr().err
        assert "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz: " in told
        assert "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz: " in told
        assert "--data DIR" in told
