"""Networks as PNNX files, which the engine runs and other readers of the format understand."""

from .exporting import export as export

__all__ = ["export"]
