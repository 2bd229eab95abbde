"""Jobs from model files: recipes, what is usual, and what callers say."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer import load
from kuiperinfer.errors import InputError
from kuiperinfer.vision import (
    Classifier,
    Recipe,
    Segmenter,
    bundled,
    bundled_detector,
    load_classifier,
    load_detector,
    load_job,
    load_segmenter,
    load_upscaler,
    read_recipe,
)
from kuiperinfer.vision.heads import ColumnsHead
from kuiperinfer.vision.recipe import recipe_beside
from tests.small_models import TWO_WAYS, write_model

EVERYTHING = {
    "job": "detect",
    "labels": ["a", "b"],
    "size": [64, 96],
    "fit": "corner",
    "resize": 70,
    "filter": "linear",
    "order": "bgr",
    "fill": 0,
    "enlarge": False,
    "mean": [0, 0.5, 1],
    "std": [1, 2, 3.5],
    "top": 3,
    "kind": "yolov2",
    "anchors": [[[1, 2], [3, 4.5]]],
    "confidence": 0.5,
    "iou": 1,
    "class_agnostic": True,
    "max_detections": 7,
    "threshold": 0.25,
    "output": "logits",
    "overlap": 4,
}


def written(folder: Path, content: Any, name: str = "a.recipe.json") -> Path:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / name


def test_every_field_of_a_recipe(tmp_path: Path) -> None:
    assert read_recipe(written(tmp_path, EVERYTHING)) == Recipe(
        job="detect",
        labels=("a", "b"),
        size=(64, 96),
        fit="corner",
        resize=70,
        filter="linear",
        order="bgr",
        fill=0,
        enlarge=False,
        mean=(0.0, 0.5, 1.0),
        std=(1.0, 2.0, 3.5),
        top=3,
        kind="yolov2",
        anchors=(((1.0, 2.0), (3.0, 4.5)),),
        confidence=0.5,
        iou=1.0,
        class_agnostic=True,
        max_detections=7,
        threshold=0.25,
        output="logits",
        overlap=4,
    )
    assert set(EVERYTHING) == set(Recipe.__dataclass_fields__)


@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.parametrize("value", [None, {}, [], [[]], "x", -0.5, [1, "2"]], ids=str)
def test_fields_of_another_kind(tmp_path: Path, name: str, value: Any) -> None:
    path = written(tmp_path, {name: value})
    is_text = isinstance(value, str) and isinstance(EVERYTHING[name], str)
    if is_text or (isinstance(value, float) and name in ("confidence", "iou", "threshold")):
        assert getattr(read_recipe(path), name) == value
    else:
        with pytest.raises(InputError, match=rf"a\.recipe\.json: '{name}' has to be "):
            read_recipe(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        (b"\xff\xfe\xff".decode("latin1"), "cannot be read as JSON"),
        ("[]", "expected a JSON object"),
        ('"' + "x" * (5 << 20) + '"', "at most 4 MiB"),
        ({"lables": ["a"]}, "a recipe has no 'lables'; did you mean 'labels'"),
        ({"mean": [0, 0]}, "'mean' has to be a list of 1 or 3 numbers, found"),
        ({"size": [1.5, 2]}, "'size' has to be a height and a width"),
        ({"anchors": [[1, 2]]}, "'anchors' has to be a list of"),
        ({"top": True}, "'top' has to be a whole number"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_broken_recipes(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_recipe(written(tmp_path, content))


def test_missing_recipes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_recipe(tmp_path / "a.recipe.json")
    assert recipe_beside(tmp_path / "a.pnnx.param") == Recipe()


def test_one_recipe_over_another() -> None:
    over = Recipe(top=1, enlarge=False).over(Recipe(top=2, enlarge=True, resize=9))
    assert over == Recipe(top=1, enlarge=False, resize=9)


# ------------------------------------------------------------------------------------------- jobs

# Columns of 4 + 3 numbers for each pixel: what a detector could look like.
COLUMNS = """7767517
4 3
pnnx.Input      pnnx_input_0  0 1 0 #0=(1,3,?,?)f32
nn.Conv2d       conv          1 1 0 1 bias=True dilation=(1,1) groups=1 in_channels=3 kernel_size=(1,1) out_channels=7 padding=(0,0) padding_mode=zeros stride=(1,1) @bias=(7)f32 @weight=(7,3,1,1)f32 #0=(1,3,?,?)f32 #1=(1,7,?,?)f32
torch.flatten   flat          1 1 1 2 start_dim=2 end_dim=-1 #1=(1,7,?,?)f32 #2=(1,7,?)f32
pnnx.Output     pnnx_output_0 1 0 2 #2=(1,7,?)f32
"""  # noqa: E501
GREY = """7767517
3 2
pnnx.Input  pnnx_input_0  0 1 0 #0=(1,1,16,16)f32
nn.Sigmoid  last          1 1 0 1 #0=(1,1,16,16)f32 #1=(1,1,16,16)f32
pnnx.Output pnnx_output_0 1 0 1 #1=(1,1,16,16)f32
"""


def test_a_detector_and_what_is_usual(tmp_path: Path) -> None:
    path = write_model(tmp_path, COLUMNS)
    detect = load_detector(path, labels=("a", "b", "c"))
    size = detect.preprocess
    assert (size.height, size.width, size.fit, size.fill, size.mean, size.std) == (
        640,
        640,
        "letterbox",
        114,
        (0.0,) * 3,
        (1.0,) * 3,
    )
    assert (detect.confidence, detect.iou, detect.max_detections, detect.class_agnostic) == (0.25, 0.45, 300, False)
    assert detect.head == ColumnsHead(0, 3)
    written(
        tmp_path, {"job": "detect", "confidence": 0.5, "size": [32, 48], "labels": ["x", "y", "z"]}, "model.recipe.json"
    )
    found = load_detector(path, recipe=Recipe(iou=0.9), size=(32, 64))
    assert (found.preprocess.height, found.preprocess.width) == (32, 64)
    assert (found.confidence, found.iou, found.labels) == (0.5, 0.9, ("x", "y", "z"))
    with pytest.raises(InputError, match="with 2 labels are not those of a detector"):
        load_detector(path, labels=("a", "b"))
    with pytest.raises(InputError, match="the recipe of this model is for the job 'detect', not for 'segment'"):
        load_segmenter(path)


def test_fields_that_mean_nothing_for_a_job(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a recipe for 'classify' has no confidence, iou; it may have job, labels"):
        load_classifier(bundled.MODEL, confidence=0.5, iou=0.3)


def test_grey_inputs(tmp_path: Path) -> None:
    segment = load_segmenter(write_model(tmp_path, GREY))
    assert (segment.preprocess.mean, segment.preprocess.std) == ((0.0,), (1.0,))
    assert (segment.preprocess.height, segment.preprocess.width) == (16, 16)
    found = segment(np.full((5, 9, 3), 200, np.uint8))
    assert found.mask().all()  # the sigmoid of what is above 0


def test_labels_by_the_number_of_classes() -> None:
    assert load_classifier(bundled.MODEL).labels[285] == "Egyptian cat"
    assert len(load_classifier(bundled.MODEL, labels=tuple(map(str, range(1000)))).labels) == 1000
    assert load_detector(load(bundled.MODEL_FILES["detect"])).labels == ("face",)


def test_models_built_like_a_bundled_one_have_its_recipe(tmp_path: Path) -> None:
    original = bundled.MODEL_FILES["detect"]
    for ending in ("param", "bin"):
        (tmp_path / f"other.pnnx.{ending}").write_bytes(original.with_suffix(f".{ending}").read_bytes())
    detect = load_detector(tmp_path / "other.pnnx.param", confidence=0.75)
    assert (detect.labels, detect.confidence, detect.iou) == (("face",), 0.75, 0.4)
    assert detect.head == bundled_detector().head
    written(tmp_path, {"labels": ["head"]}, "other.recipe.json")  # what lies beside the model comes first
    assert load_detector(tmp_path / "other.pnnx.param").labels == ("head",)


def test_a_job_that_the_recipe_names(tmp_path: Path) -> None:
    path = write_model(tmp_path, GREY)
    with pytest.raises(InputError, match="one of classify, detect, segment, upscale; none is given"):
        load_job(path)
    with pytest.raises(InputError, match="found 'segmnet'; did you mean 'segment'"):
        load_job(path, "segmnet")
    assert isinstance(load_job(path, "segment", threshold=0.9), Segmenter)
    written(tmp_path, {"job": "segment", "threshold": 0.25}, "model.recipe.json")
    made = load_job(path, recipe=Recipe(labels=("a", "b")))
    assert isinstance(made, Segmenter)
    assert (made.threshold, made.labels) == (0.25, ("a", "b"))
    assert isinstance(load_job(bundled.MODEL, "classify"), Classifier)


# How many rows there are hangs on what is in the picture.
DEPENDENT = """7767517
3 2
pnnx.Input     pnnx_input_0  0 1 0 #0=(1,3,32,32)f32
torch.nonzero  where         1 1 0 1 #0=(1,3,32,32)f32 #1=(?,4)i64
pnnx.Output    pnnx_output_0 1 0 1 #1=(?,4)i64
"""


def test_outputs_whose_shapes_hang_on_the_picture(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the shapes of this model's outputs hang on what is in its input"):
        load_detector(write_model(tmp_path, DEPENDENT))


@pytest.mark.parametrize("loader", [load_classifier, load_detector, load_segmenter, load_upscaler])
def test_models_that_are_not_for_pictures(tmp_path: Path, loader: Any) -> None:
    with pytest.raises(InputError, match="a network for pictures has one input, this model has 2"):
        loader(write_model(tmp_path, TWO_WAYS))


def test_jobs_travel_between_processes() -> None:
    detect = pickle.loads(pickle.dumps(bundled_detector()))
    (face,) = detect(bundled.PICTURES["detect"])
    assert face.label == "face"
    assert face.box == pytest.approx((163.6, 75.1, 278.9, 185.5), abs=1)


def test_the_bundled_recipes_fit_their_models() -> None:
    for job, path in bundled.MODEL_FILES.items():
        made: Any = load_job(path, job)
        made(bundled.PICTURES[job])
        assert recipe_beside(path).job in (None, job)
