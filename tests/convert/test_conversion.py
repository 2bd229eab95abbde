"""Modules and files in, checked models out; and everything that may be wrong with them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import kuiperinfer
from kuiperinfer import settings
from kuiperinfer.convert import conversion, convert_file, from_torchscript
from kuiperinfer.convert.converter import Converted
from kuiperinfer.convert.other_engines import arrays_of, to_torch
from kuiperinfer.convert.verification import verify
from kuiperinfer.dtypes import dtype_of
from kuiperinfer.errors import ConversionError, InputError, UnsupportedOperatorError
from kuiperinfer.runtime.inputs import random_arrays

from . import onnx_files

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")


@pytest.fixture
def reference() -> Any:
    """These tests are about conversion: the readable engine is enough."""
    with settings(engine="reference"):
        yield


class Functional(nn.Module):
    """A module of any function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def module(function: Any) -> nn.Module:
    return Functional(function).eval()


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5)).eval()


def trace(net: nn.Module, path: Path, *examples: Tensor) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(net, examples or (torch.rand(1, 3, 8, 8),), check_trace=False)
    traced.save(str(path))
    return path


# ------------------------------------------------------------------------------------------- from torch

X = torch.rand(2, 3, generator=torch.Generator().manual_seed(0))

FORMS: dict[str, tuple[Any, Any]] = {
    "one tensor": (lambda x: x + 1, X),
    "a tuple of one": (lambda x: x * 2, (X,)),
    "a list of two": (lambda x, y: x - y, [X, X + 1]),
    "an array": (lambda x: x + 1, X.numpy()),
    "nested inputs": (lambda x, pair: x + pair[0] * pair[1], (X, (X + 1, X + 2))),
    "an index": (lambda x, index: x[index], (X, torch.tensor([1, 0, 1]))),
    "a scalar": (lambda x, factor: x * factor, (X, torch.tensor(3.0))),
    "several outputs": (lambda x: (x + 1, (x * 2, [x.sum(1)])), X),
    "a dict": (lambda x: {"first": x + 1, "second": x * 2}, X),
    "integers": (lambda x: x.argmax(1), X),
    "double": (lambda x: x.exp(), X.double()),
    "complex": (lambda x: x * x, X.to(torch.complex64)),
    "bool": (lambda x, keep: torch.where(keep, x, -x), (X, X > 0.5)),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_inputs_and_outputs(name: str, reference: Any) -> None:
    function, examples = FORMS[name]
    model = kuiperinfer.from_torch(module(function), examples, verify=True)
    flat = [examples] if not isinstance(examples, (tuple, list)) else list(examples)
    flat = [leaf for one in flat for leaf in (one if isinstance(one, tuple) else [one])]
    found = model(*flat)
    expected = arrays_of(
        function(*[torch.as_tensor(one) for one in flat]) if name != "nested inputs" else X + (X + 1) * (X + 2)
    )
    for one, other in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        assert dtype_of(one) is dtype_of(other)


def test_a_scripted_module_with_branches_of_its_own(reference: Any) -> None:
    model = kuiperinfer.from_torch(torch.jit.script(small()), torch.rand(1, 3, 8, 8), verify=True)
    assert model.outputs[0].shape == (1, 4, 6, 6)


def test_files_are_saved_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: Any) -> None:
    monkeypatch.chdir(tmp_path)
    net, x = small(), torch.rand(1, 3, 8, 8)
    model = kuiperinfer.from_torch(net, x, save="nets/small")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "nets",
        "nets/small.pnnx.bin",
        "nets/small.pnnx.param",
    ]
    again = kuiperinfer.load("nets/small.pnnx.param")
    np.testing.assert_array_equal(again(x), model(x))
    kuiperinfer.from_torch(nn.ReLU(), X, save="nets/small.pnnx.param")  # takes the place of the former
    assert kuiperinfer.load("nets/small.pnnx.param").outputs[0].shape == (2, 3)
    assert len(list(Path("nets").iterdir())) == 2


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: cannot be written"):
        kuiperinfer.from_torch(nn.ReLU(), X, save=tmp_path / "file" / "net")
    with pytest.raises(InputError, match=r"expected the name of a file"):
        kuiperinfer.from_torch(nn.ReLU(), X, save=".pnnx.param")


