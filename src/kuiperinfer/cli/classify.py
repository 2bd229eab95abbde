"""`kuiper classify`: what is on a photograph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .extras import require_extra
from .picture_jobs import (
    Report,
    input_options,
    labels_option,
    load_picture_job,
    model_option,
    picture_arguments,
    recipe_of,
    run_pictures,
    save_option,
)

if TYPE_CHECKING:
    from ..vision import Classification


@click.command("classify")
@picture_arguments
@model_option
@labels_option
@click.option("--top", type=click.IntRange(min=1), help="How many classes to show. [default: the recipe's, or 5]")
@save_option("the pictures with their classes written on them")
@input_options
def command(
    pictures: tuple[str, ...],
    recipe_path: Path | None,
    batch: int,
    as_json: bool,
    model_path: Path | None,
    save: Path | None,
    **options: Any,
) -> int:
    """Name what is on photographs: files, folders, patterns.

    Without PICTURE, the bundled photograph is classified; without --model, the bundled MobileNetV2 does it. Pictures that
    cannot be read are reported, the others are classified, and the exit code is 1.
    """
    require_extra("image", "kuiper classify")
    from ..vision import bundled
    from ..vision.drawing import draw_classes

    job = load_picture_job("classify", model_path, recipe_path, recipe_of(**options))
    report = Report("classify", _as_data, _print_rows, draw_classes, "_classify")
    model = str(model_path or bundled.MODEL_NAME)
    return run_pictures(job, report, pictures, model=model, batch=batch, save=save, as_json=as_json)


def _as_data(classes: Sequence[Classification]) -> dict[str, Any]:
    return {"classes": [found.to_dict() for found in classes]}


def _print_rows(classes: Sequence[Classification]) -> None:
    from rich.text import Text

    from .console import ACCENT, bar, console, printable, table

    out = console()
    rows = table("", "", "", right=[1])
    for rank, found in enumerate(classes):
        style = "bold" if rank == 0 else ""
        shown = bar(found.probability, ascii_only=out.options.ascii_only)
        percent = f"{found.probability:.1%}"
        rows.add_row(
            Text("  " + printable(found.label), style=style), Text(percent, style=style), Text(shown, style=ACCENT)
        )
    out.print(rows)
