"""Reads the text of a model, `x.pnnx.param`.

    7767517                                                      magic
    4 3                                                          number of operators, number of operands
    pnnx.Input   pnnx_input_0  0 1 0 #0=(1,3)f32                 type name inputs outputs input… output… tail…
    nn.Linear    fc            1 1 0 1 bias=True @bias=(2)f32 @weight=(2,3)f32 $input=0 #0=(1,3)f32 #1=(1,2)f32
    F.relu       F.relu_0      1 1 1 2 #2=(1,2)f32
    pnnx.Output  pnnx_output_0 1 0 2

The tail has parameters `key=value` (see `values`), weights `@key=(dims)dtype`, argument names `$key=operand` and annotations
`#operand=(dims)dtype`, in any order. `$key` names the first input of that operand that has no name yet.

Harmless differences from what the converter writes are read: a UTF-8 byte order mark, CRLF, tabs, several blanks, blanks at
the end of a line, no newline at the end, blank lines after the last operator, `key=` with an empty value, a model without
inputs, annotations that are missing, or of rank 0, or of the dtype `null`. All else is a `ModelFileError` that says where:

* other encodings and control characters, wrong magic (an ncnn file is told by name), counts that do not agree with the lines
  and with the operands, blank lines between operators;
* operands used before they are defined or defined twice, names of operators or weights that occur twice, a `pnnx.Input` that
  has inputs or not one output, a `pnnx.Output` that has outputs or not one input, a model without any;
* words without `=`, keys that are empty or occur twice, names for inputs that are not there, annotations that contradict each
  other or belong to another operator, dimensions that are negative, symbolic or above 2^31-1, unknown dtypes.

What exceeds a limit of `settings` is a `ResourceLimitError`.
"""

from __future__ import annotations

import contextlib
import gc
import math
import re
import sys
from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from .. import dtypes
from ..dtypes import DType
from ..errors import KuiperError, ModelFileError, ResourceLimitError, did_you_mean
from ..settings import settings
from .graph import Attribute, Graph, Operand, Operator, Parameter
from .source import Source
from .values import parse_parameter

MAGIC = "7767517"

Annotation: TypeAlias = "tuple[tuple[int | None, ...], DType | None]"

_MAX_DIM = 2**31 - 1
_MAX_DIGITS = 18  # of a count
_TOKEN = re.compile(r"[^ \t]+")
_USUAL_COUNTS = {str(count): count for count in range(10)}
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_SHAPE = re.compile(r"\(([^()]*)\)([^()]*)")
_DTYPES: dict[str, DType | None] = {dtype.name: dtype for dtype in dtypes.ALL} | {"null": None}

# What the operators at the ends of a model have to have: inputs, outputs.
_ENDS = {"pnnx.Input": (0, 1), "pnnx.Output": (1, 0)}


def parse_param(source: Source) -> Graph:
    """The graph of a source, without the data of its weights; see the module's docstring."""
    with _collector_paused():
        return _Parser(source.name, source.read(0, source.size)).parse()


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Python's cycle collector would search the growing graph again and again, a third of the time, for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def entry_name(operator: Operator, key: str) -> str:
    """The name under which the archive has a weight."""
    return f"{operator.name}.{key}"


def parse_annotation(text: str) -> Annotation:
    """Shape (None for `?`) and dtype (None for `null`) of a text like `(1,?,3)f32`; errors come without a place."""
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise ModelFileError(f"'{text[:60]}' is no shape with a dtype; expected one like (1,3,?)f32")
    words = found[1].split(",") if found[1] else []
    if len(words) > settings.max_rank:
        raise ResourceLimitError(f"{len(words)} dimensions; settings.max_rank is {settings.max_rank}")
    shape = tuple(_parse_dim(word) for word in words)
    if math.prod(dim for dim in shape if dim) > settings.max_elements:  # NumPy, too, multiplies all but the zeros
        raise ResourceLimitError(f"'{text}' has more elements than settings.max_elements={settings.max_elements:,}")
    if found[2] not in _DTYPES:
        hint = did_you_mean(found[2], _DTYPES)
        raise ModelFileError(f"unknown dtype '{found[2][:60]}'; expected one of {', '.join(_DTYPES)}{hint}")
    return shape, _DTYPES[found[2]]


