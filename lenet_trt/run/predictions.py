"""What a network said of images: classes, probabilities, how many are right, which are taken for which."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.run.images import UNKNOWN

_SUM_TOLERANCE = 1e-3
# A table for people shows so many images, and a confusion matrix of at most so many classes.
SHOWN_IMAGES = 20
SHOWN_CLASSES = 20


def probabilities(output: NDArray[Any], images: int) -> NDArray[np.float64]:
    """Class probabilities from a network's output; logits go through softmax, probabilities stay as they are.

    Shapes: output [n, classes] -> [n, classes].

    Raises:
        LenetTrtError: the output has another shape, so the network is no classifier.
    """
    if output.ndim != 2 or len(output) != images or output.shape[1] < 1:
        raise LenetTrtError(
            f"the network's output has shape {list(output.shape)} for {images} images; wanted [{images}, classes]: "
            "it is no classifier. In Python, lenet_trt.run.load(path)(x) runs any network"
        )
    values = output.astype(np.float64)
    with np.errstate(all="ignore"):
        if (values >= 0).all() and np.allclose(values.sum(axis=1), 1, rtol=0, atol=_SUM_TOLERANCE):
            return values
        grown = np.exp(values - values.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Prediction:
    """One image: its class is the most probable one; None where the network gave NaN."""

    image: str
    label: int | None
    predicted: int | None
    probabilities: tuple[float, ...]

    @property
    def probability(self) -> float:
        """That of the class."""
        return float("nan") if self.predicted is None else self.probabilities[self.predicted]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON (which has no NaN: null)."""
        found = self.predicted is not None
        return {
            "image": self.image,
            **({} if self.label is None else {"label": self.label}),
            "class": self.predicted,
            "probability": round(self.probability, 6) if found else None,
            "probabilities": [round(value, 6) if found else None for value in self.probabilities],
        }


def predictions(names: Sequence[str], labels: NDArray[np.int64], shares: NDArray[np.float64]) -> list[Prediction]:
    """One for each image of a batch."""
    broken: list[bool] = np.isnan(shares).any(axis=1).tolist()  # type: ignore[assignment]
    return [
        Prediction(name, None if label == UNKNOWN else int(label), None if bad else int(best), tuple(row.tolist()))
        for name, label, best, row, bad in zip(names, labels, shares.argmax(axis=1), shares, broken, strict=True)
    ]


@dataclass
class Score:
    """Right answers, counted while images pass: ``confusion[label][class]``; NaN counts as wrong, in no column."""

    images: int = 0
    labelled: int = 0
    correct: int = 0
    confusion: list[list[int]] = field(default_factory=list)

    def add(self, labels: NDArray[np.int64], shares: NDArray[np.float64]) -> None:
        """Count a batch.

        Raises:
            LenetTrtError: a label is no class of the network.
        """
        classes = shares.shape[1]
        self.images += len(labels)
        known = labels != UNKNOWN
        if not known.any():
            return
        if labels.max() >= classes:
            raise LenetTrtError(f"there is a label {labels.max()}; the network has the classes 0 to {classes - 1}")
        if not self.confusion:
            self.confusion = [[0] * classes for _ in range(classes)]
        sound = known & ~np.isnan(shares).any(axis=1)
        best = shares.argmax(axis=1)
        self.labelled += int(known.sum())
        self.correct += int((best == labels)[sound].sum())
        pairs, counts = np.unique(np.stack([labels[sound], best[sound]]), axis=1, return_counts=True)
        for label, predicted, count in zip(*pairs, counts, strict=True):
            self.confusion[label][predicted] += int(count)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        if not self.labelled:
            return {"count": self.images}
        return {
            "count": self.images,
            "labelled": self.labelled,
            "correct": self.correct,
            "accuracy": self.correct / self.labelled,
            "confusion": self.confusion,
        }

    def text(self) -> str:
        """Accuracy and confusion matrix for people; empty without labels."""
        if not self.labelled:
            return ""
        share = 100 * self.correct / self.labelled
        lines = [f"accuracy {share:.2f}% ({self.correct:,} of {self.labelled:,} right)"]
        if len(self.confusion) <= SHOWN_CLASSES:
            width = max(len(f"{count}") for row in self.confusion for count in row) + 1
            width = max(width, 3)
            lines += ["", "label \\ class " + "".join(f"{index:>{width}}" for index in range(len(self.confusion)))]
            lines += [
                f"{label:>13} " + "".join(f"{count or '.':>{width}}" for count in row)
                for label, row in enumerate(self.confusion)
            ]
        return "\n".join(lines)


