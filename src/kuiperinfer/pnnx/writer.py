"""Writes a model as the converter does: what was read from a converter's files comes out byte for byte."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from typing import IO, BinaryIO, TypeAlias, cast

import numpy as np

from ..dtypes import dtype_of
from ..errors import DTypeError, InputError, ModelFileError
from .archive import write_archive
from .graph import Attribute, Graph, Operand, Operator
from .param import MAGIC, entry_name, parse_param
from .paths import bin_path
from .source import MemorySource

Writable: TypeAlias = "str | os.PathLike[str] | IO[bytes] | IO[str]"

_COLUMN = 24  # the converter pads types and names to so many bytes

# What can stand in a word: no blanks, no control characters, no halves of characters. A key ends at its `=`; and the names of
# operands and of parameters have to be told from keys of other kinds.
_BAD = r"\x00-\x20\x7f\ud800-\udfff"
_WORD = re.compile(rf"[^{_BAD}]+")
_VALUE = re.compile(rf"[^{_BAD}]*")
_KEY = re.compile(rf"[^{_BAD}=]+")
_NAME = re.compile(rf"[^{_BAD}=@#$][^{_BAD}=]*")


def write(graph: Graph, param: Writable, bin: Writable | None = None, *, weights: bool = True) -> None:
    """Writes `x.pnnx.param` and `x.pnnx.bin`, each to a path or to an open file.

    Without `bin`, the archive goes beside the path `param`; with `weights=False` only the text is written. A file appears under
    its name when it is complete: both are written to other names first, then renamed.

    Raises `InputError` for a graph that could not be read again, for a weight without data, and where a file cannot be written.
    """
    text = _checked_text(graph)
    target = bin
    if weights and target is None:
        path = bin_path(os.fsdecode(param)) if isinstance(param, (str, os.PathLike)) else None
        if path is None and any(operator.attributes for operator in graph.operators):
            raise InputError("nowhere to write the weights to: pass bin=…, or leave them out with weights=False")
        target = path
    with contextlib.ExitStack() as stack:
        stack.enter_context(_open_target(param, "param")).write(text.encode())
        if weights and target is not None:
            write_archive(stack.enter_context(_open_target(target, "bin")), _entries(graph))


def to_bytes(graph: Graph) -> tuple[bytes, bytes]:
    """What `write` writes: the text and the archive."""
    text, archive = _checked_text(graph), io.BytesIO()
    write_archive(archive, _entries(graph))
    return text.encode(), archive.getvalue()


# ------------------------------------------------------------------------------------------- text


def to_text(graph: Graph) -> str:
    """The text of `x.pnnx.param`.

    Parameters and weights are sorted by key; an operand whose shape is known is annotated with its producer and with each use.
    Raises `InputError` for names and values that the format cannot hold.
    """
    lines = [MAGIC, f"{len(graph.operators)} {len(graph.operands)}", *map(_operator_text, graph.operators)]
    return "\n".join(lines) + "\n"


def _checked_text(graph: Graph) -> str:
    """The text of a graph that can be read again: every operand has its producer, before its uses, and so on."""
    text = to_text(graph)
    try:
        parse_param(MemorySource(text.encode(), "<graph>"))
    except ModelFileError as error:
        raise InputError(f"this graph cannot be written as a model: {error}") from error
    return text


def _operator_text(operator: Operator) -> str:
    def checked(word: str, pattern: re.Pattern[str], what: str) -> str:
        if pattern.fullmatch(word) is None:
            where = f"operator {operator.name!r} ({operator.type})"
            raise InputError(
                f"{where}: the {what} {word[:80]!r} is empty, or has a character that the format cannot hold there"
            )
        return word

    params, attributes, operands = operator.params, operator.attributes, operator.inputs + operator.outputs
    if len(operator.input_names) not in (0, len(operator.inputs)):
        count = len(operator.input_names)
        raise InputError(
            f"operator {operator.name!r}: {count} names for {len(operator.inputs)} inputs; expected one each"
        )
    words = [_padded(checked(operator.type, _WORD, "type")), _padded(checked(operator.name, _WORD, "name"))]
    words += [str(len(operator.inputs)), str(len(operator.outputs))]
    words += [checked(operand.name, _NAME, "operand") for operand in operands]
    for key in sorted(params):
        words.append(f"{checked(key, _NAME, 'parameter')}={checked(params[key].text, _VALUE, 'value')}")
    words += [f"@{checked(key, _KEY, 'weight')}={_attribute_text(attributes[key])}" for key in sorted(attributes)]
    nameless = set()
    for name, operand in zip(operator.input_names, operator.inputs, strict=False):
        if name is None:
            nameless.add(operand.name)
        elif operand.name in nameless:
            where = f"operator {operator.name!r}: input '{name}'"
            raise InputError(
                f"{where} is operand '{operand.name}', as is an input without a name before it: both need one"
            )
        else:
            words.append(f"${checked(name, _KEY, 'input')}={operand.name}")
    words += [f"#{operand.name}={_annotation_text(operand)}" for operand in operands if operand.shape is not None]
    return " ".join(words)


def _padded(word: str) -> str:
    return word + " " * (_COLUMN - len(word.encode()))


def _attribute_text(attribute: Attribute) -> str:
    return f"({','.join(map(str, attribute.shape))}){attribute.dtype or 'null'}"


def _annotation_text(operand: Operand) -> str:
    dims = ("?" if dim is None else str(dim) for dim in operand.shape or ())
    return f"({','.join(dims)}){operand.dtype or 'null'}"


# ------------------------------------------------------------------------------------------- weights and files


def _entries(graph: Graph) -> Iterator[tuple[str, memoryview]]:
    for operator in graph.operators:
        for key in sorted(operator.attributes):
            name = entry_name(operator, key)
            try:
                yield name, _data(operator.attributes[key])
            except (InputError, DTypeError) as error:
                raise InputError(f"the weight '{name}' cannot be written: {error}") from error


def _data(attribute: Attribute) -> memoryview:
    if attribute.dtype is None:
        return memoryview(b"")
    if attribute.data is None:
        raise InputError("it has no data; was the model read with weights=False?")
    found = dtype_of(attribute.data)
    if found is not attribute.dtype or attribute.data.shape != attribute.shape:
        shape = f"({','.join(map(str, attribute.data.shape))}){found}"
        raise InputError(f"its data is {shape}, its description {_attribute_text(attribute)}")
    contiguous = np.ascontiguousarray(attribute.data, found.storage)
    return contiguous.reshape(-1).view(np.uint8).data


@contextlib.contextmanager
def _open_target(target: Writable, what: str) -> Iterator[BinaryIO]:
    """Where to write bytes to; a file appears under its name when the block ends well."""
    if isinstance(target, (str, os.PathLike)):
        path = os.fsdecode(target)
        with _errors_of(path), _replacing(path) as stream:
            yield stream
    elif isinstance(target, io.TextIOBase):
        if what != "param":
            raise InputError(f"{what}: the open file takes text; expected one opened for bytes ('wb')")
        content = io.BytesIO()
        yield content
        with _errors_of(what):
            target.write(content.getvalue().decode())
    elif hasattr(target, "write"):
        with _errors_of(what):
            yield cast("BinaryIO", target)
    else:
        raise InputError(f"{what}: expected a path or an open file, found {type(target).__name__}")


@contextlib.contextmanager
def _errors_of(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: the open file is closed, or the path has a NUL
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(f"{name}: cannot be written: {reason}") from error


@contextlib.contextmanager
def _replacing(path: str) -> Iterator[BinaryIO]:
    target = os.path.realpath(path)
    temporary = f"{target}.{os.urandom(6).hex()}.tmp"
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # where it was not renamed
