"""What a layer is, the registry of layers, and how one layer is applied to values.

A layer is a frozen dataclass. Its *fields* are the operator's parameters, validated when it is made; its `forward` takes
the operator's *arguments*: operands, weights, and parameters that PyTorch also lets one pass as a tensor. `infer` takes the
same arguments as specs and says what comes out. Everything is found by name:

    @register("nn.LeakyReLU", "F.leaky_relu")
    @dataclass(frozen=True, kw_only=True)
    class LeakyReLU(Layer):
        \"\"\"x where x >= 0, else negative_slope * x. (*) -> (*)\"\"\"

        negative_slope: float = 0.01

        def infer(self, input: TensorSpec) -> TensorSpec:
            return input.like()

        def forward(self, input: Array) -> Array:
            return np.where(input >= 0, input, input * input.dtype.type(self.negative_slope))

A *value* is an array, a Python number, bool, string or None, or a list or dict of values. A `tuple` is never a value: it
stands for the several outputs of one operator. A value's *spec* has the same form, with a `TensorSpec` for each array.
Where `forward` annotates an argument as `Array`, a number (the converter leaves out `torch.tensor(n)`) comes as a 0-d array.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NewType, TypeAlias, TypeVar

import numpy as np

from ..dtypes import Array, Scalar, TensorSpec, narrow, scalar_dtype, widen
from ..dtypes import DataDependent as DataDependent
from ..errors import DTypeError, InputError, KuiperError, ResourceLimitError, ShapeError
from ..records import dataclass
from ..settings import settings
from .index import FAMILIES

Value: TypeAlias = Any  # Array | Scalar | str | None | list[Value] | dict[str, Value]
Spec: TypeAlias = Any  # TensorSpec | Scalar | str | None | list[Spec] | dict[str, Spec]
Ints: TypeAlias = tuple[int, ...]
Floats: TypeAlias = tuple[float, ...]
Gradients: TypeAlias = "Sequence[Array | None]"
Text = NewType("Text", str)  # a parameter as the file writes it, even where that looks like a number or a list


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Base of all layers; see the module's docstring."""

    type_name: str = ""
    input_count: int | None = None  # None for a layer that no operator has
    output_count: int = 1

    # Names of an operand (`$key`) that `forward` calls otherwise, such as {"self": "input"}.
    operand_aliases: ClassVar[Mapping[str, str]] = {}
    # bool parameters that say whether weights are there: {"bias": ("bias",), "affine": ("weight", "bias")}.
    presence: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # Parameters of PyTorch's signature without a meaning at inference.
    ignored: ClassVar[frozenset[str]] = frozenset()
    # Argument names of a left-over `aten::` operator, whose inputs have none, by their number: {3: "input dim descending"}.
    schemas: ClassVar[Mapping[int, str]] = {}
    # False for layers that take arrays as they are stored and round by themselves.
    widens: ClassVar[bool] = True
    # Arguments of which shape and dtype alone count.
    of_shape_alone: ClassVar[frozenset[str]] = frozenset()
    # True for layers whose results are random: no pass may calculate them beforehand.
    is_random: ClassVar[bool] = False

    @classmethod
    def name_inputs(
        cls, names: Sequence[str | None], params: Mapping[str, Any], output_count: int
    ) -> Sequence[str | None]:
        """The argument names of an operator's inputs, given those of the file; a hook for operators that count them."""
        if len(names) in cls.schemas and not any(names):
            return cls.schemas[len(names)].split()
        return names

    def infer(self, *arguments: Any, **named: Any) -> Spec | tuple[Spec, ...]:
        """Specs of the outputs for specs of the arguments; raises `ShapeError`, `DTypeError` or `DataDependent`."""
        raise NotImplementedError

    def forward(self, *arguments: Any, **named: Any) -> Value | tuple[Value, ...]:
        """The outputs, calculated with NumPy: the meaning of the operator. Arguments are never modified."""
        raise NotImplementedError

    def derivative(self, gradient: Array, output: Array, needs: Sequence[bool], *arguments: Any) -> Gradients:
        """The gradients of the arguments, given the gradient of the first output, which is `output`; all arrays are wide.

        None for arguments without one; those for which `needs` is false need not be calculated.
        """
        raise NotImplementedError

    @classmethod
    def is_differentiable(cls) -> bool:
        """Whether the family has a `derivative`."""
        return cls.derivative is not Layer.derivative


