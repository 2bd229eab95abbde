"""Tables of numbers in text files: strictly, and as the course reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kuiperinfer import dtypes
from kuiperinfer import tensor as kt
from kuiperinfer.errors import DTypeError, InputError
from kuiperinfer.tensor import course


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def lines(rows: list[list[str]], separator: str = ",") -> str:
    return "\n".join(separator.join(row) for row in rows) + "\n"


@pytest.mark.parametrize("lenient", [False, True])
def test_tables_as_they_are_written(table: Path, lenient: bool) -> None:
    table.write_text(lines([["1"] * 4] * 3))
    assert kt.load_csv(table, lenient=lenient).tolist() == [[1] * 4] * 3
    table.write_text(lines([[str(4 * row + column) for column in range(4)] for row in range(3)]))
    x = kt.load_csv(str(table), lenient=lenient)
    assert x.dtype is dtypes.f32 and x.tolist() == np.arange(12).reshape(3, 4).tolist()


def test_what_is_missing_is_zero_for_the_course(table: Path) -> None:
    table.write_text(lines([["1"] * 11] * 2 + [["1"] * 10]))
    x = course.load_data(table)
    assert x.shape == (3, 11) and x[2, 10].item() == 0 and x.sum().item() == 32
    table.write_text(lines([["1"] * 11] * 2 + [["1", "", *["1"] * 9]]))
    x = course.load_data(table)
    assert x.shape == (3, 11) and x[2, 1].item() == 0 and x.sum().item() == 32
    table.write_text("1,2\n3,x\n\n5,6\n")
    assert course.load_data(table).tolist() == [[1, 2], [3, 0]], "up to the first blank line"


def test_any_character_may_stand_between_numbers(table: Path) -> None:
    table.write_text(lines([["1", "2"], ["3", "4"]], "-"))
    assert kt.load_csv(table, "-").tolist() == course.load_data(table, "-").tolist() == [[1, 2], [3, 4]]
    table.write_text(lines([["-1"] * 11] * 3, ";"))
    assert kt.load_csv(table, ";").tolist() == [[-1] * 11] * 3
    table.write_text(lines([["1", "2"]], "\t"))
    assert kt.load_csv(table, "\t").tolist() == [[1, 2]]
    for separator in ("", ", ", "\n"):
        with pytest.raises(InputError, match="expected one character between numbers"):
            kt.load_csv(table, separator)


@pytest.mark.parametrize("lenient", [False, True])
def test_a_large_table(table: Path, lenient: bool) -> None:
    table.write_text(lines([["-1"] * 1024] * 1024))
    x = kt.load_csv(table, lenient=lenient)
    assert x.shape == (1024, 1024) and (x.numpy() == -1).all()


def test_numbers_in_all_their_forms(table: Path) -> None:
    table.write_text(" 1.5, -2e3 ,.5\r\nnan,inf,-0\r\n")
    x = kt.load_csv(table, dtype="f64").numpy()
    np.testing.assert_array_equal(x, [[1.5, -2000, 0.5], [np.nan, np.inf, 0]])
    table.write_text("1,-2\n3,4\n")
    assert kt.load_csv(table, dtype="i8").dtype is dtypes.i8 and kt.load_csv(table, dtype="i64").tolist() == [
        [1, -2],
        [3, 4],
    ]
    table.write_text("1.9,-2.9\n")
    assert course.load_data(table, dtype="i32").tolist() == [[1, -2]]
    table.write_text("1+2j,3\n")
    assert kt.load_csv(table, dtype="c64").tolist() == [[1 + 2j, 3]]


def test_no_file(table: Path) -> None:
    with pytest.warns(UserWarning, match=r"table.csv cannot be read .*: the tensor is empty"):
        x = course.load_data(table)
    assert x.empty() and x.shape == (0, 0)
    with pytest.raises(InputError, match=r"table.csv cannot be read as a table: .*No such file"):
        kt.load_csv(table)


def test_an_empty_file(table: Path) -> None:
    table.write_text("")
    assert kt.load_csv(table).shape == course.load_data(table).shape == (0, 0)


@pytest.mark.parametrize(
    ("text", "dtype", "message"),
    [
        (
            "1,2\n3\n",
            "f32",
            r"table.csv:2: the longest line has 2 numbers, and this one 1; expected lines of one length",
        ),
        ("1,2\n3,4,5\n", "f32", r"table.csv:1: the longest line has 3 numbers, and this one 2"),
        ("1,1_0\n", "f32", r"table.csv:1: expected a number of f32, found '1_0'"),
        ("a,b\n1,2\n", "f32", r"table.csv:1: expected a number of f32, found 'a'"),
        ("1,2\n3, \n", "f32", r"table.csv:2: expected a number of f32, found ''"),
        ("1,2\n3,4.5\n", "i64", r"table.csv:2: expected a number of i64, found '4.5'"),
        ("1,2\n\n3,4\n", "f32", r"table.csv:2: the longest line has 2 numbers, and this one 1"),
    ],
)
def test_what_is_no_table_is_said_with_its_place(table: Path, text: str, dtype: str, message: str) -> None:
    table.write_text(text)
    with pytest.raises(InputError, match=message):
        kt.load_csv(table, dtype=dtype)


@pytest.mark.parametrize("number", ["300", "99999999999999999999"])
def test_numbers_that_do_not_fit(table: Path, number: str) -> None:
    table.write_text(f"1,2\n1,{number}\n")
    with pytest.raises(DTypeError, match=r"table.csv:2: .*do not fit (u8|any dtype)"):
        kt.load_csv(table, dtype="u8")


def test_a_binary_file_is_no_table(table: Path) -> None:
    table.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as a table"):
        kt.load_csv(table)
