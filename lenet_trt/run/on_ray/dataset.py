"""Classify the images of a Ray Dataset, inside a program that uses Ray already."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.images.form import Form, ImageOptions
from lenet_trt.run.on_ray import parquet
from lenet_trt.run.on_ray.cluster import workers_of
from lenet_trt.run.on_ray.model import read_model
from lenet_trt.run.on_ray.packages import ray_data
from lenet_trt.run.on_ray.shard import spread
from lenet_trt.run.on_ray.worker import Answering, Classifier, on_workers

_BATCH = 1024


def classify_dataset(
    dataset: Any,
    model: Path | str,
    *,
    column: str = parquet.DEFAULT_COLUMN,
    runtime: str = "auto",
    library: Path | None = None,
    images: ImageOptions | None = None,
    answering: Answering | None = None,
    gpus: int | None = None,
    workers: int | None = None,
) -> Any:
    """Return the ``dataset`` without its images and with their answers; it is computed when it is used, as Ray does.

    The ``column`` holds pixels (uint8), encoded pictures, or {"bytes": picture}. The answers are the columns
    ``class``, ``probability``, ``probabilities`` (or ``top_classes`` and ``top_probabilities``) and ``error``.

    Raises:
        UsageError: options that contradict each other or the cluster.
        LenetTrtError: the network cannot be read, or Ray is not installed.
    """
    ray = ray_data()
    network = read_model(Path(model), runtime, library)
    given = images or ImageOptions()
    answer = replace(answering or Answering(), scaling=given.scaling)
    shared = workers_of(ray.cluster_resources(), gpus, workers)
    network, answer = on_workers(network, answer, shared)
    return dataset.map_batches(
        ClassifyRows,
        fn_constructor_args=([ray.put(network)], answer, given.form(network.inputs), column),
        batch_size=answer.batch or _BATCH,
        batch_format="pyarrow",
        **shared.arguments(ray),
    )


class ClassifyRows:
    """Put answers in the place of images; an actor of Ray Data, whose threads call it at the same time."""

    def __init__(self, model: list[Any], answering: Answering, form: Form, column: str) -> None:
        import ray

        self._classifier = Classifier(ray.get(model[0]), answering)
        self._form = form
        self._column = column

    def __call__(self, rows: Any) -> Any:
        name = parquet.column_of(rows.schema, "the dataset", self._column)
        values = rows.column(name).combine_chunks()
        found = [parquet.image_of(values, index, f"row {index} of a batch", self._form) for index in range(len(rows))]
        pixels = [image for image, _ in found if image is not None]
        stacked = np.stack(pixels) if pixels else np.zeros((0, *self._form.shape), np.uint8)
        errors = [error for _, error in found]
        table = rows.drop_columns([name])
        for title, values in spread(errors, self._classifier(stacked)).items():
            table = table.append_column(title, values)
        return table
