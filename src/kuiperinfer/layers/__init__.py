"""What each operator means, one family a file: parameters -> infer -> forward.

A family is imported when a model has one of its operators (`index`); all of them would take longer than a whole small model.
"""

from __future__ import annotations

from .base import DataDependent, Floats, Ints, Layer, apply, register, registered, unregister

__all__ = ["DataDependent", "Floats", "Ints", "Layer", "apply", "register", "registered", "unregister"]
