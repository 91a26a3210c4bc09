"""Send images to a model in Triton from many clients at once, check each answer, and print how long answers took.

    python scripts/triton_load.py lenet5.onnx --name lenet5 --url localhost:8001 --clients 8 --seconds 10

It needs tritonclient: pip install 'tritonclient[grpc]'. Each request has other images of MNIST and another batch, and
each answer is compared with ONNX Runtime's for just these images. A request that the server does not answer is sent
again until --patience seconds have passed. Ctrl-C ends the sending earlier than --seconds, and prints the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.export.mnist import network_input, test_set
from lenet_trt.run import load

_TOLERANCE = 1e-4
_PAUSE_SECONDS = 0.05


@dataclass
class Found:
    """Count what came back: ``wrong`` answers, requests ``sent_again``, and requests ``lost``."""

    requests: int = 0
    answered: int = 0
    wrong: int = 0
    sent_again: int = 0
    lost: int = 0
    times_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Shared:
    """What all clients look at: a lock of what was found, and whether to stop."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)


def _client(given: argparse.Namespace, number: int, expected: Any, images: Any, found: Found, shared: Shared) -> None:
    from tritonclient import grpc
    from tritonclient.utils import InferenceServerException

    client = grpc.InferenceServerClient(given.url)
    random = np.random.default_rng(number)
    end = time.perf_counter() + given.seconds
    while time.perf_counter() < end and not shared.stop.is_set():
        chosen = random.integers(0, len(images), random.integers(1, given.batch + 1))
        put = grpc.InferInput(given.input, [len(chosen), *images.shape[1:]], "FP32")
        put.set_data_from_numpy(images[chosen])
        again, result, begun = 0, None, time.perf_counter()
        while result is None and time.perf_counter() - begun < given.patience:
            try:
                sent = time.perf_counter()
                result = client.infer(given.name, [put], client_timeout=given.patience)
            except InferenceServerException as error:
                again += 1
                if again == 1:
                    print(error, file=sys.stderr)
                time.sleep(_PAUSE_SECONDS)
                if "UNAVAILABLE" in str(error.status()):
                    client = grpc.InferenceServerClient(given.url)  # the old one waits ever longer
        taken = (time.perf_counter() - sent) * 1e3
        right = result is not None and np.allclose(result.as_numpy(given.output), expected[chosen], atol=_TOLERANCE)
        with shared.lock:
            found.requests += 1
            found.sent_again += again
            found.answered += result is not None
            found.lost += result is None
            found.wrong += result is not None and not right
            if result is not None:
                found.times_ms.append(taken)


def main() -> int:
    """Run the clients; the exit status is 1 where an answer is wrong or missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="the ONNX of the network that the server has")
    parser.add_argument("--name", default="lenet5", help="the model's name in Triton")
    parser.add_argument("--url", default="localhost:8001", help="where the server answers gRPC")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10, help="how long requests are sent")
    parser.add_argument("--batch", type=int, default=8, help="the most images of a request")
    parser.add_argument("--patience", type=float, default=60, help="seconds after which a request is lost")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    network = load(given.model, "ort-cpu", threads=1)
    given.input, given.output = network.inputs[0].name, network.outputs[0].name
    images = network_input(test_set()[0][:2000])
    found, shared = Found(), Shared()
    arguments = (network(images), images, found, shared)
    clients = [threading.Thread(target=_client, args=(given, number, *arguments)) for number in range(given.clients)]
    begun = time.perf_counter()
    try:
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    except KeyboardInterrupt:
        shared.stop.set()
        for client in clients:
            if client.is_alive():  # the others had not begun yet
                client.join()
    seconds = time.perf_counter() - begun
    times = sorted(found.times_ms)
    summary = {key: value for key, value in asdict(found).items() if key != "times_ms"}
    summary |= {"seconds": seconds, "median_ms": statistics.median(times) if times else None}
    summary["p99_ms"] = times[min(len(times) - 1, int(len(times) * 0.99))] if times else None
    print(json.dumps(summary) if given.json else "\n".join(f"{key:<11} {value}" for key, value in summary.items()))
    return int(found.wrong > 0 or found.lost > 0 or not found.answered)


if __name__ == "__main__":
    raise SystemExit(main())
