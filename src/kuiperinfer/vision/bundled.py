"""The classifier, the labels and the photograph that come with the package (assets/LICENSES.md says from where)."""

from __future__ import annotations

from pathlib import Path

from ..runtime import load
from .classification import Classifier
from .labels import read_labels
from .preprocess import preprocess_for

ASSETS = Path(__file__).resolve().parent.parent / "assets"

MODEL_NAME = "mobilenet_v2"
MODEL = ASSETS / "mobilenet_v2.pnnx.param"
LABELS = ASSETS / "imagenet_labels.txt"
PHOTOGRAPH = ASSETS / "chelsea.png"


def bundled_classifier() -> Classifier:
    """MobileNetV2, trained on ImageNet: 1000 classes, weights in half precision."""
    model = load(MODEL)
    return Classifier(model, preprocess_for(model.inputs[0].shape), read_labels(LABELS))
