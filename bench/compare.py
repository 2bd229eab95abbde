"""KuiperInfer against other engines: the same models, inputs and threads; medians, ratios, time to the first answer, memory.

    pip install torch torchvision ultralytics onnx pnnx onnxruntime openvino ncnn '.[cli]'
    python bench/compare.py --folder MODELS [--models resnet18,unet32] [--threads 1,2] [--json FILE] [--markdown FILE]

Threads of an engine keep spinning after a run and slow down whatever runs next, in the same process or in another one. So each
engine lives in a process of its own, they take turns, and a pause stands between the turns. What happens to the machine
meanwhile happens to all of them alike. Outputs are compared with PyTorch's; an engine that calculates something else is no
rival. Exit code 1 where KuiperInfer fails, or calculates something else.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import multiprocessing
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from engines import ENGINES, OURS, REFERENCE, RIVALS, Array
from models import SIZES, folder_of, input_shape, is_made

TOLERANCE = 1e-3  # of the output's largest magnitude
PACKAGES = ("kuiperinfer", "llvmlite", "onnxruntime", "openvino", "ncnn", "torch", "torchvision", "ultralytics")
_LEAST_RUNS = 3  # of a turn, however long they take


@dataclass
class Result:
    """What one engine did with one model; times in seconds. `problem` says why it does not count."""

    start: float = 0.0  # from the start of the process to the first answer
    cold_start: float | None = None  # the same with an empty cache of machine code, for KuiperInfer
    error: float | None = None
    peak_bytes: int = 0
    problem: str | None = None
    times: list[float] = field(default_factory=list)
    outputs: list[Array] = field(default_factory=list)

    @property
    def median(self) -> float | None:
        """The median of the runs; None where the engine failed."""
        return float(np.median(self.times)) if self.times else None

    def as_data(self) -> dict[str, Any]:
        """Everything but the outputs."""
        data: dict[str, Any] = {"median": self.median, "min": min(self.times, default=None), "runs": len(self.times)}
        data |= {"start": self.start, "cold_start": self.cold_start, "peak_bytes": self.peak_bytes}
        return data | {"error": self.error, "problem": self.problem}


Row: TypeAlias = "tuple[dict[str, Any], dict[str, Result]]"  # model, batch and threads; the results of all engines


# ------------------------------------------------------------------------------------------- one engine, one process


def serve(pipe: Any, engine: str, folder: Path, name: str, threads: int, x: Array) -> None:
    """The engine's process: sends its first answer, then the times of as many runs as it is told, until told 0."""
    try:
        run = ENGINES[engine](folder, name, threads, x)
        pipe.send([np.asarray(y) for y in run()])
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}"[:500])
        return
    while order := pipe.recv():
        runs, seconds = order
        run()
        times: list[float] = []
        while len(times) < runs and (len(times) < _LEAST_RUNS or sum(times) < seconds):
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        pipe.send(times)
    pipe.send(peak_memory())


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    with contextlib.suppress(OSError, StopIteration):
        # unlike what getrusage says, this does not count the process that this one was forked from
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Process:
    """An engine's process, seen from here."""

    def __init__(self, engine: str, folder: Path, name: str, threads: int, x: Array) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, engine, folder, name, threads, x)
        begin = time.perf_counter()
        with environment(OMP_NUM_THREADS=str(threads)):
            self.process = context.Process(target=serve, args=arguments, daemon=True)
            self.process.start()
        theirs.close()
        self.answer = self._receive()
        self.seconds = time.perf_counter() - begin

    def _receive(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            return f"its process ended with code {self.process.exitcode}"

    def turn(self, runs: int, seconds: float) -> Any:
        """The times of a turn, or what went wrong."""
        with contextlib.suppress(OSError):  # it is gone: receiving tells how it ended
            self.pipe.send((runs, seconds))
        return self._receive()

    def end(self) -> int:
        """Ends the process; returns the most memory that it had, in bytes, 0 where it is not known."""
        peak: Any = 0
        if self.process.is_alive() and not isinstance(self.answer, str):
            self.pipe.send(0)
            peak = self._receive()
        self.process.join()
        return peak if isinstance(peak, int) else 0


@contextlib.contextmanager
def environment(**changes: str) -> Iterator[None]:
    """Environment variables that are set for a while."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# ------------------------------------------------------------------------------------------- one model


def make(root: Path, name: str, batch: int) -> Path:
    """The folder of a model, made by another process if need be: this one shall not have PyTorch's threads and memory."""
    folder = folder_of(root, name, batch)
    if not is_made(folder):
        script = Path(__file__).with_name("models.py")
        command = [sys.executable, str(script), str(root), name, "--batch", str(batch)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def run_model(folder: Path, name: str, arguments: argparse.Namespace, threads: int, batch: int) -> dict[str, Result]:
    """All engines on one model, in turns."""
    x = np.random.default_rng(0).random(input_shape(name, batch), dtype=np.float32)
    results: dict[str, Result] = {}
    processes: dict[str, Process] = {}
    for engine in arguments.engines:
        result = results[engine] = Result()
        if engine == OURS:
            with tempfile.TemporaryDirectory() as empty, environment(KUIPER_CACHE_DIR=empty):
                cold = Process(engine, folder, name, threads, x)
                cold.end()
                result.cold_start = cold.seconds
                process = Process(engine, folder, name, threads, x)
        else:
            process = Process(engine, folder, name, threads, x)
        result.start = process.seconds
        if isinstance(process.answer, str):
            result.problem = process.answer
            process.end()
        else:
            result.outputs = process.answer
            processes[engine] = process
    for _ in range(arguments.rounds):
        for engine, process in processes.items():
            if results[engine].problem is not None:
                continue
            time.sleep(arguments.pause)
            times = process.turn(arguments.runs, arguments.seconds)
            if isinstance(times, str):
                results[engine].problem = times
            else:
                results[engine].times += times
    for engine, process in processes.items():
        results[engine].peak_bytes = process.end()
    check(results)
    return results


def check(results: dict[str, Result]) -> None:
    """Marks the engines that calculate something else than PyTorch, or than the first one where PyTorch does not run."""
    running = {engine: result for engine, result in results.items() if result.outputs}
    if not running:
        return
    expected = running[REFERENCE if REFERENCE in running else next(iter(running))].outputs
    for result in running.values():
        result.error = difference(result.outputs, expected)
        if result.error > TOLERANCE and result.problem is None:
            result.problem = f"its output differs by {result.error:.1e}"


def difference(outputs: Sequence[Array], expected: Sequence[Array]) -> float:
    """The largest difference, relative to the output's largest magnitude; infinite where sizes differ."""
    if len(outputs) != len(expected) or any(a.size != b.size for a, b in zip(outputs, expected, strict=True)):
        return float("inf")
    errors = [
        float(np.abs(a.ravel().astype(np.float64) - b.ravel()).max() / max(1e-30, float(np.abs(b).max())))
        for a, b in zip(outputs, expected, strict=True)
    ]
    return max((error if error == error else float("inf") for error in errors), default=0.0)


def best_rival(results: dict[str, Result]) -> str | None:
    """The fastest of the rivals that calculate the right thing."""
    medians = {
        engine: result.median
        for engine, result in results.items()
        if engine in RIVALS and result.problem is None and result.median is not None
    }
    return min(medians, key=lambda engine: medians[engine] or 0.0) if medians else None


def ratio_of(results: dict[str, Result]) -> float | None:
    """The best rival's median divided by ours; above 1 we are faster."""
    rival, ours = best_rival(results), results.get(OURS)
    if rival is None or ours is None or ours.problem is not None or not ours.median:
        return None
    return (results[rival].median or 0.0) / ours.median


# ------------------------------------------------------------------------------------------- the report


def machine() -> dict[str, Any]:
    """What the figures hang on."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    if versions[OURS] == "not installed":  # run from a checkout
        from kuiperinfer.version import __version__

        versions[OURS] = __version__
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def as_data(facts: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Everything that was measured."""
    models = [
        case
        | {"ratio": ratio_of(results), "best_rival": best_rival(results)}
        | {"engines": {engine: result.as_data() for engine, result in results.items()}}
        for case, results in rows
    ]
    return facts | {"models": models}


def markdown(facts: dict[str, Any], rows: Sequence[Row]) -> str:
    """Two tables: medians with ratios, and what it costs to start."""
    engines = list(dict.fromkeys(engine for _, results in rows for engine in results))
    versions = ", ".join(
        f"{name} {version}" for name, version in facts["versions"].items() if version != "not installed"
    )
    lines = [
        f"{facts['date']}, {facts['cpu']}, {facts['cpus']} CPUs; {versions}.",
        "",
        f"Medians in milliseconds, float32; ratio: the best of {', '.join(RIVALS)} divided by {OURS}.",
        "",
        f"| model | batch | threads | {' | '.join(engines)} | ratio |",
        f"|---|--:|--:|{'--:|' * len(engines)}--:|",
    ]
    for case, results in rows:
        rival, ratio = best_rival(results), ratio_of(results)
        cells = [_cell(results.get(engine), bold=engine == rival) for engine in engines]
        shown = "" if ratio is None else f"{ratio:.2f}"
        lines.append(f"| {case['model']} | {case['batch']} | {case['threads']} | {' | '.join(cells)} | {shown} |")
    lines += [
        "",
        f"From the start of the process to the first answer, in seconds ({OURS}: nothing cached / all cached), "
        "and the most memory that the process had, in MiB.",
        "",
        f"| model | batch | threads | {' | '.join(engines)} |",
        f"|---|--:|--:|{'--:|' * len(engines)}",
    ]
    for case, results in rows:
        cells = [_start_cell(results.get(engine)) for engine in engines]
        lines.append(f"| {case['model']} | {case['batch']} | {case['threads']} | {' | '.join(cells)} |")
    notes = [
        f"* {case['model']}, batch {case['batch']}, threads={case['threads']}, {engine}: {result.problem.splitlines()[0]}"
        for case, results in rows
        for engine, result in results.items()
        if result.problem
    ]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _cell(result: Result | None, *, bold: bool) -> str:
    if result is None:
        return ""
    if result.median is None:
        return "failed"
    text = f"{result.median * 1e3:.2f}"
    return f"({text})" if result.problem else f"**{text}**" if bold else text


def _start_cell(result: Result | None) -> str:
    if result is None or not result.times:
        return ""
    cold = "" if result.cold_start is None else f"{result.cold_start:.2f} / "
    return f"{cold}{result.start:.2f} s, {result.peak_bytes / 2**20:.0f}"


def parse(texts: Sequence[str] | None) -> argparse.Namespace:
    """The arguments, lists taken apart and checked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the models are, or are made")
    parser.add_argument("--models", default=",".join(SIZES), help="[default: all]")
    parser.add_argument("--engines", default=",".join(ENGINES), help="[default: all]")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batch", default="1")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each engine")
    parser.add_argument("--runs", type=int, default=10, help="most runs of a turn")
    parser.add_argument("--seconds", type=float, default=1.5, help="a turn ends after these, with 3 runs at least")
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between turns")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args(texts)
    for option, known in (("models", SIZES), ("engines", ENGINES)):
        names = getattr(arguments, option).split(",")
        if unknown := [name for name in names if name not in known]:
            parser.error(f"--{option}: there is no {unknown[0]}, only {', '.join(known)}")
        setattr(arguments, option, names)
    for option in ("threads", "batch"):
        setattr(arguments, option, [int(part) for part in getattr(arguments, option).split(",")])
    return arguments


def main(texts: Sequence[str] | None = None) -> int:
    """Runs everything and writes the report, anew after each model."""
    arguments = parse(texts)
    facts = machine()
    if facts["load_before"] is not None and facts["load_before"] > 0.5:
        print(f"the machine is busy (load {facts['load_before']:.1f}): do not believe the figures", file=sys.stderr)
    rows: list[Row] = []
    failed: list[str] = []
    for name, batch in itertools.product(arguments.models, arguments.batch):
        try:
            folder = make(arguments.folder, name, batch)
        except subprocess.CalledProcessError:  # which has told why
            failed.append(name)
            continue
        for threads in arguments.threads:
            case = {"model": name, "batch": batch, "threads": threads, "input": input_shape(name, batch)}
            results = run_model(folder, name, arguments, threads, batch)
            rows.append((case, results))
            ratio = ratio_of(results)
            shown = "unknown" if ratio is None else f"{ratio:.2f}"
            print(f"{name}, batch {batch}, threads={threads}: ratio {shown}", file=sys.stderr)
            if arguments.json:
                arguments.json.write_text(json.dumps(as_data(facts, rows), indent=2) + "\n", "utf-8")
            if arguments.markdown:
                arguments.markdown.write_text(markdown(facts, rows), "utf-8")
    print(markdown(facts, rows), end="")
    for name in failed:
        print(f"{name} could not be made", file=sys.stderr)
    return 1 if failed or any(OURS in results and results[OURS].problem for _, results in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
