"""Pictures in, answers out: what networks for pictures need before and after they run. Needs the extra `image`."""

from .bundled import bundled_classifier, bundled_detector, bundled_segmenter, bundled_upscaler
from .classification import Classification, Classifier, top_classes
from .detection import Detector, class_indices
from .detections import Detection, Detections
from .heads import find_head
from .job import Job
from .labels import read_labels
from .loading import load_classifier, load_detector, load_job, load_mtcnn, load_segmenter, load_upscaler
from .mtcnn import FaceCascade
from .nms import suppress
from .pictures import PictureSource, read_picture
from .preprocess import Placement, Preprocess, preprocess_for
from .recipe import Recipe, read_recipe
from .segmentation import Segmentation, Segmenter
from .stream import Outcome, stream
from .upscaling import Upscaler

__all__ = [
    # jobs, ready made, from files, and by hand
    "bundled_classifier",
    "bundled_detector",
    "bundled_segmenter",
    "bundled_upscaler",
    "load_classifier",
    "load_detector",
    "load_segmenter",
    "load_upscaler",
    "load_mtcnn",
    "load_job",
    "Classifier",
    "Detector",
    "FaceCascade",
    "Segmenter",
    "Upscaler",
    "Job",
    # many pictures
    "stream",
    "Outcome",
    # results
    "Classification",
    "Detection",
    "Detections",
    "Segmentation",
    # parts
    "Placement",
    "Preprocess",
    "PictureSource",
    "Recipe",
    "class_indices",
    "find_head",
    "preprocess_for",
    "read_labels",
    "read_picture",
    "read_recipe",
    "suppress",
    "top_classes",
]
