"""Inference requests and answers of the Open Inference Protocol, with its extension for binary tensors.

https://github.com/kserve/open-inference-protocol, and the extension as Triton documents it: the JSON comes first, its length is
in the header `Inference-Header-Content-Length`, and behind it lie the elements of tensors that have a `binary_data_size`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ..dtypes import Array, DType, dtype_of
from ..errors import did_you_mean
from ..runtime import ValueInfo
from ..settings import settings
from .datatypes import datatype_name, dtype_named, from_bytes, from_json, to_bytes, to_json
from .options import Limits
from .refusals import Refusal, bad_request
from .served_model import ServedModel

HEADER_LENGTH = "Inference-Header-Content-Length"
_BIT_64 = 1 << 63
_JSON_ELEMENT_BYTES = 20  # of a float, with its comma


@dataclass(frozen=True)
class InferenceRequest:
    """What a client asks for: arrays in file order; `outputs` are names and whether in binary form, none for all outputs.

    `binary` is the form of outputs that are not named, `seconds` what the client waits at most, where it says so.
    """

    id: str | None
    inputs: tuple[Array, ...]
    outputs: dict[str, bool] | None
    binary: bool
    seconds: float | None

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the inputs."""
        return tuple(array.shape for array in self.inputs)


def parse_request(body: bytes, header_length: str | None, model: ServedModel, limits: Limits) -> InferenceRequest:
    """A request for a model. Raises `Refusal` that says what is wrong and what was expected."""
    view = memoryview(body)
    length = _json_length(header_length, len(view))
    if length > limits.json_bytes:
        raise Refusal(
            413, f"the JSON is {length:,} bytes, more than {limits.json_bytes:,}; send large tensors in the binary form"
        )
    content = parse_json(view[:length])
    parameters = _mapping(content.get("parameters", {}), "parameters")
    if "sequence_id" in parameters:
        raise bad_request("parameters: sequences are not supported; each request stands for itself")
    inputs = _parse_inputs(content.get("inputs"), view[length:], model, limits)
    binary = flag(parameters, "binary_data_output", False)
    return InferenceRequest(
        _parse_id(content.get("id")),
        inputs,
        _parse_outputs(content.get("outputs"), model, binary),
        binary,
        _parse_timeout(parameters.get("timeout")),
    )


def parse_json(data: memoryview) -> dict[str, Any]:
    """A JSON object."""
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the body is not JSON: {error}") from None
    return _mapping(content, "the body")


def _json_length(text: str | None, size: int) -> int:
    if text is None:
        return size
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= size):
        raise bad_request(f"{HEADER_LENGTH}: expected a number of bytes up to {size}, the length of the body")
    return int(text)


# ------------------------------------------------------------------------------------------- inputs


def _parse_inputs(found: Any, binary: memoryview, model: ServedModel, limits: Limits) -> tuple[Array, ...]:
    tensors = [_mapping(tensor, "inputs") for tensor in _list(found, "inputs")]
    _check_names([tensor.get("name") for tensor in tensors], model.model.inputs)
    infos = {info.name: info for info in model.model.inputs}
    heads: list[tuple[ValueInfo, tuple[int, ...], DType]] = []
    for tensor in tensors:
        info = infos[tensor["name"]]
        with_place = f"input '{info.name}'"
        try:
            shape, dtype = _parse_shape(tensor.get("shape"), limits), dtype_named(tensor.get("datatype"))
        except Refusal as error:
            raise error.at(with_place) from None
        if info.dtype is not None and dtype is not info.dtype:
            raise bad_request(
                f"{with_place}: expected datatype {datatype_name(info.dtype)}, found {tensor['datatype']}"
            )
        heads.append((info, shape, dtype))
    model.check_shapes([(info, shape) for info, shape, _ in heads])
    arrays: dict[str, Array] = {}
    for tensor, (info, shape, dtype) in zip(tensors, heads, strict=True):
        try:
            array, binary = _parse_data(tensor, shape, dtype, binary)
        except Refusal as error:
            raise error.at(f"input '{info.name}'") from None
        arrays[info.name] = array
    if len(binary):
        raise bad_request(f"{len(binary)} bytes are left behind the last binary tensor")
    return tuple(arrays[info.name] for info in model.model.inputs)


def _check_names(found: Sequence[Any], infos: Sequence[ValueInfo]) -> None:
    names = [info.name for info in infos]
    listed = ", ".join(names) or "none"
    for name in found:
        if not isinstance(name, str):
            raise bad_request(f"inputs: each needs a name; the model's are {listed}")
        if name not in names:
            shown = name if len(name) <= 80 else f"{name[:77]}…"
            raise bad_request(f"there is no input '{shown}'; the inputs are {listed}{did_you_mean(shown, names)}")
        if list(found).count(name) > 1:
            raise bad_request(f"input '{name}' is given twice")
    if missing := [name for name in names if name not in found]:
        raise bad_request(f"input {', '.join(map(repr, missing))} is missing; the inputs are {listed}")


