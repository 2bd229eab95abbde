"""What the server finds out about a model when it loads it, and by which code a request is run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer.errors import InputError, KuiperError
from kuiperinfer.runtime.team import allowed_cpus
from kuiperinfer.serve import Options
from kuiperinfer.serve.refusals import Refusal
from kuiperinfer.serve.served_model import ServedModel
from tests.serve import models
from tests.small_models import CONVOLUTION, write_model


@pytest.fixture(autouse=True)
def the_batch_is_the_quickest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which way is the quickest hangs on the machine: in the tests, the last one."""
    monkeypatch.setattr("kuiperinfer.serve.served_model.quickest", lambda ways, inputs: ways[-1])


def served(folder: Path, text: str, *, max_batch: int = 8, exact: bool = True, threads: int = 1) -> ServedModel:
    options = Options(threads=threads, max_batch=max_batch, exact=exact)
    made = ServedModel("net", "1", kuiperinfer.load(write_model(folder, text)), options, POOL)
    made.warm_up()
    return made


POOL = ThreadPoolExecutor(2)


def declared(model: ServedModel) -> list[list[int]]:
    return [tensor["shape"] for tensor in model.metadata(["1"])["inputs"]]


def test_rows_that_are_the_same_in_any_batch_are_joined(tmp_path: Path) -> None:
    model = served(tmp_path, models.ROWS)
    assert model.joins
    assert declared(model) == [[-1, 3]]
    lanes = {model.lane(((count, 3),)) for count in (1, 2, 7, 100)}
    assert len(lanes) == 1
    (lane,) = lanes
    assert lane is not None
    assert lane.most_rows == 8
    x = np.arange(39, dtype=np.float32).reshape(13, 3)
    np.testing.assert_array_equal(lane.run([x])[0], 2 * x + 1)  # 8, 4 and 1 rows


def test_rows_that_look_at_each_other_are_not_joined(tmp_path: Path) -> None:
    model = served(tmp_path, models.CENTRED)
    assert not model.joins
    assert not model.rows_are_free
    assert declared(model) == [[1, 3]]
    with pytest.raises(Refusal, match=r"input 'x': expected shape \[1, 3\], -1 for any, found \[2, 3\]"):
        model.check_shapes([(model.model.inputs[0], (2, 3))])


def test_a_number_of_rows_that_the_file_fixes(tmp_path: Path) -> None:
    model = served(tmp_path, models.FIXED)
    assert not model.joins
    assert declared(model) == [[1, 4]]
    lane = model.lane(((1, 4),))
    assert lane is not None
    assert lane.most_rows == 1
    assert lane.run([np.array([[1, 2, 3, 4]], np.float32)])[0].tolist() == [[[1, 2], [3, 4]]]


