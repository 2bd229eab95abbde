"""`kuiper batch` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import kuiperinfer
from kuiperinfer.cli import batch as batch_command
from kuiperinfer.cli import extras
from kuiperinfer.vision.bundled import PICTURES
from tests.small_models import CONVOLUTION, LINEAR, write_model


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    folder = tmp_path / "photographs"
    folder.mkdir()
    for name in ("classify", "detect"):
        Image.open(PICTURES[name]).convert("RGB").save(folder / f"{name}.png")
    return folder


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32))
    return tmp_path / "rows.npy"


def test_photographs_are_classified(kuiper: Any, photographs: Path, tmp_path: Path) -> None:
    (photographs / "broken.jpg").write_bytes(b"?")
    code, out, err = kuiper("batch", photographs, "--output", tmp_path / "out", "--annotate")
    assert (code, err) == (0, "")
    assert out.startswith("3 rows in ")
    assert f"results  {tmp_path / 'out' / 'results'}" in out
    assert f"1 row could not be read: {tmp_path / 'out' / 'errors.jsonl'}" in out
    table = pq.read_table(tmp_path / "out" / "results")
    assert table["label"][0].as_py() == "Egyptian cat"
    assert len(list((tmp_path / "out" / "pictures").rglob("*.jpg"))) == 2
    code, out, _ = kuiper("batch", photographs, "--output", tmp_path / "out", "--annotate")
    assert code == 0
    assert out.startswith("0 rows in ")
    assert "3 were done before" in out


def test_faces_are_found_and_the_result_is_json(kuiper: Any, photographs: Path, tmp_path: Path) -> None:
    code, out, _ = kuiper("batch", photographs, "-o", tmp_path / "out", "--job", "detect", "--json")
    assert code == 0
    facts = json.loads(out)
    assert (facts["rows"], facts["errors"], facts["parts"], facts["rows_done_now"]) == (2, 0, 2, 2)
    assert facts["output"] == str(tmp_path / "out")
    assert facts["seconds"] > 0
    counts = [len(found) for found in pq.read_table(tmp_path / "out" / "results")["detections"].to_pylist()]
    assert counts == [0, 1]


@pytest.mark.parametrize(("job", "column"), [("segment", "mask"), ("raw", "pnnx_output_0")])
def test_other_jobs(kuiper: Any, photographs: Path, tmp_path: Path, job: str, column: str) -> None:
    model = ("--model", write_model(tmp_path, CONVOLUTION)) if job == "raw" else ()
    code, _, _ = kuiper("batch", photographs, "-o", tmp_path / "out", "--job", job, *model)
    assert code == 0
    assert column in pq.read_table(tmp_path / "out" / "results").column_names


def test_pictures_are_prepared_as_the_recipe_says(kuiper: Any, photographs: Path, tmp_path: Path) -> None:
    model = write_model(tmp_path, CONVOLUTION)
    shapes = []
    for number, size in enumerate(("[8, 8]", "[8, 12]")):
        (tmp_path / "other.json").write_text(f'{{"size": {size}}}')
        arguments = ("batch", photographs, "-o", tmp_path / str(number), "--job", "raw", "--model", model)
        assert kuiper(*arguments, "--recipe", tmp_path / "other.json")[0] == 0
        shapes.append(pq.read_table(tmp_path / str(number) / "results")["pnnx_output_0"].type.shape)
    assert shapes == [[8, 4, 4], [8, 4, 6]]
    code, _, err = kuiper(*arguments)
    assert code == 1
    assert "this folder belongs to another job: preprocessing was" in err


def test_labels_and_sizes_of_parts_and_batches(kuiper: Any, rows: Path, tmp_path: Path) -> None:
    model = write_model(tmp_path, LINEAR)
    arguments = ("batch", rows, "-o", tmp_path / "out", "--job", "raw", "--model", model)
    code, out, _ = kuiper(*arguments, "--part", 4, "--batch", 4, "--actors", 2, "--threads", 1, "--json")
    assert code == 0
    assert json.loads(out)["parts"] == 3
    assert [file.name for file in sorted((tmp_path / "out" / "results").iterdir())] == [
        "part-00000.parquet",
        "part-00001.parquet",
        "part-00002.parquet",
    ]


def test_nothing_can_be_read(kuiper: Any, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"")
    code, out, _ = kuiper("batch", tmp_path / "x.png", "-o", tmp_path / "out")
    assert code == 1
    assert "1 row could not be read" in out


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["-o", "out"], 2, "Missing argument 'INPUT...'"),
        (["rows.npy"], 2, "Missing option '-o' / '--output'"),
        (["rows.npy", "-o", "out", "--job", "paint"], 2, "'paint' is not one of"),
        (["none.npy", "-o", "out"], 1, "none.npy: no such file or folder"),
        (["rows.npy", "-o", "out", "--job", "raw"], 2, "--job: raw needs a --model"),
        (
            ["rows.npy", "-o", "out", "--job", "raw", "--model", "model.pnnx.param", "--annotate"],
            2,
            "--annotate: the job raw",
        ),
        (
            ["x.parquet", "-o", "out"],
            1,
            "x.parquet: there is no column 'image', only imige; did you mean 'imige'?; --column",
        ),
        (
            ["x.parquet", "-o", "out", "--job", "raw", "--model", "model.pnnx.param"],
            1,
            "there is no column 'pnnx_input_0', only imige; each input of the model needs one, under its name",
        ),
        (["rows.npy", "-o", "."], 1, "and no manifest.json of a job"),
        (["rows.npy", "-o", "out", "--labels", "none.txt"], 1, "none.txt: no such file"),
        (["rows.npy", "-o", "out", "--recipe", "none.json"], 1, "none.json: no such file"),
        (["rows.npy", "-o", "out", "--job", "detect", "--batch", "0"], 2, "0 is not in the range"),
    ],
    ids=str,
)
def test_mistakes(
    kuiper: Any, rows: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, complaint: str
) -> None:
    monkeypatch.chdir(rows.parent)
    write_model(rows.parent, LINEAR)
    pq.write_table(pa.table({"imige": [b"x"]}), rows.parent / "x.parquet")
    found, out, err = kuiper("batch", *arguments)
    assert (found, out) == (code, "")
    assert complaint in err
    assert not (rows.parent / "out").exists()


@pytest.mark.parametrize(("missing", "arguments"), [("batch", []), ("ray", ["--ray", "local"])])
def test_extras_that_are_missing(
    kuiper: Any, rows: Path, monkeypatch: pytest.MonkeyPatch, missing: str, arguments: list[str]
) -> None:
    monkeypatch.setitem(extras.EXTRAS, missing, ("a_module_that_is_not_there",))
    code, _, err = kuiper("batch", rows, "-o", rows.parent / "out", *arguments)
    assert code == 1
    assert f"needs a_module_that_is_not_there: pip install 'kuiperinfer[{missing}]'" in err


def test_progress_in_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    with batch_command.progress_on_stderr() as listener:
        listener.begin(10_000, 1000, 2)
        for seconds, rows, errors in ((5.0, 500, 0), (6.0, 600, 1), (1.0, 7, 0)):
            now[0] += seconds
            listener.advance(rows, errors)
    assert capsys.readouterr().err == "2,100 of 10,000 rows, 100.0 rows/s  3 unreadable\n"


def test_progress_on_a_terminal(rows: Path, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    import os

    model = write_model(tmp_path, LINEAR)
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "kuiperinfer",
        "batch",
        rows,
        "-o",
        tmp_path / "out",
        "--job",
        "raw",
        "--model",
        model,
    ]
    environment = os.environ | {
        "PYTHONPATH": str(Path(kuiperinfer.__path__[0]).parent),
        "TERM": "xterm",
        "COLUMNS": "120",
    }
    subprocess.run(command, env=environment, stderr=theirs, stdout=subprocess.DEVNULL, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "10 of 10 rows" in shown
    assert "rows/s" in shown