# ------------------------------------------------------------------------------------------- registry

LayerType = TypeVar("LayerType", bound=type[Layer])


@dataclass(frozen=True)
class Registration:
    """A layer class under one operator type, with the parameters that this type fixes (`ndim=2` for `nn.Conv2d`)."""

    layer: type[Layer]
    preset: Mapping[str, Any]


class _Registry(Mapping[str, Registration]):
    """Registrations by operator type. A family of this package is imported when one of its types is asked for."""

    def __init__(self) -> None:
        self._known: dict[str, Registration] = {}
        self._family = {name: f"{__package__}.{family}" for family, names in FAMILIES.items() for name in names}

    def __getitem__(self, name: str) -> Registration:
        if name not in self._known and name in self._family:
            importlib.import_module(self._family[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._known, *(name for name in self._family if name not in self._known)])

    def __len__(self) -> int:
        return len(self._known.keys() | self._family.keys())

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._family

    def add(self, name: str, registration: Registration) -> None:
        self._family.pop(name, None)
        self._known[name] = registration

    def remove(self, name: str) -> None:
        assert self[name]  # or its family would register it later
        del self._known[name]

    def taken_by(self, name: str, layer: type[Layer]) -> type[Layer] | None:
        """The other layer that has a type already."""
        if name not in self or self._family.get(name) == layer.__module__:
            return None
        return self[name].layer


_REGISTRY = _Registry()


def register(*types: str, replace: bool = False, **preset: Any) -> Callable[[LayerType], LayerType]:
    """Class decorator: makes a layer known under PNNX operator types; `preset` fixes parameters for these types.

    Raises `InputError` for an empty or taken type, unless `replace` is set.
    """

    def decorate(layer: LayerType) -> LayerType:
        if not types or not all(types):
            raise InputError(f"register: {layer.__name__} needs at least one operator type, and none may be empty")
        for name in types:
            taken = _REGISTRY.taken_by(name, layer)  # a family's own file is imported first: replaced is what is there
            if taken is not None and not replace:
                raise InputError(
                    f"operator type '{name}' is already registered by {taken.__module__}.{taken.__qualname__}; "
                    f"pass replace=True to take it over"
                )
            _REGISTRY.add(name, Registration(layer, preset))
        return layer

    return decorate


def unregister(name: str) -> None:
    """Forgets an operator type; `InputError` where it is unknown."""
    if name not in _REGISTRY:
        raise InputError(f"operator type '{name}' is not registered")
    _REGISTRY.remove(name)


def load_plugins() -> None:
    """Imports the modules that installed packages name in the entry-point group `kuiperinfer.layers`; they register theirs.

    Called once, when a model has an operator type that nobody registered so far. A module that fails to import is an
    `InputError` that names it.
    """
    import importlib.metadata  # which takes long to import, and is seldom needed

    if _plugins_loaded:
        return
    _plugins_loaded.append(True)
    for point in importlib.metadata.entry_points(group="kuiperinfer.layers"):
        try:
            point.load()
        except Exception as error:
            raise InputError(f"the layer plugin '{point.name}' ({point.value}) cannot be imported: {error}") from error


_plugins_loaded: list[bool] = []


def is_imported(family: str) -> bool:
    """Whether a family of layers, a file of this folder, is imported: a model with one of its operators has seen to that."""
    return f"{__package__}.{family}" in sys.modules


