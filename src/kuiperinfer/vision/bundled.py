"""The models and photographs that come with the package (assets/LICENSES.md says from where)."""

from __future__ import annotations

from .classification import Classifier
from .detection import Detector
from .loading import ASSETS, load_classifier, load_detector, load_segmenter, load_upscaler
from .segmentation import Segmenter
from .upscaling import Upscaler

# Job -> the name of the model that does it where none is given, and of the picture it is shown then.
MODELS = {
    "classify": "mobilenet_v2",
    "detect": "tiny_face_detector",
    "segment": "unet_pupil",
    "upscale": "esrgan_slim_x4",
}
PICTURES = {
    "classify": ASSETS / "chelsea.png",
    "detect": ASSETS / "astronaut.jpg",
    "segment": ASSETS / "cat_eye.png",
    "upscale": ASSETS / "astronaut_small.png",
}
MODEL_FILES = {job: ASSETS / f"{name}.pnnx.param" for job, name in MODELS.items()}

MODEL_NAME, MODEL = MODELS["classify"], MODEL_FILES["classify"]
LABELS = ASSETS / "imagenet_labels.txt"
PHOTOGRAPH = PICTURES["classify"]


def bundled_classifier() -> Classifier:
    """MobileNetV2, trained on ImageNet: 1000 classes, weights in half precision."""
    return load_classifier(MODEL)


def bundled_detector() -> Detector:
    """A tiny YOLOv2 that finds faces, from face-api; weights in half precision."""
    return load_detector(MODEL_FILES["detect"])


def bundled_segmenter() -> Segmenter:
    """A small U-Net that finds the pupil in a picture of an eye; weights in half precision."""
    return load_segmenter(MODEL_FILES["segment"])


def bundled_upscaler() -> Upscaler:
    """ESRGAN-slim: four times as wide and as high; weights in half precision."""
    return load_upscaler(MODEL_FILES["upscale"])
