"""Jobs from model files: a model, the recipe beside it, what the caller says, and what is usual."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from .. import pnnx
from ..errors import InputError, did_you_mean
from ..pnnx.paths import param_path
from ..runtime import Model, load
from .classification import Classifier
from .detection import Detector
from .heads import find_head
from .job import Job, output_shapes, the_input_shape
from .labels import read_labels
from .mtcnn import FaceCascade, cascade_of
from .preprocess import Preprocess, preprocess_for
from .recipe import Recipe, read_recipe, recipe_beside
from .segmentation import Segmenter
from .upscaling import Upscaler, factor_of

_Build: TypeAlias = "tuple[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], ...]"
ModelPath: TypeAlias = "str | os.PathLike[str] | Model"

ASSETS = Path(__file__).resolve().parent.parent / "assets"

# Names of classes where the number of classes tells which they are.
_USUAL_LABELS = {1000: ASSETS / "imagenet_labels.txt", 80: ASSETS / "coco_labels.txt"}

_PIXELS = ("fit", "filter", "order", "fill", "enlarge")
_INPUT = ("job", "labels", "size", "resize", "mean", "std", *_PIXELS)
# The fields of a recipe that mean something for a job.
_MEANT = {
    "classify": (*_INPUT, "top"),
    "detect": (*_INPUT, "kind", "anchors", "confidence", "iou", "class_agnostic", "max_detections"),
    "segment": (*_INPUT, "threshold", "output"),
    "upscale": ("job", "size", "order", "mean", "std", "overlap"),
}


def load_classifier(model: ModelPath, *, recipe: Recipe | None = None, **options: Any) -> Classifier:
    """A classifier from a model: a path, as `kuiperinfer.load` takes it, or a loaded model. `options` are fields of `Recipe`.

    What neither they nor the recipe say is as ImageNet classifiers have it; models of 1000 classes get ImageNet's labels.
    """
    loaded, shape, recipe = _ingredients("classify", model, recipe, options)
    preprocess = preprocess_for(shape, **recipe.given("size", "resize", "mean", "std", *_PIXELS))
    labels = recipe.labels
    if labels is None:
        last = [info.shape[1] for info in loaded.outputs[:1] if info.shape and len(info.shape) > 1]
        labels = _usual_labels(last[0] if last and last[0] == 1000 else None)
    return Classifier(loaded, preprocess, labels, **recipe.given("top"))


def load_detector(
    model: ModelPath, *, recipe: Recipe | None = None, only: frozenset[int] | None = None, **options: Any
) -> Detector:
    """A detector from a model: a path, as `kuiperinfer.load` takes it, or a loaded model. `options` are fields of `Recipe`.

    What neither they nor the recipe say is as YOLO models have it: pixels from 0 to 1, letterboxed, 640 × 640 where the model
    leaves that free; models of 80 classes get COCO's labels. `only` are the indices of the classes to report.
    """
    loaded, shape, recipe = _ingredients("detect", model, recipe, options)
    preprocess = _plain(shape, Recipe(fit="letterbox"), recipe, free=640)
    labels = recipe.labels
    size = (preprocess.height, preprocess.width)
    head = find_head(
        _shapes_for(loaded, preprocess),
        *size,
        classes=None if labels is None else len(labels),
        **recipe.given("kind", "anchors"),
    )
    if labels is None:
        labels = _usual_labels(head.classes if head.classes == 80 else None)
    limits = recipe.given("confidence", "iou", "class_agnostic", "max_detections")
    return Detector(loaded, preprocess, head, labels, only=only, **limits)


def load_segmenter(model: ModelPath, *, recipe: Recipe | None = None, **options: Any) -> Segmenter:
    """A segmenter from a model: a path, as `kuiperinfer.load` takes it, or a loaded model. `options` are fields of `Recipe`.

    What neither they nor the recipe say is as U-Nets have it: pixels from 0 to 1, stretched, 512 × 512 where the model leaves
    that free.
    """
    loaded, shape, recipe = _ingredients("segment", model, recipe, options)
    preprocess = _plain(shape, Recipe(fit="stretch"), recipe, free=512)
    return Segmenter(loaded, preprocess, recipe.labels or (), **recipe.given("threshold", "output"))


def load_upscaler(model: ModelPath, *, recipe: Recipe | None = None, **options: Any) -> Upscaler:
    """An upscaler from a model: a path, as `kuiperinfer.load` takes it, or a loaded model. `options` are fields of `Recipe`.

    `size` is that of a tile, 128 × 128 where the model leaves it free, `overlap` 16 if there is room for it. Pixels go in and
    come out from 0 to 1 unless `mean` and `std` say otherwise.
    """
    loaded, shape, recipe = _ingredients("upscale", model, recipe, options)
    preprocess = _plain(shape, Recipe(fit="stretch"), recipe, free=128)
    (output, *_) = _shapes_for(loaded, preprocess)
    factor = factor_of((1, len(preprocess.mean), preprocess.height, preprocess.width), output)
    overlap = min(16, (min(preprocess.height, preprocess.width) - 1) // 2) if recipe.overlap is None else recipe.overlap
    return Upscaler(loaded, preprocess, factor, overlap)


def load_mtcnn(pnet: ModelPath, rnet: ModelPath, onet: ModelPath, **options: Any) -> FaceCascade:
    """MTCNN from its three models, in any order; `options` are fields of `FaceCascade`."""
    return cascade_of([_load(model)[0] for model in (pnet, rnet, onet)], **options)


LOADERS: dict[str, Callable[..., Job[Any]]] = {
    "classify": load_classifier,
    "detect": load_detector,
    "segment": load_segmenter,
    "upscale": load_upscaler,
}


def load_job(model: ModelPath, job: str | None = None, **options: Any) -> Job[Any]:
    """The job of a model whose recipe, or caller, says which one it is."""
    loaded, beside = _load(model)
    name = job or beside.job
    if name is None or name not in LOADERS:
        found = "none is given" if name is None else f"found '{name}'{did_you_mean(name, LOADERS)}"
        raise InputError(f"the job of a model has to be one of {', '.join(LOADERS)}; {found}")
    recipe = options.pop("recipe", None)
    return LOADERS[name](loaded, recipe=(recipe or Recipe()).over(beside), **options)


def _load(model: ModelPath) -> tuple[Model, Recipe]:
    """The model, and the recipe beside it; where there is none, that of a bundled model of the same build."""
    if isinstance(model, Model):
        loaded, beside = model, Recipe()
    else:
        file = param_path(model)
        loaded, beside = load(file), recipe_beside(Path(file))
    if beside == Recipe() and loaded.graph.source is not None:
        beside = _known_recipes().get(_build(loaded.graph.source), beside)
    return loaded, beside


@functools.cache
def _known_recipes() -> dict[_Build, Recipe]:
    """The recipes of the bundled models, for others of the same build: these in full precision, or with other weights."""
    files = sorted(ASSETS.glob("*.recipe.json"))
    params = [file.with_name(file.name.replace(".recipe.json", ".pnnx.param")) for file in files]
    return {
        _build(pnnx.read(param, weights=False)): read_recipe(file) for file, param in zip(files, params, strict=True)
    }


def _build(graph: pnnx.Graph) -> _Build:
    """The operators of a graph in their order, and the shapes of their weights."""
    return tuple(
        (operator.type, tuple((name, attribute.shape) for name, attribute in operator.attributes.items()))
        for operator in graph.operators
    )


def _ingredients(
    job: str, model: ModelPath, recipe: Recipe | None, options: dict[str, Any]
) -> tuple[Model, tuple[int | None, ...] | None, Recipe]:
    """The model, the shape of its input, and its recipe: the options, over the recipe given, over the one beside the model."""
    loaded, beside = _load(model)
    merged = Recipe(**options).over(recipe or Recipe()).over(beside)
    if merged.job not in (None, job):
        raise InputError(f"the recipe of this model is for the job '{merged.job}', not for '{job}'")
    if unknown := sorted(set(merged.given()) - set(_MEANT[job])):
        raise InputError(f"a recipe for '{job}' has no {', '.join(unknown)}; it may have {', '.join(_MEANT[job])}")
    return loaded, the_input_shape(loaded), merged


def _plain(shape: Sequence[int | None] | None, usual: Recipe, recipe: Recipe, free: int) -> Preprocess:
    """The preprocessing of networks that take pixels from 0 to 1; sides that the model leaves open are `free`."""
    known = tuple(shape) if shape is not None and len(shape) == 4 else (None,) * 4
    zeros, ones = ((number,) * (1 if known[1] == 1 else 3) for number in (0.0, 1.0))
    size = (known[2] or free, known[3] or free)
    full = recipe.over(usual).over(Recipe(size=size, mean=zeros, std=ones))
    return preprocess_for(shape, **full.given("size", "resize", "mean", "std", *_PIXELS))


def _shapes_for(model: Model, preprocess: Preprocess) -> tuple[tuple[int, ...], ...]:
    """The shapes of the outputs for one picture, or for as many as the model insists on, then with 1 in front."""
    rest = (len(preprocess.mean), preprocess.height, preprocess.width)
    declared = (the_input_shape(model) or (None,))[0] or 1
    shapes = output_shapes(model, (declared, *rest))
    if shapes is None:
        raise InputError(
            "the shapes of this model's outputs hang on what is in its input; such models are not supported"
        )
    return tuple((1, *shape[1:]) if shape[:1] == (declared,) else shape for shape in shapes)


def _usual_labels(classes: int | None) -> tuple[str, ...]:
    return () if classes is None else read_labels(_USUAL_LABELS[classes])
