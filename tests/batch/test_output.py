"""The folder of a job: files whole or not at all, one job a folder, and finished parts that stay so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kuiperinfer.batch.output import Finished, OutputFolder, whole, write_whole
from kuiperinfer.errors import InputError

IDENTITY = {"job": "raw", "batch": 1, "files": 3}


def open_and_close(folder: OutputFolder, identity: Any = IDENTITY) -> None:
    with folder.opened(identity):
        pass


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    write_whole(tmp_path / "x", b"old")

    def fail() -> None:
        with whole(tmp_path / "x") as partial:
            partial.write_bytes(b"half")
            assert (tmp_path / "x").read_bytes() == b"old"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [file.name for file in tmp_path.iterdir()] == ["x"]
    write_whole(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"


def test_the_same_job_goes_on(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "deep" / "out")
    open_and_close(folder)
    (folder.path / "results" / ".part-00001.parquet.77-abc.partial").write_bytes(b"left by somebody who was killed")
    (folder.path / "results" / "part-00002.parquet").write_bytes(b"12345")
    done = Finished(2, 8, ({"row": 17, "source": "é.png", "source_row": 0, "error": "no"},), 5)
    folder.finish(done)
    open_and_close(folder)
    assert folder.finished(2) == done
    assert folder.finished(1) is None
    assert [file.name for file in (folder.path / "results").iterdir()] == ["part-00002.parquet"]


@pytest.mark.parametrize("damage", ["truncate", "remove", "garbage", "no keys"])
def test_parts_that_are_not_as_they_were_left_are_done_again(tmp_path: Path, damage: str) -> None:
    folder = OutputFolder(tmp_path)
    open_and_close(folder)
    folder.results_file(0).write_bytes(b"12345")
    folder.finish(Finished(0, 8, (), 5))
    assert folder.finished(0) is not None
    if damage == "truncate":
        folder.results_file(0).write_bytes(b"1")
    elif damage == "remove":
        folder.results_file(0).unlink()
    else:
        (tmp_path / "finished" / "00000.json").write_text("{" if damage == "garbage" else "{}")
    assert folder.finished(0) is None


def test_another_jobs_folder_is_refused(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "out")
    open_and_close(folder)
    with pytest.raises(InputError) as caught:
        open_and_close(folder, {"job": "raw", "batch": 8, "labels": "x" * 64})
    message = str(caught.value)
    assert message.startswith(f"{folder.path}: this folder belongs to another job: batch was 1, is 8; ")
    assert "files was 3, is not given" in message
    assert "labels was not given, is xxxxxxxxxxxx…" in message
    assert "give another --output, or delete the folder" in message


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("manifest.json", "[]", "not the manifest of a job"),
        ("manifest.json", "{", "not the manifest of a job"),
        ("manifest.json", json.dumps({"identity": IDENTITY, "digest": "?"}), "its digest is another"),
        ("thesis.txt", "", "there is 'thesis.txt' in it, and no manifest.json"),
    ],
)
def test_folders_that_are_no_jobs(tmp_path: Path, name: str, content: str, complaint: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=complaint):
        open_and_close(OutputFolder(tmp_path))
    assert [file.name for file in tmp_path.iterdir() if file.name != ".lock"] == [name]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/out: cannot be written \(Not a directory\)"):
        open_and_close(OutputFolder(tmp_path / "file" / "out"))


def test_two_jobs_at_once_are_refused(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    with folder.opened(IDENTITY), pytest.raises(InputError, match="another kuiper batch is writing to this folder"):
        open_and_close(folder)
    open_and_close(folder)


def test_errors_are_listed_in_the_end(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    errors = [{"row": n, "source": "ü", "source_row": n, "error": "broken"} for n in range(3)]
    parts = [Finished(0, 4, (errors[0],), 9), Finished(1, 4, (), 9), Finished(2, 2, (errors[1], errors[2]), None)]
    assert folder.write_errors(iter(parts)) == 3
    lines = folder.errors_file.read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == errors
    assert folder.write_errors(iter(parts[1:2])) == 0
    assert not folder.errors_file.exists()


def test_attempts_are_counted_until_the_part_is_finished(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    open_and_close(folder)
    assert [folder.count_attempt(4) for _ in range(3)] == [1, 2, 3]
    folder.finish(Finished(4, 1, (), None))
    assert folder.count_attempt(4) == 1
    open_and_close(folder)  # the next run of the job begins with none
    assert folder.count_attempt(4) == 1
