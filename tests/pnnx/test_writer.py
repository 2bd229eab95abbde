"""Writing a model: into which files, and what cannot be written."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer import dtypes, pnnx
from kuiperinfer.errors import InputError, ResourceLimitError
from kuiperinfer.pnnx import Attribute, Graph, Operand, Operator, Parameter
from kuiperinfer.settings import settings

from .models import add, chain, small, weights_of

PARAM, BIN = pnnx.to_bytes(small())


def test_the_text_of_a_small_model() -> None:
    graph = Graph()
    x = add(graph, "pnnx.Input", "pnnx_input_0", [])
    x[0].shape, x[0].dtype = (1, None, 3), dtypes.f32
    weights = {"weight": Attribute.of(np.ones((2, 3), np.float32)), "bias": Attribute.of(np.zeros(2, np.float16))}
    params = {"b": pnnx.parameter(1e-5), "B": pnnx.parameter((1, 2)), "a": pnnx.parameter(True)}
    y = add(graph, "nn.Linear", "a.module.with.a.long.name", [*x, *x], params=params, attributes=weights)
    graph.operators[-1].input_names = ["input", None]
    y[0].shape = (2,)
    add(graph, "pnnx.Output", "pnnx_output_0", y, 0)
    assert pnnx.to_text(graph) == (
        "7767517\n"
        "3 2\n"
        "pnnx.Input               pnnx_input_0             0 1 0 #0=(1,?,3)f32\n"
        "nn.Linear                a.module.with.a.long.name 2 1 0 0 1 B=(1,2) a=True b=1.000000e-5 "
        "@bias=(2)f16 @weight=(2,3)f32 $input=0 #0=(1,?,3)f32 #0=(1,?,3)f32 #1=(2)null\n"
        "pnnx.Output              pnnx_output_0            1 0 1 #1=(2)null\n"
    )
    assert weights_of(pnnx.read(*pnnx.to_bytes(graph))) == weights_of(graph)


def test_names_are_padded_by_bytes() -> None:
    graph = Graph()
    add(graph, "pnnx.Output", "é", add(graph, "pnnx.Input", "né", []), 0)
    assert "pnnx.Input               né                      0 1 0\n" in pnnx.to_text(graph)


def test_input_names_may_be_left_out() -> None:
    graph = small()
    for operator in graph.operators:
        operator.input_names = []
    assert "$" not in pnnx.to_text(graph)


# ------------------------------------------------------------------------------------------- files


def test_to_a_path(tmp_path: Path) -> None:
    for path in (tmp_path / "x.pnnx.param", str(tmp_path / "y.param")):
        pnnx.write(small(), path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "x.pnnx.param": PARAM,
        "x.pnnx.bin": BIN,
        "y.param": PARAM,
        "y.bin": BIN,
    }


def test_to_two_paths(tmp_path: Path) -> None:
    pnnx.write(small(), tmp_path / "text", tmp_path / "weights")
    assert ((tmp_path / "text").read_bytes(), (tmp_path / "weights").read_bytes()) == (PARAM, BIN)


def test_to_open_files(tmp_path: Path) -> None:
    param, archive = io.BytesIO(), io.BytesIO()
    pnnx.write(small(), param, archive)
    assert (param.getvalue(), archive.getvalue()) == (PARAM, BIN)
    words = io.StringIO()
    pnnx.write(small(), words, weights=False)
    assert words.getvalue() == PARAM.decode()
    with open(tmp_path / "x.param", "w", encoding="utf-8", newline="") as file:
        pnnx.write(small(), file, tmp_path / "x.bin")
    assert weights_of(pnnx.read(tmp_path / "x.param")) == weights_of(small())


def test_without_weights(tmp_path: Path) -> None:
    pnnx.write(small(), tmp_path / "x.param", weights=False)
    assert [path.name for path in tmp_path.iterdir()] == ["x.param"]
    pnnx.write(chain(1), io.BytesIO())
    pnnx.write(chain(1), tmp_path / "y")
    pnnx.write(chain(1), tmp_path / "z.param")
    assert (tmp_path / "z.bin").stat().st_size == 98, "as the converter does, even without weights"
    for target in (io.BytesIO(), tmp_path / "text"):
        with pytest.raises(InputError, match="nowhere to write the weights to"):
            pnnx.write(small(), target)


def test_a_file_is_replaced_only_when_the_new_one_is_complete(tmp_path: Path) -> None:
    param, archive = tmp_path / "x.param", tmp_path / "x.bin"
    param.write_text("old text")
    archive.write_text("old weights")
    broken = small()
    broken.operators[-2].attributes["w"] = Attribute(dtypes.f32, (1,))  # the last weight is written last
    with pytest.raises(InputError, match=r"the weight 'torch.where_0.w' cannot be written: it has no data"):
        pnnx.write(broken, param)
    assert (param.read_text(), archive.read_text()) == ("old text", "old weights")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.bin", "x.param"]
    pnnx.write(small(), param)
    assert weights_of(pnnx.read(param)) == weights_of(small())


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "x.param"
    link.symlink_to(tmp_path / "folder" / "y.param")
    pnnx.write(small(), link, weights=False)
    assert link.is_symlink()
    assert (tmp_path / "folder" / "y.param").read_bytes() == PARAM


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"x\.bin: cannot be written: No space left on device"):
        pnnx.write(small(), tmp_path / "x.param")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["no/such/folder/x.param", ".", "a\0b.param"])
def test_where_nothing_can_be_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="cannot be written: "):
        pnnx.write(small(), f"{tmp_path}/{path}", io.BytesIO())
    assert list(tmp_path.iterdir()) == []


def test_targets_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="param: expected a path or an open file, found int"):
        pnnx.write(small(), 3, tmp_path / "x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"bin: the open file takes text; expected one opened for bytes"):
        pnnx.write(small(), io.BytesIO(), io.StringIO())
    closed = io.BytesIO()
    closed.close()
    with pytest.raises(InputError, match="bin: cannot be written: I/O operation on closed file"):
        pnnx.write(small(), io.BytesIO(), closed)
    with open(os.devnull, "rb") as file, pytest.raises(InputError, match="param: cannot be written"):
        pnnx.write(small(), file, weights=False)


# ------------------------------------------------------------------------------------------- what cannot be written


def rename(**names: str) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        for field, name in names.items():
            setattr(graph.operators[1], field, name)

    return change


def with_param(key: str, text: str) -> Callable[[Graph], None]:
    return lambda graph: graph.operators[1].params.update({key: Parameter(text, text)})


def with_weight(key: str, attribute: Attribute) -> Callable[[Graph], None]:
    return lambda graph: graph.operators[1].attributes.update({key: attribute})


def with_operand(name: str) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        graph.operators[1].outputs[0].name = name

    return change


def with_input_names(*names: str | None) -> Callable[[Graph], None]:
    return lambda graph: graph.operators[4].input_names.__setitem__(slice(None), names)


ONE = np.ones(1, np.float32)
NOT_THERE = "has a character that the format cannot hold there"

CHANGES: dict[str, tuple[Callable[[Graph], Any], str]] = {
    "type with a blank": (rename(type="nn Linear"), "the type 'nn Linear' is empty, or " + NOT_THERE),
    "no type": (rename(type=""), "the type '' is empty"),
    "name with a blank": (rename(name="my layer"), "operator 'my layer' .nn.Linear.: the name 'my layer'"),
    "name with a newline": (rename(name="fc\n"), "the name 'fc\\\\n'"),
    "half a character": (rename(name="fc\ud800"), "the name 'fc\\\\ud800'"),
    "key with =": (with_param("a=b", "1"), f"the parameter 'a=b' is empty, or {NOT_THERE}"),
    "key of another kind": (with_param("@a", "(1)f32"), "the parameter '@a'"),
    "no key": (with_param("", "1"), "the parameter ''"),
    "value with a blank": (with_param("a", "b c"), "the value 'b c'"),
    "value that cannot be read": (with_param("a", "(1,2"), "cannot be written as a model: <graph>:4:.*is never closed"),
    "weight with =": (with_weight("a=b", Attribute.of(ONE)), "the weight 'a=b'"),
    "weight of another shape": (
        with_weight("w", Attribute(dtypes.f32, (2,), ONE)),
        r"the weight 'fc.w' cannot be written: its data is \(1\)f32, its description \(2\)f32",
    ),
    "weight of another dtype": (with_weight("w", Attribute(dtypes.f16, (1,), ONE)), "its data is .1.f32"),
    "weight of no dtype of the format": (
        with_weight("w", Attribute(dtypes.f32, (1,), np.ones(1, np.uint64))),
        "the weight 'fc.w' cannot be written: arrays of NumPy dtype 'uint64' are not supported",
    ),
    "operand with a blank": (with_operand("x y"), "the operand 'x y'"),
    "operand like a key": (with_operand("#1"), "the operand '#1'"),
    "operand with =": (with_operand("1=2"), "the operand '1=2'"),
    "operand twice": (with_operand("0"), "cannot be written as a model: <graph>:4:.*operand '0' is an output of"),
    "names for other inputs": (with_input_names("x"), "1 names for 3 inputs; expected one each"),
    "name with a blank for an input": (with_input_names("x y", None, None), "the input 'x y'"),
    "name for the second use": (
        with_input_names(None, None, "x"),
        "input 'x' is operand '1', as is an input without a name",
    ),
    "operator twice": (lambda graph: graph.operators.append(graph.operators[1]), "cannot be written as a model"),
    "no output": (
        lambda graph: graph.operators.pop(),
        "cannot be written as a model: <graph>: the model has no output",
    ),
    "order": (
        lambda graph: graph.operators.reverse(),
        "cannot be written as a model: .* expected operators in the order",
    ),
    "no producer": (lambda graph: graph.operators.pop(0), "cannot be written as a model"),
    "negative size": (
        lambda graph: setattr(graph.operands["0"], "shape", (-1,)),
        "cannot be written as a model: <graph>:3:.*: dimension '-1' is no size",
    ),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES.keys())
def test_what_cannot_be_written(change: Callable[[Graph], Any], message: str, tmp_path: Path) -> None:
    graph = small()
    change(graph)
    with pytest.raises(InputError, match=message):
        pnnx.to_bytes(graph)
    with pytest.raises(InputError, match=message):
        pnnx.write(graph, tmp_path / "x.param")
    assert list(tmp_path.iterdir()) == []


def test_limits_hold_for_writing_too() -> None:
    with settings(max_operators=5), pytest.raises(ResourceLimitError):
        pnnx.to_bytes(small())


def test_arrays_of_any_layout_are_written() -> None:
    data = np.arange(24, dtype=">f4").reshape(4, 6).T[::2]
    graph = chain(1)
    graph.operators[1].attributes["w"] = Attribute(dtypes.f32, (3, 4), data)
    again = pnnx.read(*pnnx.to_bytes(graph)).operators[1].attributes["w"].data
    assert again is not None
    assert np.array_equal(again, data)


def test_an_operator_made_by_hand() -> None:
    x = Operand("x")
    source = Operator("pnnx.Input", "in", outputs=[x])
    x.producer = source
    sink = Operator("pnnx.Output", "out", [x])
    graph = Graph([source, sink], {"x": x})
    assert pnnx.to_text(pnnx.read(pnnx.to_bytes(graph)[0])) == pnnx.to_text(graph)
