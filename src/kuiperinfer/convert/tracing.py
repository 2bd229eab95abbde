"""A PyTorch module to TorchScript, the form that the converter reads."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..dtypes import Array
from ..errors import ConversionError, InputError
from .other_engines import arrays_of, imported

TRAINING_MODE = (
    "the network was in training mode; converted is what it does in evaluation mode (no dropout, batch norm with its running "
    "statistics): call .eval() first to say that this is meant"
)


def as_examples(given: Any) -> tuple[Any, ...]:
    """Example inputs as a tuple of tensors, or of nested lists of them: one alone is a tuple of one; arrays become tensors."""
    torch = imported("torch")

    def as_tensor(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value
        if hasattr(value, "__array__"):
            return torch.as_tensor(value)
        raise InputError(
            f"example inputs: expected a tensor, or a tuple of them, found {type(value).__name__}; for a picture that would be "
            f"torch.rand(1, 3, 224, 224)"
        )

    found = map_nested(as_tensor, given)
    return (found,) if isinstance(found, torch.Tensor) else tuple(found)


def map_nested(function: Callable[[Any], Any], value: Any) -> Any:
    """The same lists and tuples with `function` of everything in them."""
    if not isinstance(value, (list, tuple)):
        return function(value)
    mapped = [map_nested(function, one) for one in value]
    return type(value)(*mapped) if hasattr(value, "_fields") else type(value)(mapped)


def copies_of(examples: tuple[Any, ...]) -> Any:
    """The same in memory of its own: networks may write over their inputs, as `nn.ReLU(inplace=True)` does."""
    return map_nested(lambda tensor: tensor.detach().clone(), examples)


def flat(examples: Sequence[Any]) -> list[Any]:
    """All tensors of nested examples, in the order in which the converter counts them as inputs."""
    return [leaf for one in examples for leaf in (flat(one) if isinstance(one, (list, tuple)) else [one])]


def check_module(module: Any) -> None:
    """`InputError`, which tells what to do, for what cannot be traced on a CPU."""
    torch = imported("torch")

    if isinstance(module, Mapping):
        raise InputError(
            "expected a torch.nn.Module, found a dict: a state_dict is weights alone. Build the network in Python and load "
            "them into it: net.load_state_dict(…)"
        )
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"expected a torch.nn.Module, found {type(module).__name__}")
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.device.type != "cpu":
            raise InputError(f"'{name}' is on the device '{tensor.device}': bring the network to the CPU, net.cpu()")


@contextlib.contextmanager
def evaluation_mode(module: Any) -> Iterator[bool]:
    """The module in evaluation mode for a while; tells whether any part of it was in training mode."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield any(training for _, training in modes)
    finally:
        for part, training in modes:
            part.training = training


def run_module(module: Any, examples: tuple[Any, ...]) -> list[Array]:
    """The outputs of a module, flattened. `InputError` where it cannot take the examples."""
    torch = imported("torch")

    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in flat(examples)) or "none"
    try:
        with torch.no_grad():
            outputs = module(*copies_of(examples))
    except Exception as error:  # the user's code, on the user's examples
        raise InputError(
            f"the network cannot take these example inputs (shapes {shapes}): {type(error).__name__}: {error}"
        ) from error
    try:
        return arrays_of(outputs)
    except InputError as error:
        raise InputError(
            f"the network gives {type(outputs).__name__}; the format has tensors, and tuples, lists and dicts of them"
        ) from error


@contextlib.contextmanager
def _attention_in_parts(torch: Any) -> Iterator[None]:
    """Transformers without the one operator that torch has for a whole layer in evaluation mode, which no converter knows."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _as_part(module: Any) -> Any:
    """A single layer of `torch.nn` as the part of a network: the converter knows layers as parts, not as the whole."""
    torch = imported("torch")
    if next(module.children(), None) is not None or not type(module).__module__.startswith("torch.nn."):
        return module

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.layer = module

        def forward(self, *inputs: Any) -> Any:
            return self.layer(*inputs)

    return Network().eval()


def save_trace(module: Any, examples: tuple[Any, ...], path: Path) -> None:
    """Writes a module in evaluation mode as TorchScript; a scripted one is frozen, all others are traced."""
    torch = imported("torch")

    try:
        # torch warns that TorchScript is old, and of every shape that it takes as a number: the second example inputs tell
        # whether such a number should have stayed free.
        with torch.no_grad(), _attention_in_parts(torch), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(module, torch.jit.ScriptModule):
                scripted: Any = torch.jit.freeze(module)
            else:
                scripted = torch.jit.trace(_as_part(module), copies_of(examples), check_trace=False, strict=False)
            scripted.save(str(path))
    except Exception as error:  # torch raises about everything that it cannot trace
        first = str(error).strip().splitlines()
        raise ConversionError(
            f"torch.jit.trace cannot follow {type(module).__name__}: {type(error).__name__}: {' '.join(first[:3])}. What it "
            f"follows are tensors through one path: keep values as tensors (no .item(), no numpy), and return tensors, tuples, "
            f"lists or dicts. torch.onnx.export and kuiperinfer.from_onnx are another way",
            str(error),
        ) from error
