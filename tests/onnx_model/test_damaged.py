"""Models that nobody exported: weights that lie elsewhere, and files with any field or byte changed."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from lenet_trt.draw.graph_svg import graph_svg
from lenet_trt.errors import LenetTrtError
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.floors.work import work_of
from lenet_trt.fuse.stage import fuse
from lenet_trt.inspect.__main__ import inspect_onnx
from lenet_trt.onnx_model.read import load_model, model_files, model_fingerprint
from lenet_trt.runtimes.inputs import Sizes, shapes_of

EXPORTED = Path(__file__).parents[1] / "exported"


def external(path: Path, **said: str) -> Path:
    """A model whose weights, 4 x 3 floats, lie beside it; ``said`` replaces what it says of them."""
    weight = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in (("x", 4), ("y", 3)))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    if said:
        model = onnx.load(path, load_external_data=False)
        (tensor,) = model.graph.initializer
        facts = {entry.key: entry.value for entry in tensor.external_data} | said
        del tensor.external_data[:]
        for key, value in facts.items():
            if value != "absent":
                tensor.external_data.add(key=key, value=value)
        path.write_bytes(model.SerializeToString())
    return path


READERS: tuple[Callable[[Path], Any], ...] = (load_model, model_fingerprint, model_files)


def refused(path: Path, said: str) -> None:
    for read in READERS:
        with pytest.raises(LenetTrtError, match=said):
            read(path)


def test_weights_beside_a_model_are_taken(tmp_path: Path) -> None:
    path = external(tmp_path / "m.onnx")
    assert numpy_helper.to_array(load_model(path).graph.initializer[0])[3, 2] == 11
    assert model_files(path) == [path, tmp_path / "w.bin"]
    before = model_fingerprint(path)
    data = bytearray((tmp_path / "w.bin").read_bytes())
    data[0] ^= 1
    (tmp_path / "w.bin").write_bytes(data)
    assert model_fingerprint(path) != before


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"location": "../w.bin"}, "wanted a file in the model's folder"),
        ({"location": "/etc/passwd"}, "wanted a file in the model's folder"),
        ({"location": ""}, "wanted a file in the model's folder"),
        ({"location": "absent"}, "wanted a file in the model's folder"),
        ({"location": "a\0b"}, "wanted a file in the model's folder"),
        ({"location": "."}, "is no file"),
        ({"location": "gone.bin"}, "is not there"),
        ({"offset": "-1"}, "its offset is '-1'"),
        ({"offset": "x"}, "its offset is 'x'"),
        ({"offset": "4"}, "wanted 52"),
        ({"length": "9" * 30}, "its length is"),
        ({"length": "44"}, "its type and shape need 48"),
        ({"length": "0"}, "its type and shape need 48"),
    ],
)
def test_what_a_model_says_of_its_weights_is_checked_first(tmp_path: Path, said: dict[str, str], told: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "w.bin").write_bytes(b"secret" * 8)
    refused(external(tmp_path / "inner" / "m.onnx", **said), told)


def test_a_link_out_of_the_folder_and_a_fifo_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path = external(folder / "m.onnx")
    (folder / "w.bin").rename(tmp_path / "w.bin")
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    refused(path, "leads out of the model's folder")
    (folder / "w.bin").unlink()
    os.mkfifo(folder / "w.bin")
    refused(path, "is no file")


def bytes_read() -> int:
    """The bytes that this process has read from files so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count what a process reads")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, None),  # only what the tensors need is read of a file with more in it
        ({"length": "absent"}, "its type and shape need 48"),
        ({"length": str(1 << 30)}, "its type and shape need 48"),
        ({"location": "../w.bin"}, "wanted a file in the model's folder"),
        ({"location": "link.bin"}, "leads out of the model's folder"),
    ],
)
@pytest.mark.parametrize("read", READERS)
def test_a_file_of_any_size_is_checked_before_it_is_read(
    tmp_path: Path, read: Callable[[Path], Any], said: dict[str, str], told: str | None
) -> None:
    """A gigabyte that takes no place on the disk."""
    folder = tmp_path / "inner"
    folder.mkdir()
    path = external(folder / "m.onnx", **said)
    (tmp_path / "w.bin").touch()
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    for file in (folder / "w.bin", tmp_path / "w.bin"):
        os.truncate(file, 1 << 30)
    before = bytes_read()
    if told is None:
        read(path)
    else:
        with pytest.raises(LenetTrtError, match=told):
            read(path)
    assert bytes_read() - before < 16 << 20


def test_tensors_that_need_more_than_a_model_can_have_are_refused(tmp_path: Path) -> None:
    path = external(tmp_path / "m.onnx", length="absent")
    os.truncate(tmp_path / "w.bin", 64 << 30)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].dims[:] = [1 << 17, 1 << 17]
    path.write_bytes(model.SerializeToString())
    with pytest.raises(LenetTrtError, match="this command takes at most"):
        load_model(path)


def models() -> dict[str, bytes]:
    """The shipped model, the same with plugin nodes, and what two converters wrote."""
    shipped = SHIPPED.read_bytes()
    fused = fuse(onnx.load_model_from_string(shipped)).model.SerializeToString()
    others = {path.stem: path.read_bytes() for path in sorted(EXPORTED.glob("*.onnx"))}
    return {"lenet5": shipped, "fused": fused, **others}


MODELS = models()


def use(path: Path) -> None:
    """All that a verb does with a model that it did not make, short of running it."""
    inspect_onnx(path)
    model = load_model(path)
    model_fingerprint(path)
    graph_svg(model)
    fuse(model)
    from lenet_trt.onnx_model.ports import ports

    _, sizes = shapes_of(ports(model)[0], Sizes())
    work_of(model, sizes)


