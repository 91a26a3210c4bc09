"""Measure `lenet-trt run --ray` with one worker, with two, and so on: images a second from files, and what limits.

    python scripts/ray_scaling.py lenet5.onnx --images 20000000 --folder /dev/shm/images   # from the host's memory
    python scripts/ray_scaling.py lenet5.onnx --images 20000000 --folder /data/images      # from files on a disk
    python scripts/ray_scaling.py resnet18.onnx --images 200000 --folder /data/colour      # limited by the GPU

It writes .npy files of images as the network takes them (MNIST's digits, repeated to that size), classifies them with
each number of GPUs (--workers: of workers on the CPU), and reads them once more without a network: the rate of
reading. What two workers gain over one is the answer only where reading is not the limit. A rate counts from the moment
at which every worker has finished its first shard until the last shard is done, so without the start of the workers.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from lenet_trt.export.mnist import test_set
from lenet_trt.images.form import Form, form_of
from lenet_trt.run.on_ray import classify_files
from lenet_trt.run.on_ray.cluster import connected_ray
from lenet_trt.run.on_ray.model import read_model
from lenet_trt.run.on_ray.pieces import default_shard, find_pieces, shards_of
from lenet_trt.run.on_ray.place import place
from lenet_trt.run.on_ray.read import Reader

_FILE_BYTES = 784_000_000


def write(folder: Path, images: int, form: Form) -> None:
    """Write that many images; what is there already stays. Files of equal size are one file with several names."""
    folder.mkdir(parents=True, exist_ok=True)
    file_images = max(_FILE_BYTES // math.prod(form.shape), 1)
    digits = test_set()[0]
    for number, start in enumerate(range(0, images, file_images)):
        path, first, count = folder / f"{number:05d}.npy", folder / "00000.npy", min(file_images, images - start)
        if path.exists():
            continue
        if number and count == file_images:
            path.hardlink_to(first)
        else:
            drawn = np.stack([np.resize(digit, form.shape) for digit in digits[:count]])
            np.save(path, np.resize(drawn, (count, *form.shape)))


def reading(form: Form, folder: Path, address: str | None) -> float:
    """Images a second that all cores read, with nothing behind."""
    where = place(str(folder))
    shards = list(shards_of(find_pieces([where], form), default_shard(form)))
    with connected_ray(address) as ray:
        task = ray.remote(lambda pieces: len(Reader((where,), form)(pieces).names))
        ray.get(task.remote(shards[0]))
        begun = time.perf_counter()
        count = sum(ray.get([task.remote(pieces) for pieces in shards]))
        return float(count / (time.perf_counter() - begun))


def main() -> None:
    """Print one line for each number of workers, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--images", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, required=True, help="where the images are written, and stay")
    parser.add_argument("--gpus", type=int, nargs="+", metavar="N", help="numbers of GPUs, such as 1 2")
    parser.add_argument("--each", type=int, default=1, metavar="N", help="workers on each GPU")
    parser.add_argument("--workers", type=int, nargs="+", metavar="N", help="numbers of workers on the CPU instead")
    parser.add_argument("--address", help="the Ray cluster (default: one on this machine)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    form = form_of(read_model(given.model, "auto", None).inputs)
    write(given.folder, given.images, form)
    option, counts = ("workers", given.workers) if given.workers else ("gpus", given.gpus or [1, 2])
    found = {"reading": reading(form, given.folder, given.address)}
    for count in counts:
        scratch = Path(tempfile.mkdtemp(prefix="ray-scaling-"))
        runtime = "ort-cpu" if given.workers else "auto"
        options = {option: count, "address": given.address, "runtime": runtime}
        if not given.workers:
            options["workers"] = count * given.each
        done = classify_files(given.model, [str(given.folder)], scratch / "out", **options)
        shutil.rmtree(scratch)
        if done.images_per_s is None:
            parser.error(
                f"--images {given.images}: too few to tell a rate, they are {done.of_shards} shards for {done.workers} "
                "workers; wanted for each worker at least 20 shards after every worker has finished its first: "
                "take more images"
            )
        found[f"{option}={count}"] = done.images_per_s
    if given.json:
        print(json.dumps(found, indent=2))
        return
    first = found[f"{option}={counts[0]}"]
    for name, rate in found.items():
        limit = "" if name == "reading" or rate < 0.9 * found["reading"] else "  reading is the limit"
        times = "" if name == "reading" else f"  {rate / first:5.2f}x"
        print(f"{name:<10} {rate:>14,.0f} images/s{times}{limit}")


if __name__ == "__main__":
    main()
