"""Run an ONNX file in Triton's Python backend; it needs NumPy and onnxruntime beside the server, and nothing else.

``lenet-trt deploy triton --backend python`` copies this file into the model repository. The requests that Triton's
dynamic batching put together are computed as one batch.
"""

import json
import os

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read by the import: else each session is told to Microsoft
import onnxruntime
import triton_python_backend_utils as pb_utils

_FATAL = 4  # the least that ONNX Runtime says on stderr: its errors come as exceptions too


class TritonPythonModel:
    """Hold the session of one instance."""

    def initialize(self, args):
        """Load model.onnx, which lies beside this file."""
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        self._batched = config["max_batch_size"] > 0
        self._inputs, self._outputs = (
            {each["name"]: pb_utils.triton_string_to_numpy(each["data_type"]) for each in config[io]}
            for io in ("input", "output")
        )
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL
        options.intra_op_num_threads = int(parameters.get("threads", "0"))
        optimize = parameters.get("optimize", "yes")
        if optimize != "yes":
            levels = onnxruntime.GraphOptimizationLevel
            options.graph_optimization_level = levels.ORT_DISABLE_ALL if optimize == "no" else levels.ORT_ENABLE_BASIC
            options.add_session_config_entry("session.disable_quant_qdq", "1")
        providers = ["CPUExecutionProvider"]
        if args["model_instance_kind"] == "GPU":
            # Without TF32 its fp32 is fp32.
            cuda = {"device_id": int(args["model_instance_device_id"]), "use_tf32": 0}
            providers.insert(0, ("CUDAExecutionProvider", cuda))
        path = os.path.join(args["model_repository"], args["model_version"], "model.onnx")
        self._session = onnxruntime.InferenceSession(path, options, providers=providers)
        self._wide = {each.name for each in self._session.get_inputs() if each.type == "tensor(float)"}

    def execute(self, requests):
        """Answer requests; one that fails says why, and the others are answered."""
        given = [self._arrays(request) for request in requests]
        if self._batched and len(requests) > 1:
            try:
                joined = {name: np.concatenate([each[name] for each in given]) for name in self._inputs}
                ends = np.cumsum([len(next(iter(each.values()))) for each in given])[:-1]
                parts = [np.split(result, ends) for result in self._run(joined)]
                return [self._response(found) for found in zip(*parts, strict=True)]
            except Exception as error:  # one of them is bad, or open axes differ: each alone
                del error
        return [self._alone(each) for each in given]

    def _alone(self, given):
        try:
            return self._response(self._run(given))
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"ONNX Runtime: {error}"))

    def _arrays(self, request):
        return {name: _array(request, name, kind) for name, kind in self._inputs.items()}

    def _run(self, given):
        wide = {name: array.astype(np.float32) if name in self._wide else array for name, array in given.items()}
        return self._session.run(list(self._outputs), wide)

    def _response(self, found):
        named = zip(self._outputs.items(), found, strict=True)
        tensors = [_tensor(name, np.ascontiguousarray(result, dtype=kind)) for (name, kind), result in named]
        return pb_utils.InferenceResponse(output_tensors=tensors)


# Servers up to 2.51 (the newest that was tried) misread arrays of NumPy 2: strides and sizes are 0, so inputs repeat
# one number and answers are empty. DLPack tells the sizes by itself; it has no bool there.


def _array(request, name, kind):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return tensor.as_numpy() if kind == np.bool_ else np.from_dlpack(tensor)


def _tensor(name, array):
    return pb_utils.Tensor(name, array) if array.dtype == np.bool_ else pb_utils.Tensor.from_dlpack(name, array)
