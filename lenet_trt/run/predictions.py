"""Turn outputs into classes and probabilities, and count right answers and confusions."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.images.batches import UNKNOWN
from lenet_trt.schema import json_text

# A table for people shows so many images, and a confusion matrix of at most so many classes.
SHOWN_IMAGES = 20
SHOWN_CLASSES = 20
_TABLE_TOP = 2  # the class, and the next best
# Of more classes than that the most probable ones are listed, so many of each image.
DEFAULT_TOP = 5


@dataclass(frozen=True)
class Classes:
    """Hold how classes are shown: by ``names`` where they have some, ``top`` per image (None: all, if they are few)."""

    names: tuple[str, ...] = ()
    top: int | None = None

    def shown(self, classes: int) -> int | None:
        """Return how many of an image's classes are listed; None for all of them."""
        return DEFAULT_TOP if self.top is None and classes > SHOWN_CLASSES else self.top

    def name(self, index: int) -> str:
        """Return a class's number and name."""
        return f"{index} {self.names[index]}" if self.names else f"{index}"

    def check(self, classes: int) -> None:
        """Refuse names for another network.

        Raises:
            LenetTrtError: there are more names, or fewer.
        """
        if self.names and len(self.names) != classes:
            raise LenetTrtError(f"there are {len(self.names)} class names, and the network has {classes} classes")


@dataclass(frozen=True)
class Prediction:
    """Hold the prediction for an image; its class is the most probable one, or None where the output is NaN."""

    image: str
    label: int | None
    predicted: int | None
    probabilities: tuple[float, ...]

    @property
    def probability(self) -> float:
        """Return the probability of the class."""
        return float("nan") if self.predicted is None else self.probabilities[self.predicted]

    def best(self, count: int) -> list[int]:
        """Return the most probable classes, the best first; none where the network returned NaN."""
        if self.predicted is None:
            return []
        return sorted(range(len(self.probabilities)), key=lambda index: -self.probabilities[index])[:count]

    def as_dict(self, classes: Classes) -> dict[str, Any]:
        """Return plain values for JSON, with null for NaN."""
        found = self.predicted is not None
        values: dict[str, Any] = {
            "image": self.image,
            **({} if self.label is None else {"label": self.label}),
            "class": self.predicted,
            **({"name": classes.names[self.predicted]} if classes.names and self.predicted is not None else {}),
            "probability": round(self.probability, 6) if found else None,
        }
        top = classes.shown(len(self.probabilities))
        if top is None:
            return {**values, "probabilities": [round(value, 6) if found else None for value in self.probabilities]}
        listed = [
            {
                "class": index,
                **({"name": classes.names[index]} if classes.names else {}),
                "probability": round(self.probabilities[index], 6),
            }
            for index in self.best(top)
        ]
        return {**values, "top": listed}


def predictions(names: Sequence[str], labels: NDArray[np.int64], shares: NDArray[np.float64]) -> list[Prediction]:
    """Return a prediction for each image of a batch."""
    broken = np.atleast_1d(np.isnan(shares).any(axis=1))
    return [
        Prediction(name, None if label == UNKNOWN else int(label), None if bad else int(best), tuple(row.tolist()))
        for name, label, best, row, bad in zip(names, labels, shares.argmax(axis=1), shares, broken, strict=True)
    ]


@dataclass
class Score:
    """Count right answers while images pass: ``confusion[label][class]``; NaN counts as wrong, in no column.

    ``among_top`` counts the images of which the label is one of the ``top`` most probable classes.
    """

    top: int = DEFAULT_TOP
    among_top: int = 0
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
        if np.max(labels) >= classes:
            raise LenetTrtError(f"there is a label {np.max(labels)}; the network has the classes 0 to {classes - 1}")
        if not self.confusion:
            self.confusion = [[0] * classes for _ in range(classes)]
        sound = known & ~np.isnan(shares).any(axis=1)
        best = shares.argmax(axis=1)
        self.labelled += int(known.sum())
        self.correct += int((best == labels)[sound].sum())
        of_labels = shares[sound, labels[sound]]
        self.among_top += int(((shares[sound] > of_labels[:, None]).sum(axis=1) < self.top).sum())
        pairs, counts = np.unique(np.stack([labels[sound], best[sound]]), axis=1, return_counts=True)
        for label, predicted, count in zip(*pairs, counts, strict=True):
            self.confusion[label][predicted] += int(count)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        if not self.labelled:
            return {"count": self.images}
        values = {
            "count": self.images,
            "labelled": self.labelled,
            "correct": self.correct,
            "accuracy": self.correct / self.labelled,
        }
        if self._few_classes:
            return {**values, "confusion": self.confusion}
        return {**values, f"top{self.top}_accuracy": self.among_top / self.labelled}

    @property
    def _few_classes(self) -> bool:
        return len(self.confusion) <= SHOWN_CLASSES

    def text(self) -> str:
        """Return accuracy and confusion matrix for people; empty without labels."""
        if not self.labelled:
            return ""
        share = 100 * self.correct / self.labelled
        lines = [f"accuracy {share:.2f}% ({self.correct:,} of {self.labelled:,} right)"]
        if not self._few_classes:
            among = 100 * self.among_top / self.labelled
            lines.append(f"top-{self.top} accuracy {among:.2f}% ({self.among_top:,} of {self.labelled:,})")
        else:
            width = max(len(f"{count}") for row in self.confusion for count in row) + 1
            width = max(width, 3)
            lines += ["", "label \\ class " + "".join(f"{index:>{width}}" for index in range(len(self.confusion)))]
            lines += [
                f"{label:>13} " + "".join(f"{count or '.':>{width}}" for count in row)
                for label, row in enumerate(self.confusion)
            ]
        return "\n".join(lines)


