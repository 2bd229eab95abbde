"""What each operator means, one family a file: parameters -> infer -> forward."""

from __future__ import annotations

import importlib
import pkgutil

from .base import DataDependent, Floats, Ints, Layer, apply, register, registered, unregister

__all__ = ["DataDependent", "Floats", "Ints", "Layer", "apply", "register", "registered", "unregister"]

# Every module of this folder registers its family when it is imported.
for _module in pkgutil.iter_modules(__path__):
    if _module.name not in ("base", "binding"):
        importlib.import_module(f".{_module.name}", __name__)
