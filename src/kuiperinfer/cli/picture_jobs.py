"""What `kuiper classify`, `detect`, `segment` and `upscale` share: their options, the run over all pictures, the report."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import InputError, KuiperError
from .models import json_option, mistake, model_file, parse_dims, parse_numbers

if TYPE_CHECKING:
    from ..dtypes import Array
    from ..vision import Job, Outcome, Recipe

Command = TypeVar("Command", bound=Callable[..., Any])

_BAR_FROM = 4  # pictures, from which on a bar shows how far it is
_FITS = ("crop", "stretch", "letterbox", "corner")
_FILTERS = ("bilinear", "bicubic", "lanczos", "area", "nearest", "linear")


def _all(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def picture_arguments(command: Command) -> Command:
    """PICTURES, --recipe, --batch and --json."""
    return _all(
        click.argument("pictures", nargs=-1, metavar="[PICTURE]..."),
        click.option(
            "--recipe",
            "recipe_path",
            type=click.Path(path_type=Path),
            help="How the model wants its pictures, as JSON; found by itself as NAME.recipe.json beside the model.",
        ),
        click.option(
            "--batch",
            default=1,
            show_default=True,
            type=click.IntRange(min=1),
            help="Pictures (of upscale: tiles) in one inference.",
        ),
        json_option,
    )(command)


def model_option(command: Command) -> Command:
    """The option --model."""
    return click.option(
        "--model",
        "model_path",
        metavar="MODEL",
        type=click.Path(path_type=Path),
        help="Another model than the bundled.",
    )(command)


labels_option: Callable[[Any], Any] = click.option(
    "--labels", "labels_path", type=click.Path(path_type=Path), help="Names of the classes: text lines, or JSON."
)


def save_option(what: str, default: str | None = None) -> Callable[[Command], Command]:
    """The option --save."""
    return click.option(
        "--save",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        default=default,
        show_default=default is not None,
        help=f"Folder for {what}.",
    )


def input_options(command: Command) -> Command:
    """--size, --fit, --resize, --filter, --order, --mean and --std: how pictures become inputs."""
    return _all(
        click.option("--size", metavar="H[,W]", help="Size of the network's input, where the model leaves it open."),
        click.option("--fit", type=click.Choice(_FITS), help="How pictures come into that size."),
        click.option("--resize", type=click.IntRange(min=1), help="What the shorter side becomes before a crop."),
        click.option("--filter", type=click.Choice(_FILTERS), help="How pixels are resampled."),
        click.option("--order", type=click.Choice(["rgb", "bgr"]), help="Order of the colours."),
        click.option("--mean", metavar="R,G,B", help="Mean that normalises the input, of values from 0 to 1."),
        click.option("--std", metavar="R,G,B", help="Standard deviation, likewise."),
    )(command)


def recipe_of(
    *,
    labels_path: Path | None = None,
    size: str | None = None,
    mean: str | None = None,
    std: str | None = None,
    **others: Any,
) -> Recipe:
    """The recipe that options make; what is None stays open."""
    from ..vision import Recipe, read_labels

    return Recipe(
        labels=read_labels(labels_path) if labels_path else None,
        size=_parse_size(size) if size is not None else None,
        mean=parse_numbers(mean, "--mean") if mean is not None else None,
        std=parse_numbers(std, "--std") if std is not None else None,
        **others,
    )


def _parse_size(text: str) -> tuple[int, int]:
    context = click.get_current_context(silent=True)
    option = "--tile" if context is not None and context.info_name == "upscale" else "--size"
    dims = parse_dims(text, option)
    if len(dims) not in (1, 2) or not all(dims):
        raise mistake(option, f"'{text}': expected a height and a width, or one number for both")
    return dims[0], dims[-1]


def load_picture_job(
    name: str, model_path: Path | None, recipe_path: Path | None, options: Recipe, **others: Any
) -> Job[Any]:
    """The job that the options describe: by the given model, or by the bundled one."""
    from ..vision import Recipe, bundled, load_job, read_recipe

    path = model_file(model_path) if model_path else bundled.MODEL_FILES[name]
    recipe = read_recipe(recipe_path) if recipe_path else Recipe()
    try:
        return load_job(path, name, recipe=options.over(recipe), **others)
    except InputError as error:
        with suppress(KuiperError):
            load_job(path, name, recipe=recipe, **others)  # what is wrong without the options too is not their mistake
            raise mistake(None, str(error)) from error
        raise


# ------------------------------------------------------------------------------------------- the run


@dataclass(frozen=True)
class Report:
    """How the results of a job are shown: as data, as rows of text, as a picture to save under a name with `addition`."""

    job: str
    as_data: Callable[[Any], dict[str, Any]]
    print_rows: Callable[[Any], None]
    draw: Callable[[Array, Any], Array]
    addition: str
    # further files: the ending of their names, and what is in them
    also: Sequence[tuple[Path, str, Callable[[Any], Array]]] = ()


def run_pictures(
    job: Job[Any],
    report: Report,
    pictures: Sequence[str],
    *,
    model: str,
    batch: int,
    save: Path | None,
    as_json: bool,
) -> int:
    """Runs a job over all pictures, the bundled one where none is given, and reports; the exit code is 1 after a broken one."""
    from ..vision import Upscaler, bundled, stream
    from .picture_files import Folder, picture_files

    files = picture_files(pictures) or [str(bundled.PICTURES[report.job])]
    saver = _Saver(Folder(save) if save else None, report)
    entries: list[dict[str, Any]] = []
    start = time.perf_counter()
    with saver, _progress(len(files), report.job) as advance:
        for outcome in stream(job, files, batch=batch if isinstance(job, Upscaler) else min(batch, len(files))):
            entry = _entry(outcome, report)
            entry |= saver.add(outcome) if outcome.error is None else {}
            entries.append(entry)
            if not as_json:
                _print(entry, outcome, report, bundled_picture=not pictures)
            advance()
    seconds = time.perf_counter() - start
    broken = sum("error" in entry for entry in entries)
    if as_json:
        from .console import print_json

        print_json({"model": model, "seconds": seconds, "pictures": entries})
    elif len(entries) > 1:
        _print_total(len(entries), broken, seconds)
    return 1 if broken else 0


def _entry(outcome: Outcome[Any], report: Report) -> dict[str, Any]:
    source = str(outcome.source)
    if outcome.picture is None:
        return {"picture": source, "error": str(outcome.error)}
    height, width = outcome.picture.shape[:2]
    size = {"picture": source, "width": width, "height": height, "seconds": outcome.seconds}
    return size | report.as_data(outcome.result)


@dataclass
class _Saver:
    """Draws and writes beside the inference; no more than a few pictures wait for it."""

    folder: Any
    report: Report
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, thread_name_prefix="kuiper-save"))
    _waiting: deque[Future[None]] = field(default_factory=deque)

    def __enter__(self) -> _Saver:
        from .picture_files import Folder

        self._further = [(Folder(path), ending, make) for path, ending, make in self.report.also]
        return self

    def add(self, outcome: Outcome[Any]) -> dict[str, str]:
        """Saves what came of a picture; returns where."""
        saved = {}
        if self.folder is not None:
            path = self.folder.place(str(outcome.source), self.report.addition)
            self._submit(path, self.report.draw, outcome.picture, outcome.result)
            saved["saved"] = str(path)
        for folder, ending, make in self._further:
            path = folder.place(str(outcome.source), ending, ".png")
            self._submit(path, make, outcome.result)
            saved[ending.strip("_")] = str(path)
        return saved

    def _submit(self, path: Path, make: Callable[..., Array], *arguments: Any) -> None:
        from .picture_files import save_picture

        while len(self._waiting) >= 4:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(lambda: save_picture(path, make(*arguments))))

    def __exit__(self, kind: object, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        if kind is None:
            for future in self._waiting:
                future.result()


def _progress(count: int, job: str) -> AbstractContextManager[Callable[[], None]]:
    """A bar on standard error with pictures a second, where somebody may be watching and there are some to wait for."""
    return _bar(count, job) if count >= _BAR_FROM and sys.stderr.isatty() else nullcontext(lambda: None)


@contextmanager
def _bar(count: int, job: str) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        """Pictures a second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.1f} images/s" if task.speed else "", style="dim")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Speed(), TimeRemainingColumn())
    both = sys.stdout.isatty()  # then what is printed goes above the bar
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=both) as progress:
        task = progress.add_task(job, total=count)
        yield lambda: progress.advance(task)


def _print(entry: dict[str, Any], outcome: Outcome[Any], report: Report, *, bundled_picture: bool) -> None:
    from rich.text import Text

    from .console import console, printable, seconds_text

    if "error" in entry:
        click.echo(click.style("error", fg="red", bold=True) + f": {printable(entry['error'])}", err=True)
        return
    what = "the bundled photograph, " if bundled_picture else ""
    source = Path(entry["picture"]).name if bundled_picture else entry["picture"]
    saved = f", saved as {printable(entry['saved'])}" if "saved" in entry else ""
    console().print(
        Text.assemble((printable(source), "bold"), (f"  {what}{seconds_text(entry['seconds'])}{saved}", "dim"))
    )
    report.print_rows(outcome.result)


def _print_total(count: int, broken: int, seconds: float) -> None:
    from .console import seconds_text

    fine = count - broken
    click.echo(
        f"{fine} picture{'s' * (fine != 1)} in {seconds_text(seconds)}, {fine / seconds:.1f} images/s"
        + (f"; {broken} could not be read" if broken else "")
    )
