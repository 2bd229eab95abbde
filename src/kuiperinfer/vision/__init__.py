"""Pictures in, answers out: what networks for pictures need before and after they run. Needs the extra `image`."""

from .bundled import bundled_classifier
from .classification import Classification, Classifier, top_classes
from .labels import read_labels
from .pictures import read_picture
from .preprocess import Preprocess, preprocess_for

__all__ = [
    "Classification",
    "Classifier",
    "Preprocess",
    "bundled_classifier",
    "preprocess_for",
    "read_labels",
    "read_picture",
    "top_classes",
]
