"""Tensors against NumPy, numexpr and PyTorch: fused expressions, one epoch of a small network, and where loops get compiled.

    pip install torch numexpr .
    python bench/tensor.py [--threads 1] [--turns 7] [--only fused,epoch,crossing] [--optimizer sgd] [--json FILE]

All take turns in one process with as many threads each, and ratios are medians of the ratios of turns, so that whatever else
happens to the machine happens to all alike. Exit code 1 where somebody's result is another one, or where a fused expression
takes more memory than its result.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

ELEMENTS = 4_000_000
ROWS, BATCH = 60_000, 64
SIZES = (784, 512, 512, 10)


def medians(turns: int, contestants: Mapping[str, Callable[[], Any]], at_least: float = 0.1) -> dict[str, list[float]]:
    """Seconds of one call, a list with an entry for each turn."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for function in contestants.values():
        function()
    for _ in range(turns):
        for name, function in contestants.items():
            calls, start = 0, time.perf_counter()
            while (spent := time.perf_counter() - start) < at_least or not calls:
                function()
                calls += 1
            times[name].append(spent / calls)
    return times


def report(title: str, times: Mapping[str, list[float]]) -> dict[str, Any]:
    """Prints medians, and how many times as long as ours the others take."""
    import numpy as np

    ours = np.array(next(iter(times.values())))
    print(title)
    found = {}
    for name, values in times.items():
        ratio = float(np.median(np.array(values) / ours))
        found[name] = {"milliseconds": float(np.median(values)) * 1e3, "ratio": ratio}
        print(f"  {name:12} {np.median(values) * 1e3:10.3f} ms   {ratio:6.2f}")
    return found


# ------------------------------------------------------------------------------------------- fused expressions


def bench_fused(options: argparse.Namespace) -> dict[str, Any]:
    """Expressions of eight operations over 4 million float32 elements."""
    import numexpr
    import numpy as np
    import torch

    from kuiperinfer import memory
    from kuiperinfer import tensor as kt

    numexpr.set_num_threads(options.threads)
    rng = np.random.default_rng(0)
    arrays = [rng.random(ELEMENTS, np.float32) + np.float32(0.5) for _ in range(3)]
    a, b, c = map(kt.tensor, arrays)
    A, B, C = arrays
    X, Y, Z = map(torch.from_numpy, arrays)
    one, half, two = map(np.float32, (1, 0.5, 2))
    names = {"A": A, "B": B, "C": C, "one": one, "half": half, "two": two}

    expressions: dict[str, dict[str, Callable[[], Any]]] = {
        "arithmetic": {
            "kuiperinfer": lambda: (((a * b + c) * 2.0 - a) / (b + 1.0) + c * 0.5).storage,
            "numpy": lambda: ((A * B + C) * two - A) / (B + one) + C * half,
            "numexpr": lambda: numexpr.evaluate("((A * B + C) * two - A) / (B + one) + C * half", names),
            "torch": lambda: ((X * Y + Z) * 2.0 - X) / (Y + 1.0) + Z * 0.5,
        },
        "with functions": {
            "kuiperinfer": lambda: ((a * b).exp() / (c.exp() + 1.0) + (b + 1.0).log()).storage,
            "numpy": lambda: np.exp(A * B) / (np.exp(C) + one) + np.log(B + one),
            "numexpr": lambda: numexpr.evaluate("exp(A * B) / (exp(C) + one) + log(B + one)", names),
            "torch": lambda: (X * Y).exp() / (Z.exp() + 1.0) + (Y + 1.0).log(),
        },
    }
    found: dict[str, Any] = {}
    for name, contestants in expressions.items():
        results = [np.asarray(contestants[other]()) for other in ("numpy", "numexpr", "torch")]
        ours = np.frombuffer(contestants["kuiperinfer"]().block.data, np.float32)
        for result in results:
            np.testing.assert_allclose(ours, result, rtol=1e-5)
        del ours, results, result
        before = memory.statistics().allocations
        contestants["kuiperinfer"]()
        blocks = memory.statistics().allocations - before
        title = f"{name}: {ELEMENTS:,} elements, {options.threads} thread(s), {blocks} block(s) of memory taken"
        found[name] = report(title, medians(options.turns, contestants)) | {"blocks": blocks}
        if blocks != 1:
            sys.exit(f"'{name}' took {blocks} blocks of memory; expected one, its result")
    return found


# ------------------------------------------------------------------------------------------- one epoch


