"""A job: sources cut into parts, a task for their rows, and the folder where the results go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..errors import InputError
from ..settings import settings
from ..version import __version__
from .output import Finished, OutputFolder, digest_of
from .predictor import RESULT_SETTINGS
from .sources import Slice, Source, cut
from .tasks import Task

_MANY_PARTS, _FEW_PARTS, _SMALL_PART, _LARGEST_PART = 200, 8, 64, 4096

# Called with how many rows more are done, and how many of them could not be read.
Progress: TypeAlias = Callable[[int, int], None]


class Listener:
    """Hears how a job goes on; this one makes nothing of it."""

    def begin(self, rows: int, done: int, errors: int) -> None:
        """The job has so many rows, of which so many were done before, so many of these without success."""

    def advance(self, rows: int, errors: int) -> None:
        """So many rows more are done, and so many of them could not be read."""


def default_part_rows(rows: int, batch: int) -> int:
    """How many rows a part has: a 200th of all, but 64 to 4096 (an 8th, if there are few), in whole batches."""
    wanted = min(max(-(-rows // _MANY_PARTS), _SMALL_PART), _LARGEST_PART)
    return -(-min(wanted, -(-rows // _FEW_PARTS)) // batch) * batch


@dataclass(frozen=True)
class BatchJob:
    """Runs `task` on all rows of `sources`, `batch` at a time, and writes to `output` in parts of `part_rows` rows.

    `settings` is what beside these the results hang on, for the manifest: another of them is another job.
    """

    task: Task
    sources: Sequence[Source]
    output: OutputFolder
    batch: int = 1
    part_rows: int = 0
    annotate: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(source.rows for source in self.sources)

    def parts(self) -> list[tuple[Slice, ...]]:
        """What each part consists of."""
        return cut(self.sources, self._part_rows)

    @property
    def _part_rows(self) -> int:
        return self.part_rows or default_part_rows(self.rows, self.batch)

    def identity(self) -> dict[str, Any]:
        """Everything that the results hang on."""
        files = [(source.path, source.kind, source.rows, source.size, source.modified) for source in self.sources]
        return {
            "kuiperinfer": __version__,
            **self.settings,
            "batch": self.batch,
            "rows a part": self._part_rows,
            "annotated pictures": self.annotate,
            **{f"settings.{name}": getattr(settings, name) for name in RESULT_SETTINGS},
            "rows": self.rows,
            "files": len(files),
            "names, sizes and times of the files": digest_of(files),
        }

    def run(self, runner: Runner, listener: Listener | None = None) -> Summary:
        """Does what is not done yet, and returns the sums.

        Raises `InputError` where there are no rows, or where the output folder belongs to another job.
        """
        if not self.rows:
            raise InputError("there are no rows in the inputs")
        listener = listener or Listener()
        with self.output.opened(self.identity()):
            parts = self.parts()
            before = [found for number in range(len(parts)) if (found := self.output.finished(number))]
            left = dict(enumerate(parts))
            for found in before:
                del left[found.part]
            rows_before = sum(found.rows for found in before)
            listener.begin(self.rows, rows_before, sum(len(found.errors) for found in before))
            runner(self, left, listener.advance)
            errors = self.output.write_errors(self._all_finished(len(parts)))
        return Summary(self.rows, errors, len(parts), self.rows - rows_before)

    def _all_finished(self, parts: int) -> Iterator[Finished]:
        for number in range(parts):
            found = self.output.finished(number)
            if found is None:
                raise InputError(f"{self.output.path}: part {number} was finished and is gone; start the job again")
            yield found


# Does the given parts of a job, in any order; returns when all are finished.
Runner: TypeAlias = Callable[[BatchJob, Mapping[int, Sequence[Slice]], Progress], None]


@dataclass(frozen=True)
class Summary:
    """What a job did: all rows, those of them that could not be read, all parts, and the rows that this run did."""

    rows: int
    errors: int
    parts: int
    rows_done_now: int