def test_the_module_is_left_as_it_was(reference: Any) -> None:
    net = small()
    net.train()
    net[1].eval()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with pytest.warns(RuntimeWarning, match=r"Sequential: the network was in training mode.*call .eval\(\) first"):
        model = kuiperinfer.from_torch(net, torch.ones(1, 3, 8, 8))
    assert [part.training for part in net] == [True, False, True, True]
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    with torch.no_grad():
        np.testing.assert_allclose(model(torch.ones(1, 3, 8, 8)), net.eval()(torch.ones(1, 3, 8, 8)), atol=1e-5)


def test_inputs_that_a_network_writes_over(reference: Any) -> None:
    x = torch.tensor([[1.0, -2.0]])
    net = nn.Sequential(nn.ReLU(inplace=True), module(lambda x: x.add_(1)))
    model = kuiperinfer.from_torch(net.eval(), x, verify=True)
    assert x.tolist() == [[1.0, -2.0]]
    assert model(x).tolist() == [[2.0, 1.0]]


def test_training_mode_is_no_matter_where_nothing_depends_on_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kuiperinfer.from_torch(nn.Sequential(nn.Linear(3, 2)), X)


@pytest.mark.parametrize(
    ("net", "examples", "complaint"),
    [
        ({"fc.weight": X}, X, "found a dict: a state_dict is weights alone"),
        (lambda x: x, X, "expected a torch.nn.Module, found function"),
        (nn.ReLU(), "1x3", "expected a tensor, or a tuple of them, found str"),
        (nn.ReLU(), (1, 3, 8, 8), "found int; for a picture that would be torch.rand(1, 3, 224, 224)"),
        (nn.ReLU(), {"x": X}, "found dict"),
        (nn.ReLU(), None, "found NoneType"),
        (nn.Linear(4, 2), X, "cannot take these example inputs (shapes (2, 3)): RuntimeError: "),
        (nn.Linear(4, 2), (), "cannot take these example inputs (shapes none): TypeError"),
        (nn.ReLU().to("meta"), X, ""),
        (nn.Linear(3, 2, device="meta"), X, "'weight' is on the device 'meta': bring the network to the CPU"),
        (module(lambda x: "text"), X, "the network gives str; the format has tensors"),
    ],
    ids=range(11),
)
def test_what_cannot_be_traced(net: Any, examples: Any, complaint: str) -> None:
    if not complaint:  # a module without weights is on no device
        kuiperinfer.from_torch(net, examples)
        return
    with pytest.raises(InputError) as caught:
        kuiperinfer.from_torch(net, examples)
    assert complaint in str(caught.value)


