"""What a network is made of: parameters, buffers and other modules, found by name."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ...errors import InputError, did_you_mean
from ..autograd import no_grad
from ..casting import DTypeLike, as_dtype
from ..interchange import from_numpy
from ..tensor import Tensor
from .parameter import Parameter

Self = TypeVar("Self", bound="Module")

# Takes a module and its inputs, and gives what the call gives: the export puts itself in the place of `forward` with it.
Caller: TypeAlias = "Callable[[Module, tuple[Any, ...], dict[str, Any]], Any]"
caller: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("kuiperinfer.tensor.nn.caller", default=None)


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find, and what it had no place for."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """Base of all networks and of their parts. Subclasses call `super().__init__()`, assign their parts, define `forward`.

    A `Parameter`, a `Module` and a buffer (`register_buffer`) become part of the module when they are assigned to an
    attribute; the attribute's name is their name, dotted below the names of the modules around.
    """

    training: bool

    def __init__(self) -> None:
        object.__setattr__(self, "training", True)
        object.__setattr__(self, "_parts", {"parameter": {}, "buffer": {}, "module": {}})
        object.__setattr__(self, "_transient", set())  # buffers that are not saved

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The output for the inputs; every module defines its own."""
        raise InputError(f"{type(self).__name__} has no forward(); define one")

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        call = caller.get()
        return self.forward(*inputs, **named) if call is None else call(self, inputs, named)

    # --------------------------------------------------------------------------------------- parts by name

    def __setattr__(self, name: str, value: Any) -> None:
        kind = "parameter" if isinstance(value, Parameter) else "module" if isinstance(value, Module) else None
        parts = self.__dict__.get("_parts")
        if parts is None:
            if kind is None:
                object.__setattr__(self, name, value)
                return
            raise InputError(f"{type(self).__name__}: call super().__init__() before assigning '{name}'")
        present = next((known for known, table in parts.items() if name in table), None)
        if kind is None and present is not None:
            if value is not None and (present != "buffer" or not isinstance(value, Tensor)):
                found = type(value).__name__
                raise InputError(f"{type(self).__name__}.{name} is a {present}; it cannot become a {found}")
            parts[present][name] = value
        elif kind is None:
            object.__setattr__(self, name, value)
        else:
            self._add(kind, name, value)

    def _add(self, kind: str, name: str, value: Any) -> None:
        if not name or "." in name:
            raise InputError(f"{type(self).__name__}: '{name}' cannot name a {kind}; it is empty or has a dot")
        if "_parts" not in self.__dict__:
            raise InputError(f"{type(self).__name__}: call super().__init__() before assigning '{name}'")
        for other, table in self._parts.items():
            if other != kind:
                table.pop(name, None)
        self.__dict__.pop(name, None)
        self._parts[kind][name] = value

    def __getattr__(self, name: str) -> Any:
        for table in self.__dict__.get("_parts", {}).values():
            if name in table:
                return table[name]
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'{did_you_mean(name, dir(self))}")

    def __delattr__(self, name: str) -> None:
        for table in self._parts.values():
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = [name for table in self.__dict__.get("_parts", {}).values() for name in table]
        return sorted({*super().__dir__(), *names})

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """A parameter under a name; None for one that this module does without."""
        self._add("parameter", name, parameter)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that belongs to the module but is not learnt; saved with it if `persistent`."""
        self._add("buffer", name, tensor)
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """A part under a name that need not be a Python name."""
        self._add("module", name, module)

    # --------------------------------------------------------------------------------------- walking

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below, each once, with its dotted name; the outer before the inner."""
        seen: set[int] = set()
        pending: list[tuple[str, Module]] = [(prefix, self)]
        while pending:
            name, module = pending.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            pending += reversed([(_dotted(name, part), child) for part, child in module.named_children()])

    def modules(self) -> Iterator[Module]:
        """This module and all below, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names."""
        return ((name, child) for name, child in self._parts["module"].items() if child is not None)

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        return (child for _, child in self.named_children())

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters, each once, with their dotted names."""
        return self._named("parameter", prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once: what an optimiser wants."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers, each once, with their dotted names."""
        return self._named("buffer", prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named(self, kind: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for name, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for part, tensor in module._parts[kind].items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield _dotted(name, part), tensor

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name; this one for the empty name."""
        module = self
        for part in target.split(".") if target else ():
            children = dict(module.named_children())
            if part not in children:
                place = f"{type(module).__name__} has no module '{part}'"
                raise InputError(f"'{target}': {place}{did_you_mean(part, children)}")
            module = children[part]
        return module

    def apply(self: Self, function: Callable[[Module], Any]) -> Self:
        """Calls `function` with every module, the inner before the outer; returns this one."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    # --------------------------------------------------------------------------------------- training

    def train(self: Self, mode: bool = True) -> Self:
        """Switches everything to training (dropout drops, batch norm uses the batch's statistics), or back."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Switches everything to inference."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Lets gradients flow to all parameters, or freezes them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def to(self: Self, dtype: DTypeLike) -> Self:
        """Converts all parameters and buffers of floating point numbers; they stay the same objects, without gradients."""
        target = as_dtype(dtype)
        if target.kind != "float":
            raise InputError(f"{type(self).__name__}.to: expected a floating point dtype, found {target}")
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.dtype.kind == "float" and tensor.dtype is not target:
                requires_grad, converted = tensor.requires_grad, tensor.detach().to(target)
                tensor._become(converted.storage, target, converted._geometry())
                tensor.requires_grad = requires_grad
        return self

    def float(self: Self) -> Self:
        """Converts to f32; see `to`."""
        return self.to("f32")

    def double(self: Self) -> Self:
        """Converts to f64; see `to`."""
        return self.to("f64")

    def half(self: Self) -> Self:
        """Converts to f16; see `to`."""
        return self.to("f16")

    def bfloat16(self: Self) -> Self:
        """Converts to bf16; see `to`."""
        return self.to("bf16")

    def zero_grad(self) -> None:
        """Forgets the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    # --------------------------------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Tensor]:
        """All parameters and saved buffers by dotted name; they share memory with the module and carry no gradient."""
        state: dict[str, Tensor] = {}
        self._collect_state("", state)
        return state

    def _collect_state(self, prefix: str, state: dict[str, Tensor]) -> None:
        for kind in ("parameter", "buffer"):
            for name, tensor in self._parts[kind].items():
                if tensor is not None and name not in self._transient:
                    state[_dotted(prefix, name)] = tensor.detach()
        for name, child in self.named_children():
            child._collect_state(_dotted(prefix, name), state)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copies tensors or arrays into the parameters and buffers of the same names.

        Raises `InputError`, before anything is changed, where shapes differ and, if `strict`, where names are missing or
        unexpected; the message has all of them.
        """
        if not isinstance(state, Mapping):
            raise InputError(f"load_state_dict: expected a dict of tensors by name, found {type(state).__name__}")
        own = self.state_dict()
        keys = IncompatibleKeys(
            [name for name in own if name not in state], [name for name in state if name not in own]
        )
        arrays = {name: _as_array(state[name]) for name in own if name in state}
        complaints = [
            f"'{name}': expected shape {tuple(own[name].shape)}, found {array.shape}"
            for name, array in arrays.items()
            if array.shape != tuple(own[name].shape)
        ]
        if strict:
            complaints += [f"missing '{name}'" for name in keys.missing_keys]
            complaints += [f"unexpected '{name}'{did_you_mean(name, own)}" for name in keys.unexpected_keys]
        if complaints:
            raise InputError(f"this state does not fit {type(self).__name__}: " + "; ".join(complaints))
        with no_grad():
            for name, array in arrays.items():
                own[name].copy_(from_numpy(array))
        return keys

    # --------------------------------------------------------------------------------------- text

    def extra_repr(self) -> str:
        """What the text form shows between the brackets."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self._parts["module"].items()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        body = "\n  ".join([*extra.splitlines(), *lines])
        return f"{type(self).__name__}(\n  {body}\n)"


def _dotted(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    tensor = value.detach() if hasattr(value, "detach") else value  # PyTorch's tensors as well
    return np.asarray(tensor.numpy() if hasattr(tensor, "numpy") else tensor)
