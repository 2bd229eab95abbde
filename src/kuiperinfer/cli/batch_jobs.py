"""From the options of `kuiper batch` to a job: the kinds there are, what each needs, and what its results hang on."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, did_you_mean
from .extras import require_extra
from .models import load_model, mistake, model_file

if TYPE_CHECKING:
    from ..batch.job import BatchJob
    from ..batch.sources import Source
    from ..batch.tasks import Task
    from ..runtime import Model
    from ..vision import Preprocess, Recipe


@dataclass(frozen=True)
class TaskOptions:
    """The options that say what is done with a row."""

    model_path: Path | None
    recipe_path: Path | None
    labels_path: Path | None
    column: str
    batch: int | None
    threads: int

    def recipe(self) -> Recipe:
        """What the options say of how the model wants its pictures."""
        from ..vision import Recipe, read_labels, read_recipe

        recipe = read_recipe(self.recipe_path) if self.recipe_path else Recipe()
        return Recipe(labels=read_labels(self.labels_path)).over(recipe) if self.labels_path else recipe


class Made(NamedTuple):
    """A task, how many rows it does at a time, and what its results hang on."""

    task: Task
    batch: int
    settings: dict[str, Any]


def make_job(
    inputs: Sequence[str],
    output: Path,
    kind: str,
    threads: int,
    *,
    part_rows: int | None,
    annotate: bool,
    **options: Any,
) -> BatchJob:
    """The job that the options describe."""
    from ..batch.job import BatchJob
    from ..batch.output import OutputFolder
    from ..batch.sources import find_sources

    if annotate and kind == "raw":
        raise mistake("--annotate", "the job raw has no answers that could be drawn")
    chosen = TaskOptions(threads=threads, **options)
    sources = find_sources(inputs, leave_out=output)
    task, batch, settings = (_raw if kind == "raw" else _pictures)(kind, chosen, sources)
    return BatchJob(task, sources, OutputFolder(output), batch, part_rows or 0, annotate, {"job": kind, **settings})


def _pictures(kind: str, options: TaskOptions, sources: Sequence[Source]) -> Made:
    require_extra("image", f"kuiper batch --job {kind}")
    from ..batch.picture_tasks import PictureTask
    from ..vision import load_job
    from ..vision.bundled import MODEL_FILES

    _require_columns(sources, [options.column], "--column names the one with pictures")
    path = model_file(options.model_path or MODEL_FILES[kind])
    job = load_job(path, kind, recipe=options.recipe())
    batch = options.batch or job.possible_batch(1)
    if (possible := job.possible_batch(batch)) != batch:
        raise mistake("--batch", f"this model takes {possible} pictures at a time, not {batch}")
    settings = {"model": _digest_of_model(path), "column": options.column, **_fields_of(job)}
    return Made(PictureTask(kind, job, batch, options.threads, options.column), batch, settings)


def _raw(kind: str, options: TaskOptions, sources: Sequence[Source]) -> Made:
    from ..batch import Predictor
    from ..batch.tasks import RawTask

    if options.model_path is None:
        raise mistake("--job", "raw needs a --model")
    path = model_file(options.model_path)
    predictor = Predictor(load_model(path), threads=options.threads, batch=options.batch)
    names = [info.name for info in predictor.model.inputs]
    preprocess = None
    if _has_pictures(sources, names, options.column):
        preprocess = _preprocess(predictor.model, path, options)
    if preprocess:
        _require_columns(sources, [options.column], "--column names the one with pictures")
    else:
        _require_columns(sources, names, "each input of the model needs one, under its name")
    settings = {"model": _digest_of_model(path), "preprocessing": repr(preprocess), "column": options.column}
    return Made(RawTask(predictor, preprocess, options.column), predictor.batch, settings)


def _has_pictures(sources: Sequence[Source], names: Sequence[str], column: str) -> bool:
    """Whether rows are pictures rather than a model's inputs, which stand in tables under the names of these."""
    if any(source.kind == "picture" for source in sources):
        return True
    tables = [set(source.columns) for source in sources if source.kind == "table"]
    return any(column in columns and not columns.issuperset(names) for columns in tables)


def _preprocess(model: Model, path: Path, options: TaskOptions) -> Preprocess:
    require_extra("image", "kuiper batch with pictures")
    from ..vision import preprocess_for
    from ..vision.recipe import recipe_beside

    if len(model.inputs) != 1:
        inputs = ", ".join(map(str, model.inputs))
        raise InputError(f"pictures are for models with one input, this one has {len(model.inputs)}: {inputs}")
    recipe = options.recipe().over(recipe_beside(path))
    names = [name for name in inspect.signature(preprocess_for).parameters if name in recipe.given()]
    return preprocess_for(model.inputs[0].shape, **recipe.given(*names) if names else {})


def _require_columns(sources: Sequence[Source], names: Sequence[str], advice: str) -> None:
    """Raises `InputError` where no source has what is needed; if only some lack it, their rows are errors."""
    lacking = [source for source in sources if source.kind == "table" and not {*names} <= {*source.columns}]
    if lacking and len(lacking) == len(sources):
        columns = lacking[0].columns
        name = next(name for name in names if name not in columns)
        raise InputError(
            f"{lacking[0].path}: there is no column '{name}', only {', '.join(columns) or 'none'}"
            f"{did_you_mean(name, columns)}; {advice}"
        )


# ------------------------------------------------------------------------------------------- what results hang on


def _fields_of(job: Any) -> dict[str, str]:
    """The parameters of a job of `vision`, all but its model."""
    given = {field.name: repr(getattr(job, field.name)) for field in fields(job) if field.name != "model"}
    return given | {"labels": hashlib.sha256(given["labels"].encode()).hexdigest()}


def _digest_of_model(param: Path) -> str:
    from ..pnnx.paths import bin_path

    found = hashlib.sha256()
    for name in (str(param), bin_path(str(param))):
        if name and Path(name).exists():
            with open(name, "rb") as file:
                while block := file.read(1 << 20):
                    found.update(block)
    return found.hexdigest()
