"""`kuiper doctor`: what this installation stands on."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from .extras import EXTRAS, missing_modules
from .models import json_option

REQUIRED = ("numpy", "llvmlite")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE")
_DISTRIBUTIONS = {"PIL": "pillow"}  # where it is called otherwise than the module


@click.command("doctor")
@json_option
def command(as_json: bool) -> int:
    """Show versions, CPU and threads, and try the bundled model.

    Exit code 1 if something that kuiper needs does not work.
    """
    from .console import print_json

    facts = {
        "versions": versions(),
        "machine": machine(),
        "settings": {name: value for name, value in sorted(os.environ.items()) if name.startswith("KUIPER_")},
        "extras": {extra: missing_modules(extra) for extra in EXTRAS},
        "self_test": self_test(),
    }
    if as_json:
        print_json(facts)
    else:
        _print(facts)
    return 0 if facts["self_test"]["ok"] and all(facts["versions"][name] for name in REQUIRED) else 1


def versions() -> dict[str, str | None]:
    """Name -> version of Python, of this package and of what it uses, None where not installed."""
    from ..version import __version__

    found: dict[str, str | None] = {"kuiperinfer": __version__, "python": platform.python_version()}
    for module in (*REQUIRED, *(module for modules in EXTRAS.values() for module in modules)):
        name = _DISTRIBUTIONS.get(module, module)
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def machine() -> dict[str, Any]:
    """The CPU, what it can do, how much of it and of the memory this process may use, and who multiplies matrices."""
    facts: dict[str, Any] = {
        "system": platform.platform(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu_quota": _cpu_quota(),
        "blas": _blas(),
        "thread_variables": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    }
    try:
        from llvmlite import binding

        features = binding.get_host_cpu_features()
        facts["llvm_cpu"] = binding.get_host_cpu_name()
        vectors = ("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vnni", "avx512bf16", "neon", "sve")
        facts["vector_features"] = [name for name in vectors if features.get(name)]
    except Exception as error:  # a broken LLVM must not keep the doctor from reporting the rest
        facts["llvm_cpu"], facts["vector_features"] = f"unknown ({type(error).__name__}: {error})", []
    return facts


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _cpu_quota() -> float | None:
    """Cores' worth of time that the control group allows, None where it sets no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _blas() -> str:
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def self_test() -> dict[str, Any]:
    """Whether the bundled model gives the bundled photograph its right name, and how long loading and running take."""
    import time

    if missing := missing_modules("image"):
        return {"ok": True, "skipped": f"{' and '.join(missing)} not installed"}
    from ..vision import bundled

    try:
        start = time.perf_counter()
        classifier = bundled.bundled_classifier()
        loaded = time.perf_counter()
        (best,) = classifier(bundled.PHOTOGRAPH, top=1)
        done = time.perf_counter()
    except Exception as error:
        return {"ok": False, "problem": f"{type(error).__name__}: {error}"}
    right = best.label == "Egyptian cat"
    problem = None if right else f"the bundled photograph shows an Egyptian cat, not '{best.label}'"
    return {"ok": right, "problem": problem, "load_seconds": loaded - start, "run_seconds": done - loaded}


def _print(facts: dict[str, Any]) -> None:
    from rich.text import Text

    from .console import console, printable, seconds_text, table

    out = console()

    def section(title: str, rows: list[tuple[str, Any]]) -> None:
        out.print(Text(title, style="bold"))
        listed = table("", "")
        for name, value in rows:
            shown = value if isinstance(value, Text) else Text(printable(str(value)))
            listed.add_row(Text("  " + printable(name), style="dim"), shown)
        out.print(listed)
        out.print()

    absent = Text("not installed", style="yellow")
    section("versions", [(name, version or absent) for name, version in facts["versions"].items()])
    cpu = facts["machine"]
    cores = f"{cpu['usable_cores']} of {cpu['cores']} usable"
    if cpu["cpu_quota"] is not None:
        cores += f", {cpu['cpu_quota']:g} cores' worth of time"
    rows = [("system", cpu["system"]), ("cpu", cpu["cpu"]), ("llvm target", cpu["llvm_cpu"])]
    rows += [("vectors", " ".join(cpu["vector_features"]) or "none"), ("cores", cores), ("numpy's blas", cpu["blas"])]
    rows += list(cpu["thread_variables"].items())
    section("machine", rows)
    if facts["settings"]:
        section("settings from the environment", list(facts["settings"].items()))
    present = Text("installed", style="green")
    extras = [
        (n, present if not m else Text(f"pip install 'kuiperinfer[{n}]'", "yellow")) for n, m in facts["extras"].items()
    ]
    section("extras", extras)
    test = facts["self_test"]
    if "skipped" in test:
        out.print(Text(f"self-test skipped: {test['skipped']}", style="yellow"))
    elif test["ok"]:
        times = f"loaded in {seconds_text(test['load_seconds'])}, ran in {seconds_text(test['run_seconds'])}"
        out.print(Text.assemble(("self-test passed", "bold green"), (f"  bundled model: {times}", "dim")))
    else:
        out.print(Text.assemble(("self-test failed  ", "bold red"), printable(test["problem"])))
    out.file.flush()
    sys.stdout.flush()
