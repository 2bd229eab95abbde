"""What kind of file it is, and what to do about those that the converter does not read."""

from __future__ import annotations

import argparse
import pickle
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from kuiperinfer.convert.model_file import Kind, has_modes, kind_of, was_training
from kuiperinfer.errors import InputError

from .onnx_files import NETWORK

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")


class Own(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Trap:
    """An object whose unpickling would show."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('the pickle was loaded')",))


@pytest.fixture
def net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5)).eval()


def trace(net: nn.Module, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(net, torch.zeros(1, 3, 8, 8), check_trace=False)
    traced.save(str(path))
    return path


def test_torchscript_and_onnx_are_told_by_their_content(net: nn.Module, tmp_path: Path) -> None:
    assert kind_of(trace(net, tmp_path / "net.onnx")) is Kind.TORCHSCRIPT
    torch.jit.script(net).save(str(tmp_path / "scripted"))
    assert kind_of(tmp_path / "scripted") is Kind.TORCHSCRIPT
    (tmp_path / "net.pt").write_bytes(NETWORK)
    assert kind_of(tmp_path / "net.pt") is Kind.ONNX


def saved(tmp_path: Path, value: Any, **options: Any) -> Path:
    torch.save(value, tmp_path / "saved.pt", **options)
    return tmp_path / "saved.pt"


@pytest.mark.parametrize(
    ("make", "what", "do"),
    [
        (lambda net, folder: saved(folder, net.state_dict()), "weights alone (a state_dict)", "from_torch(net.eval()"),
        (
            lambda net, folder: saved(folder, {"args": argparse.Namespace(a=1), "state": net.state_dict()}),
            "weights alone",
            "load the weights into it",
        ),
        (lambda net, folder: saved(folder, net), "a pickled module, not TorchScript", "torch.jit.trace"),
        (
            lambda net, folder: saved(folder, Own()),
            "test_model_file.Own), which only their own program",
            "torch.jit.trace",
        ),
        (
            lambda net, folder: saved(folder, net.state_dict(), _use_new_zipfile_serialization=False),
            "a pickle of an old torch.save",
            "from_torch",
        ),
    ],
    ids=["state_dict", "checkpoint", "module", "own module", "old format"],
)
def test_what_torch_save_writes(net: nn.Module, tmp_path: Path, make: Any, what: str, do: str) -> None:
    path = make(net, tmp_path)
    with pytest.raises(InputError) as caught:
        kind_of(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert what in str(caught.value) and do in str(caught.value)


def test_a_checkpoint_of_ultralytics(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "yolov8n.pt", "w") as archive:
        archive.writestr("yolov8n/data.pkl", b"cultralytics.nn.tasks\nDetectionModel\n.")
    with pytest.raises(InputError, match=r'export it: YOLO\("model.pt"\).export\(format="torchscript"\)'):
        kind_of(tmp_path / "yolov8n.pt")


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    for path, content in ((tmp_path / "plain.pkl", pickle.dumps(Trap())), (tmp_path / "in.pt", b"")):
        if content:
            path.write_bytes(content)
        else:
            torch.save(OrderedDict(a=Trap()), path)
        with pytest.raises(InputError):
            kind_of(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "the file is empty"),
        (b"7767517\n3 2\n", "a .param file of PNNX or ncnn already; PNNX models need no conversion: kuiper info MODEL"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid",
            "a pointer of Git LFS, not the model itself; run git lfs pull",
        ),
        (b"<!doctype html>", "was this a download that failed?"),
        (b"\x89HDF\r\n\x1a\n", "as Keras writes; export the network to ONNX"),
        (b"\x1c\x00\x00\x00TFL3", "a TensorFlow Lite model"),
        (pickle.dumps([1]), "a Python pickle"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00{" + b'"a":1}'.ljust(15) + b"data", "weights alone (safetensors)"),
        (b"hello", "neither TorchScript nor ONNX; its first bytes are b'hello'. Was it cut off?"),
        (NETWORK[:-1], "neither TorchScript nor ONNX"),
        (b"PK\x03\x04" + bytes(90), "a damaged archive"),
    ],
    ids=["empty", "pnnx", "lfs", "html", "keras", "tflite", "pickle", "safetensors", "text", "cut onnx", "cut zip"],
)
def test_other_files(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError) as caught:
        kind_of(tmp_path / "file")
    assert complaint in str(caught.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read \(No such file"):
        kind_of(tmp_path / "none.pt")
    with pytest.raises(InputError, match="found a folder or device"):
        kind_of(tmp_path)


@pytest.mark.parametrize("names", [["a/archive_format"], ["archive_format"], ["x/models/model.json"]])
def test_a_program_of_torch_export(tmp_path: Path, names: list[str]) -> None:
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        for name in names:
            archive.writestr(name, "pt2")
    with pytest.raises(InputError, match=r"a program of torch.export, which the converter does not read"):
        kind_of(tmp_path / "net.pt2")


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InputError, match="an archive of 1 files that is no TorchScript"):
        kind_of(tmp_path / "net.zip")


def kind_or_complaint(path: Path) -> Kind | str:
    try:
        return kind_of(path)
    except InputError as error:
        return str(error)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_kind_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    found = kind_or_complaint(path)
    assert isinstance(found, Kind) or found.startswith(f"{path}: ")


@given(st.integers(0, len(NETWORK) - 1), st.integers(0, 255))
def test_a_changed_byte_does_no_harm(tmp_path_factory: pytest.TempPathFactory, index: int, byte: int) -> None:
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(NETWORK[:index] + bytes([byte]) + NETWORK[index + 1 :])
    found = kind_or_complaint(path)
    assert found is Kind.ONNX or str(found).startswith(f"{path}: ")


def test_training_mode_is_seen(net: nn.Module, tmp_path: Path) -> None:
    assert not was_training(trace(net, tmp_path / "evaluation.pt"))
    net.train()
    path = trace(net, tmp_path / "training.pt")
    assert was_training(path) and has_modes(path)
    plain = trace(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), tmp_path / "plain.pt")
    assert was_training(plain) and not has_modes(plain)
    (tmp_path / "text").write_text("hello")
    assert not was_training(tmp_path / "text") and not has_modes(tmp_path / "text")
