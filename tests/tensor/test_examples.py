"""The examples run, and keep what they promise."""

from __future__ import annotations

import importlib.util
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kuiperinfer
from kuiperinfer import nn

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_example_is_run_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {"digits", "homework"}


@pytest.mark.parametrize(("network", "epochs"), [("mlp", 20), ("cnn", 6)])
def test_digits(network: str, epochs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = example("digits").main(["--network", network, "--epochs", str(epochs), "--folder", str(tmp_path)])
    assert history.test[-1] >= 0.97
    assert len(history.loss) == len(history.training) == epochs
    assert history.loss[-1] < 0.5 * history.loss[0]
    printed = capsys.readouterr().out
    assert f"epoch {epochs}/{epochs}" in printed
    assert f"{history.test[-1]:.2%} of the test images are read rightly" in printed
    assert "the engine's predictions are the same" in printed
    picture = (tmp_path / "digits.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24]) == (1080, 432)
    assert {"digits.pnnx.param", "digits.pnnx.bin"} <= {path.name for path in tmp_path.iterdir()}
    restored = example("digits").NETWORKS[network]()
    assert nn.load_weights(restored, tmp_path / "digits.safetensors") == ([], [])
    inputs = kuiperinfer.load(tmp_path / "digits.pnnx.param").inputs
    assert [str(value.shape) for value in inputs] == ["(None, 1, 8, 8)"]


def test_homework(capsys: pytest.CaptureFixture[str]) -> None:
    example("homework").main()
    printed = capsys.readouterr().out
    assert [line[0] for line in printed.splitlines() if line[:1].isdigit()] == list("1234567")
    assert "pnnx_input_0 -> op1 -> op3 -> op4 -> op5 -> pnnx_expr_0 -> pnnx_output_0" in printed
    assert "homework.Sigmoid" not in kuiperinfer.layers.registered()