class Untraceable(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if torch.jit.is_tracing():
            raise ValueError("not while I am watched\nand a second line")
        return x


def test_a_trace_that_fails() -> None:
    with pytest.raises(
        ConversionError, match=r"torch.jit.trace cannot follow Untraceable: ValueError: not while I am watched"
    ):
        kuiperinfer.from_torch(Untraceable(), X)


def test_half_precision_is_converted_as_float32() -> None:
    net = nn.Linear(3, 2).half().eval()
    with pytest.raises(ConversionError, match=r"dtype.*Half.*: convert net.float\(\) with float32 inputs"):
        kuiperinfer.from_torch(net, X.half())
    assert kuiperinfer.from_torch(net.float(), X).outputs[0].dtype is kuiperinfer.dtypes.f32


LAYERS = {
    "LSTM": (nn.LSTM(3, 5, batch_first=True), torch.rand(2, 4, 3)),
    "LSTM with states": (nn.LSTM(3, 5), (torch.rand(4, 2, 3), (torch.rand(1, 2, 5), torch.rand(1, 2, 5)))),
    "Embedding": (nn.Embedding(10, 3), torch.tensor([[1, 9]])),
    "TransformerEncoderLayer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.rand(2, 7, 8)),
    "double": (nn.Linear(3, 4).double(), X.double()),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_alone(name: str, reference: Any) -> None:
    layer, examples = LAYERS[name]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    kuiperinfer.from_torch(layer.eval(), examples, verify=True)
    assert torch.backends.mha.get_fastpath_enabled() == fast_path


@pytest.mark.parametrize(
    ("function", "second", "complaint"),
    [
        (lambda x: x.half(), None, "output 0 of the network is (2,3)f16, that of the converted model (2,3)f32"),
        (
            lambda x: x[:, 1:],
            torch.rand(4, 5),
            "output 0 of the network is (2,2)f32, that of the converted model (2,3)f32",
        ),
    ],
    ids=["a cast", "a slice"],
)
def test_what_the_converter_loses_is_noticed(function: Any, second: Any, complaint: str) -> None:
    with pytest.raises(ConversionError, match=r"the converter has lost something") as caught:
        kuiperinfer.from_torch(module(function), X, second)
    assert complaint in str(caught.value)


def test_values_that_differ_are_noticed(tmp_path: Path, reference: Any) -> None:
    """The converter writes a division that cuts as one that floors. Two inputs of a shape get different random numbers."""
    divide = module(lambda x, y: torch.div(10 * (x - y), 2, rounding_mode="trunc"))
    with pytest.raises(
        ConversionError, match=r"Functional: the converted model differs from torch on \(2,3\)f32, .*output 0"
    ):
        kuiperinfer.from_torch(divide, (X, X), verify=True, save=tmp_path / "net")
    assert list(tmp_path.iterdir()) == []  # what is wrong is not saved


def test_second_examples_need_dimensions() -> None:
    with pytest.raises(InputError, match=r"inputs of no dimensions"):
        kuiperinfer.from_torch(module(lambda x, y: x * y), (X, torch.tensor(1.0)), (X, torch.tensor(2.0)))


def test_a_network_that_never_ends() -> None:
    with pytest.raises(ConversionError, match=r"stopped after 2 s, the time limit. Slices of size zero"):
        kuiperinfer.from_torch(module(lambda x: x[:, :0] + 1), X, time_limit=2)


class Kept(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def test_operators_that_nobody_knows_are_all_named(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 3), Kept(), Kept())
    kept = f"{Kept.__module__}.Kept"
    with pytest.raises(UnsupportedOperatorError) as caught:
        kuiperinfer.from_torch(net, X, module_operators=[kept], save=tmp_path / "net")
    assert list(caught.value.operators) == [kept]
    assert len(caught.value.operators[kept]) == 2
    assert str(caught.value).startswith("Sequential: 1 operator type is not supported")
    assert (tmp_path / "net.pnnx.param").exists()  # whoever registers a layer for it can use the file


# ------------------------------------------------------------------------------------------- from files


def test_torchscript(tmp_path: Path, reference: Any) -> None:
    path = trace(small(), tmp_path / "small.pt")
    model = from_torchscript(path, verify=True)
    assert model.inputs[0].shape == (1, 3, 8, 8)
    model = from_torchscript(path, ["1x3x8x8"], [(2, 3, 10, 9)], verify=True)
    assert model.inputs[0].shape == (None, 3, None, None)
    with torch.no_grad():
        x = torch.rand(4, 3, 5, 6)
        np.testing.assert_allclose(model(x), small()(x), atol=1e-5)
    with pytest.raises(InputError, match=r"expected ONNX, found TorchScript"):
        kuiperinfer.from_onnx(path)


def test_onnx(tmp_path: Path, reference: Any) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_files.NETWORK)
    model = kuiperinfer.from_onnx(tmp_path / "net.onnx")
    np.testing.assert_allclose(model([[1.0, 2.0]]), [[19.0, 32.0, 45.0]])
    (tmp_path / "free.onnx").write_bytes(onnx_files.model(batch="n"))
    model = kuiperinfer.from_onnx(tmp_path / "free.onnx", ["1x2"], ["4x2"])
    assert model.inputs[0].shape == (None, 2)
    np.testing.assert_allclose(model([[1.0, 2.0], [0.0, 0.0]]), [[19.0, 32.0, 45.0], [10.0, 20.0, 30.0]])
    with pytest.raises(InputError, match=r"expected TorchScript, found ONNX"):
        from_torchscript(tmp_path / "net.onnx")
    with pytest.raises(InputError, match=r"ONNX files have no modules"):
        convert_file(tmp_path / "net.onnx", module_operators=["a.B"])


def test_onnx_with_its_weights_beside_it(tmp_path: Path, reference: Any) -> None:
    path = tmp_path / "my net.onnx"
    path.write_bytes(onnx_files.model(location="my net.onnx.data"))
    with pytest.raises(ConversionError, match=r"the file 'my net.onnx.data', which holds weights .* is not there"):
        kuiperinfer.from_onnx(path)
    (tmp_path / "my net.onnx.data").write_bytes(np.array([1, 2, 3, 4, 5, 6], "<f4").tobytes())
    np.testing.assert_allclose(kuiperinfer.from_onnx(path)([[1.0, 2.0]]), [[19.0, 32.0, 45.0]])
    path.write_bytes(onnx_files.model(location="weights"))
    (tmp_path / "weights").write_bytes(bytes(24))
    with pytest.raises(ConversionError, match=r"put everything into one file"):
        kuiperinfer.from_onnx(path)


def test_an_onnx_operator_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_files.model(operator="Gmem"))
    with pytest.raises(ConversionError, match=r"not valid for onnxruntime: .*Gmem"):
        kuiperinfer.from_onnx(tmp_path / "net.onnx")


