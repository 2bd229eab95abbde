"""MODEL arguments and --shape options."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kuiperinfer import dtypes
from kuiperinfer.cli.models import input_shapes, model_file, parse_dims, parse_numbers
from kuiperinfer.errors import InputError, ModelFileError
from kuiperinfer.runtime import ValueInfo

INPUTS = (ValueInfo("image", (1, 3, None, None), dtypes.f32), ValueInfo("mask", (2,), dtypes.bool_))


def test_model_files(tmp_path: Path) -> None:
    param = tmp_path / "net.pnnx.param"
    for name in ("net.pnnx.param", "net.pnnx.bin"):
        (tmp_path / name).touch()
    assert model_file(param) == param
    assert model_file(tmp_path) == param
    assert model_file(tmp_path / "net") == param
    with pytest.raises(InputError, match=r"these are a model's weights; give .*net\.pnnx\.param"):
        model_file(tmp_path / "net.pnnx.bin")
    with pytest.raises(ModelFileError, match=r"no such file or folder; did you mean 'net\.pnnx\.param'\?"):
        model_file(tmp_path / "nat.pnnx.param")
    (tmp_path / "other.pnnx.param").touch()
    with pytest.raises(InputError, match=r"found 2: net\.pnnx\.param, other\.pnnx\.param"):
        model_file(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="found none"):
        model_file(tmp_path / "empty")


def test_shapes_in_order_and_by_name() -> None:
    assert input_shapes(["1,3,8,9"], INPUTS) == {"image": (1, 3, 8, 9), "mask": (2,)}
    assert input_shapes(["1,3,8,9", "5"], INPUTS) == {"image": (1, 3, 8, 9), "mask": (5,)}
    assert input_shapes(["mask=4", "1,3,8,9"], INPUTS) == {"image": (1, 3, 8, 9), "mask": (4,)}


def test_shapes_that_fit_no_input() -> None:
    with pytest.raises(
        click.UsageError,
        match=r"the shape of input image: \(1,3,\?,\?\)f32 is not complete in the file: give it with --shape",
    ):
        input_shapes([], INPUTS)
    with pytest.raises(click.UsageError, match="the model has only 2 inputs"):
        input_shapes(["1,3,8,9", "2", "3"], INPUTS)
    with pytest.raises(click.UsageError, match="there is no input 'imag', only image, mask; did you mean 'image'"):
        input_shapes(["imag=1"], INPUTS)
    with pytest.raises(click.UsageError, match="input 'image' has 4 dimensions"):
        input_shapes(["3,8,9"], INPUTS)
    with pytest.raises(click.UsageError, match="input 'mask' has a shape already"):
        input_shapes(["mask=3", "mask=4", "1,3,8,9"], INPUTS)


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("1,3,224,224", (1, 3, 224, 224)),
        ("1x3x4", (1, 3, 4)),
        ("(2, 3)", (2, 3)),
        ("[7]", (7,)),
        ("", ()),
        ("0,1", (0, 1)),
    ],
)
def test_dims(text: str, dims: tuple[int, ...]) -> None:
    assert parse_dims(text) == dims


@pytest.mark.parametrize("text", ["a", "1,,2", "-1", "1.5", "1,?", "²", "9" * 30, "1,2,"])
def test_what_are_no_dims(text: str) -> None:
    with pytest.raises(click.UsageError, match="expected whole numbers"):
        parse_dims(text)


def test_numbers() -> None:
    assert parse_numbers("0.5,1,2e-1", "--mean") == (0.5, 1.0, 0.2)
    for text in ("1;2", "", "1,", "nan", "1,inf", "x"):
        with pytest.raises(click.UsageError, match="expected numbers with commas") as caught:
            parse_numbers(text, "--mean")
        assert f"Invalid value for --mean: '{text}'" in caught.value.format_message()
