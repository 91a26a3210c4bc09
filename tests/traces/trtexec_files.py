"""Files as trtexec writes them: by streams, so that nothing in a name is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def profile(layers: Sequence[tuple[str, float]], count: int = 100, medians: bool = True) -> str:
    """What --exportProfile writes; times in milliseconds, the mean is a tenth above the median."""
    lines = ["[", f'  {{ "count" : {count} }}']
    whole = sum(ms for _, ms in layers)
    for name, ms in layers:
        mean = ms * 1.1
        numbers = {"timeMs": mean * count, "averageMs": mean, "medianMs": ms}
        if not medians:  # before TensorRT 8.6
            del numbers["medianMs"]
        numbers["percentage"] = ms / whole * 100 if whole else float("nan")
        written = ", ".join(f'"{key}" : {_number(value)}' for key, value in numbers.items())
        lines.append(f', {{ "name" : "{name}", {written} }}')
    return "\n".join([*lines, "]"]) + "\n"


def times(rows: Sequence[Mapping[str, float]], end_to_end: bool = False) -> str:
    """What --exportTimes writes, of inferences given by where their parts start and how long they take."""
    lines = ["["]
    for index, row in enumerate(rows):
        compute = row["start"] + row["h2d"]
        back = compute + row["compute"]
        numbers = {
            "startEnqMs": row["start"] - 0.2,
            "endEnqMs": row["start"] - 0.2 + row["enqueue"],
            "startH2dMs": row["start"],
            "endH2dMs": compute,
            "startComputeMs": compute,
            "endComputeMs": back,
            "startD2hMs": back,
            "endD2hMs": back + row["d2h"],
            "h2dMs": row["h2d"],
            "computeMs": row["compute"],
            "d2hMs": row["d2h"],
            "latencyMs": row["h2d"] + row["compute"] + row["d2h"],
        }
        if end_to_end:
            numbers["endToEndMs"] = numbers["latencyMs"]
        written = ", ".join(f'"{key}" : {_number(value)}' for key, value in numbers.items())
        lines.append(f"{', ' if index else '  '}{{ {written} }}")
    return "\n".join([*lines, "]"]) + "\n"


def _number(value: float) -> str:
    """A float as a C++ stream prints it: six digits, and words where there is no number."""
    if value != value:
        return "-nan"
    return f"{value:.6g}"


# One engine, with the layers that a small network has, in the words of the versions. Made up, in their form.
CASK_10 = """{"Layers": [{
  "Name": "Reformatting CopyNode for Input Tensor 0 to conv1",
  "LayerType": "Reformat",
  "Inputs": [{"Name": "images", "Location": "Device", "Dimensions": [32,1,28,28], "Format/Datatype": "Row major FP32"}],
  "Outputs": [{"Name": "r0", "Location": "Device", "Dimensions": [32,1,28,28], "Format/Datatype": "Channel last FP16"}],
  "ParameterType": "Reformat", "Origin": "REFORMAT", "TacticValue": "0x0000000000000000",
  "StreamId": 0, "Metadata": ""
},{
  "Name": "conv1 + relu1",
  "LayerType": "CaskConvolution",
  "Inputs": [{"Name": "r0", "Dimensions": [32,1,28,28], "Format/Datatype": "Channel last FP16"}],
  "Outputs": [{"Name": "c1", "Dimensions": [32,6,28,28], "Format/Datatype": "Channel last FP16"}],
  "ParameterType": "Convolution", "Kernel": [5,5],
  "TacticName": "sm50_xmma_conv_example_f16f16_nhwc", "TacticValue": "0x0a0b",
  "StreamId": 0, "Metadata": "[ONNX Layer: conv1]\\u001f[ONNX Layer: relu1]"
},{
  "Name": "__myl_MaxPoolMulAdd_myl2_3",
  "LayerType": "kgen",
  "Inputs": [{"Name": "c1", "Dimensions": [32,6,28,28], "Format/Datatype": "Half"}],
  "Outputs": [{"Name": "logits", "Dimensions": [32,10], "Format/Datatype": "Float"}],
  "TacticName": "__myl_MaxPoolMulAdd_0xdeadbeef", "StreamId": 0,
  "Metadata": "[ONNX Layer: pool1]\\u001e[ONNX Layer: /fc[1]/Gemm]\\u001e[ONNX Layer: pool1]"
}],
"Bindings": ["images", "logits"]
}
"""
PLUGIN_11 = """{"Layers": [
{"Name": "lenet5", "LayerType": "PluginV3", "Inputs": [{"Name": "images", "Location": "Device",
  "Dimensions": [32,1,28,28], "Format": "Linear", "Datatype": "FP32"}], "Outputs": [{"Name": "logits",
  "Dimensions": [32,10], "Format": "Linear", "Datatype": "FP32"}], "TacticValue": "0x0", "StreamId": 0,
  "Metadata": "[ONNX Layer: lenet5]"}],
"I/O Tensors": [{"Name": "images", "IOMode": "INPUT", "DataType": "FP32", "Dimensions": [32,1,28,28]}]
}
"""
NAMES_ONLY = """{"Layers": ["[trainStation1]"
,"conv1 + relu1"
,"{ForeignNode[pool1.../fc1/Gemm]} [profile 0]"
],
"Bindings": ["images"
,"logits"
]}
"""
