"""A model over more data than one call takes: `Predictor` for other people's engines, and jobs of our own."""

from .pictures import Pictures
from .predictor import Predictor

__all__ = ["Pictures", "Predictor"]
