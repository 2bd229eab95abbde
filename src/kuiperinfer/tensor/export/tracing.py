"""A module run once, with everything that it calculates written down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...dtypes import DType, narrow
from ...errors import InputError, KuiperError
from .. import Tensor
from ..autograd import no_grad
from ..nn import Module
from ..nn.module import caller
from ..recording import recording
from .dynamic import Run
from .modules import MODULES
from .operations import ALIASES, Call, steps_of
from .steps import Step, Value


def trace(module: Module, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[DType], seed: int) -> Run:
    """What the module does at inference with random inputs of these shapes; integers are the seed."""
    generator = np.random.default_rng(seed)
    inputs = [_input(shape, dtype, generator, seed) for shape, dtype in zip(shapes, dtypes, strict=True)]
    tracer = _Tracer(module)
    values = [tracer.new(tensor) for tensor in inputs]
    with _at_inference(module), no_grad(), recording(tracer.note):
        token = caller.set(tracer.call)
        try:
            result = module(*inputs)
        finally:
            caller.reset(token)
    return Run(values, tracer.steps, tracer.result(result))


def _input(shape: tuple[int, ...], dtype: DType, generator: np.random.Generator, integer: int) -> Tensor:
    numbers = generator.normal(size=shape) if dtype.kind in ("float", "complex") else np.full(shape, integer)
    return Tensor(narrow(numbers, dtype))


@contextlib.contextmanager
def _at_inference(module: Module) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


class _Tracer:
    """Turns tensors into values, operations into steps."""

    def __init__(self, module: Module) -> None:
        self.steps: list[Step] = []
        self.values: dict[
            int, tuple[Tensor, Value]
        ] = {}  # by the id of the tensor, which is kept so that it stays the same
        self.module_names = {id(part): name for name, part in module.named_modules()}
        named = (*module.named_parameters(), *module.named_buffers())
        self.tensor_names = {id(tensor): name for name, tensor in named}

    # --------------------------------------------------------------------------------------- values

    def new(self, tensor: Tensor) -> Value:
        """The value of a tensor that was just made."""
        return self.bind(tensor, Value(tuple(tensor.shape), tensor.dtype))

    def bind(self, tensor: Tensor, value: Value) -> Value:
        self.values[id(tensor)] = (tensor, value)
        return value

    def value(self, tensor: Tensor) -> Value:
        """The value of a tensor that is used: what made it, or a constant."""
        known = self.values.get(id(tensor))
        if known is not None:
            return known[1]
        for other, value in self.sharing(tensor):
            if other._geometry() == tensor._geometry() and other.dtype is tensor.dtype:
                return self.bind(tensor, value)
            if value.constant is None:
                raise InputError(
                    f"a tensor of shape {tensor.shape} looks at the memory of one that the module calculated, in a way that "
                    "was not recorded; expected an operation or a view of kuiperinfer.tensor"
                )
        name = self.tensor_names.get(id(tensor), "")
        return self.bind(tensor, Value(tuple(tensor.shape), tensor.dtype, tensor.detach().array, name))

    def sharing(self, tensor: Tensor) -> list[tuple[Tensor, Value]]:
        """Known tensors over the same memory, other than this one itself."""
        block = tensor.storage.block
        known = self.values.values()
        return [
            (other, value)
            for other, value in known
            if other is not tensor and other._pending is None and other.storage.block is block
        ]

    def result(self, result: Any) -> Any:
        """Values in the place of the tensors of a result; lists count as tuples."""
        if isinstance(result, Tensor):
            return self.value(result)
        if isinstance(result, (tuple, list)) and result:
            return tuple(self.result(item) for item in result)
        raise InputError(
            f"the module gives a {type(result).__name__}; expected a tensor, or tensors in a tuple or list"
        )

    # --------------------------------------------------------------------------------------- what happens

    def call(self, module: Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """In the place of a module's forward: one step for a module that is an operator, its inner life for others."""
        rule = MODULES.get(type(module))
        name = self.module_names.get(id(module), "")
        place = f"'{name}' ({type(module).__name__})" if name else type(module).__name__
        if rule is None:
            try:
                return module.forward(*inputs, **named)
            except KuiperError:
                raise
            except Exception as error:  # of a forward that somebody else wrote
                raise InputError(f"{place}: forward() raises {type(error).__name__}: {error}") from error
        tensors = [one for one in (*inputs, *named.values()) if isinstance(one, Tensor)]
        values = [self.value(tensor) for tensor in tensors]
        token = caller.set(None)
        try:
            with recording(None):
                result = module.forward(*inputs, **named)
            if rule.vanishes:
                self.bind(result, values[0])
                return result
            step = Step(rule.type, values, [], rule.params(module), rule.weights(module), rule.input_names, name)
        except KuiperError as error:
            raise error.at(place) from None
        finally:
            caller.reset(token)
        step.outputs.append(self.new(result))
        self.steps.append(step)
        return result

    def note(self, name: str, inputs: Sequence[Any], parameters: Mapping[str, Any], result: Any) -> None:
        """An operation, a view or a write in place."""
        if "items" in parameters:
            self.write(name, inputs[0], inputs[1], parameters["items"])
            return
        results = result if isinstance(result, tuple) else (result,)
        given = [self.value(one) if isinstance(one, Tensor) else one for one in inputs]
        if name in ALIASES or any(result is one for one in inputs):
            self.bind(result, given[0])
            return
        if name == "gather" and "arguments" in parameters:
            given = [given[0], *self.indices(given[1:], parameters["arguments"])]
        outputs = [self.new(tensor) for tensor in results]
        self.steps += steps_of(Call(name, given, parameters, outputs))

    def indices(self, tensors: Sequence[Value | None], items: tuple[Any, ...]) -> list[Value]:
        """The values of an index's arrays: those of the tensors that they were, constants for others."""
        arrays = [item for item in items if isinstance(item, np.ndarray)]
        return [self.value(Tensor(array)) if v is None else v for v, array in zip(tensors, arrays, strict=True)]

    def write(self, name: str, target: Tensor, source: Any, items: Any) -> None:
        """A tensor written as a whole is another value from now on."""
        whole = target._geometry()
        others = [other for other, _ in self.sharing(target)]
        if items is not None or any(other._geometry() != whole for other in others) or not isinstance(source, Tensor):
            raise InputError(
                f"a tensor of shape {target.shape} is written in place ('{name}') in part, or while others look at its memory; "
                "this cannot be exported: calculate a new tensor instead"
            )
        value = self.value(source)
        if (value.shape, value.dtype) != (tuple(target.shape), target.dtype):
            raise InputError(
                f"values of shape {source.shape} are written into a tensor of shape {target.shape}, which cannot be exported; "
                "calculate a new tensor instead"
            )
        for tensor in (target, *others):
            self.bind(tensor, value)
