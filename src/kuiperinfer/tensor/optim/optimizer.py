"""What all optimisers share: groups of parameters with their options, and a state for each parameter."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ...errors import InputError, did_you_mean
from ..autograd import no_grad
from ..tensor import Tensor

Group: TypeAlias = dict[str, Any]  # "params", "lr" and the other options
Parameters: TypeAlias = Iterable[Tensor] | Iterable[Group]


class Optimizer:
    """Base of all optimisers. `step` changes every parameter that has a gradient.

    `params` are tensors, or groups: dicts with the tensors under "params" and options that differ from the defaults. The
    options of a group (`optimizer.param_groups[0]["lr"]`) may be changed at any time. `state` is what the optimiser remembers.
    """

    def __init__(self, params: Parameters, defaults: Group) -> None:
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        if isinstance(params, Tensor) or not isinstance(params, Iterable):
            raise InputError(
                f"{type(self).__name__}: expected the parameters of a module (net.parameters()) or a list of tensors, "
                f"found {type(params).__name__}"
            )
        given = list(params)
        if not given:
            raise InputError(f"{type(self).__name__}: there are no parameters to learn")
        groups: list[Group] = [g for g in given if isinstance(g, dict)] or [{"params": given}]
        if any(isinstance(g, dict) for g in given) and len(groups) != len(given):
            raise InputError(f"{type(self).__name__}: expected parameters, or groups of them, found both")
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """More parameters, with options of their own."""
        name = type(self).__name__
        for option in group:
            if option != "params" and option not in self.defaults:
                raise InputError(f"{name}: no option '{option}'{did_you_mean(option, self.defaults)}")
        params = group["params"]
        tensors = [params] if isinstance(params, Tensor) else list(params)
        taken = {id(tensor) for known in self.param_groups for tensor in known["params"]}
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise InputError(f"{name}: expected tensors, found {type(tensor).__name__}")
            if not tensor.is_leaf:
                raise InputError(
                    f"{name}: a tensor of shape {tuple(tensor.shape)} was calculated from others, whose gradients it passes "
                    "on; expected tensors that require gradients by themselves"
                )
            if id(tensor) in taken:
                raise InputError(f"{name}: a parameter of shape {tuple(tensor.shape)} is there twice")
            taken.add(id(tensor))
        options = {**self.defaults, **group, "params": tensors}
        self.check(options)
        self.param_groups.append(options)

    def check(self, options: Group) -> None:
        """Raises `InputError` for options that make no sense."""
        for option in ("lr", "weight_decay", "eps"):
            if not isinstance(options.get(option, 0), numbers.Real) or options.get(option, 0) < 0:
                raise InputError(f"{type(self).__name__}: {option}={options[option]}; expected at least 0")

    def advance(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: Group) -> None:
        """One step of one parameter: an `Update` of it and of its state."""
        raise NotImplementedError

    def step(self) -> None:
        """Changes every parameter that has a gradient, by that gradient."""
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        state = self.state.setdefault(parameter, {})
                        self.advance(parameter, parameter.grad, state, group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or sets them to zero."""
        for parameter in self._tensors():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    # --------------------------------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """Options and state, with numbers for the parameters; tensors in it are the optimiser's own."""
        numbers = {id(tensor): number for number, tensor in enumerate(self._tensors())}
        groups = [
            {**group, "params": [numbers[id(tensor)] for tensor in group["params"]]} for group in self.param_groups
        ]
        state = {numbers[id(tensor)]: dict(entries) for tensor, entries in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Takes over options and state of an optimiser over parameters of the same number and order."""
        if not {"state", "param_groups"} <= set(saved):
            raise InputError(
                f"{type(self).__name__}: expected what state_dict() gives, found {', '.join(saved) or 'nothing'}"
            )
        sizes = [len(group["params"]) for group in self.param_groups]
        found = [len(group["params"]) for group in saved["param_groups"]]
        if sizes != found:
            raise InputError(f"{type(self).__name__}: expected groups of {sizes} parameters, found {found}")
        tensors = self._tensors()
        for group, options in zip(self.param_groups, saved["param_groups"], strict=True):
            group.update({key: value for key, value in options.items() if key != "params"})
        self.state = {
            tensors[number]: {
                key: value.clone() if isinstance(value, Tensor) else value for key, value in entries.items()
            }
            for number, entries in saved["state"].items()
        }

    def _tensors(self) -> list[Tensor]:
        return [tensor for group in self.param_groups for tensor in group["params"]]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])
