"""Many pictures: in order, in batches, with broken ones among them, and no more at once than is needed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer import load, settings
from kuiperinfer.dtypes import Array
from kuiperinfer.errors import InputError, ResourceLimitError
from kuiperinfer.vision import Classifier, Job, Preprocess, load_classifier, stream
from kuiperinfer.vision.job import possible_batch, run_in_batches
from tests.small_models import CONVOLUTION, LINEAR, write_model


class FirstPixel(Job[int]):
    """The first number in a picture, and a log of what happens."""

    def __init__(self, most: int = 8, fail_at: int | None = None) -> None:
        self.most, self.fail_at = most, fail_at
        self.batches: list[int] = []
        self.prepared = 0
        self._lock = threading.Lock()

    def possible_batch(self, wanted: int) -> int:
        return min(wanted, self.most)

    def prepare(self, picture: Array) -> int:
        with self._lock:
            self.prepared += 1
        return int(picture[0, 0, 0])

    def infer(self, prepared: Sequence[int], batch: int = 1) -> list[int]:
        assert 1 <= len(prepared) <= batch
        self.batches.append(len(prepared))
        if self.fail_at in prepared:
            raise InputError("the model is broken")
        return list(prepared)

    def finish(self, output: int, picture: Array) -> int:
        assert output == picture[0, 0, 0]
        return output


def pictures(count: int) -> Iterator[Array]:
    return (np.full((2, 2, 3), number % 256, np.uint8) for number in range(count))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 50])
@pytest.mark.parametrize("batch", [1, 4])
def test_results_come_in_order(count: int, batch: int) -> None:
    job = FirstPixel()
    outcomes = list(stream(job, pictures(count), batch=batch))
    assert [outcome.result for outcome in outcomes] == list(range(count))
    assert sum(job.batches) == count
    assert all(size == batch for size in job.batches[:-1])
    assert all(outcome.seconds >= 0 and outcome.error is None for outcome in outcomes)


def test_broken_pictures_are_outcomes_and_do_not_make_batches_smaller(tmp_path: Path) -> None:
    sources: list[Any] = list(pictures(10))
    sources[3] = tmp_path / "missing.png"
    sources[4] = b"no picture"
    sources[9] = b""
    job = FirstPixel()
    outcomes = list(stream(job, sources, batch=3))
    assert [outcome.result for outcome in outcomes] == [0, 1, 2, None, None, 5, 6, 7, 8, None]
    assert [number for number, outcome in enumerate(outcomes) if outcome.error] == [3, 4, 9]
    assert "no such file" in str(outcomes[3].error)
    assert outcomes[3].source == tmp_path / "missing.png"
    assert outcomes[3].picture is None
    assert job.batches == [3, 3, 1]


def test_nothing_but_broken_pictures() -> None:
    job = FirstPixel()
    assert [outcome.result for outcome in stream(job, [b""] * 5, batch=2)] == [None] * 5
    assert job.batches == []


def test_sources_may_be_endless_and_are_not_read_far_ahead() -> None:
    job = FirstPixel()
    endless = (np.zeros((2, 2, 3), np.uint8) for _ in itertools.count())
    outcomes = stream(job, endless, batch=2, readers=2)
    for _ in range(20):
        next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert job.prepared <= 20 + 3 * 2 + 4 + 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kuiper-")]


def test_what_is_wrong_with_the_model_is_raised() -> None:
    with pytest.raises(InputError, match="the model is broken"):
        list(stream(FirstPixel(fail_at=5), pictures(30), batch=2))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kuiper-")]


def test_what_cannot_be_prepared_is_told_by_its_name(tmp_path: Path) -> None:
    class Refusing(Preprocess):
        def __call__(self, picture: Array) -> Array:
            raise ResourceLimitError("too much")

    file, model = tmp_path / "file.png", load(write_model(tmp_path, CONVOLUTION))
    file.write_bytes(png(1, 1))
    classify = Classifier(model, Refusing(256, 256))
    (outcome,) = stream(classify, [file])
    assert str(outcome.error) == f"{file}: too much"
    with pytest.raises(ResourceLimitError, match=r"file\.png: too much"):
        classify(file)


def test_settings_hold_in_the_threads() -> None:
    with settings(max_image_pixels=3):
        outcomes = list(stream(FirstPixel(), [png(2, 2), png(1, 3)]))
    assert isinstance(outcomes[0].error, ResourceLimitError)
    assert outcomes[1].result == 0


def png(height: int, width: int) -> bytes:
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "PNG")
    return buffer.getvalue()


# ------------------------------------------------------------------------------------------- batches of models


def test_models_that_take_any_batch(tmp_path: Path) -> None:
    model = load(write_model(tmp_path, CONVOLUTION))
    assert possible_batch(model, (1, 3, 16, 16), 5) == 5
    inputs = [np.random.default_rng(i).standard_normal((1, 3, 16, 16)).astype(np.float32) for i in range(7)]
    found = run_in_batches(model, inputs, 3)
    assert len(found) == 7
    for x, (y,) in zip(inputs, found, strict=True):
        assert y.shape == (1, 8, 8, 8)
        np.testing.assert_allclose(y, model(x), atol=1e-5)


# Insists on four pictures by a constant: its reshape knows their number.
FOUR = """7767517
5 4
pnnx.Input               pnnx_input_0  0 1 0 #0=(4,3,8,8)f32
F.adaptive_avg_pool2d    pool          1 1 0 1 output_size=(1,1) #0=(4,3,8,8)f32 #1=(4,3,1,1)f32
Tensor.reshape           flat          1 1 1 2 shape=(4,3) #1=(4,3,1,1)f32 #2=(4,3)f32
F.softmax                soft          1 1 2 3 dim=1 #2=(4,3)f32 #3=(4,3)f32
pnnx.Output              pnnx_output_0 1 0 3 #3=(4,3)f32
"""
ONE = FOUR.replace("(4,", "(1,")


def test_models_that_insist_on_a_batch(tmp_path: Path) -> None:
    colours = [np.full((8, 8, 3), 0, np.uint8) for _ in range(6)]
    for number, picture in enumerate(colours):
        picture[..., number % 3] = 255
    for text, batch in ((FOUR, 4), (ONE, 1)):
        job = load_classifier(write_model(tmp_path / str(batch), text), mean=(0.0,) * 3, std=(1.0,) * 3)
        assert [job.possible_batch(wanted) for wanted in (1, 2, 4, 8)] == [batch] * 4
        assert [outcome.result[0].index for outcome in stream(job, colours, batch=2) if outcome.result] == [0, 1, 2] * 2
        assert job(colours[2])[0].index == 2


def test_functions_take_one_picture() -> None:
    assert possible_batch(lambda x: x, (1, 3, 8, 8), 4) == 1
    with pytest.raises(InputError, match="at least 1 picture"):
        possible_batch(lambda x: x, (1, 3, 8, 8), 0)


def test_a_model_that_cannot_take_pictures_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pictures need"):
        load_classifier(write_model(tmp_path, LINEAR))
