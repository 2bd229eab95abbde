"""Where the rows of a job come from: picture files, `.npy` arrays and Parquet tables, one after the other."""

from __future__ import annotations

import itertools
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..dtypes import Array
from ..errors import InputError, KuiperError
from .cells import cell

PICTURE_SUFFIXES = frozenset(
    (
        ".jpg .jpeg .jpe .jfif .png .apng .bmp .gif .ppm .pgm .pbm .pnm .webp .tif .tiff .jp2 .j2k .j2c .jpx .jpf .jpc "
        ".avif .avifs"
    ).split()
)

_ROWS_AT_ONCE = 64  # of a table

PictureFile: TypeAlias = Path
Record: TypeAlias = "dict[str, Any]"
Value: TypeAlias = "PictureFile | Array | Record | KuiperError"


@dataclass(frozen=True)
class Source:
    """A file and the number of its rows. `kind` is one of ``"picture" "array" "table" "broken"``.

    A file that cannot be opened is *broken*: one row, which cannot be read because of `problem`. `size` (bytes) and `modified`
    (ns) tell whether it is still the same file; `columns` are a table's.
    """

    path: str
    kind: str
    rows: int
    size: int
    modified: int
    columns: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Slice:
    """Rows `start` to `stop` of a source; the first is row `number` of the whole job."""

    source: Source
    start: int
    stop: int
    number: int


@dataclass(frozen=True)
class Row:
    """One row: its number in the whole job, the file and the row in it, and its value (or why it cannot be read)."""

    number: int
    source: str
    source_row: int
    value: Value


# ------------------------------------------------------------------------------------------- finding


def find_sources(inputs: Sequence[str | os.PathLike[str]], leave_out: Path) -> list[Source]:
    """The files of the given files and folders (searched to any depth, in the order of their names).

    What is not the name of a picture, an `.npy` or a Parquet file is passed over in folders, and so are hidden files and the
    folder `leave_out`. Raises `InputError` for what is not there, what is of no known kind, and where nothing is found.
    """
    sources: list[Source] = []
    for given in inputs:
        path = Path(os.path.abspath(given))
        if path.is_dir():
            found = [file for file in _walk(path, leave_out) if _kind_of(file)]
            if not found:
                raise InputError(f"{given}: expected pictures, .npy or .parquet files in this folder, found none")
            sources += [_source(file) for file in found]
        elif not path.exists():
            raise InputError(f"{given}: no such file or folder")
        elif not path.is_file() or not _kind_of(path):
            raise InputError(f"{given}: expected a folder, a picture, a .npy or a .parquet file")
        else:
            sources.append(_source(path))
    return sources


def _walk(folder: Path, leave_out: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and Path(place, name) != leave_out)
        yield from (Path(place, name) for name in sorted(names) if name[0] != ".")


