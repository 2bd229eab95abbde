"""Jobs for pictures answer as they do picture by picture, wherever the pictures stand."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from kuiperinfer.batch.job import BatchJob
from kuiperinfer.batch.local import local_runner
from kuiperinfer.batch.output import OutputFolder
from kuiperinfer.batch.picture_tasks import PictureTask
from kuiperinfer.batch.sources import find_sources
from kuiperinfer.vision import Job, bundled_classifier, bundled_detector, bundled_segmenter, read_picture
from kuiperinfer.vision.bundled import PICTURES
from kuiperinfer.vision.drawing import draw

MAKERS = {"classify": bundled_classifier, "detect": bundled_detector, "segment": bundled_segmenter}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for name, path in sorted(PICTURES.items()):
        image = Image.open(path).convert("RGB")
        image.save(folder / f"{name}.png")
        image.crop((0, 0, image.width // 2, image.height)).save(folder / f"{name}-half.png")
    return folder


def run(kind: str, job: Job[Any], inputs: Path, output: Path, **changes: Any) -> list[dict[str, Any]]:
    batch = changes.pop("batch", 1)
    task = PictureTask(kind, job, batch, 1)
    sources = find_sources([inputs], output)
    made = BatchJob(task, sources, OutputFolder(output), batch, part_rows=3, **changes)
    assert made.run(local_runner(2)).errors == 0
    rows: list[dict[str, Any]] = pq.read_table(output / "results").to_pylist()
    return rows


@pytest.mark.parametrize("kind", MAKERS)
def test_answers_are_those_of_the_job_itself(kind: str, pictures: Path, tmp_path: Path) -> None:
    job: Any = MAKERS[kind]()
    rows = run(kind, job, pictures, tmp_path / "out", annotate=True)
    files = sorted(pictures.iterdir())
    assert [row["source"] for row in rows] == [str(file) for file in files]
    for row, file in zip(rows, files, strict=True):
        wanted = job(file)
        if kind == "classify":
            assert row["classes"] == [one.to_dict() for one in wanted]
            assert (row["label"], row["probability"]) == (wanted[0].label, wanted[0].probability)
        elif kind == "detect":
            assert row["detections"] == [{"landmarks": []} | one.to_dict() for one in wanted]
        else:
            mask = np.asarray(Image.open(io.BytesIO(row["mask"])))
            assert np.array_equal(mask, wanted.indices)
            assert [(one["label"], one["share"]) for one in row["classes"]] == [
                (one["label"], one["share"]) for one in wanted.to_dict()["classes"]
            ]
        drawn = np.asarray(Image.open(tmp_path / "out" / row["picture"]), np.int64)
        assert np.abs(drawn - draw(read_picture(file), wanted)).mean() < 8  # but for what JPEG loses
    assert rows[4]["picture"] == "pictures/part-00001/00000004-segment-half.jpg"


def test_the_faces_are_found(pictures: Path, tmp_path: Path) -> None:
    rows = run("detect", bundled_detector(), pictures / "detect.png", tmp_path / "out")
    assert len(rows[0]["detections"]) == 1


def test_pictures_in_tables_and_arrays(pictures: Path, tmp_path: Path) -> None:
    job = bundled_classifier()
    files = sorted(pictures.iterdir())
    wanted = run("classify", job, pictures, tmp_path / "files")
    encoded = [file.read_bytes() for file in files]
    names = [file.name for file in files]
    same = np.stack([read_picture(files[0])] * 3)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(same)
    tables = {
        "bytes": pa.array(encoded),
        "paths": pa.array([str(file) for file in files]),
        "relative": pa.array(names),
        "structs": pa.array([{"bytes": one, "path": "x"} for one in encoded]),
        "paths in structs": pa.array([{"bytes": None, "path": name} for name in names]),
        "tensors": tensors,
        "lists": pa.array(same.tolist(), pa.list_(pa.list_(pa.list_(pa.uint8())))),
    }
    for name, column in tables.items():
        pq.write_table(pa.table({"image": column, "id": range(len(column))}), pictures / "table.parquet")
        rows = run("classify", job, pictures / "table.parquet", tmp_path / name)
        expected = wanted if len(rows) == len(wanted) else [wanted[0]] * 3
        assert [row["classes"] for row in rows] == [row["classes"] for row in expected]
    (pictures / "table.parquet").unlink()
    np.save(tmp_path / "pictures.npy", same)
    rows = run("classify", job, tmp_path / "pictures.npy", tmp_path / "array")
    assert [row["classes"] for row in rows] == [wanted[0]["classes"]] * 3


def test_several_at_once_give_the_same_classes(pictures: Path, tmp_path: Path) -> None:
    job = bundled_classifier()
    one, four = (run("classify", job, pictures, tmp_path / str(batch), batch=batch) for batch in (1, 4))
    for single, batched in zip(one, four, strict=True):
        assert single["label"] == batched["label"]
        assert single["probability"] == pytest.approx(batched["probability"], rel=1e-4)


def test_what_is_no_picture_is_listed(pictures: Path, tmp_path: Path) -> None:
    cells = [{"bytes": b"GIF89a", "path": None}, {"bytes": None, "path": "gone.png"}, {"bytes": None, "path": None}]
    pq.write_table(pa.table({"image": cells}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"image": [3, 4]}), tmp_path / "b.parquet")
    np.save(tmp_path / "c.npy", np.zeros((2, 4, 4), np.uint8))
    (tmp_path / "d.png").write_bytes((pictures / "classify.png").read_bytes()[:2000])
    task = PictureTask("classify", bundled_classifier(), 1, 1)
    output = OutputFolder(tmp_path / "out")
    summary = BatchJob(task, find_sources([tmp_path], output.path), output).run(local_runner(1))
    assert (summary.rows, summary.errors) == (8, 8)
    listed = [json.loads(line)["error"] for line in output.errors_file.read_text("utf-8").splitlines()]
    for found, complaint in zip(
        listed,
        [
            "no picture of a known format",
            "gone.png: no such file",
            "expected a picture as bytes, path or array, found NoneType",
            "expected a picture of shape (H, W, 3) and dtype uint8, found () int64",
            "expected a picture of shape (H, W, 3) and dtype uint8, found () int64",
            "found (4, 4) uint8",
            "found (4, 4) uint8",
            "d.png: the picture cannot be read",
        ],
        strict=True,
    ):
        assert complaint in found


@pytest.mark.skipif(os.name != "posix", reason="names of files are text here")
def test_names_of_files_that_are_no_text(pictures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    try:
        (folder / os.fsdecode(b"a\xff.png")).write_bytes((pictures / "classify.png").read_bytes())
        (folder / os.fsdecode(b"b\xfe.png")).write_bytes(b"broken")
    except OSError:
        pytest.skip("this file system wants text")
    task = PictureTask("classify", bundled_classifier(), 1, 1)
    output = OutputFolder(tmp_path / "out")
    summary = BatchJob(task, find_sources([folder], output.path), output, annotate=True).run(local_runner(1))
    assert summary.errors == 1
    (row,) = pq.read_table(output.path / "results").to_pylist()
    assert row["source"] == str(folder) + "/a\\udcff.png"
    assert row["picture"] == "pictures/part-00000/00000000-a_.jpg"
    assert json.loads(output.errors_file.read_text("utf-8"))["source"] == str(folder) + "/b\\udcfe.png"
