"""Processes that compile: the same code as here, and all of it whatever becomes of them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kuiperinfer.codegen import compiling
from kuiperinfer.codegen.compiling import compile_kernels
from kuiperinfer.codegen.kernels.copies import FillHaloSpec
from kuiperinfer.codegen.layout import blocked
from kuiperinfer.codegen.objects import compile_module
from kuiperinfer.codegen.spec import KernelSpec, TextSpec, kernel_name
from kuiperinfer.codegen.target import Target, target_named
from kuiperinfer.errors import CompileError
from kuiperinfer.settings import settings

TARGET = target_named("host")
SPECS: dict[str, KernelSpec] = {
    kernel_name(spec, TARGET): spec
    for spec in (FillHaloSpec(blocked((1, 16, 3, size), TARGET.lanes, (1, 1, 1, 1))) for size in range(3, 15))
}


@pytest.fixture
def here() -> dict[str, bytes]:
    """The object files as this process makes them."""
    with settings(compile_processes=1):
        return dict(compile_kernels(SPECS, TARGET))


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that are started from now on."""
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return started


def test_processes_make_the_same_code(here: dict[str, bytes], processes: list[subprocess.Popen[bytes]]) -> None:
    with settings(compile_processes=2):
        assert dict(compile_kernels(SPECS, TARGET)) == here
    assert len(processes) == 2
    assert all(process.returncode is not None for process in processes)


def test_this_process_does_little_by_itself(processes: list[subprocess.Popen[bytes]]) -> None:
    with settings(compile_processes=8):
        assert len(dict(compile_kernels(dict(list(SPECS.items())[:5]), TARGET))) == 5
    with settings(compile_processes=1):
        assert len(dict(compile_kernels(SPECS, TARGET))) == len(SPECS)
    assert not processes


PROGRAMS = {
    "ends at once": "pass",
    "fails": "raise ValueError",
    "answers with what cannot be read": "print('no pickle')",
    "ends in the middle": (
        "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer)\n"
        "from kuiperinfer.codegen import compiling\n"
        "send = compiling._send\n"
        "compiling._send = lambda stream, value: (send(stream, value), sys.exit())\n"
        "compiling.serve()"
    ),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_what_processes_leave_is_done_here(
    here: dict[str, bytes], processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(compiling, "_PROGRAM", program)
    with settings(compile_processes=2):
        assert dict(compile_kernels(SPECS, TARGET)) == here
    assert len(processes) == 2


@pytest.mark.parametrize("executable", ["", "/nowhere/python", "/bin/false"])
def test_without_an_interpreter_all_is_done_here(
    here: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with settings(compile_processes=2):
        assert dict(compile_kernels(SPECS, TARGET)) == here


def test_processes_of_another_version_are_not_asked(
    here: dict[str, bytes], processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "generator_digest", lambda: "of code that is not there any more")
    made_here: list[object] = []

    def compile_here(module: str, target: Target) -> bytes:
        made_here.append(module)
        return compile_module(module, target)

    monkeypatch.setattr(compiling, "compile_module", compile_here)
    with settings(compile_processes=2):
        assert dict(compile_kernels(SPECS, TARGET)) == here
    assert len(processes) == 2 and len(made_here) == len(SPECS)


def test_code_that_llvm_refuses_is_an_error_here(processes: list[subprocess.Popen[bytes]]) -> None:
    specs = {"refused": TextSpec("Refused", "this is no module", ()), **SPECS}
    with settings(compile_processes=2), pytest.raises(CompileError, match="refuses"):
        dict(compile_kernels(specs, TARGET))
    assert all(process.returncode is not None for process in processes)


def test_processes_end_with_whoever_waits_for_them(processes: list[subprocess.Popen[bytes]]) -> None:
    with settings(compile_processes=2):
        answers = compile_kernels(SPECS, TARGET)
        next(answers)
        answers.close()  # type: ignore[attr-defined]  # as an interrupt does
    assert len(processes) == 2 and all(process.returncode is not None for process in processes)