def test_onnx_is_verified_by_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: Any) -> None:
    class Session:
        """What onnxruntime gives, in short; `shift` makes it wrong."""

        shift = 0.0

        def __init__(self, path: str, providers: list[str]) -> None:
            assert Path(path).exists()

        def get_inputs(self) -> list[Any]:
            return [type("Input", (), {"name": "x"})()]

        def run(self, outputs: None, feed: dict[str, Any]) -> list[Any]:
            y = feed["x"] @ [[1, 2, 3], [4, 5, 6]] + [10, 20, 30] + self.shift
            return [y.astype(np.float32)]

    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_files.NETWORK)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"onnxruntime is not installed: pip install onnxruntime"):
        kuiperinfer.from_onnx(path, verify=True)
    monkeypatch.setitem(
        __import__("sys").modules, "onnxruntime", type("onnxruntime", (), {"InferenceSession": Session})
    )
    (verified,) = convert_file(path, verify=True).verified
    assert verified.ok and verified.engine == "onnxruntime" and str(verified) == "onnxruntime on (1,2)f32: agrees"
    free = tmp_path / "free.onnx"
    free.write_bytes(onnx_files.model(batch="n"))
    monkeypatch.setattr(conversion, "shapes_in_log", lambda log: ("[1,2]f32", "[5,2]f32"))  # as it guesses of free ones
    for shapes, expected in (([], ["(1,2)f32", "(5,2)f32"]), (["3x2"], ["(3,2)f32"])):
        found = convert_file(free, shapes, verify=True).verified
        assert [str(one.inputs[0]) for one in found] == expected and all(one.ok for one in found)
    Session.shift = 1.0
    with pytest.raises(ConversionError, match=r"differs from onnxruntime on \(1,2\)f32: output 0: error"):
        kuiperinfer.from_onnx(path, verify=True)


