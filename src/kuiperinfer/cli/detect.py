"""`kuiper detect`: what is on a photograph, and where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .extras import require_extra
from .models import Number, load_model, mistake
from .picture_jobs import (
    Report,
    input_options,
    labels_option,
    load_picture_job,
    picture_arguments,
    recipe_of,
    run_pictures,
    save_option,
)

if TYPE_CHECKING:
    from ..vision import Detections, Job, Recipe

_KINDS = ("yolov5", "yolov8", "final", "yolov5-raw", "yolov3", "yolov2")


@click.command("detect")
@picture_arguments
@click.option(
    "--model",
    "model_paths",
    metavar="MODEL",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Another model than the bundled; three times for MTCNN's networks.",
)
@labels_option
@click.option("--kind", type=click.Choice(_KINDS), help="Form of the outputs. [default: told by their shapes]")
@click.option(
    "--confidence", type=Number(0, 1), help="Least score of what is reported. [default: the model's, or 0.25]"
)
@click.option("--iou", type=Number(0, 1), help="Overlap from which on the best box stays. [default: or 0.45]")
@click.option("--class-agnostic", is_flag=True, default=None, help="Boxes of different classes compete too.")
@click.option("--max-detections", type=click.IntRange(min=1), help="The most to report of a picture. [default: 300]")
@click.option(
    "--only", metavar="CLASS", multiple=True, help="Report this class only, by name or index; may be repeated."
)
@save_option("the pictures with boxes and names drawn on them")
@input_options
def command(
    pictures: tuple[str, ...],
    recipe_path: Path | None,
    batch: int,
    as_json: bool,
    model_paths: tuple[Path, ...],
    only: tuple[str, ...],
    save: Path | None,
    **options: Any,
) -> int:
    """Find things on photographs: files, folders, patterns.

    Without PICTURE, the bundled photograph is searched; without --model, the bundled detector looks for faces. YOLO models of
    all generations are told by the shapes of their outputs. Pictures that cannot be read are reported, the others are searched,
    and the exit code is 1.
    """
    require_extra("image", "kuiper detect")
    from ..vision import bundled
    from ..vision.drawing import draw_detections

    job = _job(model_paths, recipe_path, recipe_of(**options), only)
    report = Report("detect", lambda found: found.to_dict(), _print_rows, draw_detections, "_detect")
    model = ", ".join(map(str, model_paths)) or bundled.MODELS["detect"]
    return run_pictures(job, report, pictures, model=model, batch=batch, save=save, as_json=as_json)


def _job(models: tuple[Path, ...], recipe_path: Path | None, options: Recipe, only: tuple[str, ...]) -> Job[Any]:
    from dataclasses import replace

    from ..errors import InputError
    from ..vision import class_indices, load_mtcnn

    if len(models) > 1:
        if len(models) != 3 or recipe_path or only or options.given():
            raise mistake(
                "--model", "several work together as MTCNN only: give its three, and no options of other detectors"
            )
        return load_mtcnn(*(load_model(path) for path in models))
    job: Any = load_picture_job("detect", models[0] if models else None, recipe_path, options)
    try:
        return replace(job, only=class_indices(only, job.labels)) if only else job
    except InputError as error:
        raise mistake("--only", str(error)) from error


def _print_rows(found: Detections) -> None:
    from rich.text import Text

    from .console import console, printable, table

    if not found:
        console().print(Text("  nothing", style="dim"))
        return
    rows = table("", "", "", right=[1])
    for detection in found:
        left, top, right, bottom = detection.box
        place = f"{left:.0f}, {top:.0f} to {right:.0f}, {bottom:.0f}"
        rows.add_row(
            Text("  " + printable(detection.label), style="bold"), f"{detection.score:.2f}", Text(place, style="dim")
        )
    console().print(rows)
