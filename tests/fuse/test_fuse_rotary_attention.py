"""Attention with rotary positions is one plugin, with its layers joined; what differs from it stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.examples import relative_error
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run

TOKENS, DEPTH, WIDTH = 6, 16, 40
SEQUENCES = 3


@dataclass(frozen=True)
class Llama:
    """Say how an attention of fp16 is written, as transformers has it for LLaMA."""

    heads: int = 6
    groups: int = 2
    n: int | str = SEQUENCES
    angles: str = "constant"  # constant, computed, or whose halves differ
    mask: tuple[int | str, ...] = (1, 1, TOKENS, TOKENS)
    split: bool = False  # the halves are parts of a Split
    order: str = "negative first"
    keys_turned: bool = True
    bias: bool = False
    guarded: bool = False
    normed: str = ""  # queries, keys, or both
    epsilons: tuple[float, float] = (1e-5, 1e-5)  # of queries and of keys
    opset: int = 18
    one_factor: bool = False  # of all elements, as opset 23 allows it
    expanded: bool = True  # the heads of keys and values
    together: str = ""  # how keys and values are taken of all heads of one layer, as in Falcon
    taken: tuple[int, int] = (-2, -1)  # which heads are keys and values

    @property
    def kernel(self) -> str:
        return "normed_rotary_attention" if self.normed else "rotary_attention"

    def model(self) -> onnx.ModelProto:
        """Return y [n, tokens, heads d] of x [n, tokens, width] and the mask."""
        made = _Made(self)
        q, k, v = made.parts_of_one_layer() if self.together else made.three_layers()
        q = made.turned(q)
        k = made.turned(k) if self.keys_turned else k
        k, v = (made.repeated(each) for each in (k, v))
        scores = made.node("MatMul", made.scaled(q), made.scaled(made.node("Transpose", k, perm=[0, 1, 3, 2])))
        shares = made.node("Softmax", made.node("Add", scores, "mask"), axis=-1)
        if self.guarded:
            shares = made.node("Where", made.node("IsNaN", shares), made.constant(np.float16(0)), shares)
        y = made.node("Transpose", made.node("MatMul", shares, v), perm=[0, 2, 1, 3])
        return made.finished(made.node("Reshape", y, made.sizes(0, 0, self.heads * DEPTH)))


class _Made:
    """Hold the nodes of such a model."""

    def __init__(self, llama: Llama) -> None:
        self.llama = llama
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)
        frequencies = np.outer(np.arange(TOKENS), 0.5 ** np.arange(DEPTH // 2)).astype(np.float32)
        self.cos, self.sin = (self.angles(frequencies, op) for op in ("Cos", "Sin"))

    def angles(self, frequencies: np.ndarray, operator: str) -> str:
        function = {"Cos": np.cos, "Sin": np.sin}[operator]
        if self.llama.angles == "computed":
            half = self.constant(frequencies[None])
            computed = self.node(operator, self.node("Concat", half, half, axis=-1))
            return self.node("Unsqueeze", self.node("Cast", computed, to=TensorProto.FLOAT16), self.sizes(1))
        both = np.concatenate([frequencies, frequencies * (2 if self.llama.angles == "different" else 1)], axis=-1)
        return self.constant(function(both)[None, None].astype(np.float16))

    def node(self, op_type: str, *inputs: str, **attributes: object) -> str:
        name = f"{op_type}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: np.ndarray | np.generic) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def sizes(self, *sizes: int) -> str:
        return self.constant(np.array(sizes, np.int64))

    def three_layers(self) -> tuple[str, str, str]:
        """Return queries, keys and values [n, heads, tokens, d] of layers of their own."""
        llama = self.llama
        q, k = (
            self.layer(heads, epsilon if what in llama.normed else None)
            for what, heads, epsilon in zip("qk", (llama.heads, llama.groups), llama.epsilons, strict=True)
        )
        return q, k, self.layer(llama.groups)

    def parts_of_one_layer(self) -> tuple[str, str, str]:
        """Return them as parts of one layer, with one head of keys and values, as torch writes [..., [-2], :]."""
        heads = self.node("Transpose", self.layer(self.llama.heads + 2), perm=[0, 2, 1, 3])
        count = self.llama.heads
        q = self.node("Slice", heads, self.sizes(0), self.sizes(count), self.sizes(2))
        return (self.node("Transpose", q, perm=[0, 2, 1, 3]), *(self.head(heads, which) for which in self.llama.taken))

    def head(self, heads: str, which: int) -> str:
        """Return a head [n, 1, tokens, d] of [n, tokens, heads, d]."""
        if self.llama.together == "Gather":
            one = self.node("Gather", heads, self.sizes(which), axis=2)
            return self.node("Transpose", one, perm=[0, 2, 1, 3])
        first = self.node("Transpose", heads, perm=[2, 0, 1, 3])
        index = self.constant(np.array([[which]]))
        return self.node("Transpose", self.node("GatherND", first, index), perm=[1, 0, 2, 3])

    def layer(self, heads: int, epsilon: float | None = None) -> str:
        """Return the heads of a layer, normalised where there is an epsilon."""
        weights = self.random.normal(0, WIDTH**-0.5, (WIDTH, heads * DEPTH)).astype(np.float16)
        y = self.node("MatMul", "x", self.constant(weights))
        if self.llama.bias:
            y = self.node("Add", y, self.constant(self.random.normal(size=heads * DEPTH).astype(np.float16)))
        rows = self.node("Reshape", y, self.sizes(0, 0, -1, DEPTH))
        return self.node("Transpose", rows if epsilon is None else self.normed(rows, epsilon), perm=[0, 2, 1, 3])

    def normed(self, x: str, epsilon: float) -> str:
        """Return x over its root mean square, scaled, as transformers writes it; from opset 23 on it is one node."""
        if self.llama.opset >= 23:
            scale = self.random.uniform(0.5, 1.5, 1 if self.llama.one_factor else DEPTH).astype(np.float16)
            return self.node("RMSNormalization", x, self.constant(scale), axis=-1, epsilon=epsilon)
        wide = self.node("Cast", x, to=TensorProto.FLOAT)
        square = self.node("Pow", wide, self.constant(np.float32(2)))
        axes = {"axes": [-1]} if self.llama.opset < 18 else {}
        mean = self.node("ReduceMean", square, *([] if axes else [self.sizes(-1)]), **axes)
        root = self.node("Sqrt", self.node("Add", mean, self.constant(np.float32(epsilon))))
        rows = self.node("Mul", wide, self.node("Reciprocal", root))
        scale = self.constant(self.random.uniform(0.5, 1.5, DEPTH).astype(np.float16))
        return self.node("Mul", scale, self.node("Cast", rows, to=TensorProto.FLOAT16))

    def turned(self, x: str) -> str:
        half = DEPTH // 2
        if self.llama.split:
            first, second = f"{x}.first", f"{x}.second"
            split = helper.make_node("Split", [x, self.sizes(half, half)], [first, second], axis=-1, name=f"{x}.split")
            self.nodes.append(split)
        else:
            first = self.node("Slice", x, self.sizes(0), self.sizes(half), self.sizes(3), self.sizes(1))
            second = self.node("Slice", x, self.sizes(half), self.sizes(2**62), self.sizes(3), self.sizes(1))
        negative, other = (second, first) if self.llama.order == "negative first" else (first, second)
        exchanged = self.node("Concat", self.node("Neg", negative), other, axis=-1)
        return self.node("Add", self.node("Mul", x, self.cos), self.node("Mul", exchanged, self.sin))

    def repeated(self, x: str) -> str:
        if self.llama.heads == self.llama.groups or not self.llama.expanded:
            return x
        wide = self.sizes(1, self.llama.groups, self.llama.heads // self.llama.groups, TOKENS, DEPTH)
        expanded = self.node("Expand", self.node("Unsqueeze", x, self.sizes(2)), wide)
        return self.node("Reshape", expanded, self.sizes(0, self.llama.heads, TOKENS, DEPTH))

    def scaled(self, x: str) -> str:
        return self.node("Mul", x, self.constant(np.float16(0.5)))

    def finished(self, output: str) -> onnx.ModelProto:
        of = helper.make_tensor_value_info
        inputs = [
            of("x", TensorProto.FLOAT16, [self.llama.n, TOKENS, WIDTH]),
            of("mask", TensorProto.FLOAT16, self.llama.mask),
        ]
        y = of(output, TensorProto.FLOAT16, [self.llama.n, TOKENS, self.llama.heads * DEPTH])
        graph = helper.make_graph(self.nodes, "g", inputs, [y], self.constants)
        opsets = [helper.make_opsetid("", self.llama.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8 if self.llama.opset < 23 else 10)
        onnx.checker.check_model(model, full_check=True)
        return model


def plugins_alike(llama: Llama) -> list[str]:
    """Fuse a model, compare it with the plain one, and return its plugins and products, sorted."""
    model = llama.model()
    fused = fuse(model, [llama.kernel]).model
    onnx.checker.check_model(fused, full_check=True)
    random = np.random.default_rng(1)
    x = random.normal(size=(SEQUENCES, TOKENS, WIDTH)).astype(np.float16)
    shape = [SEQUENCES if size == "n" else size for size in llama.mask]
    mask = np.where(random.random(shape) < 0.3, -np.inf, random.normal(size=shape)).astype(np.float16)
    mask[..., 0] = 0
    if llama.guarded:
        mask[0, 0, 2] = -np.inf
    (seen,), (wanted,) = (run(each, x=x, mask=mask) for each in (fused, model))
    assert relative_error(seen, wanted.astype(np.float64)) <= 3e-3
    left = [node.op_type for node in fused.graph.node if node.op_type in ("MatMul", "Gemm", "Mul", "Neg", "Expand")]
    return sorted([*plugin_nodes(fused).values(), *left])


@pytest.mark.parametrize(
    "llama",
    [
        Llama(),
        Llama(n="n"),
        Llama(n=1),
        Llama(groups=6),
        Llama(groups=1),
        Llama(bias=True),
        Llama(split=True),
        Llama(angles="computed"),
        Llama(mask=(SEQUENCES, 1, TOKENS, TOKENS)),
        Llama(n="n", mask=("n", 1, 1, TOKENS)),
        Llama(mask=(1, 6, 1, TOKENS)),
        Llama(guarded=True),
        Llama(normed="qk"),
        Llama(normed="qk", n="n"),
        Llama(normed="qk", guarded=True),
        Llama(normed="qk", opset=17, split=False),
        Llama(normed="qk", opset=23),
        Llama(groups=1, expanded=False),
        Llama(groups=1, expanded=False, normed="qk", n="n"),
        Llama(groups=1, expanded=False, together="Gather"),
        Llama(groups=1, expanded=False, together="GatherND"),
        Llama(groups=1, expanded=False, together="GatherND", n="n", mask=("n", 1, TOKENS, TOKENS), guarded=True),
        Llama(groups=1, together="GatherND"),
    ],
    ids=str,
)
def test_it_is_one_plugin_behind_one_layer(llama: Llama) -> None:
    if llama.n == 1:
        assert list(plugin_nodes(fuse(llama.model(), [llama.kernel]).model).values()) == [llama.kernel]
    else:
        assert plugins_alike(llama) == ["MatMul", llama.kernel]


@pytest.mark.parametrize(
    "llama",
    [
        Llama(angles="different"),
        Llama(order="negative last"),
        Llama(keys_turned=False),
        Llama(normed="q"),
        Llama(normed="k"),
        Llama(normed="qk", epsilons=(1e-5, 1e-3)),
        Llama(normed="qk", opset=23, one_factor=True),
        Llama(groups=1, expanded=False, together="GatherND", taken=(-1, -2)),
        Llama(groups=1, expanded=False, together="GatherND", taken=(0, 1)),
    ],
    ids=[
        "angles",
        "order",
        "keys",
        "norm of queries",
        "norm of keys",
        "epsilons",
        "one factor",
        "values first",
        "heads of queries",
    ],
)
def test_what_differs_stays(llama: Llama) -> None:
    for kernel in ("rotary_attention", "normed_rotary_attention"):
        with pytest.raises(LenetTrtError, match="no place for it"):
            fuse(llama.model(), [kernel])
