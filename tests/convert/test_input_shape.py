"""Shapes as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer import dtypes
from kuiperinfer.convert import parse_input_shape
from kuiperinfer.convert.input_shape import as_input_shape, as_input_shapes, converter_text, from_converter_text
from kuiperinfer.dtypes import TensorSpec
from kuiperinfer.errors import InputError

specs = st.builds(
    TensorSpec, st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=6).map(tuple), st.sampled_from(dtypes.ALL)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1x3x224x224", "(1,3,224,224)f32"),
        ("1,3,224,224", "(1,3,224,224)f32"),
        (" 1 × 3×5 ", "(1,3,5)f32"),
        ("[1,3,4]", "(1,3,4)f32"),
        ("(1, 3, 4)", "(1,3,4)f32"),
        ("7", "(7)f32"),
        ("1x128i64", "(1,128)i64"),
        ("1x3x4x4f16", "(1,3,4,4)f16"),
        ("[2,2]bool", "(2,2)bool"),
        ("2x2 bf16", "(2,2)bf16"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert str(parse_input_shape(text)) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected whole numbers with x or commas between them, such as 1x3x224x224"),
        ("1x", "expected whole numbers"),
        ("1x-3", "expected whole numbers"),
        ("1x3.5", "expected whole numbers"),
        ("axb", "expected whole numbers"),
        ("1x3\n4", "expected whole numbers"),
        ("١x٣", "expected whole numbers"),
        ("1x3f33", "unknown dtype 'f33'; did you mean 'f32'?"),
        ("1x0", "expected dimensions from 1 to 2147483647"),
        ("1x99999999999", "expected dimensions from 1 to 2147483647"),
    ],
)
def test_texts_that_are_none(text: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_input_shape(text)
    assert complaint in str(caught.value)


@given(specs)
def test_specs_survive_both_ways_of_writing_them(spec: TensorSpec) -> None:
    assert as_input_shape(spec) is spec
    assert parse_input_shape("x".join(map(str, spec.shape)) + spec.dtype.name) == spec
    assert from_converter_text(converter_text([spec, spec])) == [spec, spec]
    assert as_input_shape(spec.shape) == TensorSpec(spec.shape, dtypes.f32)


def test_what_the_converter_prints_of_scalars() -> None:
    assert from_converter_text("[1,3]f32,[]i64") == [TensorSpec((1, 3), dtypes.f32), TensorSpec((), dtypes.i64)]
    assert from_converter_text("[]null,[1]q8") == []
    assert from_converter_text("") == []


@pytest.mark.parametrize("given", [(1, "x"), 5, (0, 1), None])
def test_dimensions_that_are_none(given: Any) -> None:
    with pytest.raises(InputError, match=r"shape .*: expected"):
        as_input_shape(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), []),
        ("1x3", ["(1,3)f32"]),
        ((1, 3), ["(1,3)f32"]),
        (["1x3", (2, 4)], ["(1,3)f32", "(2,4)f32"]),
        ([(1, 3)], ["(1,3)f32"]),
        (TensorSpec((5,), dtypes.i64), ["(5)i64"]),
    ],
    ids=str,
)
def test_one_shape_or_several(given: Any, expected: list[str]) -> None:
    assert [str(spec) for spec in as_input_shapes(given)] == expected
