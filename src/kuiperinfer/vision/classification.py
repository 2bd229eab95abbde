"""What a picture shows, by a network that gives one number a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..dtypes import Array
from ..errors import InputError
from .job import NetworkJob
from .pictures import PictureSource
from .preprocess import Preprocess


@dataclass(frozen=True)
class Classification:
    """One class that a network sees in a picture: its index, its name, and how probable it is."""

    index: int
    label: str
    probability: float

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"index": self.index, "label": self.label, "probability": self.probability}


@dataclass(frozen=True)
class Classifier(NetworkJob[tuple[Classification, ...]]):
    """A network that classifies pictures: `model` takes (1, C, H, W) float32 and gives one number a class.

    Its first output counts. The `top` most probable classes are returned. `labels` may be empty, and classes are then called by
    their index.
    """

    model: Any
    preprocess: Preprocess
    labels: Sequence[str] = ()
    top: int = 5

    def __call__(self, picture: PictureSource, top: int | None = None) -> tuple[Classification, ...]:
        """The `top` most probable classes of a picture, the most probable first."""
        if top is not None and top != self.top:
            return replace(self, top=top)(picture)
        return super().__call__(picture)

    def finish(self, output: Sequence[Array], picture: Array) -> tuple[Classification, ...]:
        """The outputs of the network for one picture -> its classes."""
        return top_classes(output[0], self.labels, self.top)


def top_classes(scores: Array, labels: Sequence[str] = (), top: int = 5) -> tuple[Classification, ...]:
    """The `top` most probable of K classes, from a network's output of shape (K), (1, K) or (1, K, 1, 1).

    Logits are turned into probabilities; equal ones stand in the order of their indices. Raises `InputError` where the
    output is no such array, is not finite, or where the number of labels is another than K.
    """
    if top < 1:
        raise InputError(f"top: expected at least 1 class, found {top}")
    classes = max(scores.shape, default=1)
    if scores.dtype.kind != "f" or scores.size != classes or classes < 2:
        raise InputError(
            f"this model's output {scores.shape} {scores.dtype} is not one number a class; expected shape (1, classes)"
        )
    if labels and len(labels) != classes:
        raise InputError(f"the model has {classes} classes, but there are {len(labels)} labels")
    values = scores.reshape(-1).astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError(
            "the model's output is not finite: the picture or the weights are not what it was trained with"
        )
    probabilities = values if _are_probabilities(values) else _softmax(values)
    best = np.argsort(-probabilities, kind="stable")[:top]
    return tuple(
        Classification(int(index), labels[index] if labels else f"class {index}", float(probabilities[index]))
        for index in best
    )


def _are_probabilities(values: Array) -> bool:
    return bool(values.min() >= 0.0 and abs(values.sum() - 1.0) < 1e-3)


def _softmax(values: Array) -> Array:
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())
