"""From an operator of a file to a layer: parameters become fields, operands and weights become arguments of `forward`.

Everything is found by name, and nothing is ignored: a parameter, a weight or an input that the layer does not know is an
error, because an engine that skips what it does not understand gives silently wrong numbers.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeAlias

from ..dtypes import DType, dtype_from_name
from ..errors import KuiperError, ModelFileError, UnsupportedOperatorError, did_you_mean
from ..records import dataclass
from .annotation import AnnotatedLayer, Annotation
from .base import Layer, Text, registered
from .promotion import NUMBER_WORDS


@dataclass(frozen=True)
class FromInput:
    """An argument that is input number `index` of the operator."""

    index: int


@dataclass(frozen=True)
class FromAttribute:
    """An argument that is the operator's weight `name`."""

    name: str


@dataclass(frozen=True)
class Constant:
    """An argument that the file gives as a parameter."""

    value: Any


Source: TypeAlias = "FromInput | FromAttribute | Constant"


@dataclass(frozen=True)
class Binding:
    """A layer and where its arguments come from: `arguments` in order, then `named` ones."""

    layer: Layer
    arguments: tuple[Source, ...]
    named: Mapping[str, Source]


@dataclass(frozen=True)
class Signature:
    """What a layer class takes: argument names of `forward` in order, the required ones, how many stand before `*inputs`
    (None where there is no such), whether `**weights` may follow, and the kinds of its fields."""

    names: tuple[str, ...]
    required: frozenset[str]
    before_more_inputs: int | None
    takes_more_weights: bool
    field_types: Mapping[str, Any]


# Fields that `bind` fills from elsewhere than the parameters.
_NOT_PARAMETERS = ("type_name", "input_count", "output_count", "annotated_inputs", "annotated_outputs")

# Stands for the name of an input that became a parameter, or is ignored.
_TAKEN = ""

_SIGNATURES: dict[type[Layer], Signature] = {}


def signature_of(layer: type[Layer]) -> Signature:
    """The signature of a layer class; argument names after ``*`` count as names too."""
    found = _SIGNATURES.get(layer)
    if found is None:
        parameters = list(inspect.signature(layer.forward).parameters.values())[1:]
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        more = [index for index, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL]
        hints = typing.get_type_hints(layer)
        found = _SIGNATURES[layer] = Signature(
            names=tuple(p.name for p in named),
            required=frozenset(p.name for p in named if p.default is p.empty),
            before_more_inputs=more[0] if more else None,
            takes_more_weights=any(p.kind is p.VAR_KEYWORD for p in parameters),
            field_types={field.name: hints[field.name] for field in fields(layer)},
        )
    return found


def bind(
    type_name: str,
    *,
    input_names: Sequence[str | None] = (),
    params: Mapping[str, Any] | None = None,
    attributes: Sequence[str] = (),
    output_count: int = 1,
    annotated_inputs: Sequence[Annotation] = (),
    annotated_outputs: Sequence[Annotation] = (),
    constants: Mapping[int, Any] | None = None,
) -> Binding:
    """The layer of an operator and its arguments.

    `input_names` has one entry an input, None where the file names none; `params` maps names to `pnnx.Parameter`s or to
    plain Python values. `annotated_inputs` and `annotated_outputs` are what the file says of the operands, for those layers
    that ask. `constants` has the values of those inputs that are constants of the file: as left-over `aten::` operators, and
    converters that optimise little, have them in place of parameters. Raises `UnsupportedOperatorError` for an unknown type
    and `ModelFileError` for all else that does not fit.
    """
    registration = registered().get(type_name)
    if registration is None:
        raise UnsupportedOperatorError(
            f"operator type '{type_name}' is not registered{did_you_mean(type_name, registered())}", {type_name: []}
        )
    layer_type = registration.layer
    given = dict(params or {})
    values = {name: getattr(parameter, "value", parameter) for name, parameter in given.items()}
    names = list(layer_type.name_inputs(input_names, values, output_count))
    for index, value in (constants or {}).items():
        name = names[index]
        if name is not None and _is_parameter(layer_type, name) and name not in given:
            given[name] = value
            names[index] = _TAKEN
    names = [_TAKEN if name in layer_type.ignored else name for name in names]
    sources = _bind_inputs(layer_type, names)
    _bind_attributes(layer_type, sources, attributes)
    settings = _bind_params(layer_type, sources, given, registration.preset, attributes)
    signature = signature_of(layer_type)
    if issubclass(layer_type, AnnotatedLayer):
        settings.update(annotated_inputs=tuple(annotated_inputs), annotated_outputs=tuple(annotated_outputs))
    missing = [name for name in signature.names if name in signature.required and name not in sources]
    if missing:
        raise ModelFileError(
            f"{_listed(missing)} missing: neither an input, nor a weight, nor a parameter of that name"
        )
    try:
        layer = layer_type(type_name=type_name, input_count=len(input_names), output_count=output_count, **settings)
    except TypeError:
        required = [f.name for f in fields(layer_type) if f.default is MISSING and f.default_factory is MISSING]
        raise ModelFileError(f"parameter {_listed([n for n in required if n not in settings])} missing") from None
    extra = [sources.pop(key) for key in sorted(k for k in sources if isinstance(k, int))]
    named = {str(name): source for name, source in sources.items()}
    positional: list[Source] = list(extra)
    if extra:  # *inputs: the named arguments before them go by position
        before = signature.names[: signature.before_more_inputs]
        positional = [named.pop(name) for name in before if name in named] + positional
    return Binding(layer, tuple(positional), named)


