"""`kuiper batch` against the plain loop: rows a second and core, in this process's threads and on Ray.

    pip install '.[cli,image,ray]'
    python bench/batch.py [--pictures 2000] [--actors 1,2] [--rounds 3] [--json FILE]

The plain loop reads a picture, prepares it, runs the bundled classifier with one thread, and looks for the best classes; with
N actors it is held against N such loops in N processes at the same time, which share the machine as the actors do. All take
turns. Starting (processes, Ray, reading the model) is not counted: rates are those from when an eighth of the rows is done.
They are given by the clock, and by the time that the CPUs spent on it (of all processes, Ray's own included), which other
work on the machine does not change. Exit code 1 where results differ from the plain loop's.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

SIZE = (500, 375)  # of the pictures: what is usual in ImageNet
_UNCOUNTED = 8  # of the rows, the first eighth


class Rate(NamedTuple):
    """Rows a second and core by the clock, and rows a second of the CPUs' time."""

    clock: float
    cpu: float


class Moment(NamedTuple):
    """What the clock says, and the seconds of CPU of this process and of each that it started."""

    clock: float
    cpu: dict[int, float]

    @classmethod
    def now(cls) -> Moment:
        return cls(time.perf_counter(), _cpu_seconds())

    def rate(self, rows: int, cores: int) -> Rate:
        """The rates of what was done since."""
        now = Moment.now()
        cpu = sum(seconds - self.cpu.get(process, 0.0) for process, seconds in now.cpu.items())
        return Rate(rows / (now.clock - self.clock) / cores, rows / cpu)


