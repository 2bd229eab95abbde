"""The judge of conformance cases, held against made-up cases and made-up engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer import dtypes
from kuiperinfer.cli.array_files import write_archive
from kuiperinfer.cli.conformance_cases import CaseResult, find_cases, matching, run_case
from kuiperinfer.dtypes import Array, dtype_of, narrow
from kuiperinfer.errors import InputError, ShapeError

X = np.array([1.0, 2.0, 4.0], np.float32)


def write_case(
    folder: Path,
    given: list[Array],
    expected: list[Array],
    second: tuple[list[Array], list[Array]] | None = None,
    **meta: Any,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.pnnx.param").write_text("7767517\n0 0\n")
    runs = {"": (given, expected)} | ({"2": second} if second else {})
    for suffix, (ins, outs) in runs.items():
        for prefix, arrays in (("in", ins), ("out", outs)):
            key = f"{prefix}puts{suffix}"
            write_archive(folder / f"{key}.npz", {f"{prefix}{i}": array for i, array in enumerate(arrays)})
            described = [{"name": f"{prefix}{i}", "dtype": str(dtype_of(array))} for i, array in enumerate(arrays)]
            meta.setdefault(key, described)
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def judge(folder: Path, engine: Callable[..., Any]) -> CaseResult:
    return run_case(folder, folder.name, lambda path: engine)


def double(x: Array) -> Array:
    return x * np.float32(2)


def test_a_right_answer_passes(tmp_path: Path) -> None:
    result = judge(write_case(tmp_path, [X], [X * 2]), double)
    assert result.ok
    assert result.worst is not None
    assert result.worst.comparison.error == 0.0


@pytest.mark.parametrize(
    ("engine", "problem"),
    [
        (lambda x: x * np.float32(2.001), "out0: error 5.0e-04 exceeds 1e-05, at (2,): found 8.00399971, expected 8"),
        (lambda x: x[:2], "out0: found shape (2,), expected (3,)"),
        (lambda x: x.astype(np.float64) * 2, "out0: found dtype f64, expected f32"),
        (lambda x: (x, x), "found 2 outputs, expected 1"),
        (lambda x: (), "found 0 outputs, expected 1"),
        (lambda x: x * np.float32("nan"), "out0: at (0,): found nan, expected 2.0"),
    ],
    ids=["value", "shape", "dtype", "too many", "too few", "nan"],
)
def test_a_wrong_answer_fails_with_its_reason(tmp_path: Path, engine: Callable[..., Any], problem: str) -> None:
    result = judge(write_case(tmp_path, [X], [X * 2]), engine)
    assert not result.ok
    assert result.problem == problem


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ShapeError("operator 'a': no\n  good"), "operator 'a': no good"),
        (AssertionError(), "AssertionError:"),
        (MemoryError("full"), "MemoryError: full"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
    ids=repr,
)
def test_a_crash_fails_in_one_line(tmp_path: Path, error: Exception, problem: str) -> None:
    def crash(*arrays: Array) -> Array:
        raise error

    case = write_case(tmp_path, [X], [X])
    assert judge(case, crash).problem == problem
    assert run_case(case, "a", crash).problem == problem


def test_several_outputs_and_the_worst_of_them(tmp_path: Path) -> None:
    def engine(x: Array) -> tuple[Array, ...]:
        return x, x * np.float32(1.000002), x * np.float32(2)

    result = judge(write_case(tmp_path, [X], [X, X, X * 2]), engine)
    assert result.ok
    assert result.worst is not None
    assert result.worst.name == "out1"
    wrong = judge(write_case(tmp_path, [X], [X, X + 1, X]), engine)
    assert str(wrong.problem).startswith("out1: error")
    assert str(wrong.problem).endswith("(and 1 more)")


def test_inputs_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    inputs = [np.array([index], np.int64) for index in range(11)]
    case = write_case(tmp_path, inputs, [np.arange(11)])
    assert judge(case, lambda *arrays: np.concatenate(arrays)).ok


def test_a_modified_input_fails(tmp_path: Path) -> None:
    def engine(x: Array) -> Array:
        x += 1
        return x - 1

    assert judge(write_case(tmp_path, [X], [X]), engine).problem == "input in0 was modified by the run"


def test_the_same_loaded_model_takes_both_runs(tmp_path: Path) -> None:
    longer = np.arange(5, dtype=np.float32)
    case = write_case(tmp_path, [X], [X * 2], ([longer], [longer * 2]))
    loaded = []

    def load(path: Path) -> Callable[..., Any]:
        loaded.append(path)
        return double

    result = run_case(case, "a", load)
    assert result.ok
    assert [output.name for output in result.outputs] == ["out0", "out0 (2)"]
    assert loaded == [case / "model.pnnx.param"]
    assert judge(case, lambda x: x * 2 if len(x) == 3 else x).problem is not None


def test_bit_patterns_are_what_meta_says_they_are(tmp_path: Path) -> None:
    half = narrow(X, dtypes.bf16)
    pair = narrow(np.array([1 + 2j], np.complex64), dtypes.c32)
    case = write_case(tmp_path, [half, pair], [half, pair])
    assert judge(case, lambda *arrays: arrays).ok
    assert "found dtype f32, expected bf16" in str(judge(case, lambda a, b: (X, b)).problem)


def test_the_tolerance_of_the_case(tmp_path: Path) -> None:
    loose = write_case(tmp_path / "loose", [X], [X * 2], rtol_of_max=0.01)
    assert judge(loose, lambda x: x * np.float32(2.001)).ok
    integers = write_case(tmp_path / "integers", [X], [np.array([1000])], rtol_of_max=0.01)
    assert not judge(integers, lambda x: np.array([1001])).ok


def test_copies_are_exact(tmp_path: Path) -> None:
    copies = write_case(tmp_path / "copies", [X], [X], op_types=["pnnx.Input", "Tensor.reshape", "pnnx.Output"])
    assert judge(copies, lambda x: x).ok
    assert not judge(copies, lambda x: x * np.float32(1.000001)).ok
    more = write_case(tmp_path / "more", [X], [X], op_types=["pnnx.Input", "Tensor.reshape", "F.relu", "pnnx.Output"])
    assert judge(more, lambda x: x * np.float32(1.000001)).ok


def test_random_outputs(tmp_path: Path) -> None:
    everything = write_case(tmp_path / "all", [X], [X, X], outputs_random=True)
    assert judge(everything, lambda x: (x + 1, x - 1)).ok
    assert not judge(everything, lambda x: (x[1:], x)).ok
    one = write_case(tmp_path / "one", [X], [X, X], outputs_random=True, random_outputs=["out1"])
    assert judge(one, lambda x: (x, x - 1)).ok
    assert not judge(one, lambda x: (x - 1, x)).ok
    none = write_case(tmp_path / "none", [X], [X], outputs_random=False, random_outputs=[])
    assert not judge(none, lambda x: x + 1).ok


def test_meta_with_bare_shapes_and_no_meta_at_all(tmp_path: Path) -> None:
    case = write_case(tmp_path, [X], [X * 2], inputs=[[3]], outputs=[[3]])
    assert judge(case, double).ok
    (case / "meta.json").unlink()
    assert judge(case, double).ok


def test_a_broken_case_fails_rather_than_passes(tmp_path: Path) -> None:
    case = write_case(tmp_path, [X], [X * 2])
    (case / "meta.json").write_text("[")
    assert "meta.json: not JSON" in str(judge(case, double).problem)
    (case / "meta.json").write_text("[]")
    assert "expected an object" in str(judge(case, double).problem)
    (case / "meta.json").unlink()
    (case / "outputs.npz").unlink()
    assert "outputs.npz: no such file" in str(judge(case, double).problem)


def test_cases_are_found_at_any_depth(tmp_path: Path) -> None:
    for name in ("b", "a", "deep/c", "nn_x"):
        write_case(tmp_path / name, [X], [X])
    (tmp_path / "no_case").mkdir()

    found = find_cases(tmp_path)
    assert found == [tmp_path / name for name in ("a", "b", "deep/c", "nn_x")]
    assert matching(found, tmp_path, ["nn_*", "a"]) == [tmp_path / "a", tmp_path / "nn_x"]
    assert matching(found, tmp_path, ["q*"]) == []
    assert find_cases(tmp_path / "a") == [tmp_path / "a"]
    assert matching([tmp_path / "a"], tmp_path / "a", ["a"]) == [tmp_path / "a"]
    for folder, complaint in (
        (tmp_path / "no_case", "no conformance case here"),
        (tmp_path / "missing", "no such folder"),
    ):
        with pytest.raises(InputError) as caught:
            find_cases(folder)
        assert complaint in str(caught.value)
