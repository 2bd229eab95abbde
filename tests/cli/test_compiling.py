"""The commands of the compiler: bench, profile, compare, memory, cache, and conformance by the compiled engine. No times are
looked at, only that they are there."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kuiperinfer
from kuiperinfer.cli.array_files import write_archive
from kuiperinfer.cli.bench import milliseconds_text, statistics_of
from kuiperinfer.cli.compiling import fallback_text
from kuiperinfer.codegen.target import target_named
from kuiperinfer.runtime.against_reference import OperandResult
from kuiperinfer.runtime.comparison import Comparison
from tests.codegen.native import TARGETS
from tests.small_models import CONVOLUTION, LINEAR, TWO_WAYS, weights_of, write_model

SUMS = """7767517
4 3
pnnx.Input   in   0 1 0 #0=(2,6)f32
F.silu       silu 1 1 0 1 #0=(2,6)f32 #1=(2,6)f32
torch.cumsum sums 1 1 1 2 dim=1 #1=(2,6)f32 #2=(2,6)f32
pnnx.Output  out  1 0 2 #2=(2,6)f32
"""


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of machine code that all of these tests share, and that is nobody's else."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    folder.mkdir(mode=0o700, exist_ok=True)
    with kuiperinfer.settings(cache_dir=str(folder), threads=1):
        yield folder


# ------------------------------------------------------------------------------------------- bench


def test_bench(kuiper: Any, tmp_path: Path) -> None:
    code, out, _ = kuiper("bench", write_model(tmp_path, SUMS), "--runs", 5, "--threads", 1)
    assert code == 0
    lines = [line.split() for line in out.splitlines() if line]
    assert "(2,6)f32" in lines[0] and "threads=1" in lines[0]
    words = [line[0] for line in lines[1:]]
    assert words == ["read", "build", "compile", "compile", "first", "min", "median", "mean", "P90", "P99", "2"]
    assert "of 5 runs" in out
    assert "1 step runs the reference: torch.cumsum" in out


def test_bench_for_scripts(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, CONVOLUTION)
    code, out, _ = kuiper("bench", path, "--shape", "1,3,9,9", "--batch", 2, "--runs", 3, "--json")
    assert code == 0
    data = json.loads(out)
    assert data["input_shapes"] == {"pnnx_input_0": [1, 3, 9, 9]}
    assert (data["runs"], data["threads"], data["random_weights"], data["fallbacks"]) == (3, 1, False, [])
    assert set(data["seconds"]) == {"read", "build", "compile_cold", "compile_warm", "first_run"}
    assert all(seconds > 0 for seconds in data["seconds"].values())
    times = data["run_seconds"]
    assert 0 < times["min"] <= times["median"] <= times["p90"] <= times["p99"]


def test_bench_of_the_text_alone(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, LINEAR)
    path.with_suffix(".bin").unlink()
    code, out, _ = kuiper("bench", path, "--batch", 3, "--runs", 3)
    assert code == 0
    assert "(3,4)f32" in out
    assert "random weights" in out


def test_bench_leaves_the_cache_as_it_is(kuiper: Any, tmp_path: Path, cache: Path) -> None:
    before = sorted(cache.iterdir())
    assert kuiper("bench", write_model(tmp_path, LINEAR), "--runs", 3)[0] == 0
    assert sorted(cache.iterdir()) == before


def test_statistics() -> None:
    found = statistics_of([float(number) for number in range(101)])
    assert found == {"min": 0.0, "median": 50.0, "mean": 50.0, "p90": 90.0, "p99": 99.0}
    assert [milliseconds_text(t) for t in (1.23456, 0.0123456, 0.00123456, 1.2e-6)] == [
        "1234.6 ms",
        "12.35 ms",
        "1.235 ms",
        "0.001 ms",
    ]


# ------------------------------------------------------------------------------------------- profile


def test_profile(kuiper: Any, tmp_path: Path) -> None:
    code, out, _ = kuiper("profile", write_model(tmp_path, SUMS), "--repeat", 2)
    assert code == 0
    assert "peak of this machine" in out
    steps = [line.split() for line in out.splitlines() if "silu" in line or "sums" in line]
    assert steps[0][:4] == ["0", "silu", "F.silu", "Map"]
    assert steps[1][:4] == ["1", "sums", "torch.cumsum", "reference"]
    assert "reference: torch.cumsum" in out
    code, out, _ = kuiper("profile", write_model(tmp_path, SUMS), "--repeat", 1, "--top", 1)
    assert len([line for line in out.splitlines() if "silu" in line or "  sums " in line]) == 1


def test_profile_for_scripts_and_its_trace(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, SUMS)
    code, out, _ = kuiper("profile", path, "--repeat", 2, "--json", "--trace", tmp_path / "trace.json")
    assert code == 0
    data = json.loads(out)
    assert [step["kernel"] for step in data["steps"]] == ["Map", None]
    assert sum(step["share"] for step in data["steps"]) == pytest.approx(1)
    assert sum(group["seconds"] for group in data["kernels"]) == pytest.approx(data["seconds"])
    assert {group["kernel"] for group in data["kernels"]} == {"Map", "reference: torch.cumsum"}
    assert data["fallbacks"] == ["torch.cumsum"]
    compiled, reference = data["steps"]
    assert compiled["of_peak_bandwidth"] == pytest.approx(
        compiled["bytes_per_second"] / data["peak"]["bytes_per_second"]
    )
    assert reference["flops_per_second"] is None
    trace = json.loads((tmp_path / "trace.json").read_text("utf-8"))
    assert [event["name"] for event in trace["traceEvents"] if event["ph"] == "X"] == ["silu", "sums"]
    assert kuiper("profile", path, "--trace", tmp_path / "missing" / "trace.json")[0] == 1


def test_fallbacks_in_words() -> None:
    assert fallback_text([]) == "every step is compiled"
    assert fallback_text(["nn.LSTM"]) == "1 step runs the reference: nn.LSTM"
    assert fallback_text(["nn.LSTM", "torch.topk", "nn.LSTM"]) == "3 steps run the reference: nn.LSTM, torch.topk"


# ------------------------------------------------------------------------------------------- compare


def test_compare_with_the_reference(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, SUMS)
    code, out, _ = kuiper("compare", path, "--verbose")
    assert code == 0
    assert out.splitlines()[-1].split()[:3] == ["reference", "2", "operands"]
    assert "agrees" in out
    assert [line.split()[0] for line in out.splitlines()[2:4]] == ["1", "2"]
    write_archive(tmp_path / "in.npz", {"in0": np.ones((2, 6), np.float32)})
    assert kuiper("compare", path, tmp_path / "in.npz")[0] == 0
    code, out, _ = kuiper("compare", path, "--tol", "0", "--json")
    data = json.loads(out)
    first = data["first_difference"]
    assert code == (0 if first is None else 1)
    assert [row["operand"] for row in data["operands"]] == ["1", "2"]
    assert [row["kernel"] for row in data["operands"]] == ["Map", "reference"]


def test_compare_names_the_first_difference(kuiper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [
        OperandResult("1", "operator 'a' (nn.Conv2d)", "DirectConvolution", Comparison(1e-7, 1e-4)),
        OperandResult(
            "2", "operator 'b' (nn.Conv2d)", "Winograd", Comparison(0.5, 1e-4, "error 5.0e-01 exceeds 1e-04")
        ),
        OperandResult("3", "operator 'c' (F.relu)", "Map", Comparison(None, 1e-4, "found shape (1,), expected (2,)")),
    ]
    monkeypatch.setattr("kuiperinfer.runtime.against_reference.run_both", lambda *arguments: results)
    path = write_model(tmp_path, LINEAR)
    code, out, _ = kuiper("compare", path)
    assert code == 1
    assert "2 differ" in out
    assert "first difference: operand '2' of operator 'b' (nn.Conv2d), kernel Winograd: error 5.0e-01" in out
    code, out, _ = kuiper("compare", path, "--json")
    assert code == 1
    assert json.loads(out)["first_difference"] == 1


class Doubled(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        weights = weights_of(LINEAR)
        self.fc = torch.nn.Linear(4, 3)
        self.factor = factor
        with torch.no_grad():
            self.fc.weight.copy_(torch.from_numpy(weights["fc.weight"]))
            self.fc.bias.copy_(torch.from_numpy(weights["fc.bias"]))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.relu(self.fc(x)) * self.factor}


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(("factor", "expected"), [(1.0, 0), (2.0, 1)])
def test_compare_with_torch(kuiper: Any, tmp_path: Path, factor: float, expected: int) -> None:
    torch.jit.trace(Doubled(factor), torch.zeros(2, 4), strict=False).save(str(tmp_path / "net.pt"))
    path = write_model(tmp_path, LINEAR)
    code, out, _ = kuiper("compare", path, "--torchscript", tmp_path / "net.pt")
    assert code == expected
    line = next(line for line in out.splitlines() if line.startswith("torch"))
    assert ("agrees" in line) == (expected == 0)
    assert "1 output " in line


def test_compare_with_what_cannot_be_run(kuiper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path, LINEAR)
    (tmp_path / "broken.pt").write_bytes(b"no model")
    code, _, err = kuiper("compare", path, "--torchscript", tmp_path / "broken.pt")
    assert code == 1
    assert "broken.pt: torch cannot run it" in err
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    code, _, err = kuiper("compare", path, "--onnx", "model.onnx")
    assert code == 1
    assert "onnxruntime is not installed: pip install onnxruntime" in err
    path.with_suffix(".bin").unlink()
    code, _, err = kuiper("compare", path, "--torchscript", "net.pt")
    assert code == 1
    assert "random ones cannot agree with net.pt" in err


class Session:
    """What onnxruntime gives, in short."""

    def __init__(self, path: str, providers: list[str]) -> None:
        pass

    def get_inputs(self) -> list[Any]:
        return [type("Input", (), {"name": "x"})()]

    def run(self, outputs: None, feed: dict[str, Any]) -> list[Any]:
        weights = weights_of(LINEAR)
        return [np.maximum(feed["x"] @ weights["fc.weight"].T + weights["fc.bias"], 0)]


def test_compare_with_onnxruntime(kuiper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = type("onnxruntime", (), {"InferenceSession": Session})
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", module)
    code, out, _ = kuiper("compare", write_model(tmp_path, LINEAR), "--onnx", "model.onnx", "--json")
    assert code == 0
    (output,) = json.loads(out)["engines"]["onnxruntime"]
    assert output["ok"]


# ------------------------------------------------------------------------------------------- memory


def test_memory(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, SUMS)
    code, out, _ = kuiper("memory", path)
    assert code == 0
    assert "arena" in out and "operand 1" in out
    code, out, _ = kuiper("memory", path, "--json")
    assert code == 0
    data = json.loads(out)
    assert data["steps"] == 2
    assert data["arena_bytes"] == data["lower_bound_bytes"] == 64
    assert data["buffers"] == [{"contents": ["operand 1"], "bytes": 48, "offset": 0, "first_step": 0, "last_step": 1}]


def test_the_drawing_of_a_memory_plan(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, CONVOLUTION)
    code, out, _ = kuiper("memory", path, "--shape", "1,3,20,20", "-o", tmp_path / "plan.svg")
    assert (code, out) == (0, "")
    tree = ElementTree.parse(tmp_path / "plan.svg").getroot()
    name = "{http://www.w3.org/2000/svg}"
    width, height = (float(tree.attrib[key]) for key in ("width", "height"))
    boxes = tree.findall(f"{name}g")
    data = json.loads(kuiper("memory", path, "--shape", "1,3,20,20", "--json")[1])
    assert len(boxes) == len(data["buffers"]) > 0
    for group, buffer in zip(boxes, data["buffers"], strict=True):
        box = {key: float(group.find(f"{name}rect").attrib[key]) for key in ("x", "y", "width", "height")}
        assert box["width"] > 0 and box["height"] > 0
        assert box["x"] + box["width"] <= width and box["y"] + box["height"] <= height
        assert f"{buffer['bytes']:,} bytes" in group.find(f"{name}title").text
    assert tree.find(f"{name}path") is not None


def test_a_plan_without_an_arena(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, TWO_WAYS)
    assert kuiper("memory", path)[0] == 0
    assert kuiper("memory", path, "-o", tmp_path / "plan.svg")[0] == 0
    ElementTree.parse(tmp_path / "plan.svg")


# ------------------------------------------------------------------------------------------- cache


def test_cache(kuiper: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with kuiperinfer.settings(cache_dir=str(folder)):
        assert kuiper("cache", "info")[0] == 0
        kuiper("compare", write_model(tmp_path, SUMS))
        code, out, _ = kuiper("cache", "info", "--json")
        data = json.loads(out)
        assert code == 0
        assert data["directory"] == str(folder)
        assert data["problem"] is None
        kept = sum(data["kernels"].values())
        assert data["kernels"].pop("ThreadTeam", 1) == 1  # whoever needs it first keeps it too
        assert data["kernels"] == {"Map": 1}
        assert data["bytes"] == sum(file.stat().st_size for file in folder.iterdir()) > 0
        (folder / ".new-left").write_bytes(b"behind")
        assert kuiper("cache", "clear") == (0, f"removed {kept} object file{'s' * (kept > 1)}\n", "")
        assert list(folder.iterdir()) == []
        assert kuiper("cache", "clear") == (0, "removed 0 object files\n", "")
        assert "0 object files, 0 B" in kuiper("cache", "info")[1]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs the owners of files")
def test_a_cache_that_is_not_safe_is_not_used(kuiper: Any, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with kuiperinfer.settings(cache_dir=str(folder)):
        assert "not used: others can write to it" in kuiper("cache", "info")[1]
        kuiper("compare", write_model(tmp_path, SUMS))
        assert list(folder.iterdir()) == []
    with kuiperinfer.settings(cache=False):
        assert "not used: turned off" in kuiper("cache", "info")[1]


# ------------------------------------------------------------------------------------------- conformance and targets


def write_case(folder: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    weights = weights_of(LINEAR)
    write_model(folder, LINEAR)
    write_archive(folder / "inputs.npz", {"in0": x})
    write_archive(folder / "outputs.npz", {"out0": np.maximum(x @ weights["fc.weight"].T + weights["fc.bias"], 0)})


@pytest.mark.parametrize("target", ["host", *TARGETS])
def test_conformance_of_the_compiled_engine(kuiper: Any, tmp_path: Path, target: str) -> None:
    write_case(tmp_path / "case")
    code, out, _ = kuiper("conformance", tmp_path, "--engine", "compiled", "--target", target, "--json", "-")
    assert code == 0
    data = json.loads(out)
    assert (data["engine"], data["passed"]) == ("compiled", 1)
    assert data["cases"][0]["outputs"][0]["tolerance"] == 1e-5


def test_a_target_that_is_none(kuiper: Any, tmp_path: Path) -> None:
    for command in ("bench", "profile", "compare", "memory"):
        code, _, err = kuiper(command, write_model(tmp_path, LINEAR), "--target", "x86-64-v9")
        assert code == 2
        assert "--target': unknown target 'x86-64-v9'" in err
    foreign = "aarch64" if "x86" in target_named("host").name else "x86-64-v2"
    code, _, err = kuiper("bench", write_model(tmp_path, LINEAR), "--target", foreign)
    assert code == 2
    assert f"this machine cannot run code for {foreign}" in err


def test_shapes_that_do_not_fit(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, CONVOLUTION)
    code, _, err = kuiper("bench", path)
    assert code == 2
    assert "give it with --shape" in err
    code, _, err = kuiper("bench", path, "--shape", "banana")
    assert code == 2
    assert err.startswith("Usage: kuiper bench ")
    assert "--shape: 'banana': expected whole numbers" in err
    code, _, err = kuiper("memory", path, "--shape", "1,3,8,8", "-o", tmp_path / "plan.png")
    assert code == 2
    assert "the plan is drawn as .svg" in err
    code, _, err = kuiper("memory", path, "--shape", "1,4,8,8")
    assert code == 1
    assert "expected 3 channels" in err
