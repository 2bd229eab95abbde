"""`kuiper classify`: what is on a photograph."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .extras import require_extra
from .models import json_option, load_model, parse_numbers

if TYPE_CHECKING:
    from ..vision import Classification, Classifier


@click.command("classify")
@click.argument("pictures", nargs=-1, metavar="[PICTURE]...")
@click.option("--model", "model_path", metavar="MODEL", type=click.Path(path_type=Path), help="Another classifier.")
@click.option(
    "--labels", "labels_path", type=click.Path(path_type=Path), help="Names of its classes: text lines, or JSON."
)
@click.option("--top", default=5, show_default=True, type=click.IntRange(min=1), help="How many classes to show.")
@click.option("--size", metavar="H[,W]", help="Size of the network's input, where the model leaves it open.")
@click.option(
    "--resize", type=click.IntRange(min=1), help="What the shorter side becomes before the centre is cut out."
)
@click.option(
    "--mean", metavar="R,G,B", help="Mean that normalises the input, of values from 0 to 1. [default: ImageNet's]"
)
@click.option("--std", metavar="R,G,B", help="Standard deviation, likewise.")
@json_option
def command(
    pictures: tuple[str, ...],
    model_path: Path | None,
    labels_path: Path | None,
    top: int,
    size: str | None,
    resize: int | None,
    mean: str | None,
    std: str | None,
    as_json: bool,
) -> int:
    """Name what is on photographs.

    Without PICTURE, the bundled photograph is classified; without --model, the bundled MobileNetV2 does it. Pictures that
    cannot be read are reported, the others are classified, and the exit code is 1.
    """
    require_extra("image", "kuiper classify")
    from ..vision import bundled

    classifier = make_classifier(model_path, labels_path, size, resize, mean, std)
    results = []
    for picture in pictures or (str(bundled.PHOTOGRAPH),):
        results.append(classify_one(classifier, picture, top))
        if not as_json:
            _print(results[-1], picture_count=len(pictures))
    if as_json:
        from .console import print_json

        print_json({"model": str(model_path or bundled.MODEL_NAME), "pictures": results})
    return 1 if any("error" in result for result in results) else 0


def make_classifier(
    model_path: Path | None,
    labels_path: Path | None,
    size: str | None,
    resize: int | None,
    mean: str | None,
    std: str | None,
) -> Classifier:
    """The classifier that the options describe. Models with 1000 classes have ImageNet's labels unless others are given."""
    from ..errors import InputError
    from ..vision import Classifier, bundled, preprocess_for, read_labels

    model = load_model(model_path or bundled.MODEL)
    if len(model.inputs) != 1:
        raise InputError(
            f"a classifier has one input, this model has {len(model.inputs)}: {', '.join(map(str, model.inputs))}"
        )
    preprocess = preprocess_for(
        model.inputs[0].shape,
        size=_parse_size(size) if size else None,
        resize=resize,
        mean=parse_numbers(mean, "--mean") if mean else None,
        std=parse_numbers(std, "--std") if std else None,
    )
    if labels_path:
        labels: Sequence[str] = read_labels(labels_path)
    else:
        labels = read_labels(bundled.LABELS)
        outputs = [info.shape for info in model.outputs]
        if model_path and not any(shape and len(labels) in shape for shape in outputs):
            labels = ()
    return Classifier(model, preprocess, labels)


def _parse_size(text: str) -> tuple[int, int]:
    from .models import parse_dims

    dims = parse_dims(text)
    if len(dims) not in (1, 2):
        raise click.BadParameter(
            f"expected a height and a width, or one number for both, found '{text}'", param_hint="--size"
        )
    return dims[0], dims[-1]


def classify_one(classifier: Classifier, picture: str, top: int) -> dict[str, Any]:
    """The classes of one picture, and the seconds it took; or the error that kept it from being classified."""
    from ..errors import KuiperError

    start = time.perf_counter()
    try:
        classes: Sequence[Classification] = classifier(picture, top)
    except KuiperError as error:
        return {"picture": picture, "error": str(error)}
    seconds = time.perf_counter() - start
    return {"picture": picture, "seconds": seconds, "classes": [found.to_dict() for found in classes]}


def _print(result: dict[str, Any], picture_count: int) -> None:
    from rich.text import Text

    from .console import ACCENT, bar, console, printable, seconds_text, table

    out = console()
    if "error" in result:
        out.print(Text.assemble(("error: ", "bold red"), printable(result["error"])))
        return
    name = printable(Path(result["picture"]).name)
    what = "the bundled photograph, " if not picture_count else ""
    out.print(Text.assemble((name, "bold"), (f"  {what}{seconds_text(result['seconds'])}", "dim")))
    rows = table("", "", "", right=[1])
    for rank, found in enumerate(result["classes"]):
        style = "bold" if rank == 0 else ""
        shown = bar(found["probability"], ascii_only=out.options.ascii_only)
        percent = f"{found['probability']:.1%}"
        rows.add_row(
            Text("  " + printable(found["label"]), style=style), Text(percent, style=style), Text(shown, style=ACCENT)
        )
    out.print(rows)