def registered() -> Mapping[str, Registration]:
    """All operator types and what is registered under them (a live view: do not change it)."""
    return _REGISTRY


# ------------------------------------------------------------------------------------------- applying a layer


def map_value(function: Callable[[Any], Any], value: Any) -> Any:
    """`function` applied to every leaf of a value or spec, lists and dicts kept."""
    if isinstance(value, list):
        return [map_value(function, item) for item in value]
    if isinstance(value, dict):
        return {key: map_value(function, item) for key, item in value.items()}
    return function(value)


def spec_of(value: Value) -> Spec:
    """The spec of a value at hand: arrays become `TensorSpec`s that carry their value, all else stays."""
    return map_value(lambda leaf: TensorSpec.of(leaf) if isinstance(leaf, np.ndarray) else leaf, value)


def infer(layer: Layer, arguments: Sequence[Spec], named: Mapping[str, Spec]) -> tuple[Spec, ...]:
    """The layer's output specs, one an output, checked against the limits of `settings`."""
    arguments, named = _numbers_as_tensors(layer, arguments, named, lambda number: TensorSpec.of(_zero_dim(number)))
    specs = layer.infer(*arguments, **named)
    outputs = specs if isinstance(specs, tuple) else (specs,)
    if len(outputs) != layer.output_count:
        raise ShapeError(f"gives {len(outputs)} outputs, but the model has {layer.output_count}")
    for output in outputs:
        map_value(_check_limits, output)
    return outputs


def _check_limits(spec: Spec) -> None:
    if not isinstance(spec, TensorSpec):
        return
    if spec.ndim > settings.max_rank:
        raise ResourceLimitError(
            f"shape {spec.shape} has {spec.ndim} dimensions; settings.max_rank is {settings.max_rank}"
        )
    if any(dim < 0 for dim in spec.shape):
        raise ShapeError(f"the result would have the negative size {spec.shape}")
    if spec.size > settings.max_elements:
        raise ResourceLimitError(
            f"shape {spec.shape} has more elements than settings.max_elements={settings.max_elements}"
        )
    if spec.nbytes > settings.max_memory:
        raise ResourceLimitError(
            f"a tensor of shape {spec.shape} takes {spec.nbytes:,} bytes; settings.max_memory is {settings.max_memory:,}"
        )


def apply(layer: Layer, arguments: Sequence[Value], named: Mapping[str, Value]) -> tuple[Value, ...]:
    """Runs a layer on values: infer, widen, forward, check the shapes, narrow to the inferred dtypes.

    Returns one value an output. Arrays may share memory with the arguments.
    """
    specs = infer(
        layer, [spec_of(value) for value in arguments], {name: spec_of(value) for name, value in named.items()}
    )
    arguments, named = _numbers_as_tensors(layer, arguments, named, _zero_dim)
    if layer.widens:
        arguments = [map_value(_widen_leaf, value) for value in arguments]
        named = {name: map_value(_widen_leaf, value) for name, value in named.items()}
    try:
        with np.errstate(all="ignore"):
            results = layer.forward(*arguments, **named)
    except KuiperError:
        raise
    except MemoryError as error:
        raise ResourceLimitError(f"not enough memory: {error}") from error
    outputs = results if isinstance(results, tuple) else (results,)
    return tuple(_conform(output, spec) for output, spec in zip(outputs, specs, strict=True))


_TENSOR_ARGUMENTS: dict[type[Layer], tuple[list[bool], bool, frozenset[str]]] = {}


