"""A network with an open batch and an open sequence, as transformers are exported, is fused with sizes for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from lenet_trt.cli import main
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.profiles import inputs_of
from lenet_trt.onnx_model.read import load_model
from lenet_trt.options import GIVE_SIZES
from plain_runtime import run
from sequences import arrays, encoder, sequence_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(sequence_model(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def kernels_in(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def test_fuse_writes_a_model_of_these_sizes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuse", str(model), "--plugins", "layer_norm,softmax", "--sizes", "sequence=5, batch=3"]) == 0
    assert "softmax (fp32) replaces Softmax shares" in capsys.readouterr().out
    fused = load_model(model.with_name("m.fused.onnx"))
    assert inputs_of(fused) == {"x": (3, 5, 8), "mask": (3, 5)}
    assert kernels_in(fused) == ["layer_norm", "softmax"]
    given = arrays(3, 5)
    np.testing.assert_allclose(run(fused, **given)[0], run(load_model(model), **given)[0], rtol=0, atol=1e-6)


def test_sizes_hold_where_no_kernel_fits_too(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = ["fuse", str(model), "--plugins", "none", "--sizes", "batch=3"]
    assert main(again) == 0
    assert main(again) == 0  # the file is known to be what fuse wrote
    assert "no plugin node was added" in capsys.readouterr().out
    assert inputs_of(load_model(model.with_name("m.fused.onnx"))) == {"x": (3, "sequence", 8), "mask": (3, "sequence")}


def test_one_batch_is_a_size_and_a_range_is_not(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, output = ["fuse", str(model), "--plugins", "softmax"], model.with_name("m.fused.onnx")
    assert main([*given, "--batch", "1:2:3"]) == 0
    assert inputs_of(load_model(output))["x"] == ("batch", "sequence", 8)
    assert main([*given, "--batch", "3"]) == 0
    assert inputs_of(load_model(output)) == {"x": (3, "sequence", 8), "mask": (3, "sequence")}
    capsys.readouterr()
    for more, why in (
        (["--sizes", "batch=3"], "--batch 3: --sizes batch=3 fixes the first axis already"),
        (["-o", str(model.with_name("again.onnx"))], "--batch 3: no input has an open first axis with a name"),
    ):
        source = [str(output if more[0] == "-o" else model)]
        assert main(["fuse", *source, "--plugins", "none", "--batch", "3", *more]) == 2
        assert why in capsys.readouterr().err


def test_a_wrong_name_writes_nothing_and_lists_the_axes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuse", str(model), "--sizes", "seq=5"]) == 2
    assert "no input has an open axis seq; the model has x [batch, sequence, 8]" in capsys.readouterr().err
    assert not model.with_name("m.fused.onnx").exists()


@pytest.mark.parametrize("dynamo", [True, False])
def test_an_encoder_of_torch(tmp_path: Path, dynamo: bool, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
    path = encoder(tmp_path, dynamo)
    output = tmp_path / "fixed.onnx"
    assert main(["fuse", str(path), "--plugins", "all", "--sizes", "batch=3,sequence=7", "-o", str(output)]) == 0
    said = capsys.readouterr()
    assert "not known" not in said.err
    fused = load_model(output)
    assert set(kernels_in(fused)) == {"add_layer_norm", "self_attention", "scale_add_softmax"}
    x = {"x": np.random.default_rng(0).standard_normal((3, 7, 16), dtype=np.float32)}
    np.testing.assert_allclose(run(fused, **x)[0], run(load_model(path), **x)[0], rtol=0, atol=1e-6)


def test_the_older_exporter_of_torch_fixes_the_length_of_attention(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
    path = encoder(tmp_path, dynamo=False)
    for sizes in ("batch=3,sequence=9", "sequence=9"):
        assert main(["fuse", str(path), "--sizes", sizes]) == 2
        assert "the exporter wrote sizes of its example there" in capsys.readouterr().err
    assert main(["fuse", str(path), "--sizes", "sequence=7"]) == 0


def test_what_more_open_axes_than_a_kernel_takes_need_is_said(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
    refusals = fuse(load_model(encoder(tmp_path, dynamo=True)), "all").refusals
    unknown = [refusal for refusal in refusals if "is not known" in refusal.reason]
    assert {refusal.kernel for refusal in unknown} >= {"batched_matmul"}
    assert all(refusal.reason.endswith(f"is not known: {GIVE_SIZES}") for refusal in unknown)
    assert GIVE_SIZES == "give open axes sizes with --sizes NAME=N"