class Table:
    """Lines for people: the first images, and how many more there are."""

    def __init__(self, summary_alone: bool) -> None:
        self._left = 0 if summary_alone else SHOWN_IMAGES
        self._more = 0
        self._summary_alone = summary_alone

    def begin(self, facts: dict[str, str]) -> str:
        """What was loaded, and the column heads."""
        width = max(map(len, facts))
        lines = [f"{name:<{width}}  {value}" for name, value in facts.items()]
        return "\n".join([*lines, *([] if self._summary_alone else ["", "class  probability  next best     image"])])

    def rows(self, found: Sequence[Prediction]) -> str:
        """The images of a batch that are still shown."""
        shown, rest = found[: self._left], found[self._left :]
        self._left -= len(shown)
        self._more += len(rest)
        return "\n".join(map(self._row, shown))

    @staticmethod
    def _row(entry: Prediction) -> str:
        if entry.predicted is None:
            return f"{'none':>5}  {'NaN':>11}  {'':<12}  {entry.image}"
        order = sorted(range(len(entry.probabilities)), key=lambda index: -entry.probabilities[index])
        second = f"{order[1]} ({entry.probabilities[order[1]]:.4f})" if len(order) > 1 else ""
        wrong = "" if entry.label in (None, entry.predicted) else f"  (label {entry.label})"
        return f"{entry.predicted:>5}  {entry.probability:>11.4f}  {second:<12}  {entry.image}{wrong}"

    def end(self, score: Score) -> str:
        """How many were not shown, and how right it was."""
        more = self._more if not self._summary_alone else 0
        rest = f"... and {more:,} more (--csv and --json list them all)" if more else ""
        return "\n\n".join(filter(None, (rest, score.text())))


class Csv:
    """A line for each image."""

    def begin(self, facts: dict[str, str]) -> str:
        """Nothing: the columns are known with the first batch."""
        self._started = False
        return ""

    def rows(self, found: Sequence[Prediction]) -> str:
        """The images of a batch."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._started and found:
            self._started = True
            heads = [f"p{index}" for index in range(len(found[0].probabilities))]
            writer.writerow(["image", "label", "class", "probability", *heads])
        for entry in found:
            label = "" if entry.label is None else entry.label
            best = "" if entry.predicted is None else entry.predicted
            shares = [f"{value:.6f}" for value in (entry.probability, *entry.probabilities)]
            writer.writerow([entry.image, label, best, *shares])
        return text.getvalue().removesuffix("\n")

    def end(self, score: Score) -> str:
        """Nothing: a sum is no row."""
        return ""


class Json:
    """One object, written while images pass: what was loaded, the images, and how right it was."""

    def begin(self, facts: dict[str, str]) -> str:
        """Everything before the images."""
        self._held = ""
        return json.dumps(facts, indent=2).removesuffix("\n}") + ',\n  "images": ['

    def rows(self, found: Sequence[Prediction]) -> str:
        """The images of a batch."""
        lines = [f"    {json.dumps(entry.as_dict())}" for entry in found]
        ready = ",\n".join(filter(None, (self._held, *lines[:-1])))
        self._held = lines[-1] if lines else self._held  # whether a comma follows is not known yet
        return f"{ready}," if ready else ""

    def end(self, score: Score) -> str:
        """Everything after them."""
        return f"{self._held}\n  ],\n" + json.dumps(score.as_dict(), indent=2).removeprefix("{\n")