def test_a_shape_other_than_the_traced_one(tmp_path: Path) -> None:
    path = trace(small(), tmp_path / "small.pt")
    with pytest.raises(ConversionError) as caught:
        from_torchscript(path, ["1x3x9x9"])
    assert "input 0: the network was traced with [1,3,8,8]f32, the shape given is [1,3,9,9]f32" in str(caught.value)
    assert "pnnxparam" in caught.value.log


def test_a_script_needs_shapes(tmp_path: Path, reference: Any) -> None:
    torch.jit.freeze(torch.jit.script(small())).save(str(tmp_path / "frozen.pt"))
    found = convert_file(tmp_path / "frozen.pt")
    assert found.warnings == (
        "the file does not tell the shapes of its inputs, so nothing could be simplified or checked: give them",
    )
    assert convert_file(tmp_path / "frozen.pt", ["1x3x8x8"], verify=True).warnings == ()
    torch.jit.script(small()).save(str(tmp_path / "scripted.pt"))
    with pytest.raises(ConversionError, match=r"crashed in pass_level1 \(SIGSEGV\); .* save torch.jit.freeze"):
        from_torchscript(tmp_path / "scripted.pt", ["1x3x8x8"])


def test_a_file_traced_in_training_mode(tmp_path: Path) -> None:
    path = trace(small().train(), tmp_path / "training.pt")
    with pytest.warns(RuntimeWarning, match=r"training.pt: the network was in training mode"):
        from_torchscript(path)


def test_damaged_files(tmp_path: Path) -> None:
    path = trace(small(), tmp_path / "small.pt")
    content = path.read_bytes()
    (tmp_path / "cut.pt").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"cut.pt: a damaged archive .*; was it cut off\?"):
        convert_file(tmp_path / "cut.pt")
    spoilt = content.replace(b"PK\x03\x04", b"PK\x03\x05", 2).replace(b"PK\x03\x05", b"PK\x03\x04", 1)
    (tmp_path / "spoilt.pt").write_bytes(spoilt)
    with pytest.raises(ConversionError, match=r"spoilt.pt: the converter "):
        convert_file(tmp_path / "spoilt.pt")


# ------------------------------------------------------------------------------------------- arrays and torch


@pytest.mark.parametrize("dtype", kuiperinfer.dtypes.ALL, ids=str)
def test_arrays_go_to_torch_and_back(dtype: Any) -> None:
    (array,) = random_arrays([kuiperinfer.TensorSpec((2, 3), dtype)], seed=1)
    tensor = to_torch(array)
    assert str(tensor.dtype) == dtype.torch_name
    (back,) = arrays_of(tensor)
    assert back.dtype == array.dtype and back.tobytes() == array.tobytes()


def test_verification_counts_outputs(reference: Any) -> None:
    model = kuiperinfer.from_torch(module(lambda x: (x, x + 1)), X)
    with pytest.raises(ConversionError, match=r"torch gives 1 outputs, the converted model 2"):
        verify(model, [X.numpy()], [X.numpy()], "torch")


def test_onnx_operators_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def left(request: Any, folder: Path) -> Converted:
        text = "7767517\n3 2\npnnx.Input in0 0 1 0\nExpand e 1 1 0 1\npnnx.Output out0 1 0 1\n"
        (folder / "x.pnnx.param").write_text(text)
        (folder / "x.pnnx.bin").write_bytes(b"PK\x05\x06" + bytes(18))
        return Converted(folder / "x.pnnx.param", folder / "x.pnnx.bin", "")

    (tmp_path / "net.onnx").write_bytes(onnx_files.NETWORK)
    monkeypatch.setattr(conversion, "run_converter", left)
    with pytest.raises(UnsupportedOperatorError, match=r"Expand .*\n.*\nwhere dimensions are free.* give the shapes"):
        kuiperinfer.from_onnx(tmp_path / "net.onnx")
    with pytest.raises(UnsupportedOperatorError) as caught:
        kuiperinfer.from_onnx(tmp_path / "net.onnx", ["1x2"])
    assert "where dimensions are free" not in str(caught.value)
