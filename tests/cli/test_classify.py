"""`kuiper classify`, and what it shares with the other commands for pictures."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.small_models import LINEAR, TWO_WAYS, write_model

# The mean of each channel as its logit: the colour of a picture is its class.
CLASSIFIER = """7767517
4 3
pnnx.Input               pnnx_input_0  0 1 0 #0=(1,3,?,?)f32
F.adaptive_avg_pool2d    pool          1 1 0 1 output_size=(1,1) #0=(1,3,?,?)f32 #1=(1,3,1,1)f32
torch.flatten            flat          1 1 1 2 start_dim=1 end_dim=-1 #1=(1,3,1,1)f32 #2=(1,3)f32
pnnx.Output              pnnx_output_0 1 0 2 #2=(1,3)f32
"""
PLAIN = ("--size", "8,16", "--mean", "0,0,0", "--std", "0.1,0.1,0.1")
RED, GREEN, BLUE = (250, 10, 60), (10, 250, 60), (20, 30, 220)


@pytest.fixture
def by_colour(tmp_path: Path) -> tuple[str, ...]:
    """Options that classify pictures by their colour."""
    model = write_model(tmp_path / "model", CLASSIFIER)
    labels = tmp_path / "model" / "labels.json"
    labels.write_text('["red", "green", "blue"]')
    return ("--model", str(model), "--labels", str(labels), *PLAIN)


def picture(path: Path, colour: tuple[int, int, int]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30), colour).save(path)
    return path


def test_classify_the_bundled_photograph(kuiper: Any) -> None:
    code, out, _ = kuiper("classify")
    assert code == 0
    assert "chelsea.png" in out
    lines = [line.split() for line in out.splitlines()[1:]]
    assert lines[0][:2] == ["Egyptian", "cat"]
    assert len(lines) == 5


def test_broken_pictures_are_reported_and_the_rest_goes_on(
    kuiper: Any, tmp_path: Path, by_colour: tuple[str, ...]
) -> None:
    good, bad = picture(tmp_path / "good.png", RED), tmp_path / "bad.png"
    bad.write_bytes(good.read_bytes()[:40])
    code, out, err = kuiper("classify", bad, good, "--top", "2", *by_colour)
    assert code == 1
    assert err.startswith(f"error: {bad}: ")
    assert "good.png" in out
    assert len(out.splitlines()) == 4  # the name, two classes, and the sum
    assert out.splitlines()[-1].endswith("; 1 could not be read")
    code, out, err = kuiper("classify", bad, good, tmp_path / "missing.png", "--json", *by_colour)
    assert (code, err) == (1, "")
    data = json.loads(out)["pictures"]
    assert ["error" in entry for entry in data] == [True, False, True]
    assert (data[1]["width"], data[1]["height"]) == (40, 30)
    assert set(data[1]["classes"][0]) == {"index", "label", "probability"}


def test_classify_by_another_model(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, CLASSIFIER)
    green = picture(tmp_path / "green.png", GREEN)
    (tmp_path / "labels.json").write_text('["red", "green", "blue"]')
    options = ["--model", path, *PLAIN, "--json"]
    code, out, _ = kuiper("classify", green, *options)
    assert code == 0
    assert json.loads(out)["pictures"][0]["classes"][0]["label"] == "class 1"
    code, out, _ = kuiper("classify", green, *options, "--labels", tmp_path / "labels.json")
    assert code == 0
    classes = json.loads(out)["pictures"][0]["classes"]
    powers = np.exp(np.array(GREEN) / 25.5)
    assert [c["label"] for c in classes] == ["green", "blue", "red"]
    assert [c["probability"] for c in classes] == pytest.approx([powers[i] / powers.sum() for i in (1, 2, 0)], rel=1e-3)


def test_order_and_grey_scale(kuiper: Any, tmp_path: Path, by_colour: tuple[str, ...]) -> None:
    code, out, _ = kuiper("classify", picture(tmp_path / "red.png", RED), *by_colour, "--order", "bgr", "--json")
    assert code == 0
    assert json.loads(out)["pictures"][0]["classes"][0]["label"] == "blue"


def test_classify_by_what_is_no_classifier(kuiper: Any, tmp_path: Path) -> None:
    code, _, err = kuiper("classify", "--model", write_model(tmp_path, TWO_WAYS))
    assert code == 1
    assert "a network for pictures has one input" in err
    code, _, err = kuiper("classify", "--model", write_model(tmp_path, LINEAR))
    assert code == 1
    assert "pictures need (N, C, H, W)" in err
    assert kuiper("classify", "--size", "1,2,3")[0] == 2


def test_a_recipe_beside_the_model_and_one_that_is_given(kuiper: Any, tmp_path: Path) -> None:
    model = write_model(tmp_path, CLASSIFIER)
    red = picture(tmp_path / "red.png", RED)
    recipe = {
        "job": "classify",
        "labels": ["r", "g", "b"],
        "size": [8, 8],
        "mean": [0, 0, 0],
        "std": [1, 1, 1],
        "top": 1,
    }
    (tmp_path / "model.recipe.json").write_text(json.dumps(recipe))
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"order": "bgr"}))

    def best(*options: Any) -> str:
        code, out, _ = kuiper("classify", red, "--model", model, "--json", *options)
        assert code == 0
        label: str = json.loads(out)["pictures"][0]["classes"][0]["label"]
        return label

    assert best() == "r"
    assert best("--recipe", given) == "b"
    assert best("--recipe", given, "--order", "rgb") == "r"
    code, out, _ = kuiper("classify", red, "--model", model, "--json")
    assert len(json.loads(out)["pictures"][0]["classes"]) == 1
    code, _, err = kuiper("detect", red, "--model", model)
    assert code == 1
    assert "the recipe of this model is for the job 'classify', not for 'detect'" in err


def test_two_hundred_pictures_of_which_three_are_broken(
    kuiper: Any, tmp_path: Path, by_colour: tuple[str, ...]
) -> None:
    colours = [(RED, "red"), (GREEN, "green"), (BLUE, "blue")]
    for number in range(200):
        picture(tmp_path / "all" / f"{number:03}.png", colours[number % 3][0])
    broken = [7, 64, 199]
    for number in broken:
        (tmp_path / "all" / f"{number:03}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    code, out, err = kuiper("classify", tmp_path / "all", "--batch", "8", "--json", *by_colour)
    assert (code, err) == (1, "")
    entries = json.loads(out)["pictures"]
    assert [Path(entry["picture"]).name for entry in entries] == [f"{number:03}.png" for number in range(200)]
    assert [number for number, entry in enumerate(entries) if "error" in entry] == broken
    for number, entry in enumerate(entries):
        assert number in broken or entry["classes"][0]["label"] == colours[number % 3][1]
    code, out, err = kuiper("classify", tmp_path / "all", "--top", "1", *by_colour)
    assert code == 1
    assert len(err.splitlines()) == 3
    assert out.splitlines()[-1].startswith("197 pictures in ")
    assert out.splitlines()[-1].endswith("; 3 could not be read")


# ------------------------------------------------------------------------------------------- which pictures, and where to


def test_folders_and_patterns(
    kuiper: Any, tmp_path: Path, by_colour: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["a/b.PNG", "a/c.jpg", "a/.hidden.png", "a/.cache/d.png", "a/e/f.webp", "a/notes.txt", "g.bmp", "g[1].png"]
    for name in names:
        target = picture(tmp_path / name.replace(".txt", ".png"), RED)
        target.rename(tmp_path / name)

    def read(*arguments: str) -> list[str]:
        code, out, _ = kuiper("classify", *arguments, "--json", *by_colour)
        assert code == 0
        return [entry["picture"] for entry in json.loads(out)["pictures"]]

    assert read("a") == [os.path.join("a", "b.PNG"), os.path.join("a", "c.jpg"), os.path.join("a", "e", "f.webp")]
    assert read("a/*.jpg", "a/c.jpg", "g.bmp") == ["a/c.jpg", "g.bmp"]
    assert read("**/*.webp") == ["a/e/f.webp"]
    assert read("g[1].png") == ["g[1].png"]  # a file of that name comes before what it would match
    (tmp_path / "empty").mkdir()
    for argument, complaint in (("empty", "no pictures in this folder"), ("*.gif", "no file matches this pattern")):
        code, _, err = kuiper("classify", argument, *by_colour)
        assert (code, err) == (1, f"error: {argument}: {complaint}\n")


def test_saved_pictures(kuiper: Any, tmp_path: Path, by_colour: tuple[str, ...]) -> None:
    sources = [picture(tmp_path / name, GREEN) for name in ("a/x.png", "b/x.png", "b/X.PNG.jpg")]
    code, out, _ = kuiper("classify", *sources, "--save", tmp_path / "new" / "out", "--json", *by_colour)
    assert code == 0
    saved = [Path(entry["saved"]) for entry in json.loads(out)["pictures"]]
    assert [path.name for path in saved] == ["x_classify.png", "x-2_classify.png", "X.PNG_classify.jpg"]
    for source, path in zip(sources, saved, strict=True):
        before, after = (np.asarray(Image.open(file).convert("RGB")).astype(int) for file in (source, path))
        assert before.shape == after.shape
        changed = np.abs(before - after).max(axis=2) > 40
        assert changed.any()  # the classes are written there
    code, _, err = kuiper("classify", sources[0], "--save", sources[1] / "x", *by_colour)
    assert code == 1
    assert "cannot be made a folder" in err


def test_many_saved_pictures(kuiper: Any, tmp_path: Path, by_colour: tuple[str, ...]) -> None:
    for number in range(30):
        picture(tmp_path / "in" / f"{number}.png", GREEN)
    code, _, _ = kuiper("classify", tmp_path / "in", "--save", tmp_path / "out", *by_colour)
    assert code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{number}_classify.png" for number in range(30)}


def test_a_place_that_cannot_be_written_to(kuiper: Any, tmp_path: Path, by_colour: tuple[str, ...]) -> None:
    (tmp_path / "out" / "red_classify.png").mkdir(parents=True)
    code, _, err = kuiper("classify", picture(tmp_path / "red.png", RED), "--save", tmp_path / "out", *by_colour)
    assert code == 1
    assert "red_classify.png: cannot be written" in err
