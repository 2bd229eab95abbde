"""Object files in memory without LLVM: the same results as with LLVM's linker, and left to it where they are unusual."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer.codegen import loading, objects
from kuiperinfer.codegen.objects import Library, compile_module
from kuiperinfer.codegen.target import target_named
from tests.small_models import LINEAR, weights_of, write_model

TARGET = target_named("host")
HERE = sys.platform.startswith("linux") and platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(not HERE, reason="the loader is for x86-64 and Linux; elsewhere LLVM links")

# A constant in memory, a table of jumps, a call within the module, and one of the C library.
SOURCE = """
declare i64 @labs(i64)
define float @scaled(float %x) {
  %y = fmul float %x, 0x400921FB60000000
  ret float %y
}
define float @twice(float %x) {
  %y = call float @scaled(float %x)
  %z = call float @scaled(float %y)
  ret float %z
}
define i64 @magnitude(i64 %x) {
  %y = call i64 @labs(i64 %x)
  ret i64 %y
}
define i64 @chosen(i64 %x) {
  switch i64 %x, label %other [ i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d  i64 4, label %e ]
a: ret i64 31
b: ret i64 41
c: ret i64 59
d: ret i64 26
e: ret i64 53
other: ret i64 -1
}
"""
FUNCTIONS = ("scaled", "twice", "magnitude", "chosen")


def call(library: Library, name: str, result: Any, *arguments: Any) -> Any:
    kinds = [ctypes.c_float if isinstance(argument, float) else ctypes.c_int64 for argument in arguments]
    return ctypes.CFUNCTYPE(result, *kinds)(library.addresses[name])(*arguments)


def results(library: Library) -> list[Any]:
    numbers = [call(library, "chosen", ctypes.c_int64, value) for value in range(-1, 6)]
    floats = [call(library, name, ctypes.c_float, 2.0) for name in ("scaled", "twice")]
    return [*numbers, *floats, call(library, "magnitude", ctypes.c_int64, -7)]


def test_code_is_linked_as_llvm_links_it(monkeypatch: pytest.MonkeyPatch) -> None:
    code = [compile_module(SOURCE, TARGET)]
    library = Library(code, FUNCTIONS, TARGET)
    assert isinstance(library._code, loading.Code)
    monkeypatch.setattr(objects, "link", lambda files: None)
    by_llvm = Library(code, FUNCTIONS, TARGET)
    assert not isinstance(by_llvm._code, loading.Code)
    found = results(library)
    assert found == results(by_llvm)
    assert found[:7] == [-1, 31, 41, 59, 26, 53, -1] and found[9] == 7
    np.testing.assert_allclose(found[7:9], [2 * np.pi, 2 * np.pi**2], rtol=1e-6)


def test_files_call_the_c_library_and_lie_side_by_side() -> None:
    one = "define i64 @one() { ret i64 1 }"
    library = Library([compile_module(SOURCE, TARGET), compile_module(one, TARGET)], (*FUNCTIONS, "one"), TARGET)
    assert isinstance(library._code, loading.Code)
    assert call(library, "one", ctypes.c_int64) == 1 and results(library)[9] == 7


def _of_another_machine(code: bytes) -> bytes:
    return code[:18] + b"\xb7\0" + code[20:]  # e_machine: AArch64


@pytest.mark.parametrize(
    "change",
    [lambda code: code[:40], lambda code: b"MZ" + code[2:], lambda code: b"", _of_another_machine],
    ids=["cut", "not ELF", "empty", "another machine"],
)
def test_what_is_no_object_file_of_this_machine_is_left_to_llvm(change: Callable[[bytes], bytes]) -> None:
    assert loading.link([change(compile_module(SOURCE, TARGET))]) is None


@pytest.mark.parametrize(
    "source",
    [
        "@counter = global i64 1\ndefine i64 @next() { %v = load i64, ptr @counter\n ret i64 %v }",
        "declare i64 @no_such_function_anywhere()\ndefine i64 @f() { %v = call i64 @no_such_function_anywhere()\n ret i64 %v }",
    ],
    ids=["memory to write", "an unknown function"],
)
def test_unusual_code_is_left_to_llvm(source: str) -> None:
    assert loading.link([compile_module(source, TARGET)]) is None


def test_a_process_that_finds_its_code_in_the_cache_does_not_load_llvm(tmp_path: Path) -> None:
    model = write_model(tmp_path, LINEAR, weights_of(LINEAR))
    script = (
        "import sys, numpy as np, kuiperinfer\n"
        "model = kuiperinfer.load(sys.argv[1])\n"
        "print(float(np.sum(model(np.ones(model.inputs[0].shape, np.float32)))))\n"
        "print('llvmlite.binding' in sys.modules)\n"
    )
    environment = {"KUIPER_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", script, str(model)]
    first, again = (subprocess.check_output(command, env=environment, text=True).split() for _ in range(2))
    assert first[1] == "True" and again == [first[0], "False"]
