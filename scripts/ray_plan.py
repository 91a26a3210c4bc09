"""Compute how long many images take on a Ray cluster, and which part limits it, from rates that you measured.

docs/ray.md says how each rate is measured.
"""

from __future__ import annotations

import argparse
import math


def parts(given: argparse.Namespace) -> dict[str, float]:
    """Return the images a second that each part of the work can do for itself."""
    return {
        "reading": given.read_mb_s * 1e6 / given.image_bytes,
        "decoding": given.cores * given.core_rate,
        "GPUs": given.gpus * given.gpu_rate,
    }


def main() -> None:
    """Print the time of each part, what limits, and the size of the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=_positive, default=1e9, help="how many images (default: 1e9)")
    parser.add_argument("--gpus", type=_positive, required=True)
    parser.add_argument("--cores", type=_positive, required=True, help="processor cores that read and decode")
    parser.add_argument("--gpu-rate", type=_positive, required=True, help="images a second of one GPU, with copies")
    parser.add_argument("--core-rate", type=_positive, required=True, help="images a second that a core decodes")
    parser.add_argument("--read-mb-s", type=_positive, required=True, help="MB a second of the storage, in all")
    parser.add_argument("--image-bytes", type=_positive, required=True, help="bytes of an image as it is stored")
    parser.add_argument("--answer-bytes", type=_positive, required=True, help="bytes of an answer in Parquet")
    given = parser.parse_args()
    rates = parts(given)
    limit = min(rates, key=lambda name: rates[name])
    for name, rate in rates.items():
        note = "  <- the limit" if name == limit else ""
        print(f"{name:<9} {rate:>16,.0f} images/s  {given.images / rate / 3600:>10,.2f} hours{note}")
    print(f"{'answers':<9} {given.images * given.answer_bytes / 1e9:>16,.1f} GB")


def _positive(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


if __name__ == "__main__":
    main()
