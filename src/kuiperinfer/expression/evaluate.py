"""What an expression comes to: its value (`evaluate`), or what is known of it beforehand (`infer`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..dtypes import (
    Array,
    DataDependent,
    DType,
    Scalar,
    TensorSpec,
    bool_,
    broadcast_shapes,
    c128,
    dtype_of,
    f64,
    i64,
    narrow,
    result_type,
    scalar_dtype,
    widen,
)
from ..errors import DTypeError, ExpressionError, InputError, KuiperError, ResourceLimitError, ShapeError
from ..settings import settings
from .activations import ALL_FUNCTIONS
from .functions import Argument, Function
from .lexer import locate
from .tree import Call, Expression, ListNode, Literal, Operand, fold, text_and_position

Value: TypeAlias = Any  # Array | Scalar | str | None | list[Value]
Spec: TypeAlias = Any  # TensorSpec | Scalar | str | None | list[Spec]


def evaluate(tree: Expression, inputs: Sequence[Value]) -> Value:
    """The value of an expression, given its operands: arrays in storage dtype, Python numbers, or lists.

    An array, a Python number, bool, word or None, or a list of these. Every function calculates in the dtype that PyTorch
    would choose and rounds to it; Python numbers among themselves follow Python, within 64 bits. Arrays may share memory
    with the inputs.

    Raises `ExpressionError` for an operand out of range, `DTypeError` and `ShapeError` where PyTorch refuses the arguments,
    `InputError` for an integer division by zero and whatever else has no value; all with the column in the text.
    """
    return _fold(
        tree, [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs], _evaluate_call
    )


def infer(tree: Expression, inputs: Sequence[Spec]) -> Spec:
    """The spec of an expression, given those of its operands: a `TensorSpec`, or the value itself where it is no tensor.

    The value of a 0-d tensor is kept where it is known. Raises as `evaluate` does, and `DataDependent` where an `int` is
    asked of a tensor whose value is not known.
    """
    return _fold(tree, inputs, _infer_call)


def _fold(tree: Expression, inputs: Sequence[Any], apply: Callable[[Function, Sequence[Any]], Any]) -> Any:
    def visit(node: Expression, children: Sequence[Any]) -> Any:
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, ListNode):
            return list(children)
        try:
            if isinstance(node, Operand):
                return _operand(node.index, inputs)
            assert isinstance(node, Call)
            return apply(ALL_FUNCTIONS[node.function], children)
        except KuiperError as error:
            text, position = text_and_position(tree, node)
            if isinstance(error, ExpressionError):
                error.column = position + 1
            raise locate(error, text, position) from error.__cause__

    return fold(tree, visit)


def _operand(index: int, inputs: Sequence[Any]) -> Any:
    if index >= len(inputs):
        raise ExpressionError(f"'@{index}' is out of range; the number of operands is {len(inputs)}")
    return inputs[index]


# ------------------------------------------------------------------------------------------- one function


def _infer_call(function: Function, arguments: Sequence[Any]) -> Any:
    if function.numpy is None:
        return _size(*arguments) if function.name == "size" else _int(arguments[0])
    if _are_numbers(function, arguments, TensorSpec):
        return _calculate_number(function, arguments)
    _, spec = _common_and_result(function, arguments)
    tensors = [argument for argument in arguments if isinstance(argument, TensorSpec)]
    if spec.ndim or any(tensor.value is None for tensor in tensors):
        return spec
    values = [argument.value if isinstance(argument, TensorSpec) else argument for argument in arguments]
    return TensorSpec.of(_evaluate_call(function, values))


def _evaluate_call(function: Function, arguments: Sequence[Any]) -> Any:
    if function.numpy is None:
        return _size(*arguments) if function.name == "size" else _int(arguments[0])
    if _are_numbers(function, arguments, np.ndarray):
        return _calculate_number(function, arguments)
    if function.tensors:
        arguments = [_number_as_tensor(argument) for argument in arguments]
    specs = [TensorSpec.of(argument) if isinstance(argument, np.ndarray) else argument for argument in arguments]
    common, spec = _common_and_result(function, specs)
    operands = [
        _convert(argument, common, function.float_parameters and position > 0)
        for position, argument in enumerate(arguments)
    ]
    with np.errstate(all="ignore"):
        return narrow(np.asarray(function.numpy(*operands)), spec.dtype)


def _common_and_result(function: Function, arguments: Sequence[Argument]) -> tuple[DType, TensorSpec]:
    """The dtype in which a function calculates, and what it gives."""
    if function.tensors:
        arguments = [a if isinstance(a, TensorSpec) else TensorSpec((), scalar_dtype(a)) for a in arguments]
    promoted = result_type(*arguments)
    _check_kind(function, promoted)
    function.check(arguments, promoted)
    common = function.common(promoted)
    shape = broadcast_shapes(*(argument.shape for argument in arguments if isinstance(argument, TensorSpec)))
    spec = TensorSpec(shape, function.result(common))
    if spec.nbytes > settings.max_memory:
        found = f"'{function.name}' would give {spec.nbytes:,} bytes of shape {shape}"
        raise ResourceLimitError(f"{found}; settings.max_memory is {settings.max_memory:,}")
    return common, spec


def _check_kind(function: Function, promoted: DType) -> None:
    if promoted.kind not in function.kinds:
        raise DTypeError(f"'{function.name}' does not take {promoted.name}; it takes {', '.join(function.kinds)}")


def _convert(argument: Array | Scalar, dtype: DType, float_scalar: bool) -> Array:
    """An argument in the compute dtype of `dtype`, rounded to `dtype` first unless it is a scalar that keeps its precision."""
    array = widen(_array(argument))
    if float_scalar and array.ndim == 0:
        return narrow(array, dtype_of(dtype.compute))
    return widen(narrow(array, dtype))


def _array(argument: Array | Scalar) -> Array:
    if isinstance(argument, np.ndarray):
        return argument
    return np.asarray(argument, _DOUBLE[scalar_dtype(argument).kind].storage)


def _number_as_tensor(argument: Array | Scalar) -> Array:
    return argument if isinstance(argument, np.ndarray) else narrow(_array(argument), scalar_dtype(argument))


# ------------------------------------------------------------------------------------------- Python numbers

_DOUBLE = {"bool": bool_, "int": i64, "float": f64, "complex": c128}


def _are_numbers(function: Function, arguments: Sequence[Any], tensor: type) -> bool:
    """Whether no argument is a tensor; `DTypeError` for one that is no number either."""
    for position, argument in enumerate(arguments, start=1):
        if isinstance(argument, int):
            _within_64_bits(argument)
        elif not isinstance(argument, (tensor, float, complex)):
            found = "a list" if isinstance(argument, list) else repr(argument)
            raise DTypeError(f"argument {position} of '{function.name}' is {found}; expected a tensor or a number")
    return not any(isinstance(argument, tensor) for argument in arguments)


def _calculate_number(function: Function, numbers: Sequence[Scalar]) -> Scalar:
    try:
        value = function.number(*numbers) if function.number else _calculate_double(function, numbers)
    except TypeError:
        found = ", ".join(map(repr, numbers))
        raise DTypeError(f"'{function.name}' does not take {found}") from None
    except ZeroDivisionError:
        raise InputError(f"'{function.name}' divides by zero") from None
    except (OverflowError, ValueError):
        found = ", ".join(map(repr, numbers))
        raise InputError(f"'{function.name}' of {found} has no value that 64 bits can hold") from None
    return _within_64_bits(value)


def _calculate_double(function: Function, numbers: Sequence[Scalar]) -> Scalar:
    promoted = result_type(*numbers)
    _check_kind(function, promoted)
    dtype = _DOUBLE[function.common(promoted).kind]
    assert function.numpy
    with np.errstate(all="ignore"):
        value: Scalar = function.numpy(*(np.asarray(number, dtype.storage) for number in numbers)).item()
    return value


def _within_64_bits(number: Scalar) -> Scalar:
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise InputError("an integer does not fit 64 bits")
    return number


# ------------------------------------------------------------------------------------------- size and int


def _size(tensor: Any, dim: Any = None) -> Any:
    """`size(t)`: the shape as a list; `size(t,dim)`: one of it."""
    if not isinstance(tensor, (TensorSpec, np.ndarray)):
        raise DTypeError(f"'size' takes a tensor, found {tensor!r}")
    if dim is None:
        return list(tensor.shape)
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise DTypeError(f"'size' takes the number of a dimension, found {dim!r}")
    if not -tensor.ndim <= dim < tensor.ndim:
        raise ShapeError(f"'size' of dimension {dim}: the tensor has shape {tuple(tensor.shape)}")
    return tensor.shape[dim]


def _int(value: Any) -> int:
    """`int(x)` of a number or a tensor with one element: cut towards zero."""
    if isinstance(value, (TensorSpec, np.ndarray)):
        if value.size != 1:
            raise ShapeError(f"'int' takes one number, found a tensor of shape {tuple(value.shape)}")
        if isinstance(value, TensorSpec):
            if value.value is None:
                raise DataDependent
            value = value.value
        value = widen(value).item()
    if not isinstance(value, (bool, int, float)):
        raise DTypeError(f"'int' takes a real number, found {value!r}")
    try:
        number = int(value)
    except (OverflowError, ValueError):
        raise InputError(f"'int' of {value}: there is no such integer") from None
    _within_64_bits(number)
    return number