class PredictionTable:
    """Write lines for people: the first images, and the number of further ones."""

    def __init__(self, summary_alone: bool, classes: Classes) -> None:
        self._classes = classes
        self._left = 0 if summary_alone else SHOWN_IMAGES
        self._more = 0
        self._summary_alone = summary_alone

    def begin(self, facts: dict[str, str]) -> str:
        """Return the loaded network and the column headings."""
        width = max(map(len, facts))
        lines = [f"{name:<{width}}  {value}" for name, value in facts.items()]
        return "\n".join([*lines, *([] if self._summary_alone else ["", "class  probability  next best     image"])])

    def rows(self, found: Sequence[Prediction]) -> str:
        """Return lines for the images of a batch that are still shown."""
        shown, rest = found[: self._left], found[self._left :]
        self._left -= len(shown)
        self._more += len(rest)
        return "\n".join(map(self._row, shown))

    def _row(self, entry: Prediction) -> str:
        if entry.predicted is None:
            return f"{'none':>5}  {'NaN':>11}  {'':<12}  {entry.image}"
        name = self._classes.name
        top = self._classes.shown(len(entry.probabilities)) or _TABLE_TOP
        others = ", ".join(f"{name(index)} ({entry.probabilities[index]:.4f})" for index in entry.best(top)[1:])
        wrong = "" if entry.label in (None, entry.predicted) else f"  (label {name(entry.label or 0)})"
        return f"{name(entry.predicted):>5}  {entry.probability:>11.4f}  {others:<12}  {entry.image}{wrong}"

    def end(self, score: Score) -> str:
        """Return the number of images not shown, and the accuracy."""
        more = self._more if not self._summary_alone else 0
        rest = f"... and {more:,} more (--csv and --json list them all)" if more else ""
        return "\n\n".join(filter(None, (rest, score.text())))


class Csv:
    """Write a line of CSV for each image."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes

    def begin(self, facts: dict[str, str]) -> str:
        """Return nothing, since the columns are known with the first batch."""
        self._started = False
        return ""

    def rows(self, found: Sequence[Prediction]) -> str:
        """Return the images of a batch."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._started and found:
            self._started = True
            count = len(found[0].probabilities)
            self._top = self._classes.shown(count)
            heads = [f"p{index}" for index in range(count)]
            if self._top is not None:
                heads = [head for rank in range(1, min(self._top, count) + 1) for head in (f"class{rank}", f"p{rank}")]
            writer.writerow(["image", "label", "class", "probability", *heads])
        for entry in found:
            label = "" if entry.label is None else entry.label
            best = "" if entry.predicted is None else entry.predicted
            listed = [f"{value:.6f}" for value in entry.probabilities]
            if self._top is not None:
                tops = entry.best(self._top)
                listed = [text for index in tops for text in (str(index), f"{entry.probabilities[index]:.6f}")]
            writer.writerow([entry.image, label, best, f"{entry.probability:.6f}", *listed])
        return text.getvalue().removesuffix("\n")

    def end(self, score: Score) -> str:
        """Return nothing, since CSV has no row for a sum."""
        return ""


class Json:
    """Write one JSON object step by step: the loaded network, the images, and the accuracy."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes

    def begin(self, facts: dict[str, str]) -> str:
        """Return the text before the images."""
        self._held = ""
        return json_text(facts).removesuffix("\n}") + ',\n  "images": ['

    def rows(self, found: Sequence[Prediction]) -> str:
        """Return the images of a batch."""
        lines = [f"    {json_text(entry.as_dict(self._classes), indent=None)}" for entry in found]
        ready = ",\n".join(filter(None, (self._held, *lines[:-1])))
        self._held = lines[-1] if lines else self._held  # whether a comma follows is not known yet
        return f"{ready}," if ready else ""

    def end(self, score: Score) -> str:
        """Return the text after the images."""
        return f"{self._held}\n  ],\n" + json_text(score.as_dict()).removeprefix("{\n")
