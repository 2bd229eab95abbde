"""Jobs from end to end, with the outputs of a small network: every row is answered, or listed with the reason."""

from __future__ import annotations

import json
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import kuiperinfer
from kuiperinfer.batch import Predictor
from kuiperinfer.batch.job import BatchJob, Listener, Progress, default_part_rows
from kuiperinfer.batch.local import local_runner, worker_count
from kuiperinfer.batch.output import OutputFolder
from kuiperinfer.batch.part import run_part
from kuiperinfer.batch.ray_cluster import PartActor, ray_runner
from kuiperinfer.batch.sources import Slice, find_sources
from kuiperinfer.batch.tasks import RawTask
from kuiperinfer.errors import InputError, ShapeError
from kuiperinfer.vision import Preprocess
from tests.batch.test_predictor import PAIR, SUM
from tests.small_models import CONVOLUTION, LINEAR, write_model

ROWS = np.random.default_rng(5).standard_normal((50, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("linear"), LINEAR)


def raw_job(model: Path, inputs: Sequence[Path], output: Path, **changes: Any) -> BatchJob:
    predictor = Predictor(model)
    sources = find_sources(inputs, output)
    return BatchJob(RawTask(predictor), sources, OutputFolder(output), predictor.batch, **{"part_rows": 8} | changes)


def results(output: Path) -> Any:
    return pq.read_table(output / "results")


def errors(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "errors.jsonl").read_text("utf-8").splitlines()]


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("workers", [1, 3])
def test_arrays_and_tables(linear: Path, tmp_path: Path, workers: int) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    lists = [None if n == 3 else [1.0, 2.0] if n == 4 else row.tolist() for n, row in enumerate(ROWS)]
    pq.write_table(pa.table({"pnnx_input_0": lists, "id": range(50)}), tmp_path / "b.parquet", row_group_size=7)
    (tmp_path / "c.npy").write_bytes(b"\x93NUMPY")
    heard: list[Any] = []

    class Hears(Listener):
        def begin(self, rows: int, done: int, errors: int) -> None:
            heard.append((rows, done, errors))

        def advance(self, rows: int, errors: int) -> None:
            heard.append((rows, errors))

    job = raw_job(linear, [tmp_path], tmp_path / "out")
    summary = job.run(local_runner(workers), Hears())
    assert (summary.rows, summary.errors, summary.parts, summary.rows_done_now) == (101, 3, 13, 101)
    assert heard[0] == (101, 0, 0)
    assert np.sum(heard[1:], axis=0).tolist() == [101, 3]
    table = results(tmp_path / "out")
    answered = table["row"].to_pylist()
    assert answered == [row for row in range(101) if row not in (53, 54, 100)]
    y = Predictor(linear)({"x": ROWS})["pnnx_output_0"]
    found = table["pnnx_output_0"].combine_chunks().to_numpy_ndarray()
    assert np.array_equal(found, y[[row % 50 for row in answered]])
    assert table["source"][60].as_py() == str(tmp_path / "b.parquet")
    assert table["source_row"].to_pylist() == [row % 50 for row in answered]
    listed = errors(tmp_path / "out")
    assert [(error["row"], Path(error["source"]).name, error["source_row"]) for error in listed] == [
        (53, "b.parquet", 3),
        (54, "b.parquet", 4),
        (100, "c.npy", 0),
    ]
    assert listed[0]["error"] == "column 'pnnx_input_0': the cell is empty"
    assert listed[1]["error"] == "column 'pnnx_input_0': expected a row of shape (4), found (2,)"


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", PAIR)
    left, right = ROWS[:, :3], ROWS[:, 1:]
    table = pa.table({"right": right.tolist(), "left": left.astype(np.float64).tolist()})
    pq.write_table(table, tmp_path / "x.parquet")
    raw_job(model, [tmp_path / "x.parquet"], tmp_path / "out").run(local_runner(1))
    found = results(tmp_path / "out")
    assert np.array_equal(found["pnnx_output_0.0"].combine_chunks().to_numpy_ndarray(), left + right)
    assert np.array_equal(found["pnnx_output_0.1"].combine_chunks().to_numpy_ndarray(), left)
    np.save(tmp_path / "x.npy", left)
    summary = raw_job(model, [tmp_path / "x.npy"], tmp_path / "other").run(local_runner(1))
    assert summary.errors == 50
    assert "the model has 2 inputs, and an array is one" in errors(tmp_path / "other")[0]["error"]
    assert list((tmp_path / "other" / "results").iterdir()) == []


