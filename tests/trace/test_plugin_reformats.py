"""Layers that reformat for a plugin: found by their names and tensors, and counted to the plugin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor, plugin_reformats
from lenet_trt.trace.findings import findings_of
from lenet_trt.trace.ledger import ledger_of
from lenet_trt.trace.timeline import Activity, Iteration, Timeline


def tensors(*names: str) -> tuple[LayerTensor, ...]:
    return tuple(LayerTensor(name, (1, 8, 4, 4), "float16") for name in names)


def layer(name: str, kind: str, read: str, written: str, onnx: tuple[str, ...] = ()) -> EngineLayer:
    return EngineLayer(name, kind, "", onnx, tensors(read), tensors(written))


IN = "Reformatting CopyNode for Input Tensor 0 to pool"
OUT = "Reformatting CopyNode for Output Tensor 0 to pool"
NEXT = "Reformatting CopyNode for Input Tensor 0 to conv2"
BEFORE = "Reformatting CopyNode for Output Tensor 0 to conv1"
PLUGIN = layer("pool", "PluginV2", "a", "b", ("pool_node",))


@pytest.mark.parametrize(
    ("reformat", "owner"),
    [
        (layer(IN, "Reformat", "x", "something"), "pool_node"),
        (layer(OUT, "Reformat", "something", "y"), "pool_node"),
        (layer(NEXT, "Reformat", "b", "Reformatted Input Tensor 0 to conv2"), "pool_node"),
        (layer(BEFORE, "Reformat", "Reformatted Output Tensor 0 to conv1", "a"), "pool_node"),
        (layer(NEXT, "Reformat", "other", "Reformatted Input Tensor 0 to conv2"), None),
        (layer("cast", "Reformat", "b", "c", ("Cast_3",)), None),
        (layer("conv2", "CaskConvolution", "b", "c"), None),
    ],
)
def test_what_reformats_for_a_plugin_is_told_by_name_and_tensors(reformat: EngineLayer, owner: str | None) -> None:
    assert plugin_reformats([PLUGIN, reformat]).get(reformat.name) == owner
    assert plugin_reformats([replace(PLUGIN, kind="CaskPooling"), reformat]) == {}


def test_between_two_plugins_the_one_that_reads_counts() -> None:
    second = layer("second", "PluginV3", "c", "d")
    between = layer("a copy", "Reformat", "b", "c")
    assert plugin_reformats([PLUGIN, between, second]) == {"a copy": "second"}


def engine(*layers: EngineLayer) -> Timeline:
    """Ten inferences: a convolution, a reformat, the plugin, a reformat, another convolution."""
    names = ("conv1", IN, "pool_node", NEXT, "conv2")
    activities = [
        Activity("layer", name, 100 * i + 20 * at, 100 * i + 20 * at + 20, node=name, iteration=i)
        for i in range(10)
        for at, name in enumerate(names)
    ]
    iterations = tuple(Iteration(i, 100 * i, 100 * i + 100) for i in range(10))
    return Timeline("test", iterations=iterations, activities=tuple(activities), layers=layers)


def test_the_ledger_counts_it_to_the_plugin() -> None:
    layers = (layer(IN, "Reformat", "x", "a"), PLUGIN, layer(NEXT, "Reformat", "b", "c"))
    ledger = ledger_of(engine(*layers))
    assert {row.node for row in ledger.rows} == {"conv1", "pool_node", "conv2"}
    row = ledger.row("pool_node")
    assert row is not None
    assert (row.terms.kernel_us, row.terms.copies_us) == (20, 40)
    assert ledger.end_to_end_us == ledger.total.total_us == 100
    plain = ledger_of(engine())
    assert plain.total == ledger.total, "the sums are the same"
    assert {row.node for row in plain.rows} == {"conv1", IN, "pool_node", NEXT, "conv2"}


def test_findings_claim_it_from_the_plugin() -> None:
    back = "Reformatting CopyNode for Output Tensor 0 to pool"
    trace = engine(layer(IN, "Reformat", "x", "a"), PLUGIN, layer(back, "Reformat", "b", "c"))
    named = tuple(replace(a, name=back, node=back) if a.node == NEXT else a for a in trace.activities)
    trace = replace(trace, activities=named)
    ledger = ledger_of(trace)
    (finding,) = findings_of(trace, ledger)
    assert (finding.kind, finding.recoverable_us) == ("reformat_pair", 40)