@pytest.fixture
def last_bits_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of larger batches are a little off, as they are where sums are taken in another order."""
    compile_really = ServedModel._compile

    def compile_with_an_error(
        self: ServedModel, shapes: tuple[tuple[int, ...], ...], threads: int | None = None
    ) -> object:
        run = compile_really(self, shapes, threads)
        factor = np.float32(1 + 1e-6 * (shapes[0][0] > 2))
        return lambda inputs: [output * factor for output in run(inputs)]

    monkeypatch.setattr(ServedModel, "_compile", compile_with_an_error)


@pytest.mark.usefixtures("last_bits_differ")
def test_rows_that_differ_in_their_last_bits_are_not_run_as_a_batch(tmp_path: Path) -> None:
    model = served(tmp_path, models.ROWS)
    assert (model.joins, model.rows_are_free, model.rows_are_exact) == (False, True, False)
    assert declared(model) == [[-1, 3]]
    # several rows in one request are run as the model itself would run them
    assert model.lane(((2, 3),)) is None
    assert model.compile_lane(((2, 3),)).most_rows == 1
    model.check_shapes([(model.model.inputs[0], (8, 3))])
    with pytest.raises(Refusal, match="this model takes at most 8 rows in one request, found 9"):
        model.check_shapes([(model.model.inputs[0], (9, 3))])


@pytest.mark.usefixtures("last_bits_differ")
def test_unless_that_is_asked_for(tmp_path: Path) -> None:
    model = served(tmp_path, models.ROWS, exact=False)
    assert (model.joins, model.rows_are_exact) == (True, False)
    assert model.how == "batches of up to 8 rows"
    assert model.lane(((5, 3),)) is model.lane(((1, 3),)) is not None


@pytest.mark.skipif(allowed_cpus() < 2, reason="needs two CPUs")
@pytest.mark.usefixtures("last_bits_differ")
def test_but_they_are_run_apart_at_the_same_time(tmp_path: Path) -> None:
    model = served(tmp_path, models.ROWS, threads=2)
    assert model.how == "up to 2 rows at a time, a thread for each"
    lane = model.lane(((1, 3),))
    assert lane is not None
    assert lane.alone is not None
    assert lane.alone([np.array([[1, 2, 3]], np.float32)])[0].tolist() == [[3, 5, 7]]
    assert model.lane(((2, 3),)) is None  # not of one request
    for rows in range(1, 10):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(lane.run([x])[0], 2 * x + 1)


def test_no_batches_if_none_are_wanted(tmp_path: Path) -> None:
    model = served(tmp_path, models.ROWS, max_batch=1)
    assert not model.joins
    assert declared(model) == [[1, 3]]


def test_batches_that_are_no_power_of_two(tmp_path: Path) -> None:
    lane = served(tmp_path, models.ROWS, max_batch=6).lane(((1, 3),))
    assert lane is not None
    assert lane.most_rows == 6
    x = np.arange(18, dtype=np.float32).reshape(6, 3)
    np.testing.assert_array_equal(lane.run([x])[0], 2 * x + 1)


def test_inputs_of_different_numbers_of_rows_run_by_themselves(tmp_path: Path) -> None:
    model = served(tmp_path, models.PAIR)
    left, right = model.model.inputs
    joined = model.lane(((1, 3), (1, 3)))
    assert joined is model.lane(((2, 3), (2, 3))) is not None
    for shapes in (((2, 3), (1, 3)), ((0, 3), (0, 3))):  # broadcast; and nothing at all
        model.check_shapes([(left, shapes[0]), (right, shapes[1])])
        assert model.lane(shapes) is None
        inputs = [np.full(shape, 2, np.float32) for shape in shapes]
        assert [array.tolist() for array in model.compile_lane(shapes).run(inputs)] == [[[4] * 3] * shapes[0][0]] * 2
    with pytest.raises(Refusal, match="this model takes at most 8 rows in one request, found 9"):
        model.check_shapes([(left, (9, 3)), (right, (1, 3))])
    with pytest.raises(KuiperError, match="broadcast"):
        model.compile_lane(((2, 3), (3, 3)))


def test_inputs_with_nothing_in_common(tmp_path: Path) -> None:
    model = served(tmp_path, models.SEPARATE)
    left, right = model.model.inputs
    assert declared(model) == [[-1, 3], [-1, 2]]
    assert model.lane(((4, 3), (4, 2))) is model.lane(((1, 3), (1, 2))) is not None
    model.check_shapes([(left, (30, 3)), (right, (0, 2))])
    assert model.lane(((30, 3), (0, 2))) is None


def test_the_trial_sees_what_a_difference_of_inputs_does(tmp_path: Path) -> None:
    assert not served(tmp_path, models.CENTRED_DIFFERENCE).joins


def test_indices(tmp_path: Path) -> None:
    model = served(tmp_path, models.LOOK_UP)
    assert model.joins


def test_free_dimensions_are_compiled_for_when_they_are_seen(tmp_path: Path) -> None:
    model = served(tmp_path, models.FREE)
    assert declared(model) == [[-1, -1]]
    assert model.lane(((2, 5),)) is None
    lane = model.compile_lane(((2, 5),))
    model.keep_lane(((2, 5),), lane)
    assert model.lane(((2, 5),)) is lane
    assert lane.run([np.zeros((2, 5), np.float32)])[0].tolist() == [[1] * 5] * 2


def test_lanes_of_rare_shapes_are_forgotten(tmp_path: Path) -> None:
    model = served(tmp_path, models.FREE)
    with kuiperinfer.settings(max_plans=2):
        for columns in (1, 2, 3):
            if columns == 3:
                assert model.lane(((1, 1),)) is not None  # used again, so the other one goes
            model.keep_lane(((1, columns),), model.compile_lane(((1, columns),)))
    assert [model.lane(((1, columns),)) is None for columns in (1, 2, 3)] == [False, True, False]


def test_pictures_of_any_size(tmp_path: Path) -> None:
    model = served(tmp_path, CONVOLUTION)
    assert declared(model) == [[1, 3, -1, -1]]


def test_complex_numbers_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the protocol has no datatype for c64"):
        served(tmp_path, models.COMPLEX)


def test_the_reference_engine(tmp_path: Path) -> None:
    with kuiperinfer.settings(engine="reference"):
        model = served(tmp_path, models.ROWS)
    lane = model.lane(((1, 3),))
    assert lane is not None
    assert lane.run([np.ones((3, 3), np.float32)])[0].tolist() == [[3] * 3] * 3


def test_a_model_that_does_not_take_invented_input_is_served_all_the_same(tmp_path: Path) -> None:
    text = models.LOOK_UP.replace("num_embeddings=5", "num_embeddings=1").replace("(5,3)", "(1,3)")
    model = served(tmp_path, text)  # the second row does not exist
    assert not model.joins
    lane = model.lane(((1, 2),))
    assert lane is not None
    zeros = np.zeros((1, 2), np.int64)
    np.testing.assert_array_equal(lane.run([zeros])[0], model.model(zeros))


def test_a_model_that_does_not_take_invented_shapes_waits_for_real_ones(tmp_path: Path) -> None:
    text = """7767517
3 2
pnnx.Input    x 0 1 0 #0=(?,2)f32
Tensor.select s 1 1 0 1 dim=0 index=3 #0=(?,2)f32 #1=(2)f32
pnnx.Output   y 1 0 1 #1=(2)f32
"""
    model = served(tmp_path, text)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert model.lane((x.shape,)) is None
    np.testing.assert_array_equal(model.compile_lane((x.shape,)).run([x])[0], [6, 7])
    with pytest.raises(KuiperError, match="index 3 is out of range"):
        served(tmp_path, text.replace("?", "1"))
