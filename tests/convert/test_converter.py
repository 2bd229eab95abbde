"""The converter as it is, and as it fails: it crashes, runs for ever, says nothing, or writes half of a model."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kuiperinfer import dtypes
from kuiperinfer.convert import converter
from kuiperinfer.convert.converter import Request, external_weights, find_converter, run_converter
from kuiperinfer.convert.messages import losses, shapes_in_log
from kuiperinfer.convert.model_file import Kind
from kuiperinfer.dtypes import TensorSpec
from kuiperinfer.errors import ConversionError, InputError

from . import onnx_files

PARAM = """7767517
2 1
pnnx.Input  in0  0 1 0 #0=(1,2)f32
pnnx.Output out0 1 0 0 #0=(1,2)f32
"""
EMPTY_ARCHIVE = b"PK\x05\x06" + bytes(18)


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces the converter by a program of a few lines; returns a function that runs it on some ONNX file."""

    def run(body: str, time_limit: float = 60.0, kind: Kind = Kind.ONNX) -> Any:
        program = tmp_path / "program"
        program.write_text(f"#!{sys.executable}\nimport os, sys, time\nfrom pathlib import Path\n{body}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(converter, "find_converter", lambda: str(program))
        source = tmp_path / "net.onnx"
        source.write_bytes(onnx_files.NETWORK)
        folder = tmp_path / "work"
        folder.mkdir()
        return run_converter(Request(str(source), source, kind, time_limit=time_limit), folder)

    return run


WRITE = f"Path('model.pnnx.param').write_text({PARAM!r}); Path('model.pnnx.bin').write_bytes({EMPTY_ARCHIVE!r})"


def test_what_it_wrote_and_printed(pretend: Any) -> None:
    done = pretend(f"print('inputshape = [1,2]f32'); print('inputshape2 = ', file=sys.stderr); {WRITE}")
    assert done.param.read_text() == PARAM
    assert shapes_in_log(done.log) == ("[1,2]f32", "")


def test_it_may_die_after_both_files_are_complete(pretend: Any) -> None:
    done = pretend(f"{WRITE}; os.kill(os.getpid(), 11)")
    assert done.bin.read_bytes() == EMPTY_ARCHIVE


@pytest.mark.parametrize(
    ("body", "kind", "complaint"),
    [
        (
            "print('#### pass_level0\\n#### pass_level1', flush=True); os.kill(os.getpid(), 11)",
            Kind.TORCHSCRIPT,
            "the converter crashed in pass_level1 (SIGSEGV); where torch.jit.script made this file, save torch.jit.freeze",
        ),
        (
            "print('terminate called\\n  what():  The size of tensor a (3) must match', flush=True); os.abort()",
            Kind.ONNX,
            "the converter crashed (SIGABRT): The size of tensor a (3) must match",
        ),
        ("print('  what():  std::bad_alloc', flush=True); os.abort()", Kind.ONNX, "(SIGABRT): it ran out of memory"),
        ("os.kill(os.getpid(), 9)", Kind.ONNX, "(SIGKILL): something killed it, most likely for want of memory"),
        ("sys.exit(3)", Kind.ONNX, "the converter gave up (exit code 3)"),
        ("print('oh no\\nno way'); sys.exit(255)", Kind.ONNX, "gave up (exit code 255): oh no; no way"),
        ("print('#### pass_level5')", Kind.ONNX, "the converter ended in pass_level5 without a complete model"),
        ("Path('model.pnnx.param').write_text('7767517')", Kind.ONNX, "ended without a complete model"),
        (WRITE.replace("2 1", "3 1"), Kind.ONNX, "the converter wrote a model that cannot be read ("),
        (
            "print('##### pass_level1'); print('inline module = torch.nn.modules.flatten.Flatten'); os.abort()",
            Kind.TORCHSCRIPT,
            "the converter crashed in pass_level1 (SIGABRT); where torch.jit.script made this file",
        ),
        (f"{WRITE}; os.abort()".replace("2 1", "3 1"), Kind.ONNX, "the converter crashed (SIGABRT) ("),
        (
            f"{WRITE}; print('FATAL ERROR no external data')",
            Kind.ONNX,
            "weights in files beside the ONNX file were not found",
        ),
        (
            "print('input_shapes[0] expect [1,3]f32 but got [1,4]f32'); sys.exit(255)",
            Kind.TORCHSCRIPT,
            "input 0: the network was traced with [1,3]f32, the shape given is [1,4]f32; give the traced one",
        ),
        (
            "print('input_shape expect 2 tensors but got 1'); sys.exit(255)",
            Kind.TORCHSCRIPT,
            "the network takes 2 inputs, 1 shapes were given",
        ),
        (
            "print('Load torchscript failed: bad file\\nframe #0: x\\nPlease export model'); sys.exit(255)",
            Kind.TORCHSCRIPT,
            "exit code 255): the TorchScript cannot be read: bad file",
        ),
    ],
    ids=range(15),
)
def test_it_fails(pretend: Any, tmp_path: Path, body: str, kind: Kind, complaint: str) -> None:
    with pytest.raises(ConversionError) as caught:
        pretend(body, kind=kind)
    assert str(caught.value).startswith(f"{tmp_path / 'net.onnx'}: the converter ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_it_is_stopped_with_everything_that_it_started(pretend: Any, tmp_path: Path) -> None:
    note = tmp_path / "children"
    body = f"Path({str(note)!r}).write_text(f'{{os.getpid()}} {{os.fork() or os.getpid()}}'); time.sleep(600)"
    start = time.monotonic()
    with pytest.raises(ConversionError, match=r"stopped after 1 s, the time limit"):
        pretend(body, time_limit=1.0)
    assert time.monotonic() - start < 60
    for pid in map(int, note.read_text().split()):
        for _ in range(100):
            if not is_running(pid):
                break
            time.sleep(0.02)
        else:
            pytest.fail(f"{pid} still runs")


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie, whose parent has not asked for it yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no limit for another process")
def test_memory_has_a_limit(pretend: Any) -> None:
    done = pretend(
        f"import resource; print(resource.getrlimit(resource.RLIMIT_DATA)[0] > 0 or 1/0); time.sleep(0.2); {WRITE}"
    )
    assert done.log.strip() == "True"


def test_the_converter_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Path(find_converter()).parent.name == "pnnx"
    monkeypatch.setattr(converter, "find_spec", lambda name: None)
    program = tmp_path / "pnnx"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_converter() == str(program)
    program.unlink()
    with pytest.raises(InputError, match=r"not installed: pip install 'kuiperinfer\[convert\]'"):
        find_converter()


def test_a_converter_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(converter, "find_converter", lambda: str(tmp_path / "none"))
    source = tmp_path / "net.onnx"
    source.write_bytes(onnx_files.NETWORK)
    (tmp_path / "work").mkdir()
    with pytest.raises(ConversionError, match=r"cannot be started \(No such file"):
        run_converter(Request(str(source), source, Kind.ONNX), tmp_path / "work")


A, B = TensorSpec((1, 2), dtypes.f32), TensorSpec((3, 2), dtypes.f32)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"shapes": [A], "shapes2": [A, B]}, "expected as many second shapes as first ones, found 1 and 2"),
        ({"shapes2": [B]}, "found 0 and 1"),
        (
            {"shapes": [A], "shapes2": [TensorSpec((1,), dtypes.f32)]},
            "input 0: both shapes need the same rank and dtype",
        ),
        ({"shapes": [A], "shapes2": [TensorSpec((1, 2), dtypes.i64)]}, "the same rank and dtype"),
        ({"module_operators": ["a b"]}, "module operator 'a b': expected a class by its dotted name"),
        ({"module_operators": [""]}, "module operator ''"),
        ({"optimization_level": 3}, "expected 0, 1 or 2, found 3"),
        ({"time_limit": 0}, "expected seconds above 0"),
        ({"time_limit": float("nan")}, "expected seconds above 0"),
    ],
    ids=str,
)
def test_requests_that_make_no_sense(tmp_path: Path, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        run_converter(Request("net", tmp_path / "net.onnx", Kind.ONNX, **options), tmp_path)
    assert complaint in str(caught.value)


def test_what_the_converter_lost() -> None:
    lost = "unknown Parameter value kind Device\nfine\nunknown Parameter value kind Device\nno attribute value in int list\n"
    assert losses(lost) == ["unknown Parameter value kind Device", "no attribute value in int list"]
    assert losses("############# pass_level2\nunknown\n") == []


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("net.onnx.data", {Path("net.onnx.data")}),
        ("sub/weights.bin", {Path("sub/weights.bin")}),
        ("../secret", set()),
        ("/etc/passwd", set()),
        ("a\0b", set()),
    ],
)
def test_weights_in_other_files(tmp_path: Path, location: str, expected: set[Path]) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_files.model(location=location))
    assert external_weights(tmp_path / "net.onnx") == expected


def test_signals_have_names() -> None:
    from kuiperinfer.convert.messages import failure

    assert "SIGILL" in failure(-signal.SIGILL, "", Kind.ONNX)
    assert "signal 99" in failure(-99, "", Kind.ONNX)
