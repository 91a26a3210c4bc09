"""Exports of trtexec and tensorrt_rtx, in the words of their versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt.layers import LayerTensor
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.readers.trtexec_exports import read_outputs, read_trtexec
from lenet_trt.trace.timeline import Timeline, load_timeline, save
from trtexec_files import CASK_10, NAMES_ONLY, PLUGIN_11, profile, times

LAYERS = [
    ("Reformatting CopyNode for Input Tensor 0 to conv1", 0.002),
    ("conv1 + relu1", 0.010),
    ("__myl_MaxPoolMulAdd_myl2_3", 0.005),
]
RUNS = [
    {"start": 10.0, "enqueue": 0.1, "h2d": 0.5, "compute": 2.0, "d2h": 0.25},
    {"start": 13.0, "enqueue": 0.1, "h2d": 0.5, "compute": 2.5, "d2h": 0.25},
    {"start": 17.0, "enqueue": 0.3, "h2d": 0.5, "compute": 2.25, "d2h": 0.25},
]


def made(folder: Path, **files: str) -> list[Path]:
    """Write files, in the order of their names' keywords."""
    paths = []
    for name, text in files.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def test_layers_follow_each_other_with_the_medians_of_their_times(tmp_path: Path) -> None:
    timeline = timeline_from(*made(tmp_path, profile=profile(LAYERS, count=250)))
    assert [(entry.kind, entry.name, entry.node) for entry in timeline.activities] == [
        ("layer", name, name) for name, _ in LAYERS
    ]
    assert [(entry.start_us, entry.end_us) for entry in timeline.activities] == [
        (0.0, pytest.approx(2.0)),
        (pytest.approx(2.0), pytest.approx(12.0)),
        (pytest.approx(12.0), pytest.approx(17.0)),
    ]
    (iteration,) = timeline.iterations
    assert iteration.us == pytest.approx(17.0)
    assert timeline.unprofiled_us is None
    assert timeline.notes[0].startswith(
        "Positions are reconstructed: trtexec gives a time for each layer (median of 250"
    )


def test_before_8_6_there_is_the_mean_alone(tmp_path: Path) -> None:
    timeline = timeline_from(*made(tmp_path, profile=profile(LAYERS, medians=False)))
    assert timeline.activities[1].us == pytest.approx(11.0)
    assert "(mean of 100 runs)" in timeline.notes[0]


def test_the_layer_information_names_onnx_nodes_and_kernels(tmp_path: Path) -> None:
    timeline = timeline_from(*made(tmp_path, layers=CASK_10, profile=profile(LAYERS)))
    assert [(entry.name, entry.node) for entry in timeline.activities] == [
        (LAYERS[0][0], LAYERS[0][0]),
        ("sm50_xmma_conv_example_f16f16_nhwc", "conv1 + relu1"),
        ("__myl_MaxPoolMulAdd_0xdeadbeef", "pool1 + /fc[1]/Gemm"),
    ]
    assert timeline.environment["dialect"] == "8 to 10"
    conv = timeline.layers[1]
    assert conv.onnx == ("conv1", "relu1")
    assert conv.inputs == (LayerTensor("r0", (32, 1, 28, 28), "float16", "Channel last FP16"),)
    assert timeline.layers[0].kind == "Reformat"


def test_the_words_of_tensorrt_11(tmp_path: Path) -> None:
    timeline = timeline_from(*made(tmp_path, profile=profile([("lenet5", 0.03)]), layers=PLUGIN_11))
    assert timeline.environment["dialect"] == "11"
    assert timeline.layers[0].inputs == (LayerTensor("images", (32, 1, 28, 28), "float32", "Linear FP32"),)
    assert timeline.activities[0].node == "lenet5"


def test_layers_may_be_names_alone(tmp_path: Path) -> None:
    layers = [("[trainStation1]", 0.0), ("conv1 + relu1", 0.01), ("{ForeignNode[pool1.../fc1/Gemm]} [profile 0]", 0.02)]
    timeline = timeline_from(*made(tmp_path, profile=profile(layers), layers=NAMES_ONLY))
    assert [entry.node for entry in timeline.activities] == ["conv1 + relu1", "{ForeignNode[pool1.../fc1/Gemm]}"]
    assert "1 layers took no time and are not shown: [trainStation1]." in timeline.notes


def test_a_layer_that_occurs_twice_is_matched_in_order(tmp_path: Path) -> None:
    rows = [
        {"Name": "reformat", "LayerType": "Reformat", "TacticName": tactic, "Metadata": f"[ONNX Layer: {node}]"}
        for tactic, node in (("first", "a"), ("second", "b"))
    ]
    files = made(tmp_path, layers=json.dumps({"Layers": rows}), profile=profile([("reformat", 1.0), ("reformat", 2.0)]))
    assert [(entry.name, entry.node) for entry in timeline_from(*files).activities] == [("first", "a"), ("second", "b")]