def _parse_shape(found: Any, limits: Limits) -> tuple[int, ...]:
    if not isinstance(found, list) or not all(type(dim) is int and 0 <= dim < _BIT_64 for dim in found):
        raise bad_request("shape: expected a list of whole numbers that are not negative")
    if len(found) > settings.max_rank:
        raise bad_request(f"shape: expected at most {settings.max_rank} dimensions, found {len(found)}")
    if math.prod(found) > limits.elements:
        raise Refusal(413, f"shape: {found} has more than {limits.elements:,} elements")
    return tuple(found)


def _parse_data(
    tensor: Mapping[str, Any], shape: tuple[int, ...], dtype: DType, binary: memoryview
) -> tuple[Array, memoryview]:
    """The array of a tensor, and what is left of the binary part."""
    parameters = _mapping(tensor.get("parameters", {}), "parameters")
    if any(key.startswith("shared_memory") for key in parameters):
        raise bad_request("shared memory is not supported")
    size = parameters.get("binary_data_size")
    if size is None:
        if "data" not in tensor:
            raise bad_request("there is neither data nor a binary_data_size")
        return from_json(tensor["data"], shape, dtype), binary
    if "data" in tensor:
        raise bad_request("expected data or a binary_data_size, found both")
    expected = math.prod(shape) * dtype.itemsize
    if type(size) is not int or size != expected:
        raise bad_request(
            f"binary_data_size: expected {expected} for shape {list(shape)} of {datatype_name(dtype)}, found {str(size)[:20]}"
        )
    if size > len(binary):
        raise bad_request(f"binary_data_size is {size}, but only {len(binary)} bytes are left behind the JSON")
    return from_bytes(binary[:size], shape, dtype), binary[size:]


# ------------------------------------------------------------------------------------------- the rest of a request


def _parse_id(found: Any) -> str | None:
    if found is not None and not (isinstance(found, str) and len(found) <= 1024):
        raise bad_request("id: expected a text of at most 1024 characters")
    return found


def _parse_outputs(found: Any, model: ServedModel, binary: bool) -> dict[str, bool] | None:
    if found is None or found == []:
        return None
    names = [info.name for info in model.model.outputs]
    wanted: dict[str, bool] = {}
    for tensor in _list(found, "outputs"):
        output = _mapping(tensor, "outputs")
        name, parameters = output.get("name"), _mapping(output.get("parameters", {}), "parameters")
        if not isinstance(name, str) or name not in names:
            shown = repr(name) if len(repr(name)) <= 80 else f"{repr(name)[:77]}…"
            near = did_you_mean(name[:80], names) if isinstance(name, str) else ""
            raise bad_request(f"there is no output {shown}; the outputs are {', '.join(names)}{near}")
        if "classification" in parameters:
            raise bad_request("outputs: the classification extension is not supported; ask for the numbers")
        if any(key.startswith("shared_memory") for key in parameters):
            raise bad_request("outputs: shared memory is not supported")
        wanted[name] = flag(parameters, "binary_data", binary)
    return wanted


def _parse_timeout(found: Any) -> float | None:
    if found is None or found == 0:
        return None
    if type(found) is not int or not 0 < found < _BIT_64:
        raise bad_request("timeout: expected a number of microseconds")
    return found / 1e6


def flag(parameters: Mapping[str, Any], key: str, default: bool) -> bool:
    """A JSON boolean."""
    value = parameters.get(key, default)
    if not isinstance(value, bool):
        raise bad_request(f"{key}: expected true or false")
    return value


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad_request(f"{place}: expected a JSON object")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise bad_request(f"{place}: expected a list")
    return value


# ------------------------------------------------------------------------------------------- answers


def encode_answer(
    request: InferenceRequest, model: ServedModel, arrays: Sequence[Array], limits: Limits
) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON if something binary lies behind that."""
    most = limits.json_bytes // _JSON_ELEMENT_BYTES
    named = dict(zip(model.output_names(len(arrays)), arrays, strict=True))
    wanted = dict.fromkeys(named, request.binary) if request.outputs is None else request.outputs
    tensors, binary = [], []
    for name, is_binary in wanted.items():
        if name not in named:
            raise bad_request(f"output '{name}' is not among those of this run: {', '.join(named)}")
        array = named[name]
        tensor: dict[str, Any] = {"name": name, "datatype": datatype_name(dtype_of(array)), "shape": array.shape}
        if is_binary:
            binary.append(to_bytes(array))
            tensor["parameters"] = {"binary_data_size": len(binary[-1])}
        elif array.size > most:
            raise bad_request(
                f"output '{name}' has {array.size:,} elements, more than {most:,} in JSON: ask for it with binary_data"
            )
        else:
            tensor["data"] = to_json(array, name)
        tensors.append(tensor)
    content: dict[str, Any] = {"model_name": model.name, "model_version": model.version}
    if request.id is not None:
        content["id"] = request.id
    content["outputs"] = tensors
    head = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return (b"".join([head, *binary]), len(head)) if binary else (head, None)