def bench_epoch(options: argparse.Namespace) -> dict[str, Any]:
    """One epoch of an MLP over data of MNIST's size, the same weights and batches in both libraries."""
    import numpy as np
    import torch

    from kuiperinfer import nn, optim
    from kuiperinfer import tensor as kt

    rng = np.random.default_rng(0)
    images = rng.random((ROWS, SIZES[0]), np.float32)
    labels = rng.integers(0, SIZES[-1], ROWS)

    def layers(library: Any) -> Any:
        linear = [library.Linear(i, o) for i, o in itertools.pairwise(SIZES)]
        return library.Sequential(linear[0], library.ReLU(), linear[1], library.ReLU(), linear[2])

    ours, theirs = layers(nn), layers(torch.nn)
    ours.load_state_dict({name: kt.tensor(value.numpy()) for name, value in theirs.state_dict().items()})
    rates = {"lr": 0.05, "momentum": 0.9} if options.optimizer == "sgd" else {"lr": 1e-3}
    name = {"sgd": "SGD", "adam": "Adam"}[options.optimizer]

    def epoch(model: Any, optimizer: Any, criterion: Any, x: Any, y: Any) -> float:
        total = 0.0
        for start in range(0, ROWS, BATCH):
            optimizer.zero_grad()
            loss = criterion(model(x[start : start + BATCH]), y[start : start + BATCH])
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total

    def learner(model: Any, library: Any, optimizers: Any) -> tuple[Any, ...]:
        return model, getattr(optimizers, name)(model.parameters(), **rates), library.CrossEntropyLoss()

    sides = {
        "kuiperinfer": (*learner(ours, nn, optim), kt.tensor(images), kt.tensor(labels)),
        "torch": (*learner(theirs, torch.nn, torch.optim), torch.from_numpy(images), torch.from_numpy(labels)),
    }
    losses: dict[str, list[float]] = {side: [] for side in sides}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(max(2, options.turns // 2)):
        for side, parts in sides.items():
            start = time.perf_counter()
            losses[side].append(epoch(*parts))
            times[side].append(time.perf_counter() - start)
    first = [losses[side][0] for side in sides]
    if abs(first[0] - first[1]) > 1e-3 * first[1]:
        sys.exit(f"the losses of the first epoch differ: {first[0]} and {first[1]}")
    title = (
        f"epoch: {'-'.join(map(str, SIZES))}, {ROWS:,} rows in batches of {BATCH}, {name}, {options.threads} thread(s)"
    )
    return report(title, times)


# ------------------------------------------------------------------------------------------- where compiling begins


def bench_crossing(options: argparse.Namespace) -> dict[str, Any]:
    """Sizes at which a compiled loop and NumPy's functions take equally long: `COMPILED_FROM` lies between these."""
    import numpy as np

    from kuiperinfer.expression import parse
    from kuiperinfer.tensor import fused as module

    found: dict[str, Any] = {}
    for text in ("add(@0,@1)", "relu(add(mul(@0,@2),@1))", "mul(@0,sigmoid(add(@1,@0)))"):
        tree = parse(text, internal=True)
        for size in (1 << power for power in range(8, 19)):
            x, y, out = (np.random.default_rng(seed).random(size, np.float32) for seed in range(3))
            operands: list[Any] = [x, y, 0.5][: 3 if "@2" in text else 2]
            loops = {}
            for name, limit in (("compiled", 1), ("numpy", 1 << 60)):
                module.COMPILED_FROM = limit
                loops[name] = module.FusedLoop((tree,))
                loops[name](operands, [out])
            times = medians(
                options.turns,
                {name: functools.partial(loop, operands, [out]) for name, loop in loops.items()},
                0.01,
            )
            ratio = float(np.median(np.array(times["numpy"]) / np.array(times["compiled"])))
            found.setdefault(text, {})[size] = ratio
    for text, ratios in found.items():
        print(f"numpy / compiled, {text}: " + "  ".join(f"{size}: {ratio:.2f}" for size, ratio in ratios.items()))
    return found


BENCHES = {"fused": bench_fused, "epoch": bench_epoch, "crossing": bench_crossing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", default=",".join(BENCHES), help="what to measure")
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "KUIPER_THREADS"):
        os.environ[variable] = str(options.threads)  # before the libraries are imported
    import torch

    torch.set_num_threads(options.threads)
    found = {name: BENCHES[name](options) for name in options.only.split(",")}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": platform.platform(), "threads": options.threads, **found}, file, indent=1)


if __name__ == "__main__":
    main()
