"""`kuiper upscale`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from kuiperinfer.vision import upscaling
from tests.small_models import CONVOLUTION, write_model

THRICE = """7767517
3 2
pnnx.Input   pnnx_input_0  0 1 0 #0=(1,3,?,?)f32
nn.Upsample  up            1 1 0 1 mode=nearest scale_factor=(3.0,3.0) #0=(1,3,?,?)f32 #1=(1,3,?,?)f32
pnnx.Output  pnnx_output_0 1 0 1 #1=(1,3,?,?)f32
"""


def test_the_bundled_upscaler_writes_where_one_is(kuiper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = kuiper("upscale")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].endswith(", saved as astronaut_small_x4.png")
    assert out.splitlines()[1] == "  512 × 512"
    assert np.asarray(Image.open(tmp_path / "astronaut_small_x4.png")).shape == (512, 512, 3)


def test_another_model_in_tiles_and_batches(kuiper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (30, 50, 3), dtype=np.uint8)
    for name in ("a.png", "b.png"):
        Image.fromarray(picture).save(tmp_path / name)
    options = ("--model", write_model(tmp_path / "model", THRICE), "--save", tmp_path / "out", "--json")
    tiles = ("--tile", "16,24", "--overlap", "3", "--batch", "4")
    batches: list[int] = []
    run = upscaling.run_in_batches

    def counted(model: Any, inputs: Any, batch: int) -> Any:
        batches.append(batch)
        return run(model, inputs, batch)

    monkeypatch.setattr(upscaling, "run_in_batches", counted)
    code, out, _ = kuiper("upscale", tmp_path / "a.png", *options, *tiles)
    assert code == 0
    assert set(batches) == {4}  # tiles of one picture
    code, out, _ = kuiper("upscale", tmp_path / "a.png", tmp_path / "b.png", tmp_path / "model", *options, *tiles)
    assert code == 1  # a folder without pictures
    code, out, _ = kuiper("upscale", tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.png", *options, *tiles)
    assert code == 1
    first, second, third = json.loads(out)["pictures"]
    assert first["upscaled"] == {"width": 150, "height": 90}
    assert "no such file" in third["error"]
    for entry in (first, second):
        larger = np.asarray(Image.open(entry["saved"]))
        np.testing.assert_array_equal(larger, picture.repeat(3, axis=0).repeat(3, axis=1))
        assert Path(entry["saved"]).name == Path(entry["picture"]).stem + "_x3.png"


def test_mistakes(kuiper: Any, tmp_path: Path) -> None:
    code, _, err = kuiper("upscale", "--model", write_model(tmp_path / "a", THRICE), "--tile", "8", "--overlap", "4")
    assert code == 2
    assert "overlap: expected from 0 to 3 pixels, found 4" in err
    for tile in ("banana", "0", "8,8,8"):
        code, _, err = kuiper("upscale", "--tile", tile)
        assert code == 2
        assert f"Invalid value for --tile: '{tile}': expected" in err
    code, _, err = kuiper("upscale", "--model", write_model(tmp_path / "b", CONVOLUTION), "--overlap", "1")
    assert code == 1
    assert "a model that makes pictures larger has an output" in err
