"""Train LeNet-5 with a fixed seed on an IDX data set (imports torch)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from tqdm import tqdm

from lenet_trt.export.accuracy import accuracy
from lenet_trt.export.mnist import Split, network_input
from lenet_trt.export.model import LeNet5

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recipe:
    """Describe how to train: everything on which the result depends, except the data and the versions.

    The distortions are drawn anew each time an image is used. Units: degrees, a share of the size, pixels.
    """

    epochs: int = 20
    seed: int = 0
    batch: int = 128
    peak_learning_rate: float = 4e-3
    weight_decay: float = 1e-4
    validation_share: float = 1 / 12
    rotation_degrees: float = 10.0
    scale_share: float = 0.1
    shift_pixels: float = 2.0
    threads: int = 2


@dataclass(frozen=True)
class Epoch:
    """Hold the results of one pass over the training images."""

    loss: float
    validation_accuracy: float | None
    seconds: float


@dataclass(frozen=True)
class Trained:
    """Hold the trained network and the results of its epochs."""

    network: LeNet5
    recipe: Recipe
    epochs: list[Epoch]
    training_images: int
    validation_images: int
    seconds: float

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the parameters as numpy arrays, by torch name."""
        return {name: value.numpy() for name, value in self.network.state_dict().items()}

    def record(self) -> dict[str, object]:
        """Return what belongs in a record of how these weights were made."""
        return {
            "recipe": asdict(self.recipe),
            "training_images": self.training_images,
            "validation_images": self.validation_images,
            "seconds": round(self.seconds, 1),
            "epochs": [asdict(epoch) for epoch in self.epochs],
        }


def train(data: Split, recipe: Recipe | None = None, *, progress: bool = True) -> Trained:
    """Train LeNet-5 on `data`, without its last images, which are only for validation.

    The weights are those after the last epoch: neither the validation images nor the test set choose anything. The
    same recipe, data, torch version and CPU type give the same weights.
    """
    recipe = recipe or Recipe()
    held_out = int(len(data) * recipe.validation_share)
    kept = len(data) - held_out
    with _reproducible(recipe):
        return _train(data[:kept], data[kept:], recipe, progress)


def _train(data: Split, validation: Split, recipe: Recipe, progress: bool) -> Trained:
    random = torch.Generator().manual_seed(recipe.seed)
    images = torch.from_numpy(network_input(data.images))
    labels = torch.from_numpy(data.labels.astype(np.int64))
    network = LeNet5()
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.peak_learning_rate, weight_decay=recipe.weight_decay)
    steps = math.ceil(len(data) / recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=recipe.peak_learning_rate, epochs=recipe.epochs, steps_per_epoch=steps
    )
    epochs: list[Epoch] = []
    begin = time.perf_counter()
    with tqdm(total=recipe.epochs * steps, unit="step", disable=not progress) as bar:
        for number in range(1, recipe.epochs + 1):
            epoch_begin = time.perf_counter()
            bar.set_description(f"epoch {number}/{recipe.epochs}")
            network.train()
            total_loss = 0.0
            for chosen in torch.split(torch.randperm(len(data), generator=random), recipe.batch):
                shown = distorted(images[chosen], recipe, random)
                loss = functional.cross_entropy(network(shown), labels[chosen])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                total_loss += loss.item() * len(chosen)
                bar.update()
            epoch = Epoch(
                loss=total_loss / len(data),
                validation_accuracy=_accuracy(network, validation) if len(validation) else None,
                seconds=round(time.perf_counter() - epoch_begin, 2),
            )
            epochs.append(epoch)
            log.info("epoch %d of %d: %s", number, recipe.epochs, _told(epoch))
    return Trained(
        network=network.eval(),
        recipe=recipe,
        epochs=epochs,
        training_images=len(data),
        validation_images=len(validation),
        seconds=time.perf_counter() - begin,
    )


def distorted(images: torch.Tensor, recipe: Recipe, random: torch.Generator) -> torch.Tensor:
    """Rotate, scale and shift each image a little, by its own random amounts.

    Shapes: images [n, 1, 28, 28] float32 -> the same.
    """
    amounts = torch.rand(len(images), 4, generator=random) * 2 - 1
    angle = amounts[:, 0] * math.radians(recipe.rotation_degrees)
    scale = 1 + amounts[:, 1] * recipe.scale_share
    # affine_grid measures the image from -1 to 1.
    shift = amounts[:, 2:] * (2 * recipe.shift_pixels / images.shape[-1])
    cosine, sine = torch.cos(angle) * scale, torch.sin(angle) * scale
    rows = (
        torch.stack((cosine, -sine, shift[:, 0]), dim=1),
        torch.stack((sine, cosine, shift[:, 1]), dim=1),
    )
    grid = functional.affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def torch_accuracy(network: LeNet5, data: Split) -> float:
    """Return the share of the images, 0 to 1, that the torch network classifies right."""

    def run(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.inference_mode():
            return network(torch.from_numpy(pixels)).numpy()

    return accuracy(run, data.images, data.labels)


def _accuracy(network: LeNet5, data: Split) -> float:
    network.eval()
    return torch_accuracy(network, data)


@contextmanager
def _reproducible(recipe: Recipe) -> Iterator[None]:
    """Fix the other settings on which the result depends, and restore them afterwards."""
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        torch.set_num_threads(recipe.threads)
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(deterministic)
            torch.set_num_threads(threads)


def _told(epoch: Epoch) -> str:
    text = f"loss {epoch.loss:.4f}"
    if epoch.validation_accuracy is not None:
        text += f", validation accuracy {epoch.validation_accuracy:.2%}"
    return f"{text}, {epoch.seconds:.1f} s"