def _cpu_seconds() -> dict[int, float]:
    ticks: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        ticks[int(stat.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    family = {os.getpid()}
    while more := {process for process, (parent, _) in ticks.items() if parent in family} - family:
        family |= more
    return {process: ticks[process][1] / os.sysconf("SC_CLK_TCK") for process in family}


Rates = dict[str, dict[int, list[Rate]]]  # way -> actors -> one a round


def write_pictures(folder: Path, count: int) -> list[Path]:
    """Parts of the bundled photograph, as JPEG files."""
    from kuiperinfer.vision.bundled import PHOTOGRAPH

    photograph = Image.open(PHOTOGRAPH).convert("RGB")
    generator = np.random.default_rng(0)
    paths = []
    for number in range(count):
        left, top = int(generator.integers(0, 150)), int(generator.integers(0, 75))
        part = photograph.crop((left, top, left + 300, top + 225)).resize(SIZE)
        paths.append(folder / f"{number:06}.jpg")
        part.save(paths[-1], quality=90)
    return paths


# ------------------------------------------------------------------------------------------- three ways


def plain_loop(paths: Sequence[Path], ready: Any = None) -> tuple[Rate, list[Any]]:
    """The rates, and the classes of each picture. `ready` is met after the first eighth."""
    import kuiperinfer
    from kuiperinfer.vision import bundled_classifier, read_picture, top_classes

    classifier = bundled_classifier()
    answers: list[Any] = []
    with kuiperinfer.settings(threads=1):
        start, uncounted = Moment.now(), len(paths) // _UNCOUNTED
        for number, path in enumerate(paths):
            if number == uncounted:
                if ready is not None:
                    ready.wait()
                start = Moment.now()
            output = classifier.model(classifier.preprocess(read_picture(path)))
            answers.append([found.to_dict() for found in top_classes(output, classifier.labels)])
        return start.rate(len(paths) - uncounted, 1), answers


def _loop_process(paths: Sequence[Path], ready: Any, results: Any) -> None:
    results.put(plain_loop(paths, ready)[0])


def plain_loops(paths: Sequence[Path], actors: int) -> Rate:
    """The rates of several loops at the same time, each over its share of the pictures."""
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(actors), context.SimpleQueue()
    processes = [context.Process(target=_loop_process, args=(paths[n::actors], ready, results)) for n in range(actors)]
    for process in processes:
        process.start()
    rates = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return Rate(*map(statistics.mean, zip(*rates, strict=True)))


def batch_job(folder: Path, output: Path, ray: str | None, actors: int) -> Rate:
    """The rates of `kuiper batch`."""
    from kuiperinfer.batch.job import Listener
    from kuiperinfer.batch.local import local_runner
    from kuiperinfer.batch.ray_cluster import ray_runner
    from kuiperinfer.cli.batch_jobs import make_job

    class Clock(Listener):
        done, start = 0, None
        rate = Rate(0.0, 0.0)

        def begin(self, rows: int, done: int, errors: int) -> None:
            self.rows = rows

        def advance(self, rows: int, errors: int) -> None:
            self.done += rows
            if self.start is None and self.done >= self.rows // _UNCOUNTED:
                self.start, self.first = Moment.now(), self.done
            elif self.done == self.rows:
                self.rate = self.start.rate(self.rows - self.first, actors)

    options: dict[str, Any] = dict.fromkeys(("model_path", "recipe_path", "labels_path", "batch", "part_rows"))
    job = make_job([str(folder)], output, "classify", 1, annotate=False, column="image", **options)
    clock = Clock()
    job.run(local_runner(actors) if ray is None else ray_runner(ray, actors, 1), clock)
    return clock.rate


def answers_of(output: Path) -> list[Any]:
    """The classes of each picture, as a job wrote them."""
    import pyarrow.parquet as pq

    answers: list[Any] = pq.read_table(output / "results")["classes"].to_pylist()
    return answers


# ------------------------------------------------------------------------------------------- taking turns


def measure(
    folder: Path, count: int, actor_counts: Sequence[int], rounds: int, ways: Sequence[str]
) -> tuple[Rates, bool]:
    """The rates, and whether all ways gave the plain loop's answers."""
    (folder / "pictures").mkdir()
    paths = write_pictures(folder / "pictures", count)
    _, expected = plain_loop(paths)
    rates: Rates = {way: {actors: [] for actors in actor_counts} for way in ways}
    same = True
    for turn in range(rounds):
        for actors in actor_counts:
            for way in ways:
                output = folder / f"{way}-{actors}-{turn}"
                run: dict[str, Callable[[], Rate]] = {
                    "loop": lambda actors=actors: plain_loops(paths, actors),
                    "local": lambda actors=actors, output=output: batch_job(folder / "pictures", output, None, actors),
                    "ray": lambda actors=actors, output=output: batch_job(folder / "pictures", output, "local", actors),
                }
                rates[way][actors].append(run[way]())
                same = same and (way == "loop" or answers_of(output) == expected)
                rate, load = rates[way][actors][-1], os.getloadavg()[0]
                shown = f"{rate.clock:.1f} rows/s and core, {rate.cpu:.1f} rows/s of CPU, load {load:.1f}"
                print(f"round {turn + 1}, {actors} actors, {way}: {shown}", file=sys.stderr)
    return rates, same


def table(rates: Rates) -> str:
    """Medians, and how they compare with the plain loop in the same round, as Markdown."""
    lines = [
        "| actors | way | rows/s and core | of the loop's | rows/s of CPU | of the loop's |",
        "|--:|---|--:|--:|--:|--:|",
    ]
    for actors in next(iter(rates.values())):
        for way, of_way in rates.items():
            cells = [str(actors), way]
            for kind in range(2):
                of_kind = [rate[kind] for rate in of_way[actors]]
                shares = [rate / loop[kind] for rate, loop in zip(of_kind, rates["loop"][actors], strict=True)]
                cells += [f"{statistics.median(of_kind):.1f}", f"{statistics.median(shares):.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--actors", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=["loop", "local", "ray"])
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    given = parser.parse_args(arguments)
    if given.ways[0] != "loop" or not set(given.ways) <= {"loop", "local", "ray"}:
        parser.error(f"--ways: expected loop first, then local or ray, found {','.join(given.ways)}")
    with tempfile.TemporaryDirectory(prefix="kuiper-batch-") as folder:
        rates, same = measure(Path(folder), given.pictures, given.actors, given.rounds, given.ways)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, "
          f"{given.pictures} pictures of {SIZE[0]}×{SIZE[1]}, {given.rounds} rounds")  # fmt: skip
    print(table(rates))
    print("the answers are the plain loop's" if same else "the answers DIFFER from the plain loop's")
    if given.json:
        given.json.write_text(json.dumps({"rates": rates, "same": same}, indent=2), "utf-8")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
