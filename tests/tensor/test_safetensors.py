"""Weights on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_torch_file

from kuiperinfer import DTypeError, InputError, nn
from kuiperinfer.dtypes import dtype_of, widen
from kuiperinfer.tensor import Tensor, arange, no_grad


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class TorchNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        conv, norm = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4)
        self.body = torch.nn.Sequential(conv, norm, torch.nn.ReLU(), torch.nn.Flatten())
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.body(x))
        return result


def test_there_and_back(tmp_path: Path) -> None:
    network = Net()
    with no_grad():
        network(Tensor(np.random.default_rng(0).normal(size=(5, 1, 4, 4)), "f32"))  # the running statistics move
    nn.save_weights(network, tmp_path / "net.safetensors")
    other = Net()
    assert nn.load_weights(other, tmp_path / "net.safetensors") == ([], [])
    for (name, own), (_, found) in zip(network.state_dict().items(), other.state_dict().items(), strict=True):
        np.testing.assert_array_equal(found.array, own.array, err_msg=name)
    assert other.get_submodule("body.1").num_batches_tracked.item() == 1


def test_weights_go_to_pytorch_and_come_back(tmp_path: Path) -> None:
    ours, theirs = Net().eval(), TorchNet().eval()
    x = np.random.default_rng(1).normal(size=(2, 1, 4, 4)).astype(np.float32)
    nn.save_weights(ours, tmp_path / "ours.safetensors")
    theirs.load_state_dict(
        {key: torch.from_numpy(value) for key, value in load_file(tmp_path / "ours.safetensors").items()}
    )
    with torch.no_grad(), no_grad():
        np.testing.assert_allclose(ours(Tensor(x)).numpy(), theirs(torch.from_numpy(x)).numpy(), atol=1e-6)
    theirs = TorchNet().eval()
    save_file({key: value.numpy() for key, value in theirs.state_dict().items()}, tmp_path / "theirs.safetensors")
    nn.load_weights(ours, tmp_path / "theirs.safetensors")
    with torch.no_grad(), no_grad():
        np.testing.assert_allclose(ours(Tensor(x)).numpy(), theirs(torch.from_numpy(x)).numpy(), atol=1e-6)


def test_tensors_and_arrays_of_any_strides(tmp_path: Path) -> None:
    numbers = arange(6).reshape(2, 3)
    tensors = {
        "turned": numbers.transpose(0, 1),
        "part": numbers[:, 1:],
        "array": np.arange(4.0)[::2],
        "scalar": numbers[0, 1],
    }
    nn.save_tensors(tensors, tmp_path / "x.safetensors", {"made by": "a test"})
    found = nn.load_tensors(tmp_path / "x.safetensors")
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        expected = value.array if isinstance(value, Tensor) else value
        assert found[name].dtype == expected.dtype
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
def test_dtypes_of_pytorch(tmp_path: Path, dtype: str) -> None:
    expected = torch.tensor([[0.0, 1.0, 2.5], [3.0, 100.0, 7.0]]).to(getattr(torch, dtype))
    save_torch_file({"x": expected}, tmp_path / "x.safetensors")
    found = nn.load_tensors(tmp_path / "x.safetensors")["x"]
    assert dtype_of(found).torch_name == f"torch.{dtype}"
    np.testing.assert_array_equal(widen(found), expected.float().numpy().astype(widen(found).dtype))
    if dtype == "bfloat16":
        layer = nn.Linear(3, 2, bias=False)
        layer.load_state_dict({"weight": found})
        np.testing.assert_array_equal(layer.weight.tolist(), expected.float().numpy())
        with pytest.raises(DTypeError, match="'x': bf16 cannot be written as safetensors"):
            nn.save_tensors({"x": found}, tmp_path / "y.safetensors")


def test_a_dtype_that_nobody_here_knows(tmp_path: Path) -> None:
    save_torch_file({"x": torch.zeros(2, dtype=torch.float8_e5m2)}, tmp_path / "x.safetensors")
    with pytest.raises(DTypeError, match="'x' has the dtype F8_E5M2; expected one of F32, F64"):
        nn.load_tensors(tmp_path / "x.safetensors")


def test_a_state_that_does_not_fit_names_the_file(tmp_path: Path) -> None:
    nn.save_weights(nn.Linear(3, 4), tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"x\.safetensors: this state does not fit Linear: 'weight': expected shape"):
        nn.load_weights(nn.Linear(3, 5), tmp_path / "x.safetensors")


def test_broken_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.safetensors: cannot be read as safetensors"):
        nn.load_tensors(tmp_path / "nothing.safetensors")
    for number, content in enumerate([b"", b"not this", (2**40).to_bytes(8, "little") + b"{}"]):
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as safetensors"):
            nn.load_tensors(path)
    nn.save_tensors({"a": np.zeros(9)}, tmp_path / "cut.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "cut.safetensors").read_bytes()[:-8])
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        nn.load_tensors(tmp_path / "cut.safetensors")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        nn.save_weights(nn.Linear(2, 2), tmp_path / "missing" / "x.safetensors")


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuiperinfer.tensor.nn.weights.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'kuiperinfer\[train\]'"):
        nn.load_tensors(tmp_path / "x.safetensors")
