"""Open axes get sizes by their names, everywhere in the file; what cannot be meant is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from lenet_trt.errors import UsageError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.profiles import axes_of, inputs_of
from plain_runtime import run
from sequences import arrays, sequence_model


def outputs_of(model: onnx.ModelProto) -> dict[str, tuple[int | str, ...]]:
    return {value.name: axes_of(value) for value in model.graph.output}


def test_named_axes_are_fixed_in_inputs_and_outputs_and_the_rest_stays_open() -> None:
    model = sequence_model()
    before = model.SerializeToString()
    fixed = with_sizes(model, {"sequence": 5})
    assert inputs_of(fixed) == {"x": ("batch", 5, 8), "mask": ("batch", 5)}
    assert outputs_of(fixed) == {"y": ("batch", 5, 8)}
    both = with_sizes(model, {"sequence": 5, "batch": 3})
    assert inputs_of(both) == {"x": (3, 5, 8), "mask": (3, 5)}
    given = arrays(3, 5)
    for each in (fixed, both):
        np.testing.assert_array_equal(run(each, **given)[0], run(model, **given)[0])
    assert model.SerializeToString() == before
    assert with_sizes(model, {}) is model


def test_the_shape_of_an_output_whose_sizes_were_not_named_is_inferred() -> None:
    model = sequence_model()
    for dim in model.graph.output[0].type.tensor_type.shape.dim[:2]:
        dim.dim_param = f"Mul_y_{dim.dim_param}"
    assert outputs_of(with_sizes(model, {"sequence": 5, "batch": 3})) == {"y": (3, 5, 8)}


def test_the_shape_of_an_output_that_the_model_computes_is_inferred() -> None:
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        halves (float[n, sequence, 4] x) => (float[a, b, 2] y)
        <int64[1] one = {1}, int64[1] rest = {-1}, int64[1] two = {2}, int64[1] zero = {0}>
        {
            shape = Shape (x)
            batch = Slice (shape, zero, one)
            target = Concat <axis = 0> (batch, rest, two)
            y = Reshape (x, target)
        }
        """
    )
    assert outputs_of(with_sizes(model, {"n": 3, "sequence": 5})) == {"y": (3, 10, 2)}


def test_what_exporters_note_of_tensors_inside_follows() -> None:
    model = sequence_model()
    for name, axes in (("norm", ["batch", "sequence", 8]), ("shares", ["batch", "2*sequence - sequence", 8])):
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, axes))
    fixed = with_sizes(model, {"sequence": 5})
    assert {value.name: axes_of(value) for value in fixed.graph.value_info} == {"norm": ("batch", 5, 8)}


def test_axes_of_subgraphs_follow() -> None:
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        chosen (float[n, 4] x, bool which) => (float[n, 4] y) {
            y = If (which) <
                then_branch = taken () => (float[n, 4] same) { same = Identity (x) },
                else_branch = other () => (float[n, 4] less) { less = Neg (x) }
            >
        }
        """
    )
    fixed = with_sizes(model, {"n": 3})
    branches = [entry.g for entry in fixed.graph.node[0].attribute]
    assert [axes_of(branch.output[0]) for branch in branches] == [(3, 4), (3, 4)]


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"seq": 5}, "--sizes: no input has an open axis seq; the model has x [batch, sequence, 8], mask"),
        ({"8": 5, "batch": 2}, "--sizes: no input has an open axis 8; the model has x"),
        ({"?": 5}, "--sizes: no input has an open axis ?; the model has x"),
    ],
)
def test_a_name_that_is_no_open_axis_is_refused_with_the_axes_there_are(sizes: dict[str, int], why: str) -> None:
    with pytest.raises(UsageError) as told:
        with_sizes(sequence_model(), sizes)
    assert str(told.value).startswith(why)
    assert "no name" not in str(told.value)


def test_an_axis_without_a_name_is_refused_with_the_way_to_name_it() -> None:
    model = sequence_model()
    model.graph.input[0].type.tensor_type.shape.dim[1].Clear()
    for name in ("?", "seq"):
        with pytest.raises(UsageError, match=r"\[batch, \?, 8\].*An axis that is shown as \? has no name: export it"):
            with_sizes(model, {name: 5})


def test_an_axis_that_is_fixed_already_is_refused() -> None:
    fixed = with_sizes(sequence_model(), {"sequence": 5})
    with pytest.raises(UsageError, match=r"no input has an open axis sequence; the model has x \[batch, 5"):
        with_sizes(fixed, {"sequence": 5})
    with pytest.raises(
        UsageError, match=r"--sizes batch=2: the model's shapes are fixed \(x \[3, 5, 8\].*leave it out"
    ):
        with_sizes(with_sizes(fixed, {"batch": 3}), {"batch": 2})


def test_other_options_may_not_give_the_same_axis_another_size() -> None:
    model = sequence_model()
    with pytest.raises(UsageError, match="--batch 1:2:3: --sizes batch=2 fixes the first axis already"):
        with_sizes(model, {"batch": 2}, batch="1:2:3")
    with_sizes(model, {"sequence": 2}, batch="1:2:3")
    with pytest.raises(UsageError, match=r"the shape x:1x3x8 and --sizes sequence=2 contradict each other"):
        with_sizes(model, {"sequence": 2}, shapes=[{"x": (1, 2, 8)}, {"x": (1, 3, 8)}])
    with_sizes(model, {"sequence": 2}, shapes=[{"x": (1, 2, 8)}, {"x": (3, 2, 8)}])


def positions() -> onnx.ModelProto:
    """Twelve places, of which the first ones are added to each sequence: only sequences of twelve fit."""
    return parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        places (float[n, sequence, 1] x) => (float[n, sequence, 1] y)
        <float[1, 4, 1] places = {1, 2, 3, 4}> { y = Add (x, places) }
        """
    )


