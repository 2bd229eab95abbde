"""The program `pnnx`: where it is, how it is run, and how its ways to fail become errors.

It runs in a process group of its own, within a temporary folder that takes the dozen files it writes, with a limit on time and,
where the system has one, on memory: some networks make it run for ever and take all the memory there is.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .. import pnnx
from ..dtypes import TensorSpec
from ..errors import ConversionError, InputError, ModelFileError
from ..settings import debug_print
from .input_shape import converter_text
from .messages import failure, is_fatal
from .model_file import Kind

# An onnx.StringStringEntryProto {key: "location", value: …}, up to the length of the value (of less than 128 bytes).
_EXTERNAL_WEIGHTS = re.compile(rb"\n\x08location\x12([\x01-\x7f])", re.DOTALL)
_LOG_KEPT = 256 << 10  # bytes at the end of what the converter prints


@dataclass(frozen=True)
class Request:
    """What the converter is asked for. `shapes` may be empty where the file knows them; `shapes2` makes dimensions free.

    `what` is what errors call it.
    """

    what: str
    source: Path
    kind: Kind
    shapes: Sequence[TensorSpec] = ()
    shapes2: Sequence[TensorSpec] = ()
    module_operators: Sequence[str] = ()
    optimization_level: int = 2
    time_limit: float = 600.0


@dataclass(frozen=True)
class Converted:
    """What the converter wrote, both files complete, and what it printed."""

    param: Path
    bin: Path
    log: str


def find_converter() -> str:
    """The path of the program: that of the package `pnnx`, else the one in PATH. `InputError` where there is none."""
    spec = find_spec("pnnx")
    name = "pnnx.exe" if sys.platform == "win32" else "pnnx"
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(folder, name)
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    found = shutil.which("pnnx")
    if found is None:
        raise InputError(
            "conversion needs the converter pnnx, which is not installed: pip install 'kuiperinfer[convert]'"
        )
    return found


def run_converter(request: Request, folder: Path) -> Converted:
    """Runs the converter within an empty `folder`. `ConversionError` where it fails, in whatever way."""
    _check(request)
    model = _bring(request, folder)
    param, archive, log_path = folder / "model.pnnx.param", folder / "model.pnnx.bin", folder / "log"
    command = [find_converter(), f"./{model}", f"pnnxparam={param.name}", f"pnnxbin={archive.name}", "fp16=0"]
    command.append(f"optlevel={request.optimization_level}")
    for option, specs in (("inputshape", request.shapes), ("inputshape2", request.shapes2)):
        if specs:
            command.append(f"{option}={converter_text(specs)}")
    if request.module_operators:
        command.append(f"moduleop={','.join(request.module_operators)}")
    debug_print(1, " ".join(command))
    code = _run(command, folder, log_path, request.time_limit)
    log = _end_of(log_path)
    if code is None:
        raise ConversionError(
            f"{request.what}: the converter was stopped after {request.time_limit:g} s, the time limit. Slices of size "
            f"zero make it run for ever; a large network may need a higher limit",
            log,
        )
    # With these two complete it may still have died, while it made files of other kinds that nobody asked for.
    if not param.is_file() or not archive.is_file() or is_fatal(log):
        raise ConversionError(f"{request.what}: the converter {failure(code, log, request.kind)}", log)
    try:
        pnnx.read(param, archive)
    except ModelFileError as error:
        how = "wrote a model that cannot be read" if code == 0 else failure(code, log, request.kind)
        raise ConversionError(f"{request.what}: the converter {how} ({error.message})", log) from error
    return Converted(param, archive, log)


def _check(request: Request) -> None:
    if request.shapes2 and len(request.shapes2) != len(request.shapes):
        raise InputError(
            f"expected as many second shapes as first ones, found {len(request.shapes)} and {len(request.shapes2)}"
        )
    for index, (first, second) in enumerate(zip(request.shapes, request.shapes2, strict=False)):
        if first.ndim != second.ndim or first.dtype is not second.dtype:
            raise InputError(f"input {index}: both shapes need the same rank and dtype, found {first} and {second}")
    for name in request.module_operators:
        if not name or any(character.isspace() or character in ",=" for character in name):
            raise InputError(
                f"module operator '{name}': expected a class by its dotted name, such as models.yolo.Detect"
            )
    if request.optimization_level not in (0, 1, 2):
        raise InputError(f"optimization level: expected 0, 1 or 2, found {request.optimization_level}")
    if not request.time_limit > 0:
        raise InputError(f"time limit: expected seconds above 0, found {request.time_limit}")


def _bring(request: Request, folder: Path) -> str:
    """Makes the model appear in the folder of work, with the weights beside it that an ONNX file names; tells its name there.

    The converter knows weights in one file alone, which has to have the name of the model and ``.data`` behind it.
    """
    source = request.source.resolve()
    external = external_weights(source) if request.kind is Kind.ONNX else set()
    for name in external:
        if (source.parent / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(source.parent / name, folder / name)
    first = min(external, default=Path())
    model = first.stem if first.suffix == ".data" and first.parent == Path() else "model"
    target = folder / model
    try:
        target.symlink_to(source)
    except FileExistsError:
        raise InputError(f"{request.what}: the file names itself as one that holds its weights") from None
    except (OSError, NotImplementedError):
        shutil.copyfile(source, target)
    return model


def _link_or_copy(source: Path, target: Path) -> None:
    try:  # not a symbolic link: onnxruntime refuses these, for they might lead anywhere
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def external_weights(source: Path) -> set[Path]:
    """The files of weights that an ONNX file names, relative to its folder; those that lead out of it are left out."""
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = set()
        for match in _EXTERNAL_WEIGHTS.finditer(content):
            name = content[match.end() : match.end() + match[1][0]]
            path = Path(os.fsdecode(name))
            if b"\0" not in name and not path.is_absolute() and ".." not in path.parts:
                found.add(path)
    return found


def _run(command: Sequence[str], folder: Path, log_path: Path, time_limit: float) -> int | None:
    """The exit code, negative for signals; None where the time was over."""
    with log_path.open("wb") as log:
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        except OSError as error:
            raise ConversionError(
                f"{command[0]}: the converter cannot be started ({error.strerror or error})"
            ) from error
    try:
        _limit_memory(process.pid)
        return process.wait(time_limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and what it started, if anything of it still runs."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _limit_memory(pid: int) -> None:
    if sys.platform == "linux":
        import resource

        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        with contextlib.suppress(OSError, ValueError):  # it has ended already, or has a lower limit
            resource.prlimit(pid, resource.RLIMIT_DATA, (physical, physical))  # what it may write to, not what it maps


def _end_of(log_path: Path) -> str:
    with log_path.open("rb") as log:
        log.seek(max(0, log_path.stat().st_size - _LOG_KEPT))
        return log.read().decode("utf-8", "replace")