def test_files_of_two_engines_are_noticed(tmp_path: Path) -> None:
    timeline = timeline_from(*made(tmp_path, layers=CASK_10, profile=profile([("other", 1.0)])))
    assert any("are the two files of the same engine?" in note for note in timeline.notes)


def test_times_alone_are_inferences_with_copies_and_the_computation_as_a_whole(tmp_path: Path) -> None:
    timeline = timeline_from(*made(tmp_path, times=times(RUNS)))
    assert [(entry.index, entry.start_us, entry.us) for entry in timeline.iterations] == [
        (0, 0.0, pytest.approx(2750.0)),
        (1, pytest.approx(3000.0), pytest.approx(3250.0)),
        (2, pytest.approx(7000.0), pytest.approx(3000.0)),
    ]
    first = [entry for entry in timeline.activities if entry.iteration == 0]
    assert [(entry.kind, entry.direction, entry.us) for entry in first] == [
        ("memcpy", "HtoD", pytest.approx(500.0)),
        ("layer", None, pytest.approx(2000.0)),
        ("memcpy", "DtoH", pytest.approx(250.0)),
    ]
    assert timeline.unprofiled_us == pytest.approx(3000.0)
    assert [call.us for call in timeline.api_calls] == [pytest.approx(us) for us in (100.0, 100.0, 300.0)]


def test_without_data_transfers_there_are_no_copies(tmp_path: Path) -> None:
    rows = [{**row, "h2d": 0.0, "d2h": 0.0} for row in RUNS]
    timeline = timeline_from(*made(tmp_path, times=times(rows, end_to_end=True)))
    assert [entry.kind for entry in timeline.activities] == ["layer"] * 3
    assert timeline.environment["dialect"] == "8"


def test_positions_are_rounded_after_the_first_second(tmp_path: Path) -> None:
    timeline = timeline_from(*made(tmp_path, times=times([{**row, "start": 1234.5678} for row in RUNS])))
    assert any("six digits" in note for note in timeline.notes)


def test_the_enqueue_is_taken_from_the_first_second_where_it_is_exact(tmp_path: Path) -> None:
    rows = [RUNS[0], *({**RUNS[0], "start": 1234.0 + index, "enqueue": 0.104} for index in range(5))]
    timeline = timeline_from(*made(tmp_path, times=times(rows), profile=profile(LAYERS)))
    assert timeline.api_calls[0].us == pytest.approx(100.0)
    assert not any("six digits" in note for note in timeline.notes)
    timeline = timeline_from(*made(tmp_path, times=times(rows[1:]), profile=profile(LAYERS)))
    assert any("six digits" in note for note in timeline.notes)


def test_profile_and_times_give_one_inference_with_both(tmp_path: Path) -> None:
    timeline = timeline_from(*made(tmp_path, times=times(RUNS), profile=profile(LAYERS), layers=CASK_10))
    assert [entry.direction for entry in timeline.activities] == ["HtoD", None, None, None, "DtoH"]
    (iteration,) = timeline.iterations
    assert iteration.us == pytest.approx(500 + 17 + 250)
    assert timeline.unprofiled_us == pytest.approx(3000.0)
    assert timeline.api_calls[0].us == pytest.approx(100.0)
    assert any("The layers add up to 17.0 us; the timed runs took 2250.0 us" in note for note in timeline.notes)


def test_a_timeline_of_it_can_be_written_and_read(tmp_path: Path) -> None:
    timeline = timeline_from(
        *made(tmp_path, times=times(RUNS), profile=profile(LAYERS), layers=CASK_10), model="m.onnx"
    )
    save(timeline, tmp_path / "timeline.json")
    assert load_timeline(tmp_path / "timeline.json") == timeline
    assert timeline.model == "m.onnx"


AWKWARD = [
    'a "quoted" name',
    "C:\\new\\table",
    "two\nlines\tand a tab",
    "ends in \\",
    '"',
    'a", "b',
    "brace } ] {",
    "ü\x1f",
]


def test_names_are_taken_as_trtexec_writes_them(tmp_path: Path) -> None:
    timeline = timeline_from(*made(tmp_path, profile=profile([(name, 1.0) for name in AWKWARD])))
    assert [entry.node for entry in timeline.activities] == AWKWARD


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_any_name_survives(names: list[str]) -> None:
    names = [name for name in names if '", "timeMs" : ' not in name and '{ "name" : "' not in name] or ["x"]
    found = read_trtexec(profile([(name, 1.0) for name in names]), "p.json")
    assert found is not None
    assert [layer.name for layer in found[1].profile] == names