def test_sizes_that_the_model_is_not_for_are_refused() -> None:
    with_sizes(positions(), {"sequence": 4})
    with pytest.raises(UsageError, match=r"--sizes sequence=5: the model is not for these sizes.*ncompatible dim"):
        with_sizes(positions(), {"sequence": 5})


def baked() -> onnx.ModelProto:
    """A sequence that is open in the input, and 6 in a Reshape, as torch's older exporter leaves it in attention."""
    return parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        baked (float[n, sequence, 4] x) => (float[6, m, 2] y)
        <int64[1] six = {6}, int64[1] rest = {-1}, int64[1] two = {2}, int64 zero = {0}, int64[1] first = {0}>
        {
            shape = Shape (x)
            batch = Gather (shape, zero)
            doubled = Add (batch, batch)
            sizes = Unsqueeze (doubled, first)
            target = Concat <axis = 0> (six, sizes, two)
            y = Reshape (x, target)
        }
        """
    )


def test_a_size_that_the_exporter_wrote_into_a_reshape_is_noticed() -> None:
    with_sizes(baked(), {"n": 3, "sequence": 6})
    with pytest.raises(
        UsageError, match=r"Reshape y makes \[6, 6, 2\] of \[3, 5, 4\]: the exporter wrote sizes of its"
    ):
        with_sizes(baked(), {"n": 3, "sequence": 5})
    with_sizes(baked(), {"sequence": 6})
    with pytest.raises(UsageError, match=r"--sizes sequence=5: .*Reshape y makes \[6, 4, 2\] of \[2, 5, 4\]"):
        with_sizes(baked(), {"sequence": 5})


def test_a_node_without_inputs_is_no_obstacle() -> None:
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        noisy (float[n, 4] x) => (float[n, 4] y) {
            noise = RandomUniform <shape = [4]> ()
            y = Add (x, noise)
        }
        """
    )
    assert outputs_of(with_sizes(model, {"n": 3})) == {"y": (3, 4)}


def test_a_model_for_some_batches_only_may_keep_its_batch_open() -> None:
    """Frames of clips, four each, as networks for videos have them: two are no clip, and that is nobody's error."""
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        clips (float[frames, 3, w] x) => (float[c, 4, m] y)
        <int64[3] target = {-1, 4, 15}> { y = Reshape (x, target) }
        """
    )
    assert inputs_of(with_sizes(model, {"w": 5})) == {"x": ("frames", 3, 5)}


def test_a_fused_model_takes_sizes_too() -> None:
    model = sequence_model()
    fused = with_sizes(fuse(model, "all").model, {"batch": 3, "sequence": 5})
    assert inputs_of(fused)["x"] == (3, 5, 8)
    assert outputs_of(fused) == {"y": (3, 5, 8)}
    given = arrays(3, 5)
    np.testing.assert_allclose(run(fused, **given)[0], run(model, **given)[0], rtol=0, atol=1e-6)
