"""`kuiper upscale`: pictures made larger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .extras import require_extra
from .picture_jobs import (
    Report,
    load_picture_job,
    model_option,
    picture_arguments,
    recipe_of,
    run_pictures,
    save_option,
)

if TYPE_CHECKING:
    from ..dtypes import Array


@click.command("upscale")
@picture_arguments
@model_option
@click.option("--tile", "size", metavar="H[,W]", help="Size of a tile, where the model leaves it open. [default: 128]")
@click.option("--overlap", type=click.IntRange(min=0), help="Pixels around a tile that are only seen. [default: 16]")
@click.option("--order", type=click.Choice(["rgb", "bgr"]), help="Order of the colours.")
@click.option("--mean", metavar="R,G,B", help="Mean that normalises the input, of values from 0 to 1. [default: 0]")
@click.option("--std", metavar="R,G,B", help="Standard deviation, likewise. [default: 1]")
@save_option("the larger pictures", default=".")
def command(
    pictures: tuple[str, ...],
    recipe_path: Path | None,
    batch: int,
    as_json: bool,
    model_path: Path | None,
    save: Path,
    **options: Any,
) -> int:
    """Make pictures larger: files, folders, patterns.

    Without PICTURE, the bundled photograph is made larger; without --model, the bundled ESRGAN-slim makes it four times as
    wide and as high. Large pictures are worked on in tiles. Results are named like NAME_x4.png. Pictures that cannot be read
    are reported, the others are made larger, and the exit code is 1.
    """
    require_extra("image", "kuiper upscale")
    from ..vision import bundled

    job: Any = load_picture_job("upscale", model_path, recipe_path, recipe_of(**options))
    report = Report("upscale", _as_data, _print_rows, lambda _, larger: larger, f"_x{job.factor}")
    model = str(model_path or bundled.MODELS["upscale"])
    return run_pictures(job, report, pictures, model=model, batch=batch, save=save, as_json=as_json)


def _as_data(larger: Array) -> dict[str, Any]:
    height, width = larger.shape[:2]
    return {"upscaled": {"width": width, "height": height}}


def _print_rows(larger: Array) -> None:
    from .console import console

    height, width = larger.shape[:2]
    console().print(f"  {width} × {height}")