def _is_parameter(layer: type[Layer], name: str) -> bool:
    signature = signature_of(layer)
    if name in signature.names or name in _NOT_PARAMETERS:
        return False
    return name in signature.field_types or name in layer.ignored


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) + (" is" if len(names) == 1 else " are")


def _bind_inputs(layer: type[Layer], input_names: Sequence[str | None]) -> dict[str | int, Source]:
    """Sources by argument name; further inputs, for `*inputs`, by their number."""
    signature = signature_of(layer)
    sources: dict[str | int, Source] = {}
    for index, key in enumerate(input_names):
        if key is None or key is _TAKEN:
            continue
        name = layer.operand_aliases.get(key, key)
        if name not in signature.names and len(input_names) == 1 and signature.before_more_inputs is None:
            # The converter's rewrites name a lone input after what it is, such as `$mask=` of a reshape.
            name = signature.names[0] if signature.names else name
        if name not in signature.names and signature.before_more_inputs is not None:
            sources[index] = FromInput(index)  # torch.cat and its like: the key names the list
            continue
        if name not in signature.names:
            known = ", ".join(signature.names)
            raise ModelFileError(f"input '{key}' is unknown; known are {known}{did_you_mean(key, signature.names)}")
        if name in sources:
            raise ModelFileError(f"input '{key}' is given twice")
        sources[name] = FromInput(index)
    free = iter([name for name in signature.names if name not in sources])
    before_more = signature.names[: signature.before_more_inputs]
    for index, key in enumerate(input_names):
        if key is not None:
            continue
        position = next(free, None)
        if position is not None and position in before_more:
            sources[position] = FromInput(index)
        elif signature.before_more_inputs is not None:
            sources[index] = FromInput(index)
        else:
            raise ModelFileError(f"has {len(input_names)} inputs, but takes at most {len(signature.names)}")
    return sources


def _bind_attributes(layer: type[Layer], sources: dict[str | int, Source], attributes: Sequence[str]) -> None:
    signature = signature_of(layer)
    for name in attributes:
        if name not in signature.names and not signature.takes_more_weights:
            raise ModelFileError(f"weight '{name}' is unknown{did_you_mean(name, signature.names)}")
        if name in sources:
            raise ModelFileError(f"'{name}' is both an input and a weight")
        sources[name] = FromAttribute(name)