def _parse_dim(word: str) -> int | None:
    if word == "?":
        return None
    if word.startswith("%"):
        raise ModelFileError(
            f"dimension '{word[:60]}' is symbolic, as in the converter's pattern files; expected a size or ?"
        )
    if _NUMBER.fullmatch(word) is None:
        raise ModelFileError(f"dimension '{word[:60]}' is no size; expected a number of 0 or more, or ?")
    if len(word) > 10 or int(word) > _MAX_DIM:
        raise ModelFileError(f"dimension {word[:60]} is too large; expected at most {_MAX_DIM:,}")
    return int(word)


class _Parser:
    """The state of reading one text: the lines, what was defined so far, and what was read before."""

    def __init__(self, file: str, data: bytes) -> None:
        self._file = file
        self._lines = self._split(data)
        self._graph = Graph()
        self._lines_of_operators: dict[str, int] = {}
        self._lines_of_weights: dict[str, int] = {}
        self._annotation_texts: dict[str, str] = {}  # operand -> the first annotation
        self._annotations: dict[str, Annotation] = {}  # text -> what it means
        self._parameters: dict[str, Parameter] = {}  # text -> what it means
        self._max_line_bytes: int = settings.max_line_bytes
        self._max_operands: int = settings.max_operator_operands

    def parse(self) -> Graph:
        operand_count = self._read_header()
        for number in range(3, len(self._lines) + 1):
            self._read_operator(number)
        found = len(self._graph.operands)
        if found != operand_count:
            raise self._error(
                f"{operand_count:,} operands are declared, but the operators have {found:,} outputs", 2, 1
            )
        if not self._graph.operators_of_type("pnnx.Output"):
            raise self._error("the model has no output; expected at least one operator pnnx.Output")
        return self._graph

    # ---- places

    def _error(self, message: str, number: int | None = None, token: int | None = None) -> ModelFileError:
        return ModelFileError(message, file=self._file, line=number, column=self._column(number, token))

    def _at(self, error: KuiperError, number: int, token: int) -> KuiperError:
        """An error that came without a place, with one."""
        if isinstance(error, ModelFileError):
            return self._error(error.message, number, token)
        return error.at(f"{self._file}:{number}:{self._column(number, token)}")

    def _column(self, number: int | None, token: int | None) -> int | None:
        if number is None or token is None:
            return None
        line = self._lines[number - 1].decode("utf-8", "replace")
        starts = [found.start() + 1 for found in _TOKEN.finditer(line)]
        return starts[token] if token < len(starts) else len(line.rstrip()) + 1

    # ---- lines and tokens

    def _split(self, data: bytes) -> list[bytes]:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise self._error("this is UTF-16 text; expected UTF-8")
        data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").rstrip(b" \t\r\n")
        if not data:
            raise self._error("the file is empty; expected a PNNX model")
        if data.startswith(b"PK"):
            raise self._error("this is a zip archive, perhaps the .bin; expected the text of a model, .pnnx.param")
        control = _CONTROL.search(data)
        if control:
            line_start = data.rfind(b"\n", 0, control.start()) + 1
            what = {b"\r": "a carriage return within a line", b"\0": "a NUL byte"}.get(
                control[0], "a control character"
            )
            place = {"line": data.count(b"\n", 0, line_start) + 1, "column": control.start() - line_start + 1}
            raise ModelFileError(f"{what} ({control[0]!r}); expected plain UTF-8 text", file=self._file, **place)
        count = data.count(b"\n")
        if count > settings.max_operators + 1:
            limit = f"settings.max_operators is {settings.max_operators:,}"
            raise ResourceLimitError(f"{self._file}: {count + 1:,} lines of text; {limit}")
        return data.split(b"\n")

    def _tokens(self, number: int) -> list[str]:
        raw = self._lines[number - 1]
        if len(raw) > self._max_line_bytes:
            limit = f"settings.max_line_bytes is {self._max_line_bytes:,}"
            raise ResourceLimitError(f"{self._file}:{number}: a line of {len(raw):,} bytes; {limit}")
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            column = len(raw[: error.start].decode()) + 1
            message = f"byte {raw[error.start]:#04x} is not UTF-8 text ({error.reason})"
            raise ModelFileError(message, file=self._file, line=number, column=column) from error
        # str.split knows more kinds of blanks than the format does, all of them outside of ASCII.
        return line.split() if line.isascii() else _TOKEN.findall(line)

    def _read_header(self) -> int:
        """Checks the first two lines; returns the number of operands."""
        if self._tokens(1) != [MAGIC]:
            found = self._lines[0][:40].decode("utf-8", "replace")
            raise self._error(f"found '{found}', expected {MAGIC}, with which a .pnnx.param begins", 1, 0)
        if len(self._lines) < 2:
            raise self._error("the file ends after its first line; expected the numbers of operators and operands")
        counts = self._tokens(2)
        if len(counts) != 2:
            raise self._error(f"{len(counts)} words; expected the number of operators and the number of operands", 2, 0)
        operator_count, operand_count = (self._count(2, token, word) for token, word in enumerate(counts))
        if operator_count > settings.max_operators:
            limit = f"settings.max_operators is {settings.max_operators:,}"
            raise ResourceLimitError(f"{self._file}:2:1: {operator_count:,} operators are declared; {limit}")
        self._refuse_ncnn()
        lines = len(self._lines) - 2
        if lines != operator_count:
            what = f"{operator_count:,} operators are declared, but {lines:,} lines follow"
            if lines < operator_count:
                raise self._error(f"{what}; is the file cut off?", 2, 0)
            raise self._error(f"{what}; this is one too many", operator_count + 3, 0)
        return operand_count

    def _refuse_ncnn(self) -> None:
        # ncnn's own format has the same magic, but types without dots, and never a pnnx.Output.
        if len(self._lines) > 2 and not any(line.startswith(b"pnnx.") for line in self._lines):
            first = (self._tokens(3) or [""])[0]
            if "." not in first and "::" not in first:
                raise self._error(
                    f"this is an ncnn model (its first operator is '{first[:60]}'); expected a .pnnx.param",
                    3,
                    0,
                )

    def _count(self, number: int, token: int, word: str) -> int:
        if word in _USUAL_COUNTS:
            return _USUAL_COUNTS[word]
        if _NUMBER.fullmatch(word) is None or len(word) > _MAX_DIGITS:
            hint = "; the format cannot hold a name with a blank" if number > 2 and token == 2 else ""
            raise self._error(f"found '{word[:60]}', expected a count{hint}", number, token)
        return int(word)

    # ---- operators

    def _read_operator(self, number: int) -> None:
        tokens = self._tokens(number)
        if len(tokens) < 4:
            found = f"{len(tokens)} words" if tokens else "an empty line"
            raise self._error(
                f"{found}; expected an operator: type, name, number of inputs, number of outputs", number, 0
            )
        first_output = 4 + self._count(number, 2, tokens[2])
        tail = first_output + self._count(number, 3, tokens[3])
        if tail > len(tokens):
            raise self._error(f"{tail - 4:,} operands are declared, but {len(tokens) - 4:,} words follow", number, 2)
        if tail - 4 > self._max_operands:
            limit = f"settings.max_operator_operands is {self._max_operands:,}"
            raise ResourceLimitError(f"{self._file}:{number}: an operator with {tail - 4:,} operands; {limit}")
        operator = Operator(sys.intern(tokens[0]), tokens[1], line=number)
        if self._lines_of_operators.setdefault(operator.name, number) != number:
            earlier = self._lines_of_operators[operator.name]
            raise self._error(f"an operator is called '{operator.name}' already, in line {earlier}", number, 1)
        self._wire(operator, tokens, first_output, tail)
        token = tail
        try:
            if tail < len(tokens):
                operands = dict(zip(tokens[4:tail], operator.inputs + operator.outputs, strict=True))
                seen: set[str] = set()
                unnamed: dict[str, deque[int]] = {}
                for token in range(tail, len(tokens)):
                    key, equals, value = tokens[token].partition("=")
                    if not equals:
                        what = f"found '{key[:60]}', expected key=value"
                        raise ModelFileError(f"{what}; the format cannot hold a value with a blank")
                    if key.startswith("#"):
                        self._annotate(operands, key[1:], value)
                    elif key in seen:
                        raise ModelFileError(f"the key '{key[:60]}' is there twice")
                    else:
                        seen.add(key)
                        self._read_tail(operator, key, value, unnamed)
        except (ModelFileError, ResourceLimitError) as error:
            raise self._at(error, number, token) from None
        self._graph.operators.append(operator)

    def _wire(self, operator: Operator, tokens: list[str], first_output: int, tail: int) -> None:
        known = self._graph.operands
        for token in range(4, first_output):
            operand = known.get(tokens[token])
            if operand is None:
                raise self._error(self._why_undefined(tokens[token], operator.line), operator.line, token)
            operand.consumers.append(operator)
            operator.inputs.append(operand)
        operator.input_names = [None] * len(operator.inputs)
        for token in range(first_output, tail):
            name = tokens[token]
            if name in known:
                producer = known[name].producer
                earlier = f"'{producer.name}' in line {producer.line}" if producer else "another operator"
                raise self._error(f"operand '{name}' is an output of {earlier} already", operator.line, token)
            if "=" in name or name[0] in "@#$":
                raise self._error(f"found '{name[:60]}', expected an output; is the count wrong?", operator.line, token)
            known[name] = operand = Operand(name, operator)
            operator.outputs.append(operand)
        if operator.type in _ENDS and (len(operator.inputs), len(operator.outputs)) != _ENDS[operator.type]:
            inputs, outputs = _ENDS[operator.type]
            found = f"has {len(operator.inputs)} inputs and {len(operator.outputs)} outputs"
            raise self._error(f"{operator.type} {found}; expected {inputs} and {outputs}", operator.line, 2)

    def _read_tail(self, operator: Operator, key: str, value: str, unnamed: dict[str, deque[int]]) -> None:
        """A parameter, a weight or the name of an input."""
        if key in ("", "@", "$"):
            raise ModelFileError(f"'{key}={value[:60]}' has an empty key")
        if key[0] == "@":
            self._add_weight(operator, key[1:], value)
        elif key[0] == "$":
            self._name_input(operator, key[1:], value, unnamed)
        else:
            if value not in self._parameters:
                self._parameters[value] = parse_parameter(value)
            operator.params[key] = self._parameters[value]

    def _meaning(self, text: str) -> Annotation:
        if text not in self._annotations:
            self._annotations[text] = parse_annotation(text)
        return self._annotations[text]

    def _annotate(self, operands: dict[str, Operand], name: str, text: str) -> None:
        operand = operands.get(name)
        if operand is None:
            raise ModelFileError(f"'#{name[:60]}' is neither an input nor an output of this operator")
        first = self._annotation_texts.get(name)
        if first is None:
            operand.shape, operand.dtype = self._meaning(text)
            self._annotation_texts[name] = text
        elif text != first:  # no two texts have the same meaning
            raise ModelFileError(f"operand '{name}' is annotated {text} here, but {first} before")

    def _add_weight(self, operator: Operator, key: str, text: str) -> None:
        shape, dtype = self._meaning(text)
        sizes = tuple(dim for dim in shape if dim is not None)
        if len(sizes) < len(shape):
            raise ModelFileError(f"weight '{key}' has the shape {text}; expected sizes alone, without ?")
        entry = entry_name(operator, key)
        if entry in self._lines_of_weights:
            raise ModelFileError(f"a weight is called '{entry}' already, in line {self._lines_of_weights[entry]}")
        self._lines_of_weights[entry] = operator.line
        operator.attributes[key] = Attribute(dtype, sizes)

    def _name_input(self, operator: Operator, key: str, name: str, unnamed: dict[str, deque[int]]) -> None:
        """`unnamed` has the inputs that still lack a name, by operand; it is filled here."""
        if not unnamed:
            for index, operand in enumerate(operator.inputs):
                unnamed.setdefault(operand.name, deque()).append(index)
        if name not in unnamed:
            raise ModelFileError(f"'${key}={name[:60]}': '{name[:60]}' is no input of this operator")
        if not unnamed[name]:
            raise ModelFileError(f"'${key}={name}': all inputs that are '{name}' have a name already")
        operator.input_names[unnamed[name].popleft()] = key

    def _why_undefined(self, name: str, number: int) -> str:
        """Why line `number` uses an operand that was not defined before it: defined later, a cycle, or not at all."""
        producers: dict[str, int] = {}
        inputs: dict[int, list[str]] = {}
        for later in range(number, len(self._lines) + 1):
            tokens = self._tokens(later)
            if len(tokens) >= 4 and all(_NUMBER.fullmatch(word) and len(word) <= _MAX_DIGITS for word in tokens[2:4]):
                middle = 4 + int(tokens[2])
                inputs[later] = tokens[4:middle]
                producers.update(dict.fromkeys(tokens[middle : middle + int(tokens[3])], later))
        if name not in producers:
            return f"operand '{name[:60]}' is not the output of any operator"
        line = producers[name]
        seen, pending = {line}, [line]
        while pending and number not in seen:
            reached = {producers[needed] for needed in inputs[pending.pop()] if needed in producers} - seen
            seen |= reached
            pending += reached
        if number in seen:
            return f"operand '{name}' comes from line {line}, which depends on this operator: the graph has a cycle"
        return f"operand '{name}' comes from line {line}; expected operators in the order in which they can run"
