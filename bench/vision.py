"""How much of the engine's own speed a folder of pictures gets: reading, preparing and the reading of outputs run beside it.

    python bench/vision.py [--model MODEL --job detect] [--pictures 200 --broken 3 --size 640x480] [--batch 1] [--threads 1]

A folder of JPEGs is made from the bundled photographs, some of them cut short. Two things take turns, so that what happens to
the machine meanwhile happens to both: the engine alone on inputs that are ready in memory, and `vision.stream` over the folder.
The figure is the median of the turns' ratios, in pictures a second. Reading needs processors too: where the engine has them
all, what reading costs is lost, however it is arranged; `cpu ms` is what one picture's reading and preparing takes of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import kuiperinfer
from kuiperinfer.vision import Job, bundled, load_job, read_picture, stream


def make_pictures(folder: Path, count: int, broken: int, size: tuple[int, int]) -> list[Path]:
    """JPEGs of `size` (width, height), no two the same; the last `broken` of them are cut short."""
    photographs = [
        Image.open(path).convert("RGB") for path in (bundled.PICTURES["classify"], bundled.PICTURES["detect"])
    ]
    paths = []
    for number in range(count):
        photograph = photographs[number % 2]
        turned = photograph.rotate(number * 7 % 30, resample=Image.Resampling.BILINEAR)
        path = folder / f"{number:04}.jpg"
        turned.resize(size).save(path, quality=90)
        if number >= count - broken:
            path.write_bytes(path.read_bytes()[:300])
        paths.append(path)
    return paths


def engine_alone(job: Any, inputs: Any, seconds: float) -> float:
    """Pictures a second of the model alone."""
    runs, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        job.model(inputs)
        runs += 1
    return runs * len(inputs) / (time.perf_counter() - start)


def whole_way(job: Job[Any], paths: list[Path], batch: int, readers: int | None) -> tuple[float, int, int]:
    """Pictures a second from files to results; how many results, how many errors."""
    start = time.perf_counter()
    outcomes = [outcome.error is None for outcome in stream(job, paths, batch=batch, readers=readers)]
    return sum(outcomes) / (time.perf_counter() - start), sum(outcomes), outcomes.count(False)


def reading_costs(job: Job[Any], paths: list[Path]) -> float:
    """Processor seconds to read and prepare a picture."""
    start = time.process_time()
    for path in paths:
        job.prepare(read_picture(path))
    return (time.process_time() - start) / len(paths)


def rows(arguments: argparse.Namespace, paths: list[Path]) -> Iterator[str]:
    """A row of the table for each number of threads and pictures in a batch."""
    model = arguments.model or bundled.MODEL_FILES[arguments.job]
    for threads in arguments.threads:
        for batch in arguments.batch:
            with kuiperinfer.settings(threads=threads):
                job: Any = load_job(model, arguments.job)
                possible = job.possible_batch(batch)
                inputs = np.concatenate([job.prepare(read_picture(paths[0]))] * possible)
                engine_alone(job, inputs, 0.5)
                whole_way(job, paths[:20], batch, arguments.readers)
                alone, way, ratios = [], [], []
                for _ in range(arguments.turns):
                    before = engine_alone(job, inputs, arguments.seconds)
                    speed, results, errors = whole_way(job, paths, batch, arguments.readers)
                    after = engine_alone(job, inputs, arguments.seconds)
                    alone.append((before + after) / 2)
                    way.append(speed)
                    ratios.append(speed / alone[-1])
                cost = reading_costs(job, paths[: min(arguments.fine, 20)])
            yield (
                f"{threads:>7} {possible:>5} {statistics.median(alone):>12.1f} {statistics.median(way):>12.1f} "
                f"{statistics.median(ratios):>7.2f} {cost * 1e3:>7.1f} {results:>8} {errors:>7}"
            )


def numbers(text: str) -> list[int]:
    """``1,8`` as a list."""
    return [int(part) for part in text.split(",")]


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--job", default="detect", choices=["classify", "detect", "segment"])
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--broken", type=int, default=3)
    parser.add_argument("--size", default="640x480")
    parser.add_argument("--batch", type=numbers, default=[1])
    parser.add_argument("--threads", type=numbers, default=[1])
    parser.add_argument("--readers", type=int, help="threads that read; as `stream` chooses unless given")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    width, height = map(int, arguments.size.split("x"))
    arguments.fine = arguments.pictures - arguments.broken
    with tempfile.TemporaryDirectory() as folder:
        paths = make_pictures(Path(folder), arguments.pictures, arguments.broken, (width, height))
        print("threads batch engine img/s stream img/s  ratio  cpu ms  results  errors", flush=True)
        for row in rows(arguments, paths):
            print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
