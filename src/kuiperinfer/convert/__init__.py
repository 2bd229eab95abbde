"""From PyTorch and ONNX to PNNX: the converter `pnnx` (extra `convert`), run in a process of its own and checked."""

from .conversion import Conversion, convert_file, from_onnx, from_torch, from_torchscript
from .input_shape import parse_input_shape

__all__ = ["Conversion", "convert_file", "from_onnx", "from_torch", "from_torchscript", "parse_input_shape"]