def _kind_of(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix in PICTURE_SUFFIXES:
        return "picture"
    return {".npy": "array", ".parquet": "table"}.get(suffix, "")


def _source(path: Path) -> Source:
    kind, size, modified = _kind_of(path), 0, 0
    try:
        facts = path.stat()
        size, modified = facts.st_size, facts.st_mtime_ns
        rows, columns = _COUNTING[kind](path)
    except Exception as error:  # whatever NumPy and Arrow raise on broken files
        return Source(str(path), "broken", 1, size, modified, problem=_reason(error))
    return Source(str(path), kind, rows, size, modified, columns)


def _count_picture(path: Path) -> tuple[int, tuple[str, ...]]:
    return 1, ()  # whether it is one shows when it is read


def _count_array(path: Path) -> tuple[int, tuple[str, ...]]:
    array = _open_array(path)
    if array.ndim == 0:
        raise InputError("the array has no dimensions; expected one row after the other along the first")
    return len(array), ()


def _count_table(path: Path) -> tuple[int, tuple[str, ...]]:
    with pq.ParquetFile(path) as file:
        return file.metadata.num_rows, tuple(file.schema_arrow.names)


_COUNTING: dict[str, Callable[[Path], tuple[int, tuple[str, ...]]]] = {
    "picture": _count_picture,
    "array": _count_array,
    "table": _count_table,
}


def _open_array(path: Path) -> Array:
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


# ------------------------------------------------------------------------------------------- cutting


def cut(sources: Sequence[Source], rows: int) -> list[tuple[Slice, ...]]:
    """All rows of the sources, in parts of `rows` (the last may be shorter)."""
    ends = list(accumulate(source.rows for source in sources))
    total = ends[-1] if ends else 0
    return [tuple(_slices(sources, ends, first, min(first + rows, total))) for first in range(0, total, rows)]


def _slices(sources: Sequence[Source], ends: Sequence[int], first: int, last: int) -> Iterator[Slice]:
    index = bisect_right(ends, first)
    while first < last:
        source, begin = sources[index], ends[index] - sources[index].rows
        stop = min(last, ends[index])
        if stop > first:
            yield Slice(source, first - begin, stop - begin, first)
        first, index = stop, index + 1


# ------------------------------------------------------------------------------------------- reading


def read_rows(part: Sequence[Slice], columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a part in order, every one of them: what cannot be read is a row whose value is the error.

    Of tables only `columns` are read.
    """
    for piece in part:
        values = _READING[piece.source.kind](piece, columns)
        problem: KuiperError | None = None
        for offset, source_row in enumerate(range(piece.start, piece.stop)):
            if problem is None:
                try:
                    value = next(values)
                except Exception as error:  # the file broke off, has changed, or has gone
                    problem = InputError(_reason(error))
            yield Row(piece.number + offset, piece.source.path, source_row, problem or value)


def _read_picture_file(piece: Slice, columns: Sequence[str]) -> Iterator[Value]:
    yield Path(piece.source.path)


def _read_array(piece: Slice, columns: Sequence[str]) -> Iterator[Value]:
    yield from _open_array(Path(piece.source.path))[piece.start : piece.stop]


def no_column(name: str, columns: Iterable[str]) -> InputError:
    """The error of a table without a column."""
    return InputError(f"there is no column '{name}', only {', '.join(columns) or 'none'}")


def _read_table(piece: Slice, columns: Sequence[str]) -> Iterator[Value]:
    with pq.ParquetFile(piece.source.path) as file:
        wanted = [name for name in columns if name in piece.source.columns]
        if columns and not wanted:
            yield from itertools.repeat(no_column(columns[0], piece.source.columns), piece.stop - piece.start)
            return
        begin = 0
        for group in range(file.metadata.num_row_groups):
            end = begin + file.metadata.row_group(group).num_rows
            if begin < piece.stop and end > piece.start:
                first, last = max(piece.start - begin, 0), min(piece.stop, end) - begin
                yield from _read_row_group(file, group, wanted, first, last)
            begin = end


def _read_row_group(file: Any, group: int, columns: list[str], first: int, last: int) -> Iterator[Value]:
    """The rows `first` to `last` of a row group; if it breaks off, the others remain."""
    try:
        begin = 0
        for batch in file.iter_batches(_ROWS_AT_ONCE, row_groups=[group], columns=columns):
            for index in range(max(first - begin, 0), min(last - begin, batch.num_rows)):
                yield _record(batch, index)
                first += 1
            begin += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        yield from [InputError(_reason(error))] * (last - first)


def _record(batch: pa.RecordBatch, index: int) -> Value:
    values = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            values[name] = cell(column[index])
        except KuiperError as error:
            return error.at(f"column '{name}'")
    return values


def _read_broken(piece: Slice, columns: Sequence[str]) -> Iterator[Value]:
    yield InputError(piece.source.problem)


_READING: dict[str, Callable[[Slice, Sequence[str]], Iterator[Value]]] = {
    "picture": _read_picture_file,
    "array": _read_array,
    "table": _read_table,
    "broken": _read_broken,
}


def _reason(error: Exception) -> str:
    if isinstance(error, StopIteration):
        return "the file has fewer rows than it had at the start of the job"
    return str(error) if isinstance(error, KuiperError) else f"cannot be read ({error or type(error).__name__})"
