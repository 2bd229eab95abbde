"""What kind of file somebody hands in, told by its content. Nothing of it is run: a pickle is looked at, never loaded."""

from __future__ import annotations

import contextlib
import enum
import os
import pickletools
import re
import stat
import zipfile
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError

_LARGEST_ENTRY = 256 << 20  # bytes read of pickles and code; the weights lie beside them


class Kind(enum.Enum):
    """The two kinds of files that the converter reads."""

    TORCHSCRIPT = "TorchScript"
    ONNX = "ONNX"


TRACE_IT = (
    "build the network in Python, load the weights into it, and call kuiperinfer.from_torch(net.eval(), example), or save "
    "torch.jit.trace(net.eval(), example)"
)

# (offset, first bytes, what that is, what to do)
_SIGNATURES: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"version https://git-lfs", "a pointer of Git LFS, not the model itself", "run git lfs pull"),
    (0, b"7767517\n", "a .param file of PNNX or ncnn already", "PNNX models need no conversion: kuiper info MODEL"),
    (0, b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a pickle of an old torch.save", TRACE_IT),
    (0, b"\x80", "a Python pickle", TRACE_IT),
    (0, b"\x89HDF", "an HDF5 file, as Keras writes", "export the network to ONNX, for instance with tf2onnx"),
    (4, b"TFL3", "a TensorFlow Lite model", "convert it to ONNX, for instance with tf2onnx"),
    (0, b"<", "text in HTML or XML", "was this a download that failed?"),
)
# Checkpoints have objects of these modules beside weights.
_PLAIN_MODULES = (
    "torch",
    "collections",
    "numpy",
    "builtins",
    "__builtin__",
    "_codecs",
    "argparse",
    "pathlib",
    "copy_reg",
)
_MODES = re.compile(rb"\b\w*dropout\w*\(|\bbatch_norm\(|\bclass BatchNorm|\brrelu\(")
_CANNOT_BE_READ = (OSError, ValueError, StopIteration, zipfile.BadZipFile, NotImplementedError, RuntimeError)
_SCHEMA_OF_EXPORT = ("archive_format", "models/model.json", "serialized_exported_program.json")


def kind_of(path: Path) -> Kind:
    """TorchScript or ONNX; `InputError`, which tells what to do, for all else."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: expected a TorchScript or ONNX file, found a folder or device")
        with path.open("rb") as file:
            head = file.read(64)
            if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
                return _kind_of_archive(path, file)
            if not head:
                raise InputError(f"{path}: the file is empty")
            for offset, signature, what, do in _SIGNATURES:
                if head[offset:].startswith(signature):
                    raise InputError(f"{path}: this is {what}; {do}")
            if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < status.st_size:
                raise InputError(f"{path}: these are weights alone (safetensors); {TRACE_IT}")
            if _is_onnx(file, status.st_size):
                return Kind.ONNX
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    raise InputError(f"{path}: neither TorchScript nor ONNX; its first bytes are {head[:16]!r}. Was it cut off?")


def _kind_of_archive(path: Path, file: BinaryIO) -> Kind:
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise InputError(f"{path}: a damaged archive ({error}); was it cut off?") from error
    names = [name.partition("/")[2] or name for name in archive.namelist()]
    if "constants.pkl" in names and any(name.startswith("code/") for name in names):
        return Kind.TORCHSCRIPT
    if any(name in _SCHEMA_OF_EXPORT for name in [*names, *archive.namelist()]):
        raise InputError(
            f"{path}: a program of torch.export, which the converter does not read; call kuiperinfer.from_torch with the "
            f"module itself, or save torch.jit.trace(net.eval(), example)"
        )
    if "data.pkl" in names:
        raise InputError(f"{path}: {_what_is_pickled(archive, names)}")
    raise InputError(f"{path}: an archive of {len(names)} files that is no TorchScript: it has no code/")


def _what_is_pickled(archive: zipfile.ZipFile, names: list[str]) -> str:
    """The contents of a torch.save archive in words, and what to do with it."""
    found = set()
    try:
        for opcode, argument, _ in pickletools.genops(_read(archive, archive.namelist()[names.index("data.pkl")])):
            if opcode.name == "GLOBAL":
                found.add(str(argument).replace(" ", "."))
    except Exception:  # whatever is wrong with it: it is no model for us, and this is about the message alone
        return f"torch.save wrote this, and it is damaged; {TRACE_IT}"
    classes = sorted(name for name in found if name.partition(".")[0] not in _PLAIN_MODULES)
    if any(name.startswith("ultralytics.") for name in found):
        return 'a checkpoint of Ultralytics; export it: YOLO("model.pt").export(format="torchscript")'
    if classes:
        some = ", ".join(classes[:3]) + (", …" if len(classes) > 3 else "")
        return f"pickled Python objects ({some}), which only their own program can load; {TRACE_IT}"
    if any(name.startswith("torch.nn.") for name in found):
        return f"a pickled module, not TorchScript; load it where it comes from, and save torch.jit.trace of it; {TRACE_IT}"
    return f"weights alone (a state_dict), without the network that they belong to; {TRACE_IT}"


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as file:
        return file.read(_LARGEST_ENTRY)


def was_training(path: Path) -> bool:
    """Whether a TorchScript network was in training mode when it was saved; False where that cannot be told."""
    with contextlib.suppress(*_CANNOT_BE_READ), zipfile.ZipFile(path) as archive:
        return _is_training(archive)
    return False


def has_modes(path: Path) -> bool:
    """Whether a TorchScript network has something that behaves otherwise in training mode: dropout, batch norm."""
    with contextlib.suppress(*_CANNOT_BE_READ), zipfile.ZipFile(path) as archive:
        return any(name.endswith(".py") and _MODES.search(_read(archive, name)) for name in archive.namelist())
    return False


def _is_training(archive: zipfile.ZipFile) -> bool:
    name = next(name for name in archive.namelist() if name.partition("/")[2] == "data.pkl")
    key_seen = False
    for opcode, argument, _ in pickletools.genops(_read(archive, name)):
        if opcode.name in ("NEWTRUE", "NEWFALSE") and key_seen:
            return opcode.name == "NEWTRUE"  # of the outermost module, which comes first
        if opcode.name != "BINPUT":
            key_seen = argument == "training"
    return False


# The wire format of protocol buffers, https://protobuf.dev/programming-guides/encoding/, as far as it takes to skip a field.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GRAPH_FIELD, _LARGEST_FIELD = 7, 100  # onnx.ModelProto.graph; all fields of a ModelProto have small numbers


def _is_onnx(file: BinaryIO, size: int) -> bool:
    """Whether the whole file is a sequence of fields as an onnx.ModelProto has them, a graph among them."""
    file.seek(0)
    has_graph = False
    while file.tell() < size:
        key = _read_varint(file)
        if key is None or not 0 < key >> 3 <= _LARGEST_FIELD:
            return False
        wire_type = key & 7
        if wire_type == _VARINT:
            if _read_varint(file) is None:
                return False
        elif wire_type in (_FIXED64, _FIXED32):
            file.seek(8 if wire_type == _FIXED64 else 4, os.SEEK_CUR)
        elif wire_type == _BYTES:
            length = _read_varint(file)
            if length is None:
                return False
            file.seek(length, os.SEEK_CUR)
            has_graph |= key >> 3 == _GRAPH_FIELD
        else:
            return False
        if file.tell() > size:
            return False
    return has_graph


def _read_varint(file: BinaryIO) -> int | None:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None
