"""One part of a job, done by one worker: rows read, the network run, the answers written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError, KuiperError
from .job import BatchJob, Progress
from .output import Finished, whole
from .sources import Row, Slice, read_rows
from .tasks import Task

_ROW_GROUP_BYTES = 16 << 20
_LARGEST_JPEG = 65_500  # pixels of a side

_WHERE = [("row", pa.int64()), ("source", pa.string()), ("source_row", pa.int64())]


@dataclass
class _Done:
    """What came of some rows: what was prepared of each and its record, and the rows that could not be used."""

    rows: list[tuple[Row, Any, dict[str, Any]]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)

    def fail(self, row: Row, error: KuiperError) -> None:
        self.errors.append({**_where(row), "error": _unicode(str(error))})


def _where(row: Row) -> dict[str, Any]:
    return {"row": row.number, "source": _unicode(row.source), "source_row": row.source_row}


def _unicode(text: str) -> str:
    """Text that files can hold: names of files may have bytes that are no characters."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def run_part(job: BatchJob, number: int, slices: Sequence[Slice], progress: Progress) -> Finished:
    """Does a part and declares it finished. Raises `InputError` where its files cannot be written."""
    path = job.output.results_file(number)
    errors: list[dict[str, Any]] = []
    schema = pa.schema([*_WHERE, *job.task.schema, *([("picture", pa.string())] if job.annotate else [])])
    try:
        with _Writer(path, schema) as writer:
            records: list[dict[str, Any]] = []
            for done in _run_rows(job.task, read_rows(slices, job.task.columns), job.batch):
                records += [_record(job, number, *row) for row in done.rows]
                if len(records) >= job.task.records_at_once:
                    writer.write(_arrow(job.task, records, schema))
                    records = []
                errors += done.errors
                progress(len(done.rows) + len(done.errors), len(done.errors))
            writer.write(_arrow(job.task, records, schema))
        if not writer.is_used:
            path.unlink(missing_ok=True)
        rows = sum(piece.stop - piece.start for piece in slices)
        errors.sort(key=lambda error: int(error["row"]))
        finished = Finished(number, rows, tuple(errors), path.stat().st_size if writer.is_used else None)
        job.output.finish(finished)
    except OSError as error:
        raise InputError(f"{job.output.path}: cannot be written ({error.strerror or error})") from error
    return finished


def _run_rows(task: Task, rows: Iterator[Row], batch: int) -> Iterator[_Done]:
    """What becomes of the rows, in order, `batch` of those that can be read at a time."""
    done, prepared = _Done(), []
    for row in rows:
        try:
            prepared.append((row, task.prepare(row)))
        except KuiperError as error:
            done.fail(row, error)
        if len(prepared) == batch:
            yield _infer(task, prepared, done)
            done, prepared = _Done(), []
    if prepared or done.errors:
        yield _infer(task, prepared, done)


def _infer(task: Task, prepared: Sequence[tuple[Row, Any]], done: _Done) -> _Done:
    try:
        outputs = task.infer([value for _, value in prepared]) if prepared else []
    except KuiperError as error:
        if len(prepared) == 1:
            done.fail(prepared[0][0], error)
        else:  # one row must not spoil the others
            for single in prepared:
                _infer(task, [single], done)
        return done
    for (row, value), output in zip(prepared, outputs, strict=True):
        try:
            done.rows.append((row, value, task.finish(value, output)))
        except KuiperError as error:
            done.fail(row, error)
    return done


def _record(job: BatchJob, number: int, row: Row, prepared: Any, record: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all columns for a row, and nothing else: what was prepared of it is large."""
    picture = {"picture": _annotated(job, number, row, prepared, record)} if job.annotate else {}
    return {**_where(row), **{name: record[name] for name in job.task.schema.names}, **picture}


def _arrow(task: Task, records: Sequence[Mapping[str, Any]], schema: Any) -> Any:
    """Records as a batch of Arrow; None where there are none."""
    if not records:
        return None
    ours = {field.name: array for field, array in zip(task.schema, task.arrays(records), strict=True)}
    rest = [field for field in schema if field.name not in ours]
    others = {field.name: pa.array([record[field.name] for record in records], field.type) for field in rest}
    return pa.RecordBatch.from_arrays([(ours | others)[name] for name in schema.names], schema=schema)


def _annotated(job: BatchJob, number: int, row: Row, prepared: Any, record: Mapping[str, Any]) -> str:
    """Draws the answer on the picture and returns the path of the file, relative to the output folder."""
    from PIL import Image

    image = Image.fromarray(job.task.annotate(prepared, record))
    stem = re.sub(r"[^\w.-]", "_", Path(row.source).stem)[:60]
    kind, suffix = ("JPEG", "jpg") if max(image.size) <= _LARGEST_JPEG else ("PNG", "png")
    path = job.output.pictures_folder(number) / f"{row.number:08}-{stem}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path, sync=False) as partial:  # pictures are many, and can be drawn again
        image.save(partial, kind, quality=90)
    return path.relative_to(job.output.path).as_posix()


class _Writer:
    """A Parquet file that appears as a whole at the end, and not at all if nothing was written or an error came."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._path, self._schema = path, schema
        self._waiting: list[Any] = []
        self._waiting_bytes = 0
        self._file: pq.ParquetWriter | None = None
        self._open = ExitStack()

    def __enter__(self) -> _Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:  # closes the file and gives it its name, or removes it where there is an error
            if error is not None:
                raise error
            self._flush()

    def write(self, batch: Any) -> None:
        """Appends rows; they are written when there are enough of them for a row group."""
        if batch is None:
            return
        if self._file is None:
            partial = self._open.enter_context(whole(self._path))
            self._file = self._open.enter_context(pq.ParquetWriter(partial, self._schema, compression="zstd"))
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._file is not None and self._waiting:
            self._file.write_table(pa.Table.from_batches(self._waiting, self._schema).combine_chunks())
            self._waiting.clear()
            self._waiting_bytes = 0

    @property
    def is_used(self) -> bool:
        """Whether any row was written."""
        return self._file is not None