def _bind_params(
    layer: type[Layer],
    sources: dict[str | int, Source],
    params: Mapping[str, Any],
    preset: Mapping[str, Any],
    attributes: Sequence[str],
) -> dict[str, Any]:
    signature = signature_of(layer)
    annotations = signature.field_types
    settings: dict[str, Any] = dict(preset)
    for name, parameter in params.items():
        value = getattr(parameter, "value", parameter)
        if name in layer.presence and isinstance(value, bool):
            _check_presence(name, value, layer.presence[name], attributes)
            if name in annotations:
                settings[name] = value
        elif name in annotations and name not in _NOT_PARAMETERS:
            settings[name] = convert(value, annotations[name], name, getattr(parameter, "text", None))
        elif name in signature.names:
            if name in sources:
                if value is None:
                    continue
                raise ModelFileError(f"'{name}' is given both as a parameter and as an input or weight")
            sources[name] = Constant(value)
        elif name not in layer.ignored:
            known = [*(n for n in annotations if n not in _NOT_PARAMETERS), *signature.names, *layer.ignored]
            raise ModelFileError(
                f"parameter '{name}={getattr(parameter, 'text', value)}' is unknown to this operator{did_you_mean(name, known)}"
            )
    return settings


def _check_presence(name: str, value: bool, weights: Sequence[str], attributes: Sequence[str]) -> None:
    present = [weight for weight in weights if weight in attributes]
    if value and not present:
        raise ModelFileError(f"{name}=True, but the weight {_listed(weights)} missing")
    if present and not value:
        raise ModelFileError(f"{name}=False, but there is a weight {_listed(present)[:-3]}")


# ------------------------------------------------------------------------------------------- parameter kinds


def _to_int(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value


def _to_float(value: Any) -> float:
    if isinstance(value, str):
        return NUMBER_WORDS[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError
    return float(value)


def _to_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _to_str(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


# PyTorch's numbers of dtypes (c10::ScalarType), which left-over `aten::` operators have.
_SCALAR_TYPES = dict(enumerate(["u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "c32", "c64", "c128", "bool"]))
_SCALAR_TYPES[15] = "bf16"


def _to_dtype(value: Any) -> DType:
    return dtype_from_name(_SCALAR_TYPES[_to_int(value)] if isinstance(value, int) else _to_str(value))


_CONVERTERS: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    int: ("an integer", _to_int),
    float: ("a number", _to_float),
    bool: ("True or False", _to_bool),
    str: ("a word", _to_str),
    Text: ("a text", _to_str),
    DType: ("a dtype such as torch.float", _to_dtype),
    type(None): ("None", lambda value: {None: None}[value]),
}


def convert(value: Any, annotation: Any, name: str, text: str | None = None) -> Any:
    """A parameter's value as the kind that a field's annotation asks for, or `ModelFileError`.

    Known annotations: int, float, bool, str, DType, tuples of these (`tuple[int, ...]`), unions, Text, and Any. A number
    stands for a tuple of one. `text`, where given, is the value as written, for words that look like numbers.
    """
    found = _convert(value, annotation, text)
    if found is _FAILED:
        shown = text if text is not None else repr(value)
        raise ModelFileError(f"parameter '{name}': expected {_describe(annotation)}, found {shown}")
    return found


_FAILED = object()


def _convert(value: Any, annotation: Any, text: str | None) -> Any:
    if annotation is Any:
        return value
    if annotation is Text and text is not None:
        return text
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        results = (_convert(value, option, text) for option in typing.get_args(annotation))
        return next((result for result in results if result is not _FAILED), _FAILED)
    if origin is tuple:
        element = typing.get_args(annotation)[0]
        items = value if isinstance(value, (tuple, list)) else (value,)
        if value is None:
            return _FAILED
        converted = tuple(_convert(item, element, None) for item in items)
        return _FAILED if any(item is _FAILED for item in converted) else converted
    if annotation is str and text is not None and not isinstance(value, (str, tuple)):
        return text if isinstance(value, (int, float)) and not isinstance(value, bool) else _FAILED
    try:
        return _CONVERTERS[annotation][1](value)
    except (ValueError, KeyError, TypeError):
        return _FAILED
    except KuiperError:
        return _FAILED


def _describe(annotation: Any) -> str:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(option) for option in typing.get_args(annotation))
    if origin is tuple:
        return f"a list of which each is {_describe(typing.get_args(annotation)[0])}"
    return _CONVERTERS[annotation][0]
