"""The same network run by those it came from: torch and onnxruntime, where they are installed.

Unlike everything else here they run what stands in the file; a file from a stranger is for the converter alone.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..dtypes import COMPLEX32_STORAGE, Array, bf16, dtype_of, to_bits
from ..errors import InputError
from ..runtime.inputs import ValueInfo, as_input


def run_onnx(path: Path, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of an ONNX model for inputs in order, by onnxruntime on the CPU."""
    onnxruntime = imported("onnxruntime")
    try:
        session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]
        outputs = session.run(None, dict(zip(names, arrays, strict=True)))
    except Exception as error:  # whatever it raises, it is about that file
        raise InputError(f"{path}: onnxruntime cannot run it ({error})") from error
    return arrays_of(outputs)


def run_torchscript(path: Path, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of a TorchScript model for inputs in order, nested ones flattened depth first."""
    torch = imported("torch")
    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TorchScript is old
            network: Any = torch.jit.load(str(path), map_location="cpu").eval()
            outputs = network(*map(to_torch, arrays))
    except Exception as error:  # whatever it raises, it is about that file
        raise InputError(f"{path}: torch cannot run it ({error})") from error
    return arrays_of(outputs)


def imported(module: str) -> Any:
    """A module that is optional; `InputError` where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"{module} is not installed: pip install {module}") from None


def to_torch(array: Array) -> Any:
    """A stored array as a torch tensor with memory of its own."""
    torch = imported("torch")
    if array.dtype == COMPLEX32_STORAGE:
        return torch.view_as_complex(torch.from_numpy(to_bits(array).copy().view("float16")))
    if dtype_of(array) is bf16:
        return torch.from_numpy(to_bits(array).copy().view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def arrays_of(value: Any) -> list[Array]:
    """Nested outputs of a network as stored arrays, flattened depth first; None is left out, as the format has none."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [leaf for one in value.values() for leaf in arrays_of(one)]
    if isinstance(value, (list, tuple)):
        return [leaf for one in value for leaf in arrays_of(one)]
    return [as_input(value, ValueInfo("output of the network", None, None))]
