"""Parameter text and Python values, both ways. The spellings of floats are the converter's own, from a converted model."""

from __future__ import annotations

import contextlib
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import InputError, ModelFileError
from kuiperinfer.pnnx import float_to_text, parameter, parse_parameter
from kuiperinfer.pnnx.values import MAX_NUMBER_LENGTH

INF, NAN = math.inf, math.nan


def same(a: Any, b: Any) -> bool:
    """Equal in type and value, NaN being equal to itself."""
    return repr(a) == repr(b)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("None", None),
        ("True", True),
        ("False", False),
        ("true", "true"),
        ("TRUE", "TRUE"),
        ("none", "none"),
        # integers
        ("0", 0),
        ("-1", -1),
        ("007", 7),
        ("2147483648", 2147483648),
        ("9223372036854775807", 9223372036854775807),
        ("-" + "9" * 200, -(10**200 - 1)),
        # floats
        ("0.5", 0.5),
        ("1.", 1.0),
        ("-2.50", -2.5),
        ("1.000000e-5", 1e-5),
        ("1e-05", 1e-5),
        ("1E+3", 1000.0),
        ("9.99999975e-5", 9.99999975e-5),
        ("1e-400", 0.0),
        ("-0.0", -0.0),
        ("inf", INF),
        ("-inf", -INF),
        ("nan", NAN),
        ("nan.0", NAN),
        # complex numbers
        ("2.000000e+00+3.000000e+00j", 2 + 3j),
        ("1.000000e+00+-2.000000e+00j", 1 - 2j),
        ("1.200000e+00-9.000000e-01j", 1.2 - 0.9j),
        ("1e0+2e0j", 1 + 2j),
        ("1e0+-2e0j", 1 - 2j),
        ("-1-2j", -1 - 2j),
        ("inf+-infj", complex(INF, -INF)),
        ("0.000000e+00+nanj", complex(0, NAN)),
        # strings: all that is not quite a number
        ("", ""),
        ("zeros", "zeros"),
        ("torch.float", "torch.float"),
        ("ij,jk->ik", "ij,jk->ik"),
        ("add(@0,1)", "add(@0,1)"),
        ("a=b", "a=b"),
        ("'quoted'", "'quoted'"),
        ('"quoted"', '"quoted"'),
        (".5", ".5"),
        ("+1", "+1"),
        ("--1", "--1"),
        ("-", "-"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("2d", "2d"),
        ("1e", "1e"),
        ("1.2.3", "1.2.3"),
        ("+inf", "+inf"),
        ("Infinity", "Infinity"),
        ("2j", "2j"),
        ("1+2", "1+2"),
        ("١٢", "١٢"),
        ("%d", "%d"),
        ("(%a,1", "(%a,1"),
        (")", ")"),
        # lists
        ("()", ()),
        ("[]", ()),
        ("(3)", (3,)),
        ("(3,)", (3,)),
        ("(1,2)", (1, 2)),
        ("[1,2]", (1, 2)),
        ("(-1,2147483647)", (-1, 2147483647)),
        ("(0.5,1.0)", (0.5, 1.0)),
        ("(1,2.5)", (1.0, 2.5)),
        ("(0.5,inf)", (0.5, INF)),
        ("(inf,-inf,nan.0)", (INF, -INF, NAN)),
        ("(1e0+2e0j,3)", (1 + 2j, 3 + 0j)),
        ("(a,b,c)", ("a", "b", "c")),
        ("(@0,2147483647)", ("@0", "2147483647")),
        ("(1,a,2.0)", ("1", "a", "2.0")),
        ("(True,False)", ("True", "False")),
        ("(1,None)", ("1", "None")),
        ("(,)", ("",)),
        ("(1,,2)", ("1", "", "2")),
        # what begins like a list, but is none
        ("((1,2),(3,4))", "((1,2),(3,4))"),
        ("[[True,False],[1]]", "[[True,False],[1]]"),
        ("[add(@0,1),2]", "[add(@0,1),2]"),
        ("(a)b", "(a)b"),
        ("(a)(b)", "(a)(b)"),
        ("[@0],1", "[@0],1"),
    ],
)
def test_reading(text: str, value: object) -> None:
    found = parse_parameter(text)
    assert same(found.value, value)
    assert found.text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(1,2", r"'\(1,2': expected a list, but '\(' is never closed"),
        ("[", r"'\[': expected a list, but '\[' is never closed"),
        ("((1,2)", "never closed"),
        ("(1,2]", r"'\(1,2\]': found '\]' that closes another bracket"),
        ("(" * 200_000, "never closed"),
        ("1e400", "the number 1e400 is out of range; expected a magnitude below 1.8e308"),
        ("(0.5,-1e400)", "out of range"),
        ("1e0+1e400j", "out of range"),
        ("9" * 10_000, f"a number of 10000 characters; expected at most {MAX_NUMBER_LENGTH}"),
        ("0." + "1" * 10_000, "a number of 10002 characters"),
        (f"({'9' * 600},0.5)", "an integer in a list of floats is out of range"),
        (f"({'9' * 600},1e0+1e0j)", "an integer in a list of floats is out of range"),
    ],
)
def test_what_stands_for_nothing(text: str, message: str) -> None:
    with pytest.raises(ModelFileError, match=message) as caught:
        parse_parameter(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("value", "text"),
    # Written by pnnx 20261020 for the parameters of F.threshold.
    [
        (9.999999747378752e-05, "0.0001"),
        (9.99999901978299e-05, "9.999999e-5"),
        (-9.999999747378752e-05, "-0.0001"),
        (0.00010000000474974513, "1.00000005e-4"),
        (0.00012345678987912834, "1.23456790e-4"),
        (0.012345679104328156, "1.23456791e-2"),
        (0.12345679104328156, "0.123456791"),
        (123456.703125, "123456.703"),
        (999999.5, "999999.5"),
        (999999.9375, "999999.938"),
        (1000000.0, "1.000000e6"),
        (1234567.0, "1.234567e6"),
        (16777216.0, "1.67772160e7"),
        (1.1754943508222875e-38, "1.17549435e-38"),
        (3.4028234663852886e38, "3.40282347e38"),
        (9.999999747378752e-06, "1.000000e-5"),
        (2.0, "2.0"),
        (0.5, "0.5"),
        (-3.25, "-3.25"),
        (100000.0, "100000.0"),
        (0.3333333432674408, "0.333333343"),
        (9.999999974752427e-07, "1.000000e-6"),
        (INF, "inf"),
        (-INF, "-inf"),
        (NAN, "nan.0"),
        (0.0, "0.0"),
        (-0.0, "0.0"),
        (-1.0000000200408773e20, "-1.000000e20"),
        (99999.9921875, "99999.9922"),
        (0.10000000149011612, "0.1"),
        (0.009999998845160007, "9.99999885e-3"),
        (12345.677734375, "12345.6777"),
        (-0.00031207958818413317, "-3.12079588e-4"),
        (-730725.25, "-730725.25"),
        (-2.1247449240036076e-06, "-2.124745e-6"),
        (6.9331583976745605, "6.9331584"),
        (-13957854.0, "-1.39578540e7"),
        (850.8410034179688, "850.841"),
    ],
)
def test_floats_as_the_converter_writes_them(value: float, text: str) -> None:
    assert float_to_text(value) == text


