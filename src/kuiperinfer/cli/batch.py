"""`kuiper batch`: a model over folders of pictures, arrays and tables, in parts that a restart does not redo."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .extras import require_extra
from .models import json_option
from .picture_jobs import labels_option

if TYPE_CHECKING:
    from rich.progress import Task as Line

    from ..batch.job import Listener, Runner, Summary

_SECONDS_BETWEEN_LINES = 10.0


@click.command("batch")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "-o", "--output", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Folder for the results."
)
@click.option(
    "--job",
    "kind",
    default="classify",
    show_default=True,
    type=click.Choice(("classify", "detect", "segment", "raw")),
    help="What is done with a row; raw gives the outputs of the model as they are.",
)
@click.option(
    "--model",
    "model_path",
    metavar="MODEL",
    type=click.Path(path_type=Path),
    help="[default: the bundled one of the job]",
)
@click.option(
    "--recipe",
    "recipe_path",
    type=click.Path(path_type=Path),
    help="How the model wants its pictures (JSON); goes before the recipe beside it.",
)
@labels_option
@click.option("--column", default="image", show_default=True, help="Of tables, the column with the pictures.")
@click.option("--annotate", is_flag=True, help="Write the pictures too, with the answers drawn on them.")
@click.option("--ray", metavar="ADDRESS", help="Run on the Ray cluster at this address; 'local' starts one here.")
@click.option("--actors", type=click.IntRange(min=1), help="Workers. [default: as many as the CPUs allow]")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1), help="Threads of each worker.")
@click.option(
    "--batch", type=click.IntRange(min=1), help="Rows that are calculated at once. [default: 1; for raw, the model's]"
)
@click.option("--part", "part_rows", type=click.IntRange(min=1), help="Rows that a restart redoes at most.")
@json_option
def command(
    inputs: tuple[str, ...],
    output: Path,
    kind: str,
    ray: str | None,
    actors: int | None,
    threads: int,
    as_json: bool,
    **others: Any,
) -> int:
    """Run a model over many pictures or rows.

    An INPUT is a folder (searched to any depth), a picture, an .npy file with one row after the other, or a .parquet file.
    DIR gets results/*.parquet, and errors.jsonl if rows could not be read; the others are done nevertheless. Stopped and
    started again with the same arguments, it goes on where it was. Exit code 1 if no row could be read.
    """
    require_extra("batch", "kuiper batch")
    if ray:
        require_extra("ray", "kuiper batch --ray")
    from .batch_jobs import make_job

    runner = _local(actors, threads) if ray is None else _on_ray(ray, actors, threads)
    job = make_job(inputs, output.absolute(), kind, threads, **others)
    start = time.perf_counter()
    with progress_on_stderr() as listener:
        summary = job.run(runner, listener)
    _report(summary, output, time.perf_counter() - start, as_json)
    return 1 if summary.errors == summary.rows else 0


def _local(actors: int | None, threads: int) -> Runner:
    from ..batch.local import local_runner, worker_count

    return local_runner(worker_count(actors, threads))


def _on_ray(address: str, actors: int | None, threads: int) -> Runner:
    from ..batch.ray_cluster import ray_runner

    return ray_runner(address, actors, threads)


# ------------------------------------------------------------------------------------------- what is seen of it


@contextmanager
def progress_on_stderr() -> Iterator[Listener]:
    """Shows how the job goes on: a bar on a terminal, elsewhere a line now and then."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    from ..batch.job import Listener

    class Rate(ProgressColumn):
        def render(self, task: Line) -> Text:
            return Text(f"{task.speed:,.1f} rows/s" if task.speed else "", style="cyan")

    columns = (
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
        Rate(),
        TextColumn("{task.description}", style="yellow"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:

        class Bar(Listener):
            errors = 0

            def begin(self, rows: int, done: int, errors: int) -> None:
                self.errors = errors
                self.line = shown.add_task(_unreadable(errors), total=rows, completed=done)

            def advance(self, rows: int, errors: int) -> None:
                self.errors += errors
                shown.update(self.line, advance=rows, description=_unreadable(self.errors))

        yield Bar()


def _lines() -> Listener:
    from ..batch.job import Listener

    class Lines(Listener):
        def begin(self, rows: int, done: int, errors: int) -> None:
            self.rows, self.before, self.done, self.errors = rows, done, done, errors
            self.start = self.last = time.perf_counter()

        def advance(self, rows: int, errors: int) -> None:
            self.done, self.errors = self.done + rows, self.errors + errors
            now = time.perf_counter()
            if now - self.last >= _SECONDS_BETWEEN_LINES:
                self.last = now
                rate = (self.done - self.before) / (now - self.start)
                text = f"{self.done:,} of {self.rows:,} rows, {rate:,.1f} rows/s  {_unreadable(self.errors)}"
                click.echo(text.rstrip(), err=True)

    return Lines()


def _unreadable(errors: int) -> str:
    return f"{errors:,} unreadable" if errors else ""


def _report(summary: Summary, output: Path, seconds: float, as_json: bool) -> None:
    from rich.text import Text

    from .console import console, print_json, printable, seconds_text

    rate = summary.rows_done_now / seconds
    if as_json:
        facts = {"rows": summary.rows, "errors": summary.errors, "parts": summary.parts, "seconds": seconds}
        facts |= {"rows_done_now": summary.rows_done_now, "rows_per_second": rate}
        print_json({"output": str(output), **facts})
        return
    out = console()
    before = summary.rows - summary.rows_done_now
    also = f", {before:,} were done before" if before else ""
    out.print(
        Text.assemble(
            (f"{summary.rows_done_now:,} rows", "bold"), f" in {seconds_text(seconds)}, {rate:,.1f} rows/s{also}"
        )
    )
    out.print(Text(printable(f"results  {output / 'results'}")))
    if summary.errors:
        rows = "1 row" if summary.errors == 1 else f"{summary.errors:,} rows"
        errors = f"{rows} could not be read: {output / 'errors.jsonl'}"
        out.print(Text(printable(errors), style="yellow"))