def survives(path: Path, data: bytes, what: str) -> bool:
    path.write_bytes(data)
    try:
        use(path)
    except LenetTrtError:
        return False
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    return True


@pytest.mark.parametrize("name", MODELS)
def test_bytes_that_were_changed(tmp_path: Path, name: str) -> None:
    """In the structure, that is: not in the weights, where any byte is right."""
    whole = onnx.load_model_from_string(MODELS[name])
    chance = random.Random(7)
    for tensor in whole.graph.initializer:
        if len(tensor.raw_data) > 256:
            tensor.CopyFrom(numpy_helper.from_array(np.zeros((1, 1), np.float32), tensor.name))
    small = whole.SerializeToString()
    for turn in range(25):
        for source in (small, MODELS[name]):
            data = bytearray(source)
            for _ in range(chance.randint(1, 3)):
                data[chance.randrange(min(len(data), 6000))] = chance.randrange(256)
            survives(tmp_path / "m.onnx", bytes(data), f"turn {turn}")
    survives(tmp_path / "m.onnx", MODELS[name][: len(MODELS[name]) // 2], "half of it")


def fields(message: Any, above: str = "") -> Iterator[tuple[str, Any, Any, int | None]]:
    """Every scalar field that is set, and each entry of the repeated ones: name, message, descriptor, index."""
    for descriptor, value in message.ListFields():
        name = f"{above}.{descriptor.name}"
        repeated = not isinstance(value, (int, float, str, bytes)) and hasattr(value, "__len__")
        for index in range(min(len(value), 4)) if repeated else (None,):
            entry = value if index is None else value[index]
            if descriptor.type == descriptor.TYPE_MESSAGE:
                yield from fields(entry, name if index is None else f"{name}[{index}]")
            else:
                yield name, message, descriptor, index


def _values(descriptor: Any) -> tuple[Any, ...]:
    if descriptor.type == descriptor.TYPE_STRING:
        return "", "x", "relu\x1f\u202e", "Conv", "n" * 300
    if descriptor.type == descriptor.TYPE_BYTES:
        return b"", b"\xff\xfe", b"\0" * 7
    if descriptor.type in (descriptor.TYPE_FLOAT, descriptor.TYPE_DOUBLE):
        return 0.0, math.nan, math.inf, -1.0
    if descriptor.type == descriptor.TYPE_ENUM:
        return 0, 1, 5
    return 0, 1, -1, 7, 16, 99, 2**31 - 1


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "fused" else pytest.mark.slow) for n in MODELS])
def test_fields_that_were_changed(tmp_path: Path, name: str) -> None:
    whole = onnx.load_model_from_string(MODELS[name])
    chance = random.Random(11)
    changes = [(at, value) for at, (_, _, kind, _) in enumerate(fields(whole)) for value in (*_values(kind), None)]
    for at, value in chance.sample(changes, min(len(changes), 120)):
        model = ModelProto()
        model.CopyFrom(whole)
        where, message, descriptor, index = next(found for i, found in enumerate(fields(model)) if i == at)
        try:
            if value is None:
                message.ClearField(descriptor.name)
            elif index is None:
                setattr(message, descriptor.name, value)
            else:
                getattr(message, descriptor.name)[index] = value
        except ValueError:  # protobuf itself refuses the value
            continue
        survives(tmp_path / "m.onnx", model.SerializeToString(), f"{where} = {value!r:.40}")


def _damage(model: ModelProto, kind: str) -> bytes:
    first = model.graph.initializer[0]
    if kind == "values without dims":
        del first.dims[:]
    elif kind == "no type":
        first.data_type = 0
    elif kind == "input without type":
        model.graph.input[0].type.tensor_type.elem_type = 0
    elif kind == "unknown type":
        model.graph.input[0].type.tensor_type.elem_type = 99
    elif kind == "no shape":
        model.graph.input[0].type.tensor_type.ClearField("shape")
    elif kind == "a sequence":
        model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    elif kind == "values twice":
        first.float_data.append(1.0)
    elif kind == "no values":
        first.ClearField("raw_data")
        first.ClearField("float_data")
    elif kind == "an attribute of no kind":
        next(node for node in model.graph.node if node.attribute).attribute[0].type = 0
    elif kind == "a circle":
        model.graph.node[0].input[0] = model.graph.node[-1].output[0]
    elif kind == "no opset":
        del model.opset_import[:]
    data = model.SerializeToString()
    name = model.graph.node[0].output[0].encode()
    return data.replace(name, b"\xff" * len(name)) if kind == "no text" else data


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "kind",
    [
        "values without dims",
        "no type",
        "input without type",
        "unknown type",
        "no shape",
        "a sequence",
        "values twice",
        "no values",
        "an attribute of no kind",
        "a circle",
        "no opset",
        "no text",
    ],
)
def test_damage_that_was_seen(tmp_path: Path, name: str, kind: str) -> None:
    survives(tmp_path / "m.onnx", _damage(onnx.load_model_from_string(MODELS[name]), kind), kind)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty; wanted an ONNX file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull"),
        (b"hello, hello, hello", "starts with the bytes 68 65 6c 6c 6f 2c 20 68.*: export or copy it again"),
        (SHIPPED.read_bytes()[:1000], "or it was cut short: export or copy it again"),
    ],
)
def test_a_file_that_is_no_model_is_told_with_the_way_out(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    for read in (load_model, model_fingerprint):
        with pytest.raises(LenetTrtError, match=told):
            read(path)
