"""Models that run."""

from .inputs import ValueInfo
from .model import Model, load

__all__ = ["Model", "ValueInfo", "load"]
