"""Every row of every file is met exactly once, and what cannot be read is a row too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from kuiperinfer.batch.sources import PICTURE_SUFFIXES, Slice, Source, cut, find_sources, read_rows
from kuiperinfer.errors import InputError, KuiperError
from kuiperinfer.vision.pictures import FORMATS


def write_table(path: Path, numbers: list[int], row_group_size: int = 3) -> Path:
    pq.write_table(pa.table({"n": numbers, "other": numbers}), path, row_group_size=row_group_size)
    return path


def values(source: Source, start: int, stop: int) -> list[Any]:
    return [row.value for row in read_rows([Slice(source, start, stop, start)], ["n"])]


def test_pictures_are_what_can_be_read() -> None:
    readable = {suffix for suffix, kind in Image.registered_extensions().items() if kind in FORMATS}
    assert readable >= PICTURE_SUFFIXES
    assert {kind for suffix, kind in Image.registered_extensions().items() if suffix in PICTURE_SUFFIXES} == set(
        FORMATS
    )


def test_folders_are_searched_in_the_order_of_names(tmp_path: Path) -> None:
    for name in (
        "b/2.PNG",
        "b/10.jpg",
        "a/x.npy",
        "a.png",
        "notes.txt",
        ".hidden.png",
        ".git/y.png",
        "out/results/p.png",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    np.save(tmp_path / "a/x.npy", np.zeros((4, 2)))
    write_table(tmp_path / "t.parquet", [1, 2])
    found = find_sources([tmp_path, tmp_path / "b/2.PNG"], leave_out=tmp_path / "out")
    names = [os.path.relpath(source.path, tmp_path) for source in found]
    assert names == ["a.png", "t.parquet", "a/x.npy", "b/10.jpg", "b/2.PNG", "b/2.PNG"]
    assert [source.kind for source in found[:3]] == ["picture", "table", "array"]
    assert [source.rows for source in found[:3]] == [1, 2, 4]
    assert found[1].columns == ("n", "other")


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, lambda path: path.with_suffix(".txt").write_text("")])
def test_inputs_that_are_none(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "x")
    given = next(iter(tmp_path.iterdir()), tmp_path / "x")
    with pytest.raises(
        InputError, match=r"no such file|expected pictures, \.npy or \.parquet|expected a folder, a picture"
    ):
        find_sources([given], tmp_path)


@given(st.lists(st.integers(0, 7), max_size=6), st.integers(1, 9))
def test_parts_hold_every_row_once_and_in_order(sizes: list[int], rows: int) -> None:
    sources = [Source(str(n), "array", size, 0, 0) for n, size in enumerate(sizes)]
    parts = cut(sources, rows)
    met = [(piece.source.path, row) for part in parts for piece in part for row in range(piece.start, piece.stop)]
    assert met == [(source.path, row) for source in sources for row in range(source.rows)]
    lengths = [sum(piece.stop - piece.start for piece in part) for part in parts]
    assert all(length == rows for length in lengths[:-1])
    assert all(0 < length <= rows for length in lengths)
    assert [part[0].number for part in parts] == [number * rows for number in range(len(parts))]


@pytest.mark.parametrize("row_group_size", [1, 3, 100])
def test_any_range_of_a_table(tmp_path: Path, row_group_size: int) -> None:
    numbers = list(range(150))
    (source,) = find_sources([write_table(tmp_path / "t.parquet", numbers, row_group_size)], tmp_path)
    for start, stop in ((0, 150), (0, 1), (2, 5), (3, 6), (63, 130), (149, 150)):
        found = values(source, start, stop)
        assert [int(row["n"]) for row in found] == numbers[start:stop]
        assert set(found[0]) == {"n"}


def test_ranges_of_an_array(tmp_path: Path) -> None:
    array = np.arange(12).reshape(6, 2)
    np.save(tmp_path / "x.npy", array)
    (source,) = find_sources([tmp_path], tmp_path / "out")
    assert np.array_equal(values(source, 2, 5), array[2:5])


def test_files_that_cannot_be_opened_are_one_row(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "scalar.npy", np.array(1))
    np.save(tmp_path / "short.npy", np.zeros((1000, 3)))
    os.truncate(tmp_path / "short.npy", 500)
    (tmp_path / "text.parquet").write_text("hello, this is no table")
    (tmp_path / "empty.npy").write_bytes(b"")
    sources = find_sources([tmp_path], tmp_path / "out")
    assert [(source.kind, source.rows) for source in sources] == [("broken", 1)] * 5
    rows = [row for part in cut(sources, 2) for row in read_rows(part, [])]
    assert [row.number for row in rows] == list(range(5))
    assert all(isinstance(row.value, KuiperError) and str(row.value) for row in rows)
    complaints = {Path(row.source).name: str(row.value) for row in rows}
    assert "no dimensions" in complaints["scalar.npy"]
    assert "mmap length" in complaints["short.npy"]


def test_cells_that_are_empty_spoil_their_row_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, None, 3]}), tmp_path / "t.parquet")
    (source,) = find_sources([tmp_path], tmp_path / "out")
    first, second, third = values(source, 0, 3)
    assert (int(first["n"]), int(third["n"])) == (1, 3)
    assert str(second) == "column 'n': the cell is empty"


def test_files_that_change_later(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.parquet", list(range(100)))
    (source,) = find_sources([path], tmp_path)
    write_table(path, [1, 2])
    found = values(source, 0, 4)
    assert [int(row["n"]) for row in found[:2]] == [1, 2]
    assert [str(error) for error in found[2:]] == ["the file has fewer rows than it had at the start of the job"] * 2
    path.unlink()
    assert all("cannot be read" in str(error) for error in values(source, 0, 4))


def test_damage_in_the_middle_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    generator = np.random.default_rng(0)
    pq.write_table(pa.table({"n": generator.integers(0, 1 << 40, 3000)}), path, row_group_size=1000, compression="zstd")
    (source,) = find_sources([path], tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
    path.write_bytes(content)
    found = values(source, 0, 3000)
    assert len(found) == 3000
    assert any(isinstance(value, KuiperError) for value in found[1000:2000])
    assert not any(isinstance(value, KuiperError) for value in found[:1000])