@pytest.mark.parametrize("name", [AWKWARD[0], "C:\\models\\x", *AWKWARD[2:5], "brace } ] {", "ü"])
def test_layer_names_that_nobody_escaped_are_repaired(name: str) -> None:
    text = CASK_10.replace("conv1 + relu1", name)
    found = read_trtexec(text, "layers.json")
    assert found is not None
    assert [layer.name for layer in found[1].layers][1] == name
    assert found[1].layers[1].onnx == ("conv1", "relu1")  # \u001f is still one character


def test_names_alone_are_repaired_too() -> None:
    found = read_trtexec(NAMES_ONLY.replace("conv1 + relu1", 'a "b" \\ c'), "layers.json")
    assert found is not None
    assert found[1].layers[1].name == 'a "b" \\ c'
    assert len(found[1].layers) == 3


def test_a_profile_that_another_program_wrote_is_plain_json(tmp_path: Path) -> None:
    rows = [{"count": 3}, {"name": 'a "b"\n', "timeMs": 3.0, "averageMs": 1.0}]
    timeline = timeline_from(*made(tmp_path, profile=json.dumps(rows)))
    assert timeline.activities[0].node == 'a "b"\n'


def test_no_run_was_profiled(tmp_path: Path) -> None:
    text = profile([("conv1", 0.0)], count=0).replace('"medianMs" : 0', '"medianMs" : -nan')
    with pytest.raises(LenetTrtError, match="conv1 took nan ms: no run was profiled"):
        timeline_from(*made(tmp_path, profile=text))


def test_the_percentage_may_be_no_number(tmp_path: Path) -> None:
    assert '"percentage" : -nan' in profile([("a", 0.0)])
    with pytest.raises(LenetTrtError, match="no layer that took any time"):
        timeline_from(*made(tmp_path, profile=profile([("a", 0.0)])))


@pytest.mark.parametrize("size", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("text", [profile(LAYERS), times(RUNS), CASK_10, NAMES_ONLY])
def test_a_file_that_was_cut_off(tmp_path: Path, text: str, size: float) -> None:
    (path,) = made(tmp_path, cut=text[: int(len(text) * size)])
    with pytest.raises(LenetTrtError, match=r"cut\.json .*cut off"):
        timeline_from(path)


def test_an_entry_in_the_middle_that_is_damaged(tmp_path: Path) -> None:
    text = profile(LAYERS).replace('"conv1 + relu1", "timeMs"', '"conv1 + relu1", "ti#eMs"')
    with pytest.raises(LenetTrtError, match="some of its layers cannot be read"):
        timeline_from(*made(tmp_path, profile=text))
    with pytest.raises(LenetTrtError, match="is no number"):
        timeline_from(*made(tmp_path, profile=profile(LAYERS).replace('"medianMs" : 0.01', '"medianMs" : 0.0x')))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[\n  { "count" : 4 }\n]\n', "has no layers: run trtexec with --exportProfile"),
        ('{"Layers": []}', "has no layers"),
        ('{"Layers": [{"LayerType": "x"}]}', "a layer has no Name"),
        ('[{"startComputeMs": 1, "h2dMs": 2}]', "missing required field `startH2dMs`"),
        ("[]", "no trace of a known kind"),
        ('{"a": 1}', "no trace of a known kind"),
        ("[1, 2]", "no trace of a known kind"),
        (CASK_10, "has no times: give the file of --exportProfile"),
    ],
)
def test_files_that_say_too_little(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(LenetTrtError, match=said):
        timeline_from(*made(tmp_path, file=text))


def test_two_files_of_a_kind(tmp_path: Path) -> None:
    with pytest.raises(LenetTrtError, match=r"are both of --exportProfile: give the files of one run"):
        timeline_from(*made(tmp_path, a=profile(LAYERS), b=profile(LAYERS)))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "file"
    path.write_bytes(data)
    try:
        found: Timeline | str = timeline_from(path)
    except LenetTrtError as error:
        found = str(error)
    assert isinstance(found, Timeline) or str(path) in found


def test_outputs_are_read_by_name() -> None:
    text = """[ { "name" : "y", "dimensions" : "1x2x3", "values" : [ 1, 2.5, -3, nan, inf, 6 ] },
        { "name" : "count", "dimensions" : "", "values" : [ 7 ] } ]"""
    outputs = read_outputs(text, "out.json")
    assert outputs["y"].shape == (1, 2, 3)
    assert outputs["y"].ravel() == pytest.approx([1, 2.5, -3, float("nan"), float("inf"), 6], nan_ok=True)
    assert outputs["count"] == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ {", "out.json is not JSON"),
        ('[ { "name" : "y" } ]', "out.json is not what --exportOutput writes"),
        ('[ { "name" : "y", "dimensions" : "2x2", "values" : [ 1 ] } ]', "y has 1 elements, and its axes are 2x2"),
    ],
)
def test_damaged_outputs_are_refused(text: str, said: str) -> None:
    with pytest.raises(LenetTrtError, match=said):
        read_outputs(text, "out.json")
