"""A plugin engine by ONNX Runtime's TensorRT provider, which finds the plugin in our library.

Needs onnxruntime-gpu with that provider, the libraries of its TensorRT, and the plugin library for it:
./liblenet_trt_plugins.so, or LENET_TRT_LIBRARY (docs/cpp.md, "ONNX Runtime's TensorRT provider").
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from lenet_trt.cuda.gpus import first_gpu
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.examples import relative_error
from lenet_trt.runtimes.ort import runner
from lenet_trt.tensorrt.find_library import DEFAULT_LIBRARY
from lenet_trt.tensorrt.library.embed import embedded

PROVIDER = "TensorrtExecutionProvider"
TOLERANCE = 1e-5


@pytest.mark.skipif(PROVIDER not in onnxruntime.get_available_providers(), reason=f"ONNX Runtime has no {PROVIDER}")
@pytest.mark.parametrize("plugins", ["lenet5", "conv5x5_bias,maxpool2,dense_bias_relu"])
def test_the_provider_runs_every_node_with_the_plugins_of_the_library(plugins: str, tmp_path: Path) -> None:
    library = Path(os.environ.get("LENET_TRT_LIBRARY", DEFAULT_LIBRARY))
    if not library.is_file():
        pytest.skip(f"{library} is not there: make it with lenet-trt library, or name one in LENET_TRT_LIBRARY")
    gpu = first_gpu()
    assert gpu is not None
    plain = onnx.load(SHIPPED)
    onnx.save(embedded(fuse(plain, plugins).model, [f"sm_{gpu.sm}"]), model := str(tmp_path / "lenet5.trt.onnx"))
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    batches = {"min": 1, "opt": 32, "max": 1000}
    sizes = {f"trt_profile_{name}_shapes": f"images:{batch}x1x28x28" for name, batch in batches.items()}
    provider = (PROVIDER, {"trt_extra_plugin_lib_paths": str(library.resolve()), **sizes})
    session = onnxruntime.InferenceSession(model, options, providers=[provider])
    for batch in batches.values():
        images = np.random.default_rng(batch).random((batch, 1, 28, 28), np.float32)
        (wanted,) = runner(plain)({"images": images})
        (found,) = session.run(None, {"images": images})
        assert relative_error(found.astype(np.float64), wanted.astype(np.float64)) < TOLERANCE
    ran = [each for each in json.loads(Path(session.end_profiling()).read_text()) if "provider" in each.get("args", {})]
    assert {each["args"]["provider"] for each in ran} == {PROVIDER}
