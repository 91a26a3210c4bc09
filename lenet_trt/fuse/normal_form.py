"""Rewrite a working copy of an ONNX graph so that a layer is always written in the same way.

Exporters write one network in many ways. The rules in ``dialects.py`` rewrite a copy of the graph until only one
of them is left, so that a plugin's pattern is written once; the file itself is not touched by this. What the
normal form looks like:

==================  ================================================================================================
constants           initializers; ``Constant`` nodes and foldable ``Transpose/Reshape/Cast/...`` of them are gone
sizes               constants as far as they are known: ``Shape``, ``Gather`` and arithmetic of them are gone
no-ops              ``Identity``, ``Dropout`` at inference, ``Div`` and ``Mul`` by 1, and ``Slice``, ``Pad`` and
                    ``Reshape`` that change nothing are gone
casts               to the type that is there, to float32 and back, and around a softmax are gone; see ``casts.py``
attributes          absent where they have their default value
convolution         ``Conv(x, w, b, kernel_shape=...)``, ``ConvTranspose`` too
dense layer         ``Gemm(x, w, b, transB=1)``: w ``[out, in]``, b ``[out]``; over the last axis of x, if it has more;
                    rows that the file folds before it and unfolds behind it are not folded; a constant factor of each
                    output is in w and b, also where a ``Transpose`` to channels first lies between
flattening          ``Flatten(x)``
max-pooling         ``MaxPool(x, kernel_shape=..., strides=...)``
matrix products     ``MatMul(a, b, alpha=...)``; with ``transA=1``, ``transB=1`` where the last two axes change places
softmax             ``Softmax(x, axis=-1)`` over the last axis; another axis is counted from the first one
layer norm          ``LayerNormalization(x, scale, bias, epsilon=...)`` over the last axis
RMS norm            ``RMSNormalization(x, scale, epsilon=...)`` over the last axis; see ``rms_norms.py``
group norm          ``GroupNormalization(x, scale, bias, num_groups=..., epsilon=...)``; see ``group_norms.py``
top k               ``TopK(x, k)`` over the last axis, without the attribute
mean                of the last axis: -1, in the attribute or the constant ``axes``
scaling             by a constant power of two: ``Mul``, not ``Div``
added number        behind an ``Unsqueeze``, not before; see ``added_numbers.py``
operands            the constant of an ``Add`` or a ``Mul`` is the second one
order               an activation (``Relu``, ``Tanh``) comes before the ``MaxPool`` that it commutes with
missing bias        zeros
norm of channels    ``LayerNormalization`` between two ``Transpose``; see ``channel_norms.py``
channel shuffle     one ``Concat`` of two tensors, whose halves are a ``Split``; see ``shuffles.py``
pixel shuffle       ``DepthToSpace``, from opset 11 on; see ``shuffles.py`` too
pixels as tokens    ``Transpose(x, perm=[0, 2, 3, 1], fold=1)``: [n, k, h, w] becomes [n, h w, k]; see ``tokens.py``
tokens as maps      ``Transpose(x, perm=[0, 3, 1, 2], unfold=1)``, behind a dense layer; a 1x1 convolution of such maps
                    is a dense layer before it; see ``tokens.py`` too
merged patches      ``MergePatches(x)``: [n, h, w, c] becomes [n, h / 2, w / 2, 4 c]; see ``patch_merging.py``
attention           one ``Add`` of a mask after the scaled scores; see ``attention.py``, also for masks of windows
self-attention      of one tensor: ``SelfAttention(x, mask, scale=..., shift=...)``; see ``self_attention.py``
rotary attention    ``RotaryAttention(x, cos, sin, mask, scale=..., repeats=...)``; see ``rotary_attention.py``
halved layers       two dense layers, where each half of a layer's outputs is taken; see ``halved_layers.py``
quantized weights   constants of 8 bits before ``DequantizeLinear(w, scale, axis=...)``; zero points of 0 are gone there
==================  ================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx

from lenet_trt.fuse.attention import ATTENTION
from lenet_trt.fuse.dense_layers import scaled_outputs_channels_first
from lenet_trt.fuse.dialects import CLEANINGS, LAYERS, REORDERINGS
from lenet_trt.fuse.halved_layers import halved_layer
from lenet_trt.fuse.rotary_attention import rotary_attention
from lenet_trt.fuse.self_attention import self_attention
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def normal_forms(model: onnx.ModelProto, plain: WorkingGraph | None = None) -> list[WorkingGraph]:
    """Return the working copy in normal form, and where rules change what lies between layers, also without these.

    First comes the form in which layers are halved, then that in which an attention of one tensor is one node, then
    that in which attention is written in one way, and last the one in which layers keep their order: ``plain``, where
    the caller has it.
    """
    forms = [plain or plain_form(model)]
    whole = (self_attention, rotary_attention)
    for rules in (REORDERINGS, (scaled_outputs_channels_first,), ATTENTION, whole, (halved_layer,)):
        graph = forms[0].copy()
        before = graph.nodes
        _rewrite(graph, rules)
        if graph.nodes != before:
            forms.insert(0, graph)
    return forms


def attention_form(model: onnx.ModelProto, plain: WorkingGraph | None = None) -> WorkingGraph:
    """Return the form in which attention is written in one way (see ``attention.py``)."""
    graph = (plain or plain_form(model)).copy()
    _rewrite(graph, (*REORDERINGS, *ATTENTION))
    return graph


def plain_form(model: onnx.ModelProto) -> WorkingGraph:
    """Return the form in which layers keep their order, and nothing between them changes."""
    graph = WorkingGraph(model)
    _clean(graph)
    seen = -1
    while seen != len(graph.constants):  # known sizes let more types be inferred, and these give more sizes
        seen = len(graph.constants)
        graph.infer_types()
        _clean(graph)
    _rewrite(graph, LAYERS)
    return graph


def _clean(graph: WorkingGraph) -> None:
    """Clean until no constant is new: each may let others be computed, and to infer types takes longer than that."""
    seen = -1
    while seen != len(graph.constants):
        seen = len(graph.constants)
        _rewrite(graph, CLEANINGS)


def _rewrite(graph: WorkingGraph, rules: Iterable[Callable[[WorkingGraph, WorkingNode], None]]) -> None:
    for rule in rules:
        for node in graph.nodes:
            if graph.holds(node):  # no earlier step of this rule took it
                rule(graph, node)
        graph.remove_dead()
