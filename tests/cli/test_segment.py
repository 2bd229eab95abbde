"""`kuiper segment`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from kuiperinfer.vision import bundled
from tests.small_models import write_model

# The colours of a picture as its maps: red is the background, green class 1, blue class 2.
COLOURS = """7767517
3 2
pnnx.Input  pnnx_input_0  0 1 0 #0=(1,3,16,16)f32
nn.ReLU     last          1 1 0 1 #0=(1,3,16,16)f32 #1=(1,3,16,16)f32
pnnx.Output pnnx_output_0 1 0 1 #1=(1,3,16,16)f32
"""
ONE = """7767517
3 2
pnnx.Input  pnnx_input_0  0 1 0 #0=(1,1,16,16)f32
nn.ReLU     last          1 1 0 1 #0=(1,1,16,16)f32 #1=(1,1,16,16)f32
pnnx.Output pnnx_output_0 1 0 1 #1=(1,1,16,16)f32
"""


def test_the_bundled_segmenter_on_the_bundled_picture(kuiper: Any, tmp_path: Path) -> None:
    code, out, err = kuiper("segment", "--save", tmp_path, "--masks", tmp_path / "masks")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["background", "pupil"]
    assert rows[1][1] == "6.2%"
    mask = np.asarray(Image.open(tmp_path / "masks" / "cat_eye_mask.png"))
    assert mask.dtype == np.uint8
    assert np.unique(mask).tolist() == [0, 1]
    plain, drawn = (
        np.asarray(Image.open(path).convert("RGB"))
        for path in (bundled.PICTURES["segment"], tmp_path / "cat_eye_segment.png")
    )
    changed = (plain != drawn).any(axis=2)
    assert changed[mask == 1].all()
    assert not changed[20:][mask[20:] == 0].any()  # below the legend


def test_several_classes(kuiper: Any, tmp_path: Path) -> None:
    picture = np.zeros((16, 32, 3), np.uint8)
    picture[:, :16, 0] = 200
    picture[:, 16:24, 1] = 200
    picture[:, 24:, 2] = 200
    Image.fromarray(picture).save(tmp_path / "a.png")
    options = ("--model", write_model(tmp_path / "model", COLOURS), "--json", "--masks", tmp_path)
    code, out, _ = kuiper("segment", tmp_path / "a.png", *options)
    assert code == 0
    (entry,) = json.loads(out)["pictures"]
    assert entry["mask"] == str(tmp_path / "a_mask.png")
    assert [(one["label"], one["share"]) for one in entry["classes"]] == [
        ("background", 0.5),
        ("class 1", 0.25),
        ("class 2", 0.25),
    ]
    assert [one["box"] for one in entry["classes"]] == [[0, 0, 16, 16], [16, 0, 24, 16], [24, 0, 32, 16]]
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a_mask.png"))[3], [0] * 16 + [1] * 8 + [2] * 8)
    (tmp_path / "labels.txt").write_text("sky\nsea\n")
    code, _, err = kuiper("segment", tmp_path / "a.png", *options, "--labels", tmp_path / "labels.txt")
    assert code == 1
    assert "tells 3 classes apart, but there are 2 labels" in err


def test_threshold_and_form_of_one_map(kuiper: Any, tmp_path: Path) -> None:
    Image.new("L", (20, 10), 102).save(tmp_path / "a.png")  # 0.4
    options = ("--model", write_model(tmp_path / "model", ONE), "--json")

    def share(*others: str) -> float:
        code, out, _ = kuiper("segment", tmp_path / "a.png", *options, *others)
        assert code == 0
        classes = {one["index"]: one["share"] for one in json.loads(out)["pictures"][0]["classes"]}
        return float(classes.get(1, 0.0))

    assert share() == 1.0  # a ReLU gives logits, and 0.4 is above 0
    assert share("--output", "probabilities") == 0.0
    assert share("--output", "probabilities", "--threshold", "0.39") == 1.0
    assert kuiper("segment", "--threshold", "1")[0] == 2
