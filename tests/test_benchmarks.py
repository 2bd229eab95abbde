"""The scripts of `bench/`: that they work, and that their reports say what was measured. No times are looked at."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.small_models import LINEAR, write_model

BENCH = Path(__file__).resolve().parent.parent / "bench"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a script by its name."""
    monkeypatch.syspath_prepend(str(BENCH))
    names = ("models", "engines", "compare", "kernels")
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


def result(module: Any, milliseconds: float, **changes: Any) -> Any:
    times = [milliseconds / 1e3] * 3
    return module.Result(start=1.0, times=times, outputs=[np.ones((1, 4), np.float32)], peak_bytes=5 << 20, **changes)


def test_the_ratio_is_that_of_the_best_rival_that_calculates_the_right_thing(scripts: Any) -> None:
    compare = scripts("compare")
    results = {
        "kuiperinfer": result(compare, 2.0, cold_start=3.0),
        "onnxruntime": result(compare, 5.0),
        "openvino": result(compare, 4.0),
        "ncnn": result(compare, 1.0),
        "torch": result(compare, 3.0),
    }
    results["ncnn"].outputs = [np.full((1, 4), 1.01, np.float32)]
    compare.check(results)
    assert results["ncnn"].problem == "its output differs by 1.0e-02"
    assert results["openvino"].problem is None
    assert compare.best_rival(results) == "openvino"
    assert compare.ratio_of(results) == pytest.approx(2.0)
    facts = {"date": "2020-01-01", "cpu": "a CPU", "cpus": 2, "versions": {"kuiperinfer": "1", "ncnn": "not installed"}}
    lines = compare.markdown(facts, [({"model": "net", "batch": 1, "threads": 2}, results)]).splitlines()
    assert lines[0] == "2020-01-01, a CPU, 2 CPUs; kuiperinfer 1."
    assert "| net | 1 | 2 | 2.00 | 5.00 | **4.00** | (1.00) | 3.00 | 2.00 |" in lines
    assert "| net | 1 | 2 | 3.00 / 1.00 s, 5 | 1.00 s, 5 | 1.00 s, 5 | 1.00 s, 5 | 1.00 s, 5 |" in lines
    assert lines[-1] == "* net, batch 1, threads=2, ncnn: its output differs by 1.0e-02"


def test_engines_that_fail_have_no_ratio(scripts: Any) -> None:
    compare = scripts("compare")
    failed = compare.Result(problem="ImportError: no module")
    assert compare.ratio_of({"kuiperinfer": failed, "ncnn": result(compare, 1.0)}) is None
    assert compare.ratio_of({"kuiperinfer": result(compare, 1.0), "ncnn": failed}) is None
    compare.check({"ncnn": failed})
    facts = {"date": "", "cpu": "", "cpus": 1, "versions": {}}
    text = compare.markdown(facts, [({"model": "net", "batch": 1, "threads": 1}, {"kuiperinfer": failed})])
    assert "| net | 1 | 1 | failed |  |" in text


def test_outputs_are_compared_whatever_their_shape(scripts: Any) -> None:
    compare = scripts("compare")
    one, other = np.arange(6, dtype=np.float32), np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    assert compare.difference([one], [other]) == 0.0
    assert compare.difference([one], [other + 0.5]) == pytest.approx(0.5 / 5.5)
    assert compare.difference([one], [other[:, :1]]) == float("inf")
    assert compare.difference([one, one], [other]) == float("inf")
    assert compare.difference([np.full(6, np.nan, np.float32)], [other]) == float("inf")


def test_an_engine_runs_in_a_process_of_its_own(scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = scripts("compare")
    write_model(tmp_path, LINEAR)
    monkeypatch.setattr(compare, "input_shape", lambda name, batch: (2, 4))
    arguments = argparse.Namespace(engines=["kuiperinfer", "ncnn"], rounds=2, runs=4, seconds=10.0, pause=0.0)
    results = compare.run_model(tmp_path, "net", arguments, 1, 1)
    ours = results["kuiperinfer"]
    assert ours.problem is None
    assert len(ours.times) == 8
    assert ours.peak_bytes > 1 << 20
    assert ours.cold_start is not None and ours.start > 0
    assert ours.outputs[0].shape == (2, 3)
    assert results["ncnn"].problem  # there is no such model, or no ncnn
    assert results["ncnn"].median is None
    json.dumps(ours.as_data())


def test_arguments_are_checked(scripts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    compare = scripts("compare")
    parsed = compare.parse(["--folder", "x", "--models", "vgg16,unet32", "--threads", "1,4"])
    assert (parsed.models, parsed.threads, parsed.batch) == (["vgg16", "unet32"], [1, 4], [1])
    with pytest.raises(SystemExit):
        compare.parse(["--folder", "x", "--models", "vgg17"])
    assert "there is no vgg17" in capsys.readouterr().err


def test_a_model_of_ones_own_definition(scripts: Any) -> None:
    import torch

    models = scripts("models")
    network = models.network("unet32")
    with torch.no_grad():
        assert network(torch.zeros(1, 3, 32, 32)).shape == (1, 2, 32, 32)
    assert models.folder_of(Path("m"), "vgg16", 1) == Path("m/vgg16")
    assert models.folder_of(Path("m"), "vgg16", 8) == Path("m/vgg16-batch8")
    one, other = (models.network("unet32").state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_every_kernel_case_is_a_model(scripts: Any) -> None:
    from kuiperinfer import Model, RuntimeGraph, pnnx
    from kuiperinfer.pnnx.random_weights import fill_random_weights

    kernels = scripts("kernels")
    assert len({case.name for case in kernels.CASES}) == len(kernels.CASES)
    for case in kernels.CASES:
        graph = fill_random_weights(pnnx.read(case.text.encode(), weights=False))
        model = Model(RuntimeGraph.from_pnnx(graph))
        assert model.infer()


def test_kernels_are_measured(scripts: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = scripts("kernels")
    file = tmp_path / "kernels.json"
    assert kernels.main(["--only", "map relu", "--repeat", "1", "--json", str(file)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| map relu"))
    assert row.split("|")[2].strip() == "Map"
    (case,) = json.loads(file.read_text("utf-8"))["cases"]
    assert case["kernels"] == ["Map"]
    assert case["of_peak_bandwidth"] > 0
    with pytest.raises(SystemExit):
        kernels.main(["--only", "nothing"])


def test_winograd_is_held_against_direct_convolution(scripts: Any) -> None:
    kernels = scripts("kernels")
    rates = {"flops_per_second": 1e9, "of_peak_flops": 0.5, "bytes_per_second": 0.0, "of_peak_bandwidth": 0.0}
    rows = [
        {"case": "direct 64->64 @56 3x3", "kernels": ["DirectConvolution"], "seconds": 2e-3} | rates,
        {"case": "winograd 64->64 @56", "kernels": ["Winograd"], "seconds": 1e-3} | rates,
    ]
    lines: list[str] = []
    kernels.report(rows, lines.append)
    assert lines[2] == "| direct 64->64 @56 3x3 | DirectConvolution | 2.000 | 1.0 | 50% |  |  |"
    assert lines[-1].strip() == "Winograd 64->64 @56: 2.00 times direct"