def _tensor_arguments(layer: type[Layer]) -> tuple[list[bool], bool, frozenset[str]]:
    """Which arguments of `forward` are annotated as `Array`: by position, those of ``*inputs``, by name."""
    found = _TENSOR_ARGUMENTS.get(layer)
    if found is None:
        parameters = list(inspect.signature(layer.forward).parameters.values())[1:]
        tensors = [p for p in parameters if p.annotation in ("Array", Array)]
        by_position = [p in tensors for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        more = any(p.kind is p.VAR_POSITIONAL for p in tensors)
        found = _TENSOR_ARGUMENTS[layer] = by_position, more, frozenset(p.name for p in tensors)
    return found


def _numbers_as_tensors(
    layer: Layer, arguments: Sequence[Any], named: Mapping[str, Any], as_tensor: Callable[[Any], Any]
) -> tuple[list[Any], dict[str, Any]]:
    by_position, more, names = _tensor_arguments(type(layer))

    def convert(value: Any, wanted: bool) -> Any:
        return as_tensor(value) if wanted and isinstance(value, (bool, int, float, complex)) else value

    positional = [convert(value, by_position[i] if i < len(by_position) else more) for i, value in enumerate(arguments)]
    return positional, {name: convert(value, name in names) for name, value in named.items()}


def _zero_dim(number: Scalar) -> Array:
    try:
        return np.asarray(number, scalar_dtype(number).storage)
    except OverflowError:
        raise DTypeError(f"the integer {number} does not fit into 64 bits") from None


def _widen_leaf(leaf: Any) -> Any:
    return widen(leaf) if isinstance(leaf, np.ndarray) else leaf


def _conform(value: Value, spec: Spec) -> Value:
    """The value in the form that was inferred; an array of another shape is a mistake of the layer."""
    if isinstance(spec, list):
        return [_conform(item, item_spec) for item, item_spec in zip(value, spec, strict=True)]
    if isinstance(spec, dict):
        return {key: _conform(value[key], item_spec) for key, item_spec in spec.items()}
    if not isinstance(spec, TensorSpec):
        return value
    array = np.asarray(value)
    assert array.shape == spec.shape, f"forward gave {array.shape}, infer said {spec.shape}"
    return narrow(array, spec.dtype)


# ------------------------------------------------------------------------------------------- for infer and forward


def known_int(value: Any, what: str) -> int:
    """A Python int from an int, or from a one-element integer tensor whose value is known; else `DataDependent`."""
    if isinstance(value, TensorSpec):
        if value.value is None:
            raise DataDependent
        value = value.value
    if isinstance(value, np.ndarray):
        if value.size != 1 or value.dtype.kind not in "iub":
            raise DTypeError(
                f"{what}: expected one integer, found an array of shape {value.shape} and dtype {value.dtype}"
            )
        return int(value.reshape(()))
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise DTypeError(f"{what}: expected an integer, found {value!r}")
    return int(value)


def known_ints(value: Any, what: str) -> Ints:
    """A tuple of ints from a sequence of ints or one-element tensors, from a 1-d integer tensor, or from one int."""
    if isinstance(value, TensorSpec) and value.ndim == 1:
        if value.value is None:
            raise DataDependent
        value = value.value
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = list(value)
    if isinstance(value, (list, tuple)):
        return tuple(known_int(item, what) for item in value)
    return (known_int(value, what),)


def known_array(value: Array | TensorSpec) -> Array:
    """The array behind a spec (storage dtype), or the array itself; `DataDependent` where it is not known."""
    if isinstance(value, np.ndarray):
        return value
    if value.value is None:
        raise DataDependent
    return value.value


def normalize_dim(dim: int, ndim: int) -> int:
    """A dimension index counted from the front; a 0-d tensor takes -1 and 0, as in PyTorch. `ShapeError` if out of range."""
    rank = max(ndim, 1)
    if not -rank <= dim < rank:
        raise ShapeError(f"dimension {dim} is out of range for a tensor with {ndim} dimensions")
    return dim % rank


def expect_rank(spec: TensorSpec, *ranks: int, what: str = "input") -> None:
    """`ShapeError` unless the spec has one of the given numbers of dimensions."""
    if spec.ndim not in ranks:
        expected = " or ".join(map(str, ranks))
        raise ShapeError(f"{what}: expected {expected} dimensions, found shape {spec.shape}")
