"""Batch jobs on Ray: the same files as without it, byte for byte, whoever is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import kuiperinfer
from kuiperinfer.cli import main
from kuiperinfer.runtime.team import allowed_cpus
from kuiperinfer.vision import preprocess_for, read_picture
from tests.batch.test_job import files
from tests.small_models import CONVOLUTION, LINEAR, write_model

pytest.importorskip("ray", reason="ray is not installed: pip install 'kuiperinfer[ray]'")
pytestmark = pytest.mark.ray

COUNT = 2000
SOURCE = str(Path(kuiperinfer.__path__[0]).parent)
ENVIRONMENT = os.environ | {"PYTHONPATH": SOURCE, "RAY_USAGE_STATS_ENABLED": "0"}


def kuiper(*arguments: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kuiperinfer", *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(process: subprocess.Popen[bytes], found: Callable[[], Any]) -> Any:
    """What `found` returns as soon as that is something, while the process runs."""
    while process.poll() is None:
        if value := found():
            return value
        time.sleep(0.002)
    raise AssertionError(f"it ended before: {process.communicate()}")


def worker_in_a_part(output: Path) -> int | None:
    """The process that is writing a part: its number stands in the temporary name."""
    for file in (output / "results").glob(".*.partial"):
        return int(file.name.split(".")[-2].split("-")[0])
    return None


def test_whoever_is_killed_the_results_are_those_of_the_plain_loop(tmp_path: Path) -> None:
    model = write_model(tmp_path, CONVOLUTION)
    (tmp_path / "model.recipe.json").write_text('{"size": [16, 16]}')
    generator = np.random.default_rng(0)
    (tmp_path / "in").mkdir()
    for number, picture in enumerate(generator.integers(0, 256, (COUNT, 20, 18, 3), np.uint8)):
        Image.fromarray(picture).save(tmp_path / "in" / f"{number:04}.png")
    (tmp_path / "in" / "0700.png").write_bytes(b"broken")
    job = ("batch", tmp_path / "in", "--job", "raw", "--model", model, "--part", 50, "-o")
    on_ray = (tmp_path / "ray", "--ray", "local", "--actors", min(2, allowed_cpus()), "--json")

    first = kuiper(*job, *on_ray)
    finished = tmp_path / "ray" / "finished"
    wait_for(first, lambda: len(list(finished.glob("0*.json"))) >= 3)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    before = len(list(finished.glob("0*.json")))
    assert before < COUNT // 50

    second = kuiper(*job, *on_ray)
    wait_for(second, lambda: len(list(finished.glob("0*.json"))) > before)
    worker = wait_for(second, lambda: worker_in_a_part(tmp_path / "ray"))
    os.kill(worker, signal.SIGKILL)
    out, err = second.communicate()
    assert second.returncode == 0, err
    summary = json.loads(out)
    assert (summary["rows"], summary["errors"]) == (COUNT, 1)
    assert 0 < summary["rows_done_now"] < COUNT
    assert b"Token authentication" not in err

    assert main([str(argument) for argument in (*job, tmp_path / "local", "--actors", 1, "--json")]) == 0
    assert files(tmp_path / "ray") == files(tmp_path / "local")

    table = pq.read_table(tmp_path / "ray" / "results")
    network = kuiperinfer.load(model)
    preprocess = preprocess_for(network.inputs[0].shape, size=(16, 16))
    numbers = [number for number in range(COUNT) if number != 700]
    assert table["row"].to_pylist() == numbers
    rows = table["pnnx_output_0"].combine_chunks().to_numpy_ndarray()
    with kuiperinfer.settings(threads=1):
        for number, row in zip(numbers, rows, strict=True):
            plain = network(preprocess(read_picture(tmp_path / "in" / f"{number:04}.png")))
            assert np.array_equal(row, plain[0])


PIPELINE = """
import sys
import numpy as np
import ray
import ray.data
from kuiperinfer.batch import Predictor

model, rows, result = sys.argv[1:]
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
x = np.load(rows)
table = ray.data.from_items([{"id": n, "x": row} for n, row in enumerate(x)], override_num_blocks=6)
answers = table.map_batches(
    Predictor,
    fn_constructor_args=(model,),
    fn_constructor_kwargs={"keep": ["id"]},
    batch_size=16,
    compute=ray.data.ActorPoolStrategy(size=2),
    num_cpus=1,
).take_all()
answers.sort(key=lambda row: row["id"])
np.save(result, np.stack([row["pnnx_output_0"] for row in answers]))
"""


def test_a_predictor_in_a_pipeline_of_ray_data(tmp_path: Path) -> None:
    model = write_model(tmp_path, LINEAR)
    x = np.random.default_rng(1).standard_normal((100, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    arguments = [sys.executable, "-c", PIPELINE, model, tmp_path / "x.npy", tmp_path / "y.npy"]
    subprocess.run(arguments, env=ENVIRONMENT, check=True, capture_output=True)
    expected = np.concatenate([kuiperinfer.load(model)(x[first : first + 2]) for first in range(0, 100, 2)])
    assert np.array_equal(np.load(tmp_path / "y.npy"), expected)


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 4), np.float32))
    model = write_model(tmp_path, LINEAR)
    process = kuiper(
        "batch", tmp_path / "x.npy", "--job", "raw", "--model", model, "-o", tmp_path / "out", "--ray", "x y"
    )
    _, err = process.communicate()
    assert process.returncode == 1
    assert b"error: --ray x y: there is no Ray cluster to be reached" in err
    assert b"Traceback" not in err
