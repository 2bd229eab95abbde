"""`kuiper segment`: which pixels of a picture belong to what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .extras import require_extra
from .models import Number
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
    from ..dtypes import Array
    from ..vision import Segmentation


@click.command("segment")
@picture_arguments
@model_option
@labels_option
@click.option(
    "--threshold",
    type=Number(0, 1, min_open=True, max_open=True),
    help="Probability from which on a pixel belongs to the one class. [default: 0.5]",
)
@click.option(
    "--output", type=click.Choice(["probabilities", "logits"]), help="What the one map is. [default: as the model ends]"
)
@save_option("the pictures with their classes in colour")
@click.option(
    "--masks",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the index of each pixel's class, as PNG.",
)
@input_options
def command(
    pictures: tuple[str, ...],
    recipe_path: Path | None,
    batch: int,
    as_json: bool,
    model_path: Path | None,
    save: Path | None,
    masks: Path | None,
    **options: Any,
) -> int:
    """Tell the pixels of pictures apart: files, folders, patterns.

    Without PICTURE, the bundled picture of an eye is segmented; without --model, the bundled U-Net looks for the pupil.
    Pictures that cannot be read are reported, the others are segmented, and the exit code is 1.
    """
    require_extra("image", "kuiper segment")
    from ..vision import bundled
    from ..vision.drawing import draw_segmentation

    job = load_picture_job("segment", model_path, recipe_path, recipe_of(**options))
    also = [(masks, "_mask", _indices)] if masks else []
    report = Report("segment", lambda found: found.to_dict(), _print_rows, draw_segmentation, "_segment", also)
    model = str(model_path or bundled.MODELS["segment"])
    return run_pictures(job, report, pictures, model=model, batch=batch, save=save, as_json=as_json)


def _indices(found: Segmentation) -> Array:
    return found.indices if len(found.labels) > 256 else found.indices.astype("uint8")


def _print_rows(found: Segmentation) -> None:
    from rich.text import Text

    from .console import ACCENT, bar, console, printable, table

    out = console()
    rows = table("", "", "", right=[1])
    for of_class in found.to_dict()["classes"]:
        shown = bar(of_class["share"], ascii_only=out.options.ascii_only)
        rows.add_row(
            Text("  " + printable(of_class["label"]), style="bold" if of_class["index"] else ""),
            f"{of_class['share']:.1%}",
            Text(shown, style=ACCENT),
        )
    out.print(rows)