@given(st.floats(width=32, allow_nan=False))
def test_a_float_reads_back_as_the_same_float32(value: float) -> None:
    text = float_to_text(value)
    assert np.float32(parse_parameter(text).value) == np.float32(value)
    assert parameter(float(text)).text == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (False, "False"),
        (3, "3"),
        (-(2**63), "-9223372036854775808"),
        (np.int64(5), "5"),
        (np.float32(0.1), "0.1"),
        (np.bool_(True), "True"),
        (1e-5, "1.000000e-5"),
        (1 - 2j, "1.000000e+00+-2.000000e+00j"),
        (0.1j, "0.000000e+00+1.000000e-01j"),
        (complex(NAN, INF), "nan+infj"),
        ("zeros", "zeros"),
        ("", ""),
        ((), "()"),
        ([], "()"),
        ((3,), "(3)"),
        ([1, -2], "(1,-2)"),
        ((0.5, 2), "(0.5,2.0)"),
        ((1, 2j), "(1.000000e+00+0.000000e+00j,0.000000e+00+2.000000e+00j)"),
        (("a", "@0"), "(a,@0)"),
        ([np.int32(1), 2], "(1,2)"),
    ],
)
def test_writing(value: Any, text: str) -> None:
    found = parameter(value)
    assert found.text == text
    assert same(found, parse_parameter(text))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a b", "has a blank or a control character"),
        ("a\nb", "has a blank or a control character"),
        (("a", "b c"), "has a blank or a control character"),
        (("a,b",), "would not read back"),
        (("1", "2"), "would not read back"),
        (("a", ""), "would not read back"),
        (("",), "would not read back"),
        ("(1,2", "cannot be read back"),
        ((True, False), "a list parameter cannot hold bool; expected numbers alone or strings alone"),
        (((1, 2), (3, 4)), "a list parameter cannot hold tuple"),
        ((1, "a"), "a list parameter cannot hold int, str"),
        ((None,), "a list parameter cannot hold NoneType"),
        ({}, "a parameter cannot be {}"),
        (1e39, r"1e\+39 is out of range; the format holds float32"),
        (complex(0, 1e39), "out of range"),
        (10**700, "cannot be read back: a number of 701 characters"),
        (10**10_000, "too large to be written"),
        ((0.5, 10**400), "an integer in a list of floats is too large to become one"),
    ],
    ids=lambda value: "" if isinstance(value, int) else None,
)
def test_what_the_format_cannot_hold(value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parameter(value)


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(width=32) | st.text(max_size=8)
LISTS = (
    st.lists(st.integers(-(2**31), 2**31)) | st.lists(st.floats(width=32)) | st.lists(st.text(max_size=5), max_size=4)
)


@given(SCALARS | LISTS | st.complex_numbers(width=64) | st.lists(st.complex_numbers(width=64), max_size=3))
def test_what_is_written_reads_back(value: Any) -> None:
    try:
        written = parameter(value)
    except InputError:
        return
    again = parse_parameter(written.text)
    assert same(again, written)
    assert same(pickle.loads(pickle.dumps(written)), written)
    if isinstance(value, (bool, int, type(None))):
        assert written.value == value
    if isinstance(value, list) and value and isinstance(value[0], float):
        assert np.array_equal(np.array(written.value, np.float32), np.array(value, np.float32), equal_nan=True)


@given(st.text(max_size=30) | st.text("()[],0123456789.eE+-jinfa%", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ModelFileError):
        assert parse_parameter(text).text == text
