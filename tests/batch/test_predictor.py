"""A predictor gives the model's own rows, wherever it travels and however the rows come."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import kuiperinfer
from kuiperinfer.batch import Pictures, Predictor
from kuiperinfer.batch.predictor import DEFAULT_BATCH
from kuiperinfer.errors import InputError, ModelFileError, ShapeError
from kuiperinfer.vision import Preprocess
from tests.small_models import CONVOLUTION, LINEAR, weights_of, write_model

ROWS = np.random.default_rng(3).standard_normal((11, 4)).astype(np.float32)

FREE = LINEAR.replace("(2,4)", "(?,4)").replace("(2,3)", "(?,3)")

HALVES = """7767517
3 2
pnnx.Input       rows          0 1 0 #0=(?,2)bf16
pnnx.Expression  twice         1 1 0 1 expr=add(@0,@0) #0=(?,2)bf16 #1=(?,2)bf16
pnnx.Output      pnnx_output_0 1 0 1 #1=(?,2)bf16
"""

PAIR = """7767517
5 4
pnnx.Input             left          0 1 0 #0=(?,3)f32
pnnx.Input             right         0 1 1 #1=(?,3)f32
pnnx.Expression        total         2 1 0 1 2 expr=add(@0,@1) #0=(?,3)f32 #1=(?,3)f32 #2=(?,3)f32
prim::TupleConstruct   both          2 1 2 0 3 #2=(?,3)f32
pnnx.Output            pnnx_output_0 1 0 3
"""

SUM = """7767517
3 2
pnnx.Input   x             0 1 0 #0=(?,3)f32
torch.sum    all           1 1 0 1 dim=(0) keepdim=False dtype=None #0=(?,3)f32 #1=(3)f32
pnnx.Output  pnnx_output_0 1 0 1 #1=(3)f32
"""


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("linear"), LINEAR)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("pair"), PAIR)


def expected(rows: Any) -> Any:
    weights = weights_of(LINEAR)
    return np.maximum(rows @ weights["fc.weight"].T + weights["fc.bias"], 0)


def test_rows_in_rows_out(linear: Path) -> None:
    (y,) = Predictor(linear)({"pnnx_input_0": ROWS}).values()
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected(ROWS), rtol=1e-5, atol=1e-6)
    whole = np.concatenate([kuiperinfer.load(linear)(ROWS[first : first + 2]) for first in range(0, 10, 2)])
    assert np.array_equal(y[:10], whole)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_answers_do_not_hang_on_how_the_rows_come_in_calls(linear: Path, sizes: list[int]) -> None:
    predictor = Predictor(linear)
    starts = np.cumsum([0, *sizes])
    calls = [ROWS[first % 6 :][:size] for first, size in zip(starts, sizes, strict=False)]
    together = predictor({"x": np.concatenate(calls)})["pnnx_output_0"]
    assert np.array_equal(together, np.concatenate([predictor({"x": call})["pnnx_output_0"] for call in calls]))


def test_the_batch_is_the_models_unless_it_is_given(linear: Path, tmp_path: Path) -> None:
    assert Predictor(linear).batch == 2
    assert Predictor(write_model(tmp_path, FREE)).batch == DEFAULT_BATCH
    many = Predictor(linear, batch=5)
    assert many.batch == 5
    np.testing.assert_allclose(many({"x": ROWS})["pnnx_output_0"], expected(ROWS), rtol=1e-5, atol=1e-6)
    compiled = {specs[0].shape for specs, *_ in many.model._plans}
    assert compiled == {(5, 4)}  # the rest too is calculated in this shape


def test_no_rows(linear: Path) -> None:
    y = Predictor(linear)({"x": ROWS[:0]})["pnnx_output_0"]
    assert (y.shape, y.dtype) == ((0, 3), np.float32)


def test_several_inputs_and_outputs_go_by_name(pair: Path) -> None:
    left, right = ROWS[:, :3], ROWS[:, 1:]
    outputs = Predictor(pair, keep=["id"])({"right": right, "id": np.arange(11), "left": left, "more": right})
    assert list(outputs) == ["id", "pnnx_output_0.0", "pnnx_output_0.1"]
    assert np.array_equal(outputs["pnnx_output_0.0"], left + right)
    assert np.array_equal(outputs["pnnx_output_0.1"], left)
    assert np.array_equal(outputs["id"], np.arange(11))


def test_columns_of_objects_lists_and_other_numbers_are_taken(linear: Path) -> None:
    predictor = Predictor(linear)
    y = predictor({"x": ROWS})["pnnx_output_0"]
    objects = np.empty(len(ROWS), object)
    objects[:] = list(ROWS)
    assert np.array_equal(predictor({"x": objects})["pnnx_output_0"], y)
    assert np.array_equal(predictor({"x": ROWS.astype(np.float64)})["pnnx_output_0"], y)
    assert np.array_equal(predictor({"x": ROWS.tolist()})["pnnx_output_0"], y)


def test_what_numpy_has_no_dtype_for_is_widened(tmp_path: Path) -> None:
    predictor = Predictor(write_model(tmp_path, HALVES))
    y = predictor({"rows": np.asarray([[1.5, -2.0]], np.float32)})["pnnx_output_0"]
    assert y.dtype == np.float32
    assert y.tolist() == [[3.0, -4.0]]
    assert predictor({"rows": np.zeros((0, 2), np.float32)})["pnnx_output_0"].dtype == np.float32


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"left": ROWS[:, :3], "rihgt": ROWS[:, :3]}, "no column 'right'.*'left', 'rihgt'; did you mean 'rihgt'"),
        (
            {"left": ROWS[:, :3], "right": ROWS[:5, :3]},
            r"as many rows in every column, found left \(11, 3\), right \(5, 3\)",
        ),
        ({"left": ROWS[:, :3], "right": [ROWS[0, :3], ROWS[1, :2]]}, r"rows of one shape, found \(2,\), \(3,\)"),
        ({"left": ROWS[:, :3], "right": ROWS[:, :2]}, "2 rows at a time"),
        ({}, "no column 'left'"),
    ],
)
def test_wrong_columns(pair: Path, columns: dict[str, Any], complaint: str) -> None:
    with pytest.raises((InputError, ShapeError), match=complaint):
        Predictor(pair, batch=2)(columns)


def test_other_mistakes(linear: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one column beside those to keep, found 'a', 'b'"):
        Predictor(linear)({"a": ROWS, "b": ROWS})
    with pytest.raises(InputError, match="no column 'ids' to keep, only 'x', 'id'; did you mean 'id'"):
        Predictor(linear, keep=["ids"])({"x": ROWS, "id": ROWS})
    with pytest.raises(InputError, match="'pnnx_output_0' cannot be kept"):
        Predictor(linear, keep=["pnnx_output_0"])({"x": ROWS, "pnnx_output_0": ROWS})
    with pytest.raises(InputError, match="threads: expected at least 1, found 0"):
        Predictor(linear, threads=0)
    with pytest.raises(ShapeError, match=r"output 'pnnx_output_0': expected 4 rows for 4 rows, found \(3,\)"):
        Predictor(write_model(tmp_path / "sum", SUM), batch=4)({"x": ROWS[:, :3]})
    with pytest.raises(ModelFileError, match="no such file"):
        Predictor(tmp_path / "none.pnnx.param")({"x": ROWS})


def test_settings_that_results_hang_on_travel_along(linear: Path) -> None:
    with kuiperinfer.settings(engine="reference"):
        predictor = Predictor(linear)
    arrived = pickle.loads(pickle.dumps(predictor))
    arrived({"x": ROWS})
    assert not arrived.model._plans  # nothing was compiled


@pytest.mark.parametrize("by_path", [True, False])
def test_a_pickled_predictor_is_loaded_once_a_process(linear: Path, by_path: bool) -> None:
    predictor = Predictor(linear if by_path else kuiperinfer.load(linear), threads=1, keep=["id"])
    message = pickle.dumps(predictor)
    first, second = pickle.loads(message), pickle.loads(message)
    assert first.model is second.model
    assert repr(first) == repr(predictor)
    columns = {"x": ROWS, "id": np.arange(11)}
    assert np.array_equal(first(columns)["pnnx_output_0"], predictor(columns)["pnnx_output_0"])
    assert by_path == (len(message) < 1000)


def test_a_relative_path_holds_in_a_worker_with_another_folder(
    linear: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(linear.parent)
    (tmp_path / "predictor").write_bytes(pickle.dumps(Predictor(linear.name)))
    code = "import pickle, sys; print(pickle.load(open('predictor', 'rb')).model)"
    source = str(Path(kuiperinfer.__path__[0]).parent)
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {source!r}); {code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "kuiperinfer.Model" in result.stdout


# ------------------------------------------------------------------------------------------- pictures


def test_columns_of_pictures_as_paths_bytes_and_arrays(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    pictures = [generator.integers(0, 256, (9, 7 + n, 3), np.uint8) for n in range(3)]
    paths = [tmp_path / f"{n}.png" for n in range(3)]
    for path, picture in zip(paths, pictures, strict=True):
        Image.fromarray(picture).save(path)
    preprocess = Preprocess(8, 6, 8)
    model = write_model(tmp_path, CONVOLUTION)
    wanted = np.concatenate([kuiperinfer.load(model)(preprocess(picture)) for picture in pictures])
    for column in (pictures, [str(path) for path in paths], [path.read_bytes() for path in paths], np.array(paths)):
        y = Predictor(model, Pictures(preprocess, "photo"))({"photo": column, "id": np.arange(3)})["pnnx_output_0"]
        assert np.array_equal(y, wanted)
    kept = Predictor(model, Pictures(preprocess, "photo"), keep=["photo"])({"photo": [str(path) for path in paths]})
    assert np.array_equal(kept["pnnx_output_0"], wanted)
    assert list(kept["photo"]) == [str(path) for path in paths]
    with pytest.raises(InputError, match="one column beside those to keep, found 'photo'"):  # not the input itself
        Predictor(model, keep=["photo"])({"photo": wanted})
    with pytest.raises(InputError, match="no column 'photo', only fhoto; did you mean 'fhoto'"):
        Pictures(preprocess, "photo")({"fhoto": pictures})
    with pytest.raises(InputError, match="no rows"):
        Pictures(preprocess, "photo")({"photo": []})


# ------------------------------------------------------------------------------------------- other people's engines


def test_what_spark_expects(linear: Path, pair: Path, tmp_path: Path) -> None:
    factory = pickle.loads(pickle.dumps(Predictor(linear).for_spark()))
    y = factory()(ROWS)
    np.testing.assert_allclose(y, expected(ROWS), rtol=1e-5, atol=1e-6)
    both = Predictor(pair).for_spark()()(ROWS[:, :3], ROWS[:, 1:])
    assert np.array_equal(both["pnnx_output_0.0"], ROWS[:, :3] + ROWS[:, 1:])
    flat = Predictor(write_model(tmp_path, CONVOLUTION)).for_spark()()(np.zeros((2, 3, 4, 4), np.float32))
    assert flat.shape == (2, 8 * 2 * 2)
    renamed = Predictor(pair, lambda columns: {"left": columns["a"], "right": columns["b"]}).for_spark("a", "b")
    assert [len(inspect.signature(made()).parameters) for made in (factory, renamed)] == [1, 2]  # Spark counts them
    assert np.array_equal(renamed()(ROWS[:, :3], ROWS[:, 1:])["pnnx_output_0.1"], ROWS[:, :3])


def test_joblib(linear: Path) -> None:
    joblib = pytest.importorskip("joblib")
    predictor = Predictor(linear)
    calls = [{"x": ROWS[first : first + 3]} for first in range(0, 9, 3)]
    results = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(predictor)(call) for call in calls)
    together = np.concatenate([result["pnnx_output_0"] for result in results])
    assert np.array_equal(together, predictor({"x": ROWS[:9]})["pnnx_output_0"])


def test_dask(linear: Path) -> None:
    bag = pytest.importorskip("dask.bag")
    predictor = Predictor(linear)
    calls = [{"x": ROWS[first : first + 3]} for first in range(0, 9, 3)]
    results = bag.from_sequence(calls, npartitions=3).map(predictor).compute(scheduler="threads")
    together = np.concatenate([result["pnnx_output_0"] for result in results])
    assert np.array_equal(together, predictor({"x": ROWS[:9]})["pnnx_output_0"])
    blocks = pytest.importorskip("dask.array").from_array(ROWS, chunks=(4, 4))
    mapped = blocks.map_blocks(
        lambda x: predictor({"x": x})["pnnx_output_0"], chunks=(blocks.chunks[0], (3,)), dtype="f4"
    )
    assert np.array_equal(mapped.compute(scheduler="threads"), predictor({"x": ROWS})["pnnx_output_0"])
