"""The verb ``plugins``: every kernel is listed, with what was measured of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench_data import record, stats
from lenet_trt.bench.record import Row, as_json
from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.dims import as_dim
from lenet_trt.plugins.__main__ import measurements, records_folder


def test_every_kernel_is_listed_on_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins"]) == 0
    printed = capsys.readouterr().out
    for name, kernel in registry.kernels().items():
        assert f"{name} (version {kernel.version})\n  replaces  {kernel.doc}\n" in printed
    assert "on sm_75 and newer" in printed
    assert len(printed.splitlines()) <= 7 * len(registry.kernels()) + 1


def test_one_kernel_is_listed_with_its_variants(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "lenet5"]) == 0
    printed = capsys.readouterr().out
    assert "  variant   cluster8: a cluster of 8 blocks an image, for few images (sm_90 and newer; " in printed
    assert "preferred where n <= 73 * multiprocessors // 800)" in printed
    assert len([line for line in printed.splitlines() if line.startswith("  variant ")]) == len(
        registry.kernel("lenet5").variants
    )


def test_what_was_measured_is_summed_up_or_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "batched_matvec"]) == 0
    assert capsys.readouterr().out.count("  measured  ") == 1
    assert main(["plugins", "batched_matvec", "--measured"]) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  measured  ")]
    folder = records_folder()
    assert folder is not None
    assert len(listed) == len(measurements("batched_matvec", folder)) > 1


def test_an_installed_copy_says_that_it_has_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lenet_trt.plugins.__main__.plugins_dir", lambda: tmp_path / "lenet_trt" / "plugins")
    assert main(["plugins", "maxpool2"]) == 0
    printed = capsys.readouterr().out
    assert "  measured  the records are not installed" in printed
    assert "docs/results" not in printed
    assert main(["plugins", "maxpool2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["measured"] is None


def test_json_tells_what_the_declaration_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "conv5x5_bias", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    kernel = registry.kernel("conv5x5_bias")
    assert entry["replaces"] == kernel.doc
    assert list(entry["types"]) == [types.name for types in kernel.types]
    assert [variant["name"] for variant in entry["variants"]] == [variant.name for variant in kernel.variants]
    assert entry["attributes"] == {"activation": ["none", "relu", "tanh"]}
    assert entry["requires"] == "5 <= h & 5 <= w"


# What a loop adds to an int, a block's or a warp's next round, must not pass 2^31 - 1 either.
ONE_ELEMENT_EACH = {
    "dense_bias_relu": ({"in": 1, "out": 1}, {}, 8 * 65_535),
    "few_channel_conv": ({"c": 1, "h": 1, "w": 1, "k": 1}, {"size": 7, "pad": 3}, 1 << 16),
    "few_filter_conv": ({"c": 5, "h": 1, "w": 1, "k": 1}, {"size": 7, "pad": 3}, 1 << 16),
    "global_average_pool": ({"c": 1, "h": 1, "w": 1}, {}, 256 * 8),
}


@pytest.mark.parametrize("name", ONE_ELEMENT_EACH)
def test_more_elements_than_a_loop_can_count_are_refused(name: str) -> None:
    kernel = registry.kernel(name)
    axes, attributes, rounds = ONE_ELEMENT_EACH[name]
    most = 2**31 - 1 - rounds
    rows = most // axes.get("c", 1)
    kernel.bind_axes({"n": rows, **axes}, kernel.types[0], attributes).check_size()
    with pytest.raises(LenetTrtError, match=f"takes at most {most} a tensor: split the batch"):
        kernel.bind_axes({"n": rows + 1, **axes}, kernel.types[0], attributes).check_size()


# As many outputs as a classifier of all products of a shop has.
MANY_OUTPUTS = {
    "dense_bias_relu": {"n": 70, "in": 64, "out": 3_000_000},
    "dense_int8": {"n": 70, "in": 64, "out": 3_000_000},
    "conv_int8": {"n": 1, "h": 5, "w": 5, "c": 1, "k": 3_000_000},
    "few_channel_conv": {"n": 1, "h": 3, "w": 3, "c": 1, "k": 2_000_000},
}


@pytest.mark.parametrize("name", MANY_OUTPUTS)
def test_no_variant_needs_more_blocks_than_a_grid_has(name: str) -> None:
    kernel = registry.kernel(name)
    for types in kernel.types:
        bound = kernel.bind_axes(MANY_OUTPUTS[name], types)
        bound.check_size()
        usable = [variant for variant in kernel.variants_for(90, types) if bound.fits(variant)]
        assert bound.variant(90, {"multiprocessors": 132}) in usable
        sizes = {**bound.sizes, "multiprocessors": 132}
        assert all(as_dim(each.launch.grid[1]).evaluate(sizes) <= 65_535 for each in usable), types.name


@pytest.mark.parametrize("words", [["plugins", "sofmax"], ["plugins", "sofmax", "--resources"]])
def test_an_unknown_name_is_bad_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "there is no kernel 'sofmax': did you mean softmax?" in capsys.readouterr().err


def test_measurements_are_read_from_the_records(tmp_path: Path) -> None:
    rows = [
        Row(name, {"workload": "w", "mode": "graph"}, stats(us), None, {"ours": ours, "error": 0.0})
        for name, us, ours in (("product", 2, True), ("torch", 5, False))
    ]
    facts = {"title": "W", "kernel": "maxpool2", "mode": "graph", "floors_us": {"fp32": 1.0}}
    made = record(*rows, suite="kernels", details={"workloads": {"w": facts}})
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "kernels.json").write_text(as_json(made))
    (found,) = measurements("maxpool2", tmp_path)
    assert (found["workload"], found["peer"], found["gpu"], found["record"]) == (
        "W",
        "torch",
        "GPU X",
        "x/kernels.json",
    )
    assert found["us"] == pytest.approx(stats(2).median_us, rel=1e-4)
    (tmp_path / "x" / "kernels_rows.json").write_text(as_json(made))
    assert [each["record"] for each in measurements("maxpool2", tmp_path)] == ["x/kernels.json", "x/kernels_rows.json"]
    assert measurements("lenet5", tmp_path) == []
    assert measurements("maxpool2", tmp_path / "none") == []
    (tmp_path / "x" / "kernels.json").write_text("{")
    with pytest.raises(LenetTrtError, match=r"kernels\.json is not JSON"):
        measurements("maxpool2", tmp_path)
