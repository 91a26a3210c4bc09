"""Tuning on a GPU: what is kept is what runs from then on, and it is right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lenet_trt.check.gpu_checks import values
from lenet_trt.cli import main
from lenet_trt.cuda.driver import current_context
from lenet_trt.cuda.launch import prepare
from lenet_trt.cuda.machine import machine_of
from lenet_trt.cuda.tuned import choices_for, variant_for
from lenet_trt.cuda.tuning_file import read_tuning, write_tuning
from lenet_trt.kernel import registry
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.kernel.examples import ExampleCase

NAME = "global_average_pool"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LENET_TRT_CACHE", str(tmp_path / "cache"))
    choices_for.cache_clear()


def test_each_call_has_the_times_of_all_its_variants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = registry.kernel(NAME)
    assert main(["tune", NAME, "--seconds", "5", "-o", str(tmp_path / "record.json"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "record.json").read_text())
    (tuning,) = record["tunings"]
    assert tuning["calls"]
    for call in tuning["calls"]:
        assert set(call["variants"]) == {variant.name for variant in kernel.variants}
        assert min(times["median_us"] for times in call["variants"].values()) > 0
    assert main(["tune", NAME, "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tunings"] == record["tunings"]


def test_what_is_kept_is_launched_and_right(capsys: pytest.CaptureFixture[str]) -> None:
    kernel, machine = registry.kernel(NAME), machine_of()
    assert machine is not None
    assert main(["tune", NAME, "--seconds", "2"]) == 0
    capsys.readouterr()
    axes = {"n": 3, "c": 5, "h": 7, "w": 7}
    bound = kernel.bind_axes(axes, kernel.types[0])
    declared = bound.variant(current_context().sm, current_context().sizes)
    other = next(variant for variant in kernel.variants if variant is not declared)
    fixed = {name: size for name, size in axes.items() if name != "n"}
    choice = TunedChoice(bound.types.name, {}, fixed, "n", 3, 3, other.name)
    kept = read_tuning(machine.tuning_path(NAME), kernel, machine)
    write_tuning(replace(kept, choices=(choice,)))
    choices_for.cache_clear()
    assert variant_for(bound, current_context()) is other
    launcher = prepare(bound)
    assert launcher.variant is other
    assert values(ExampleCase(bound, launcher.variant)) is None
    assert prepare(kernel.bind_axes({**axes, "n": 4}, kernel.types[0])).variant is declared
