"""Object code on disk: taken when it is whole and ours, made anew when it is not, shared by processes that start together."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kuiperinfer.codegen import cache, compiling
from kuiperinfer.codegen.cache import cache_directory, cache_problem, cached_files, clear_cache, load_kernels
from kuiperinfer.codegen.kernels.copies import FillHaloSpec
from kuiperinfer.codegen.layout import blocked
from kuiperinfer.codegen.objects import compile_module
from kuiperinfer.codegen.spec import kernel_name
from kuiperinfer.codegen.target import Target, target_named
from kuiperinfer.settings import settings

TARGET = target_named("host")
SPEC = FillHaloSpec(blocked((1, 16, 3, 3), TARGET.lanes, (1, 1, 1, 1)))
NAME = kernel_name(SPEC, TARGET)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def load(directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The kernel's address, and how often it was compiled on the way."""
    compiled = []

    def counted(module: str, target: Target) -> bytes:
        compiled.append(module)
        return compile_module(module, target)

    monkeypatch.setattr(compiling, "compile_module", counted)
    with settings(cache_dir=str(directory)):
        library = load_kernels({NAME: SPEC}, TARGET)
    monkeypatch.setattr(compiling, "compile_module", compile_module)
    return library.addresses[NAME], len(compiled)


def test_a_kernel_is_compiled_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address, compiled = load(directory, monkeypatch)
    assert address and compiled == 1
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert load(directory, monkeypatch)[1] == 0
    with settings(cache_dir=str(directory)):
        assert [path.name for path in cached_files()] == [f"{NAME}.o"]
        assert clear_cache() == 1 and not list(cached_files())
    assert load(directory, monkeypatch)[1] == 1


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "foreign", "another name", "directory"])
def test_what_is_not_whole_is_made_anew(directory: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    load(directory, monkeypatch)
    path = directory / f"{NAME}.o"
    content = path.read_bytes()
    path.unlink()
    if damage == "directory":
        path.mkdir()
    elif damage == "another name":  # whole, but of another kernel
        other = cache._MAGIC + cache._digest("other", content[53:]) + content[53:]
        path.write_bytes(other)
    else:
        changed = {
            "cut": content[:-1],
            "empty": b"",
            "flipped": content[:100] + bytes([content[100] ^ 1]) + content[101:],
            "foreign": b"\x7fELF" + content,
        }
        path.write_bytes(changed[damage])
    assert load(directory, monkeypatch)[1] == 1
    if damage != "directory":
        assert path.read_bytes() == content


def test_a_directory_that_others_can_write_to_is_not_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(directory, monkeypatch)
    directory.chmod(0o777)
    with settings(cache_dir=str(directory)):
        assert cache_directory() is None
    assert load(directory, monkeypatch)[1] == 1


@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() == 0, reason="root writes anywhere")
def test_a_read_only_directory_costs_time_alone(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir(mode=0o500)
    assert load(directory, monkeypatch)[1] == 1


def test_a_full_disk_costs_time_alone(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert load(directory, monkeypatch)[1] == 1
    assert not list(directory.iterdir())  # nothing is left behind


def test_no_directory_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    assert load(tmp_path / "file" / "below", monkeypatch)[1] == 1
    assert load(tmp_path / "file", monkeypatch)[1] == 1
    assert cache_problem(tmp_path / "file") == "it is not a directory"
    with settings(cache=False):
        assert cache_directory() is None


def test_the_oldest_files_go_first(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MOST_FILES", 8)
    directory.mkdir(mode=0o700)
    for number in range(12):
        path = directory / f"old{number:02}.o"
        path.write_bytes(b"")
        os.utime(path, (number, number))
    load(directory, monkeypatch)
    assert sorted(path.name for path in directory.glob("*.o")) == sorted(
        [f"{NAME}.o", *(f"old{n:02}.o" for n in range(7, 12))]
    )


def test_processes_that_start_together_share_it(directory: Path) -> None:
    script = (
        "import sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
        "from tests.codegen.test_cache import NAME, SPEC, TARGET, load_kernels, settings\n"
        "import numpy as np\n"
        "with settings(cache_dir=sys.argv[3]):\n"
        "    for _ in range(5): assert load_kernels({NAME: SPEC}, TARGET).addresses[NAME]\n"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", script, str(root), str(root / "src"), str(directory)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert [path.name for path in directory.iterdir()] == [f"{NAME}.o"]


def test_specs_of_equal_content_share_code_and_others_do_not() -> None:
    same = FillHaloSpec(blocked((1, 16, 3, 3), TARGET.lanes, (1, 1, 1, 1)))
    other = FillHaloSpec(blocked((1, 16, 3, 4), TARGET.lanes, (1, 1, 1, 1)))
    assert kernel_name(same, TARGET) == NAME != kernel_name(other, TARGET)
    assert kernel_name(same, target_named("x86-64-v2")) != NAME
    assert np.unique([kernel_name(spec, TARGET) for spec in (same, SPEC, other)]).size == 2