def test_pictures_and_their_free_sizes(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", CONVOLUTION)
    generator = np.random.default_rng(0)
    (tmp_path / "in").mkdir()
    pictures = [generator.integers(0, 256, (12, 9 + n, 3), np.uint8) for n in range(3)]
    for number, picture in enumerate(pictures):
        Image.fromarray(picture).save(tmp_path / "in" / f"{number}.png")
    (tmp_path / "in" / "1b.jpg").write_bytes(b"this is no picture")
    predictor, preprocess = Predictor(model), Preprocess(8, 6, 8)
    task = RawTask(predictor, preprocess)
    sources = find_sources([tmp_path / "in"], tmp_path)
    summary = BatchJob(task, sources, OutputFolder(tmp_path / "out"), 1).run(local_runner(2))
    assert (summary.rows, summary.errors) == (4, 1)
    found = results(tmp_path / "out")["pnnx_output_0"].combine_chunks().to_numpy_ndarray()
    for picture, row in zip(pictures, found, strict=True):
        assert np.array_equal(kuiperinfer.load(model)(preprocess(picture))[0], row)
    assert "no picture of a known format" in errors(tmp_path / "out")[0]["error"]
    # without preprocessing the rows are arrays of any size, and so are the outputs
    free = [generator.standard_normal((3, 4 + 2 * n, 5)).astype(np.float32) for n in range(4)]
    pq.write_table(pa.table({"pnnx_input_0": [array.tolist() for array in free]}), tmp_path / "free.parquet")
    sources = find_sources([tmp_path / "free.parquet"], tmp_path)
    BatchJob(RawTask(predictor), sources, OutputFolder(tmp_path / "free"), 4).run(local_runner(1))
    for array, row in zip(free, results(tmp_path / "free")["pnnx_output_0"].to_pylist(), strict=True):
        assert np.array_equal(np.float32(row["values"]).reshape(row["shape"]), kuiperinfer.load(model)(array[None])[0])


def test_models_that_have_no_rows_are_refused_at_once(tmp_path: Path) -> None:
    model = write_model(tmp_path, SUM)
    with pytest.raises(ShapeError, match="output 'pnnx_output_0': expected 32 rows for 32 rows"):
        RawTask(Predictor(model))
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    sources = find_sources([tmp_path / "none.npy"], tmp_path)
    job = BatchJob(RawTask(Predictor(model, batch=3)), sources, OutputFolder(tmp_path / "out"))
    with pytest.raises(InputError, match="there are no rows in the inputs"):
        job.run(local_runner(1))


def test_a_row_that_the_network_refuses_does_not_spoil_its_neighbours(tmp_path: Path) -> None:
    model = write_model(tmp_path, LINEAR.replace("(2,4)", "(?,?)").replace("(2,3)", "(?,3)"))
    rows: list[Any] = [row.tolist() for row in ROWS[:6]]
    rows[2] = [1.0, 2.0]
    rows.insert(3, None)
    pq.write_table(pa.table({"pnnx_input_0": rows}), tmp_path / "x.parquet")
    job = raw_job(model, [tmp_path / "x.parquet"], tmp_path / "out")
    assert job.run(local_runner(1)).errors == 2
    error, other = errors(tmp_path / "out")
    assert (error["row"], other["row"]) == (2, 3)
    assert "operator 'fc' (nn.Linear)" in error["error"]
    y = Predictor(model)({"x": ROWS[[0, 1, 3, 4, 5]]})["pnnx_output_0"]
    assert np.array_equal(results(tmp_path / "out")["pnnx_output_0"].combine_chunks().to_numpy_ndarray(), y)


def test_a_table_without_the_columns_does_not_spoil_the_others(tmp_path: Path) -> None:
    model = write_model(tmp_path, PAIR)
    pair = {"left": ROWS[:3, :3].tolist(), "right": ROWS[:3, :3].tolist()}
    pq.write_table(pa.table(pair), tmp_path / "a.parquet")
    pq.write_table(pa.table({"left": pair["left"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"id": range(4)}), tmp_path / "c.parquet")
    raw_job(model, [tmp_path / f"{name}.parquet" for name in "abc"], tmp_path / "out").run(local_runner(1))
    assert len(results(tmp_path / "out")) == 3
    found = [error["error"] for error in errors(tmp_path / "out")]
    assert found == ["there is no column 'right', only left"] * 3 + ["there is no column 'left', only id"] * 4


def test_parts_have_a_size_that_hangs_on_the_rows_alone() -> None:
    assert default_part_rows(10, 1) == 2
    assert default_part_rows(10, 30) == 30
    assert default_part_rows(2000, 12) == 72
    assert default_part_rows(100_000, 1) == 500
    assert default_part_rows(10_000_000, 32) == 4096


# ------------------------------------------------------------------------------------------- stopped and started again


def test_what_is_finished_is_not_done_again(linear: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    job = raw_job(linear, [tmp_path / "x.npy"], tmp_path / "whole")
    job.run(local_runner(1))
    stopped = raw_job(linear, [tmp_path / "x.npy"], tmp_path / "stopped")

    def stops(job: BatchJob, parts: Mapping[int, Sequence[Slice]], progress: Progress) -> None:
        for number in (5, 0, 2):
            run_part(job, number, parts[number], progress)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped.run(stops)
    done: list[int] = []

    def goes_on(job: BatchJob, parts: Mapping[int, Sequence[Slice]], progress: Progress) -> None:
        done.extend(parts)
        local_runner(2)(job, parts, progress)

    begun: list[Any] = []

    class Hears(Listener):
        def begin(self, rows: int, done: int, errors: int) -> None:
            begun.append((rows, done, errors))

    summary = raw_job(linear, [tmp_path / "x.npy"], tmp_path / "stopped").run(goes_on, Hears())
    assert done == [1, 3, 4, 6]
    assert begun == [(50, 24, 0)]
    assert summary.rows_done_now == 26
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


def test_another_job_is_refused(linear: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    raw_job(linear, [tmp_path / "x.npy"], tmp_path / "out").run(local_runner(1))
    for changes, complaint in (
        ({"part_rows": 10}, "rows a part was 8, is 10"),
        ({"settings": {"job": "classify"}}, "job was not given, is classify"),
        ({"annotate": True}, "annotated pictures was False, is True"),
    ):
        with pytest.raises(InputError, match=complaint):
            raw_job(linear, [tmp_path / "x.npy"], tmp_path / "out", **changes).run(local_runner(1))
    with (
        kuiperinfer.settings(precision="exact"),
        pytest.raises(InputError, match=r"settings\.precision was fast, is exact"),
    ):
        raw_job(linear, [tmp_path / "x.npy"], tmp_path / "out").run(local_runner(1))
    np.save(tmp_path / "x.npy", ROWS[:49])
    with pytest.raises(InputError, match="rows was 50, is 49; names, sizes and times of the files was"):
        raw_job(linear, [tmp_path / "x.npy"], tmp_path / "out").run(local_runner(1))


def test_a_failing_worker_ends_the_job_and_leaves_no_pieces(linear: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    job = raw_job(linear, [tmp_path / "x.npy"], tmp_path / "out")

    class Fails(RawTask):
        def finish(self, prepared: Any, output: Any) -> dict[str, Any]:
            raise ZeroDivisionError("a mistake of ours")

    object.__setattr__(job, "task", Fails(Predictor(linear)))
    with pytest.raises(ZeroDivisionError):
        job.run(local_runner(2))
    assert not any(name.endswith(".partial") or "part-" in name for name in files(tmp_path / "out"))


SLOW = """
import sys, time
from pathlib import Path
from kuiperinfer.batch import Predictor
from kuiperinfer.batch.job import BatchJob
from kuiperinfer.batch.local import local_runner, worker_count
from kuiperinfer.batch.output import OutputFolder
from kuiperinfer.batch.sources import find_sources
from kuiperinfer.batch.tasks import RawTask

class Slow(RawTask):
    def infer(self, prepared):
        time.sleep(0.01)
        return super().infer(prepared)

model, rows, output = map(Path, sys.argv[1:])
predictor = Predictor(model)
BatchJob(Slow(predictor), find_sources([rows], output), OutputFolder(output), predictor.batch, 8).run(local_runner(2))
"""


def test_killed_in_the_middle_and_started_again(linear: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.tile(ROWS, (10, 1)))
    raw_job(linear, [tmp_path / "x.npy"], tmp_path / "whole").run(local_runner(1))
    output = tmp_path / "killed"
    source = str(Path(kuiperinfer.__path__[0]).parent)
    kills = 0
    for pieces in (5, 20, 40):
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path.insert(0, {source!r})\n" + SLOW,
                linear,
                tmp_path / "x.npy",
                output,
            ]
        )
        while process.poll() is None and len(list((output / "finished").glob("0*.json"))) < pieces:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills == 3
    assert len(list((output / "finished").glob("0*.json"))) < 63
    summary = raw_job(linear, [tmp_path / "x.npy"], output).run(local_runner(2))
    assert 0 < summary.rows_done_now <= 500 - 40 * 8
    assert files(output) == files(tmp_path / "whole")


def test_a_part_at_which_workers_are_lost_again_and_again_ends_the_job(linear: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    job = raw_job(linear, [tmp_path / "x.npy"], tmp_path / "out")
    actor = object.__new__(PartActor)  # without a cluster
    actor._job = job
    with job.output.opened(job.identity()):
        message = {"part": np.array([2]), "slices": np.array([pickle.dumps(job.parts()[2])], object)}
        for _ in range(5):
            job.output.count_attempt(2)  # and the worker is killed
        (problem,) = actor(message)["problem"]
        assert (
            f"5 workers were lost at part 2, from {tmp_path / 'x.npy'} (row 16) to {tmp_path / 'x.npy'} (row 23)"
            in problem
        )
        assert job.output.finished(2) is None
    with job.output.opened(job.identity()):  # started again
        assert actor(message) == {"part": [2], "rows": [8], "errors": [0], "problem": [""]}
        assert job.output.finished(2) is not None


# ------------------------------------------------------------------------------------------- workers


def test_workers_and_their_threads_do_not_exceed_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("allowed_cpus", "default_threads"):
        monkeypatch.setattr(f"kuiperinfer.batch.local.{name}", lambda: 6)
    assert [worker_count(*given) for given in ((None, 1), (None, 4), (2, 3), (1, 6))] == [6, 1, 2, 1]
    with pytest.raises(InputError, match="threads: expected 1 to 6, the CPUs that this process may use, found 7"):
        worker_count(None, 7)
    with pytest.raises(InputError, match=r"4 workers of 2 threads exceed the 6 CPUs .* expected at most 3 workers"):
        worker_count(4, 2)
    with pytest.raises(InputError, match="7 workers of 1 threads exceed the 6 CPUs"):
        ray_runner("local", 7, 1)


def test_an_address_where_no_cluster_is(linear: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'kuiperinfer[ray]'")
    np.save(tmp_path / "x.npy", ROWS)
    job = raw_job(linear, [tmp_path / "x.npy"], tmp_path / "out")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]  # nobody listens there
        for address in (f"127.0.0.1:{port}", f"ray://localhost:{port}", "nowhere.invalid:6379", "127.0.0.1:99999"):
            with pytest.raises(InputError, match=f"--ray {address}: there is no Ray cluster to be reached.*6379"):
                job.run(ray_runner(address, 1, 1))


def test_a_cluster_that_wants_a_token(linear: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'kuiperinfer[ray]'")
    np.save(tmp_path / "x.npy", ROWS)
    told = b"ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken"

    def refuse(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 1, b"", told)

    monkeypatch.setattr("kuiperinfer.batch.ray_cluster.subprocess.run", refuse)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(InputError, match=f"--ray {address}: the cluster lets in .* expected RAY_AUTH_MODE=token"):
            raw_job(linear, [tmp_path / "x.npy"], tmp_path / "out").run(ray_runner(address, 1, 1))
