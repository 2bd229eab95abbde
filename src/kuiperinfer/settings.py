"""Every setting, typed, in one place, each with its environment variable.

    kuiperinfer.settings.debug                 read one
    with kuiperinfer.settings(debug=2): ...    change some for a while, in this thread or task alone

The debug ladder: 1 load summary, 2 time per step, 3 pass log, 4 chosen kernels, 5 LLVM IR, 6 assembly.
"""

from __future__ import annotations

import contextlib
import contextvars
import difflib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any

from .errors import InputError, did_you_mean


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


@dataclass(frozen=True)
class SettingValues:
    """The settings and their defaults; the environment variable of `name` is ``KUIPER_NAME``."""

    debug: int = 0
    engine: str = "compiled"  # or "reference": NumPy, readable and slow
    max_plans: int = 16  # compiled input shapes that a model keeps
    target: str = "host"  # what code is made for: host, x86-64-v2, x86-64-v3, x86-64-v4, aarch64
    cache: bool = True  # keep object code on disk
    cache_dir: str = ""  # where; empty for the user's cache directory
    memory_cache: int = min(
        256 << 20, _physical_memory() // 16
    )  # bytes of freed memory kept; read when the process starts
    compile_processes: int = 0  # that compile when there is much to do; 0: as many as CPUs, 1: this process alone
    threads: int = 0  # 0: as many as the process may use
    precision: str = "fast"  # "exact" turns Winograd off
    passes_off: str = ""  # names of passes to leave out, separated by commas; "all" for all
    verify: bool = False  # re-check the graph after every pass
    compare: bool = False  # run the reference beside the compiled model and stop at the first operand that differs

    # Limits: a model file is data from a stranger.
    max_param_bytes: int = 64 << 20
    max_line_bytes: int = 1 << 20
    max_operators: int = 1_000_000
    max_operator_operands: int = 65_536
    max_rank: int = 8
    max_elements: int = 1 << 40
    max_expression_bytes: int = 64 << 10
    max_expression_depth: int = 256
    max_expression_nodes: int = 10_000
    max_memory: int = _physical_memory()  # bytes of one operand, checked before it is allocated
    max_image_pixels: int = 178_956_970


_BOOLS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_CHOICES = {"engine": ("compiled", "reference"), "precision": ("fast", "exact")}
_KINDS = {bool: "1 or 0", int: "a whole number from 0 on", str: "a text"}
_NEAR = 0.85  # how like the name of a setting a variable's has to be to be taken for a slip of the pen


def _check(where: str, name: str, value: Any) -> None:
    """`InputError` where a value is none that the setting `name` may have."""
    kind = type(getattr(SettingValues, name))
    expected = " or ".join(map(repr, _CHOICES[name])) if name in _CHOICES else _KINDS[kind]
    if name in _CHOICES:
        fits = value in _CHOICES[name]
    elif kind is bool:
        fits = value in (True, False)
    elif kind is int:
        fits = isinstance(value, Integral) and int(value) >= 0
    else:
        fits = isinstance(value, str)
    if not fits:
        hint = "; the cache's folder is the setting cache_dir, KUIPER_CACHE_DIR" if name == "cache" else ""
        raise InputError(f"{where}: expected {expected}, found '{value}'{hint}")


def _parse(text: str, kind: type) -> Any:
    """The value that a variable's text stands for; the text itself, which `_check` refuses, where it stands for none."""
    if kind is bool:
        return _BOOLS.get(text.lower(), text)
    return int(text) if kind is int and text.removeprefix("-").isdecimal() and len(text) < 20 else text


def _from_environment() -> SettingValues:
    """The settings of the process; a variable that is empty counts as one that is not set."""
    defaults = {f"KUIPER_{setting.name.upper()}": setting for setting in fields(SettingValues)}
    found = {}
    for variable, text in os.environ.items():
        if text and (setting := defaults.get(variable)) is not None:
            found[setting.name] = _parse(text, type(setting.default))
            _check(f"environment variable {variable}", setting.name, found[setting.name])
    _tell_of_misspelt(defaults)
    return SettingValues(**found)


def _tell_of_misspelt(known: Iterable[str]) -> None:
    for variable in {name for name in os.environ if name.startswith("KUIPER_")} - set(known):
        if near := difflib.get_close_matches(variable, known, n=1, cutoff=_NEAR):
            text = f"environment variable {variable} is no setting of kuiperinfer; did you mean {near[0]}?"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


class Settings:
    """The current settings: attributes to read, a call to change some within a `with` block."""

    def __init__(self) -> None:
        self._values: contextvars.ContextVar[SettingValues] = contextvars.ContextVar("kuiperinfer.settings")

    def current(self) -> SettingValues:
        """All settings as they are now."""
        try:
            return self._values.get()
        except LookupError:
            values = _from_environment()
            self._values.set(values)
            return values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return getattr(self.current(), name)
        except AttributeError:
            raise AttributeError(self._unknown(name)) from None

    @contextlib.contextmanager
    def __call__(self, **changes: Any) -> Iterator[None]:
        known = {setting.name for setting in fields(SettingValues)}
        for name, value in changes.items():
            if name not in known:
                raise InputError(self._unknown(name))
            _check(f"settings.{name}", name, value)
        token = self._values.set(replace(self.current(), **changes))
        try:
            yield
        finally:
            self._values.reset(token)

    @staticmethod
    def _unknown(name: str) -> str:
        return f"there is no setting '{name}'{did_you_mean(name, [s.name for s in fields(SettingValues)])}"


settings = Settings()


def debug_print(level: int, text: str) -> None:
    """A line (or more) on standard error where `settings.debug` is at least `level`."""
    if settings.debug >= level:
        print(text, file=sys.stderr)
