"""A predictor in Spark's own Python workers, as `predict_batch_udf` calls it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kuiperinfer
from tests.batch.test_predictor import PAIR
from tests.small_models import CONVOLUTION, LINEAR, write_model

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pandas", reason="pandas is not installed, which predict_batch_udf needs")
pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")

PIPELINE = """
import sys
import numpy as np
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, FloatType, StructField, StructType
from kuiperinfer.batch import Predictor

linear, pair, convolution, folder = sys.argv[1:]
numbers = ArrayType(FloatType())
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = np.load(folder + "/rows.npy")
pictures = np.load(folder + "/pictures.npy")
table = spark.createDataFrame(
    [
        (n, row.tolist(), row[:3].tolist(), row[1:].tolist(), picture.ravel().tolist())
        for n, (row, picture) in enumerate(zip(rows, pictures))
    ],
    "id int, x array<float>, left array<float>, right array<float>, picture array<float>",
)


def predict(predictor, shapes, kind=numbers, *columns):
    return predict_batch_udf(predictor.for_spark(*columns), return_type=kind, batch_size=8, input_tensor_shapes=shapes)


def swapped(columns):
    return {"left": columns["b"], "right": columns["a"]}


both = StructType([StructField("pnnx_output_0.0", numbers), StructField("pnnx_output_0.1", numbers)])
found = table.select(
    "id",
    predict(Predictor(linear), [[4]])("x").alias("linear"),
    predict(Predictor(pair), [[3], [3]], both)("left", "right").alias("pair"),
    predict(Predictor(pair, swapped), [[3], [3]], both, "a", "b")("left", "right").alias("swapped"),
    predict(Predictor(convolution), [[3, 4, 4]])("picture").alias("convolution"),
).collect()
found.sort(key=lambda row: row.id)
np.savez(
    folder + "/found.npz",
    linear=[row.linear for row in found],
    sum=[row.pair["pnnx_output_0.0"] for row in found],
    left=[row.pair["pnnx_output_0.1"] for row in found],
    swapped=[row.swapped["pnnx_output_0.1"] for row in found],
    convolution=[row.convolution for row in found],
)
spark.stop()
"""


def test_predict_batch_udf(tmp_path: Path) -> None:
    files = [write_model(tmp_path / str(number), text) for number, text in enumerate((LINEAR, PAIR, CONVOLUTION))]
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((50, 4)).astype(np.float32)
    pictures = generator.standard_normal((50, 3, 4, 4)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "pictures.npy", pictures)
    source = str(Path(kuiperinfer.__path__[0]).parent)
    spark = {"PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", PIPELINE, *map(str, files), str(tmp_path)]
    run = subprocess.run(command, env=os.environ | spark, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = np.load(tmp_path / "found.npz")
    for name, expected in (("sum", rows[:, :3] + rows[:, 1:]), ("left", rows[:, :3]), ("swapped", rows[:, 1:])):
        assert np.array_equal(found[name], expected)
    linear, _, convolution = map(kuiperinfer.load, files)
    whole = np.concatenate([linear(rows[first : first + 2]) for first in range(0, 50, 2)])
    assert np.array_equal(found["linear"], whole)
    maps = np.concatenate([convolution(picture[None]) for picture in pictures])
    assert np.array_equal(found["convolution"], maps.reshape(50, -1))  # Spark has arrays of one dimension
