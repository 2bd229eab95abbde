"""`kuiper detect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from kuiperinfer.vision import bundled
from tests.small_models import write_model
from tests.vision.shared_models import FOLDER, model, needs_models

FACE = (163.6, 75.1, 278.9, 185.5)

# A pixel's colours as the scores of three classes, and always the same box: columns 4 + 3 for each pixel.
COLUMNS = """7767517
5 4
pnnx.Input      pnnx_input_0  0 1 0 #0=(1,3,32,32)f32
pnnx.Attribute  boxes         0 1 1 @data=(1,4,1024)f32 #1=(1,4,1024)f32
torch.flatten   flat          1 1 0 2 start_dim=2 end_dim=-1 #0=(1,3,32,32)f32 #2=(1,3,1024)f32
torch.cat       both          2 1 1 2 3 dim=1 #1=(1,4,1024)f32 #2=(1,3,1024)f32 #3=(1,7,1024)f32
pnnx.Output     pnnx_output_0 1 0 3 #3=(1,7,1024)f32
"""


@pytest.fixture
def by_colour(tmp_path: Path) -> tuple[str, ...]:
    """Options of a detector that says what colours pixels have, and puts a box of 6 × 6 pixels around each."""
    boxes = np.zeros((1, 4, 1024), np.float32)
    boxes[0, 0], boxes[0, 1] = np.tile(np.arange(32), 32) + 0.5, np.repeat(np.arange(32), 32) + 0.5
    boxes[0, 2:] = 6
    path = write_model(tmp_path / "model", COLUMNS, {"boxes.data": boxes})
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    return ("--model", str(path), "--labels", str(tmp_path / "labels.txt"))


@pytest.fixture
def spots(tmp_path: Path) -> Path:
    """A dark picture with a green and a red pixel; the letterbox puts 8 grey rows above and below."""
    picture = np.zeros((16, 32, 3), np.uint8)
    picture[4, 10] = (0, 250, 0)
    picture[10, 20] = (230, 0, 0)
    path = tmp_path / "spots.png"
    Image.fromarray(picture).save(path)
    return path


def detections(out: str, number: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(out)["pictures"][number]["detections"]
    return found


def test_the_bundled_detector_on_the_bundled_photograph(kuiper: Any, tmp_path: Path) -> None:
    code, out, err = kuiper("detect", "--save", tmp_path)
    assert (code, err) == (0, "")
    name, face = out.splitlines()
    assert name.startswith("astronaut.jpg  the bundled photograph, ")
    assert name.endswith(f", saved as {tmp_path / 'astronaut_detect.jpg'}")
    assert face.split()[:2] == ["face", "0.97"]
    drawn = np.asarray(Image.open(tmp_path / "astronaut_detect.jpg")).astype(int)
    plain = np.asarray(Image.open(bundled.PICTURES["detect"])).astype(int)
    changed = np.abs(drawn - plain).max(axis=2) > 60
    left, top, right, bottom = map(round, FACE)
    assert changed[top + 20 : bottom - 20, left - 1 : left + 3].any(axis=1).all()
    assert changed[bottom - 3 : bottom + 2, left + 20 : right - 20].any(axis=0).all()
    assert not changed[bottom + 10 :].any()
    code, out, _ = kuiper("detect", "--json")
    (face,) = detections(out)
    assert face["label"] == "face"
    assert face["box"] == pytest.approx(FACE, abs=1)


def test_options(kuiper: Any, by_colour: tuple[str, ...], spots: Path) -> None:
    plain = ("detect", spots, "--json", *by_colour, "--confidence", "0.5")
    code, out, _ = kuiper(*plain)
    assert code == 0
    found = detections(out)
    assert [(one["label"], round(one["score"], 2)) for one in found] == [("green", 0.98), ("red", 0.9)]
    assert found[0]["box"] == [7.5, 1.5, 13.5, 7.5]
    assert found[1]["box"] == [17.5, 7.5, 23.5, 13.5]
    assert [one["label"] for one in detections(kuiper(*plain, "--only", "red")[1])] == ["red"]
    assert [one["label"] for one in detections(kuiper(*plain, "--only", "1")[1])] == ["green"]
    assert [one["label"] for one in detections(kuiper(*plain, "--max-detections", "1")[1])] == ["green"]
    assert [one["label"] for one in detections(kuiper(*plain, "--confidence", "0.95")[1])] == ["green"]
    # the grey of the bands passes too, and its boxes are cut at the picture's edges
    loose = detections(kuiper(*plain, "--confidence", "0.4")[1])
    assert len(loose) > 10
    assert all(0 <= one["box"][1] <= one["box"][3] <= 16 for one in loose)
    assert len(detections(kuiper(*plain, "--confidence", "0.4", "--class-agnostic")[1])) == len(loose)
    assert len(detections(kuiper(*plain, "--confidence", "0.4", "--iou", "0.0")[1])) < len(loose)


def test_nothing_is_said_too(kuiper: Any, by_colour: tuple[str, ...], spots: Path) -> None:
    code, out, _ = kuiper("detect", spots, *by_colour, "--confidence", "0.99")
    assert code == 0
    assert out.splitlines()[1] == "  nothing"


def test_broken_pictures(kuiper: Any, by_colour: tuple[str, ...], spots: Path, tmp_path: Path) -> None:
    code, out, err = kuiper("detect", spots, tmp_path / "labels.txt", spots, *by_colour, "--confidence", "0.5")
    assert code == 1
    assert err.startswith(f"error: {tmp_path / 'labels.txt'}: no picture of a known format")
    assert out.count("green") == 1  # the same picture twice is one


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (("--only", "rde"), 2, "--only: there is no class 'rde'; did you mean 'red'?"),
        (("--kind", "yolov2"), 2, "are not those of a detector of a known kind (yolov2)"),
        (("--confidence", "1.5"), 2, "1.5 is not in the range 0<=x<=1"),
        (("--kind", "yolo"), 2, "'yolo' is not one of"),
        (("--confidence", "nan"), 2, "expected a number, found 'nan'"),
        (("--model", "x"), 2, "several work together as MTCNN only"),
    ],
    ids=str,
)
def test_mistakes(
    kuiper: Any, by_colour: tuple[str, ...], spots: Path, options: Any, code: int, complaint: str
) -> None:
    found, _, err = kuiper("detect", spots, *by_colour, *options)
    assert found == code
    assert complaint in err


@needs_models
def test_coco_labels_come_by_themselves(kuiper: Any) -> None:
    code, out, _ = kuiper("detect", FOLDER / "yolov8n_coco" / "bus.jpg", "--model", model("yolov8n_coco"), "--json")
    assert code == 0
    assert [one["label"] for one in detections(out)] == ["person", "person", "person", "bus", "person"]


@needs_models
def test_mtcnn(kuiper: Any) -> None:
    models = [option for name in "pro" for option in ("--model", model(f"mtcnn_{name}net"))]
    code, out, _ = kuiper("detect", *models, "--json")
    assert code == 0
    (face,) = detections(out)
    assert face["score"] > 0.99
    assert len(face["landmarks"]) == 5
    code, _, err = kuiper("detect", *models[:4])
    assert code == 2
    assert "give its three" in err
