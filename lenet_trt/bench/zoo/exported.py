"""Export the networks of the survey to ONNX, and compare ONNX Runtime's results with torch's (imports torch)."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch

from lenet_trt.bench.zoo.networks import BATCH_AXIS, SEED, ZooNetwork
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import write_atomic
from lenet_trt.kernel.examples import relative_error
from lenet_trt.runtimes.ort import runner

# The newest opset that the parser of TensorRT 8.6 is documented for. torch's newer exporter begins at 18, so the
# TorchScript exporter writes the files.
OPSET = 17
# Another batch than the one that the exporter sees shows whether the batch is open.
EXPORTED_BATCH, CHECKED_BATCH = 2, 3
LIMIT = 1e-4
_NOISE = 0.1
_STATISTICS_BATCH = 8


def built(network: ZooNetwork) -> torch.nn.Module:
    """Build the network in torch, for inference, with weights from the fixed seed.

    Some layers begin as constants (a norm's scale, a head of zeros): they get noise, so that each weight counts. The
    statistics of batch norms are those of random inputs: otherwise what depends on the input dies away in deep
    networks, and no comparison of results means anything.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEED)
        made = network.make().eval()
        for tensor in [p for p in made.parameters() if p.numel() > 1 and bool((p == p.flatten()[0]).all())]:
            tensor += (torch.rand_like(tensor) - 0.5) * (2 * _NOISE)
        norms = [each for each in made.modules() if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)]
        for norm in norms:
            norm.momentum = 1.0
            norm.train()
        if norms:
            made(*(torch.from_numpy(array) for array in network.drawn(_STATISTICS_BATCH).values()))
        return made.eval()


def exported(network: ZooNetwork, module: torch.nn.Module) -> onnx.ModelProto:
    """Export the network by the TorchScript exporter, with an open batch."""
    example = tuple(torch.from_numpy(array) for array in network.drawn(EXPORTED_BATCH).values())
    names = [*network.inputs, *network.outputs]
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter says that it is the older one, and that it traces
        torch.onnx.export(
            module,
            example,
            content,
            input_names=list(network.inputs),
            output_names=list(network.outputs),
            dynamic_axes={name: {0: BATCH_AXIS} for name in names},
            opset_version=OPSET,
            dynamo=False,
        )
    model = onnx.load_from_string(content.getvalue())
    model.graph.name = network.name
    onnx.checker.check_model(model, full_check=True)
    return model


def difference(network: ZooNetwork, module: torch.nn.Module, model: onnx.ModelProto) -> float:
    """Return how far ONNX Runtime's results are from torch's, in norm: the largest over the outputs.

    Raises:
        LenetTrtError: they differ by more than rounding.
    """
    inputs = network.drawn(CHECKED_BATCH)
    with torch.no_grad():
        answer = module(*(torch.from_numpy(array) for array in inputs.values()))
    wanted = answer if isinstance(answer, tuple) else (answer,)
    seen = runner(model)(inputs)
    error = max(
        relative_error(s.astype(np.float64), w.numpy().astype(np.float64)) for s, w in zip(seen, wanted, strict=True)
    )
    if not error <= LIMIT:
        raise LenetTrtError(
            f"{network.name}: ONNX Runtime's results differ from torch's by {error:.1e}; wanted at most {LIMIT:g}: "
            "the export is wrong"
        )
    return error


def write(network: ZooNetwork, path: Path) -> float:
    """Export a network into a file, and return how far its results are from torch's.

    Raises:
        LenetTrtError: torchvision is missing, or the results differ by more than rounding.
    """
    module = built(network)
    model = exported(network, module)
    error = difference(network, module, model)
    write_atomic(path, model.SerializeToString())
    return error
