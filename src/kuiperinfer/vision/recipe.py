"""How a network wants its pictures and how its outputs are to be read: what the model file itself does not say.

A recipe may lie beside a model, `net.recipe.json` beside `net.pnnx.param`: a JSON object whose keys are the fields of `Recipe`.
It is data from a stranger like the model: it names no other files, and is checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..errors import InputError, did_you_mean
from .heads import Anchors

_MOST_BYTES = 4 << 20


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is known of a network for pictures; None where it is as usual for the job.

    `size` (height and width where the model leaves them free), `fit`, `resize`, `filter`, `order`, `fill`, `enlarge`, `mean`
    and `std` are those of `Preprocess`; `top` of `Classifier`; `kind` and `anchors` of `find_head`; `confidence`, `iou`,
    `class_agnostic` and `max_detections` of `Detector`; `threshold` and `output` of `Segmenter`; `overlap` of `Upscaler`.
    `job` is "classify", "detect", "segment" or "upscale".
    """

    job: str | None = None
    labels: tuple[str, ...] | None = None
    size: tuple[int, int] | None = None
    fit: str | None = None
    resize: int | None = None
    filter: str | None = None
    order: str | None = None
    fill: int | None = None
    enlarge: bool | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    top: int | None = None
    kind: str | None = None
    anchors: Anchors | None = None
    confidence: float | None = None
    iou: float | None = None
    class_agnostic: bool | None = None
    max_detections: int | None = None
    threshold: float | None = None
    output: str | None = None
    overlap: int | None = None

    def over(self, other: Recipe) -> Recipe:
        """This recipe, and what it leaves open from the other one."""
        return replace(other, **self.given())

    def given(self, *names: str) -> dict[str, Any]:
        """The fields that are not None, of all or of those with the given names."""
        values = {name: getattr(self, name) for name in names or FIELDS}
        return {name: value for name, value in values.items() if value is not None}


FIELDS = tuple(field.name for field in fields(Recipe))


def read_recipe(path: Path) -> Recipe:
    """The recipe in a JSON file. Raises `InputError` where it is none."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        content = json.loads(data) if len(data) <= _MOST_BYTES else None
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object of at most {_MOST_BYTES >> 20} MiB")
    found: dict[str, Any] = {}
    for name, value in content.items():
        if name not in FIELDS:
            raise InputError(f"{path}: a recipe has no '{name}'{did_you_mean(name, FIELDS)}")
        what, read = _READERS[name]
        try:
            found[name] = read(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{path}: '{name}' has to be {what}, found {str(value)[:80]}") from None
    return Recipe(**found)


def recipe_beside(param: Path) -> Recipe:
    """The recipe that lies beside a model's .pnnx.param file, or one that says nothing."""
    path = param.with_name(param.name.removesuffix(".param").removesuffix(".pnnx") + ".recipe.json")
    return read_recipe(path) if path.is_file() else Recipe()


def _exactly(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError
        return value

    return read


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError
    return float(value)


def _list_of(read: Callable[[Any], Any], *lengths: int) -> Callable[[Any], Any]:
    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value or (lengths and len(value) not in lengths):
            raise TypeError
        return tuple(read(item) for item in value)

    return read_all


_TEXT = ("a text", _exactly(str))
_WHOLE = ("a whole number", _exactly(int))
_FLAG = ("true or false", _exactly(bool))
_SHARE = ("a number", _number)
_CHANNELS = ("a list of 1 or 3 numbers", _list_of(_number, 1, 3))
# Field -> what it has to be, and what checks that.
_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "job": _TEXT,
    "labels": ("a list of names", _list_of(_exactly(str))),
    "size": ("a height and a width", _list_of(_exactly(int), 2)),
    "fit": _TEXT,
    "resize": _WHOLE,
    "filter": _TEXT,
    "order": _TEXT,
    "fill": _WHOLE,
    "enlarge": _FLAG,
    "mean": _CHANNELS,
    "std": _CHANNELS,
    "top": _WHOLE,
    "kind": _TEXT,
    "anchors": ("a list of [width, height], for each scale", _list_of(_list_of(_list_of(_number, 2)))),
    "confidence": _SHARE,
    "iou": _SHARE,
    "class_agnostic": _FLAG,
    "max_detections": _WHOLE,
    "threshold": _SHARE,
    "output": _TEXT,
    "overlap": _WHOLE,
}
