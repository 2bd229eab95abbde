"""Modules that hold others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, overload

from ...errors import InputError
from .module import Module


class _Numbered(Module):
    """Modules in a row, named by their numbers."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def append(self, module: Module) -> None:
        """One more at the end."""
        if not isinstance(module, Module):
            raise InputError(f"{type(self).__name__}: expected modules, found {type(module).__name__}")
        self.add_module(str(len(self)), module)

    def extend(self, modules: Iterable[Module]) -> None:
        """Some more at the end."""
        for module in modules:
            self.append(module)

    def __len__(self) -> int:
        return len(self._parts["module"])

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._parts["module"].values()))

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> _Numbered: ...

    def __getitem__(self, index: int | slice) -> Module:
        modules = list(self)
        if isinstance(index, slice):
            return self._of(modules[index])
        return modules[self._checked(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module_at(self._checked(index), module)

    def add_module_at(self, index: int, module: Module) -> None:
        """Another module in the place of the one with this number."""
        name = list(self._parts["module"])[index]
        self._parts["module"][name] = module

    def _checked(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise InputError(f"{type(self).__name__}: no module {index}; it has {len(self)}")
        return index % len(self)

    def _of(self, modules: list[Module]) -> _Numbered:
        return type(self)(modules)


class Sequential(_Numbered):
    """Modules one after another: each takes what the one before gives.

    Takes modules, or a mapping from names to modules.
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            super().__init__()
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            super().__init__(cast("tuple[Module, ...]", modules))

    def _of(self, modules: list[Module]) -> Sequential:
        return Sequential(*modules)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules that is part of the module around; it has no `forward` of its own."""
