"""`kuiper convert` as a user meets it."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kuiperinfer.cli.convert import name_of


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """A traced network in a folder of its own."""
    folder = tmp_path / "nets"
    folder.mkdir()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(net, torch.rand(1, 3, 8, 8)).save(str(folder / "small.pt"))
    return folder / "small.pt"


def test_two_files_and_nothing_else(kuiper: Any, traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    code, out, err = kuiper("convert", traced)
    assert (code, err) == (0, "")
    assert "small.pnnx.param  4 operators, " in out
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["input", "pnnx_input_0", *"1 × 3 × 8 × 8".split(), "f32"],
        ["output", "pnnx_output_0", *"1 × 4 × 6 × 6".split(), "f32"],
    ]
    assert sorted(os.listdir(traced.parent)) == ["small.pnnx.bin", "small.pnnx.param", "small.pt"]
    assert os.listdir(elsewhere) == []
    code, _, _ = kuiper("convert", traced, "-o", "made/here")
    assert code == 0
    assert sorted(os.listdir("made/here")) == ["small.pnnx.bin", "small.pnnx.param"]
    assert kuiper("check", "made/here")[0] == 0


def test_without_shapes_nothing_is_verified_and_the_exit_code_tells(kuiper: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frozen = torch.jit.freeze(torch.jit.script(nn.Sequential(nn.ReLU()).eval()))
        torch.jit.save(frozen, str(tmp_path / "frozen.pt"))
    code, out, _ = kuiper("convert", tmp_path / "frozen.pt", "--verify")
    assert code == 1
    assert "nothing could be simplified or checked" in out
    assert kuiper("convert", tmp_path / "frozen.pt")[0] == 0
    assert kuiper("convert", tmp_path / "frozen.pt", "--verify", "--shape", "2x3")[0] == 0


def test_free_dimensions_are_verified(kuiper: Any, traced: Path) -> None:
    arguments = ("convert", traced, "--shape", "1x3x8x8", "--shape2", "2,3,9,12", "--verify")
    code, out, _ = kuiper(*arguments)
    assert code == 0
    assert [line.split()[:2] + line.split()[-1:] for line in out.splitlines()[-2:]] == [
        ["torch", "(1,3,8,8)f32", "agrees"],
        ["torch", "(2,3,9,12)f32", "agrees"],
    ]
    code, out, _ = kuiper(*arguments, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["inputs"] == [{"name": "pnnx_input_0", "shape": [None, 3, None, None], "dtype": "f32"}]
    assert data["operators"] == {"nn.Conv2d": 1, "nn.ReLU": 1, "pnnx.Input": 1, "pnnx.Output": 1}
    assert data["warnings"] == []
    assert data["files"] == [str(traced.with_name(f"small.pnnx.{kind}")) for kind in ("param", "bin")]
    assert [(one["engine"], one["inputs"], one["ok"]) for one in data["verified"]] == [
        ("torch", ["(1,3,8,8)f32"], True),
        ("torch", ["(2,3,9,12)f32"], True),
    ]


def test_a_difference_has_an_exit_code(kuiper: Any, traced: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kuiperinfer.convert import conversion
    from kuiperinfer.convert.model_file import Kind

    monkeypatch.setitem(
        conversion.ENGINES, Kind.TORCHSCRIPT, ("torch", lambda path, arrays: [arrays[0][:, :1, :6, :6].repeat(4, 1)])
    )
    code, out, _ = kuiper("convert", traced, "--verify")
    assert code == 1
    assert "output 0: error" in out.splitlines()[-1]


def test_operators_that_nobody_knows(kuiper: Any, tmp_path: Path) -> None:
    class Kept(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    Kept.__module__, Kept.__qualname__ = "mine", "Kept"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(nn.Sequential(Kept()).eval(), torch.rand(3)).save(str(tmp_path / "net.pt"))
    code, out, _ = kuiper("convert", tmp_path / "net.pt", "--module-operator", "mine.Kept")
    assert code == 2
    assert "not supported" in out and "mine.Kept" in out
    assert (tmp_path / "net.pnnx.param").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["missing.pt"], 1, "missing.pt: cannot be read"),
        (["missing.pt", "--shape", "1x3xA"], 2, "shape '1x3xA': expected whole numbers"),
        (["small.pt", "--shape2", "1x3f99"], 2, "unknown dtype 'f99'"),
        (["small.pt", "--time-limit", "nan"], 2, "expected a number, found 'nan'"),
        (["small.pt", "--shape", "1x3x9x9"], 1, "the network was traced with [1,3,8,8]f32"),
        (["small.pt", "--shape2", "1x3x9x9"], 1, "expected as many second shapes as first ones, found 0 and 1"),
        (["small.pt", "--shape", "1x3x8x8", "--shape", "2i64"], 1, "the network takes 1 inputs, 2 shapes were given"),
        (["small.pt", "--time-limit", "0.001"], 1, "stopped after 0.001 s, the time limit"),
        (["small.pt", "--optlevel", "9"], 2, "9 is not in the range"),
        (["small.pt", "-o", "small.pt"], 1, "cannot be written"),
        ([], 2, "Missing argument 'FILE'"),
    ],
    ids=str,
)
def test_mistakes(
    kuiper: Any, traced: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, complaint: str
) -> None:
    monkeypatch.chdir(traced.parent)
    found, out, err = kuiper("convert", *arguments)
    assert (found, out) == (code, "")
    assert complaint in err
    assert os.listdir() == ["small.pt"]


def test_weights_alone(kuiper: Any, tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "weights.pth")
    code, _, err = kuiper("convert", tmp_path / "weights.pth")
    assert code == 1
    assert "weights alone (a state_dict), without the network that they belong to" in err


def test_warnings_are_shown(kuiper: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(nn.Sequential(nn.Dropout(0.1)), torch.rand(3), check_trace=False).save(str(tmp_path / "net.pt"))
    code, out, _ = kuiper("convert", tmp_path / "net.pt")
    assert code == 0
    assert out.splitlines()[-1].startswith("warning: the network was in training mode")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("resnet18.pt", "resnet18"),
        ("yolov8n.torchscript", "yolov8n"),
        ("yolov8n.torchscript.pt", "yolov8n"),
        ("a.b.ONNX", "a.b"),
        ("net", "net"),
        (".pt", ".pt"),
        ("v1.5", "v1.5"),
    ],
)
def test_names_of_results(file: str, name: str) -> None:
    assert name_of(Path("folder") / file) == name
