"""Reads a model: its text, and the weights that the text asks for."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence

import numpy as np

from ..errors import InputError, ModelFileError
from ..memory import align, aligned_empty, lock
from ..settings import settings
from .archive import Entry, read_directory, read_entry
from .graph import Attribute, Graph, Operator
from .param import entry_name, parse_param
from .paths import bin_path, param_path
from .source import Readable, Source, open_source

_LISTED = 5  # names in one error message
_LARGE = 4 << 20  # bytes that are worth another thread


def read(param: Readable, bin: Readable | None = None, *, weights: bool = True) -> Graph:
    """The model of `x.pnnx.param` and `x.pnnx.bin`, each given as a path, an open file or bytes.

    A path may also be one without its ending, or that of a folder: see `param_path`. Without `bin`, the file beside the path
    `param` is taken; it may be missing where the model has no weights. With
    `weights=False` only the text is read: every `Attribute.data` is None. Every weight is copied once, into an array that is
    aligned to 64 bytes and read-only; all of them share one allocation.

    Raises `ModelFileError` where a file is not as the format is (see `param`, `values` and `archive`) or where the two do not
    belong together, `ResourceLimitError` where a limit of `settings` would be exceeded, and `InputError` where the weights of a
    model that has no path are needed, but not given.
    """
    limit, setting = settings.max_param_bytes, "max_param_bytes"
    if isinstance(param, (str, os.PathLike)):
        param = param_path(param)
    with open_source(param, "param", limit=limit, setting=setting) as source:
        graph = parse_param(source)
        graph.file = source.path
        name = source.name
    if weights:
        given = bin if bin is not None else _bin_beside(graph, name)
        if given is not None:
            with open_source(given, "bin", limit=settings.max_memory, setting="max_memory") as source:
                _read_weights(graph, source, name)
    return graph


def _bin_beside(graph: Graph, name: str) -> str | None:
    """The path of the archive beside the text; None where there is none and none is needed."""
    path = None if graph.file is None else bin_path(graph.file)
    if path is not None and os.path.lexists(path):
        return path
    needed = [operator for operator in graph.operators for a in operator.attributes.values() if a.dtype is not None]
    if not needed:
        return None
    what = f"{len(needed)} weights, the first of operator '{needed[0].name}' in line {needed[0].line}"
    if path is not None:
        raise ModelFileError(f"no such file, but {name} needs it for {what}", file=path)
    raise InputError(f"{name} has {what}; pass the archive as bin=…, or read it without them: weights=False")


def _read_weights(graph: Graph, source: Source, param_name: str) -> None:
    """Gives every attribute of the graph its data."""
    if sys.byteorder != "little":
        raise InputError("the weights of a model are little-endian, and this machine is not")
    wanted = {entry_name(operator, key): (operator, key) for operator in graph.operators for key in operator.attributes}
    entries = read_directory(source)
    _check_pair(entries, wanted, source, param_name)
    begins, total = {}, 0
    for name, entry in entries.items():
        operator, key = wanted[name]
        _check_size(entry, operator, operator.attributes[key], source, param_name)
        begins[name] = total
        total += align(entry.size)
    arena = aligned_empty(total, np.uint8)
    _read_entries(source, [(entry, arena.data[begins[name] :][: entry.size]) for name, entry in entries.items()], total)
    lock(arena)
    for name, begin in begins.items():
        operator, key = wanted[name]
        attribute = operator.attributes[key]
        if attribute.dtype is None:
            continue
        data = np.ndarray(attribute.shape, attribute.dtype.storage, buffer=arena, offset=begin)
        if attribute.dtype.kind == "bool" and data.view(np.uint8).max(initial=0) > 1:
            raise ModelFileError(f"entry '{name}' of dtype bool has bytes other than 0 and 1", file=source.name)
        operator.attributes[key] = Attribute(attribute.dtype, attribute.shape, data)


def _read_entries(source: Source, entries: Sequence[tuple[Entry, memoryview]], total: int) -> None:
    """Reads entries, in two threads if they are large: neither reading nor a checksum needs the interpreter's lock."""
    waiting = deque(entries)
    errors: list[BaseException] = []  # whatever it is: no weight may be left unread in silence

    def read_some() -> None:
        try:
            while not errors:
                try:
                    entry, target = waiting.popleft()
                except IndexError:  # the other thread was quicker, or all are read
                    return
                read_entry(source, entry, target)
        except BaseException as error:
            errors.append(error)

    helper = threading.Thread(target=read_some, name="kuiperinfer-read")
    if total >= _LARGE:
        with contextlib.suppress(RuntimeError):  # there can be no more threads
            helper.start()
    read_some()
    if helper.ident is not None:
        helper.join()
    if errors:
        raise errors[0]


def _check_pair(
    entries: dict[str, Entry], wanted: dict[str, tuple[Operator, str]], source: Source, param_name: str
) -> None:
    missing = [
        name
        for name, (operator, key) in wanted.items()
        if name not in entries and operator.attributes[key].dtype is not None
    ]
    extra = [name for name in entries if name not in wanted]
    if not missing and not extra:
        return
    complaints = []
    if missing:
        operator, _ = wanted[missing[0]]
        complaints.append(f"{len(missing)} weights are missing: {_listed(missing)} (the first of line {operator.line})")
    if extra:
        complaints.append(f"{len(extra)} entries belong to no operator: {_listed(extra)}")
    hint = "; are these the weights of another model?" if missing and extra else ""
    raise ModelFileError(f"does not fit {param_name}: {'; '.join(complaints)}{hint}", file=source.name)


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"'{name[:80]}'" for name in names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def _check_size(entry: Entry, operator: Operator, attribute: Attribute, source: Source, param_name: str) -> None:
    expected = attribute.nbytes
    if entry.size == expected:
        return
    shape = f"({','.join(map(str, attribute.shape))}){attribute.dtype or 'null'}"
    raise ModelFileError(
        f"byte {entry.offset:,}: entry '{entry.name}' has {entry.size:,} bytes; expected {expected:,}, for {shape} "
        f"in {param_name}:{operator.line}",
        file=source.name,
    )
