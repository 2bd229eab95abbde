"""What the converter prints, and what it means for who reads it."""

from __future__ import annotations

import re
import signal

from .model_file import Kind

_STAGE = re.compile(r"^#+ (pass_\w+)", re.MULTILINE)
_NOISE = re.compile(
    r"^(#+ |frame #|---|\s*$|Exception raised from|terminate called|Please export|(?:inline )?\w+ = |get inputshape|"
    r"[\w ]+\.\.\. |[│┌├└]|.*LogEarlyWarning|import |net = |x = |mod = |mod\.)"
)

_TRACE_OR_FREEZE = (
    "where torch.jit.script made this file, save torch.jit.freeze(torch.jit.script(net.eval())) instead, or "
    "torch.jit.trace(net.eval(), example)"
)

# What is printed -> what that means: the first that is found explains a failure.
_REASONS: tuple[tuple[str, str], ...] = (
    (
        r"input_shapes\[(\d+)\] expect (\S+) but got (\S+)",
        "input {0}: the network was traced with {1}, the shape given is {2}; give the traced one, or none, and other sizes as "
        "second shape",
    ),
    (r"input_shape expect (\d+) tensors but got (\d+)", "the network takes {0} inputs, {1} shapes were given"),
    (r"No method in torchscript", "this TorchScript has no forward method"),
    (r"Load torchscript failed: (.*?)(?:\. This is an internal .*)?\n", "the TorchScript cannot be read: {0}"),
    (
        r'External data path does not exist: "(?:[^"]*/)?([^"/]+)"',
        "the file '{0}', which holds weights and belongs beside the ONNX file, is not there",
    ),
    (r"ort CreateSession failed (?:.*\) )?(.*)", "the ONNX file is not valid for onnxruntime: {0}"),
    (
        r"FATAL ERROR (no external data|external data out of range)",
        "weights in files beside the ONNX file were not found or cannot be read; put everything into one file: "
        "onnx.save(onnx.load(path), path2)",
    ),
    (r"read_proto_from_binary failed", "the ONNX file is damaged"),
    (r"bad_alloc|DefaultCPUAllocator|std::length_error", "it ran out of memory"),
    (
        r"(?m)^RuntimeError: (.*(?:Half|BFloat16).*)$",
        "{0}; the converter turns inputs of half precision into float32: convert net.float() with float32 inputs",
    ),
    (r"(?m)^RuntimeError: (.*)$", "{0}"),  # the last line of a traceback of TorchScript
    (r"what\(\):\s+(.*)", "{0}"),
)

# Lines that tell of values which the converter could not write down: the model may have lost something.
_LOSS = re.compile(
    r"^(unknown Parameter value .*|unknown Attribute tensor scalar type .*|unknown Node attribute .*|"
    r"unknown parameter type .*|no attribute value in .*|unsupported type .* fallback .*|unsupported traced input type .*)$",
    re.MULTILINE,
)
_SHAPES = re.compile(r"^(inputshape2?) = (.*)$", re.MULTILINE)


def is_fatal(log: str) -> bool:
    """Whether the converter says that it failed, though it goes on."""
    return "FATAL ERROR" in log


def failure(code: int, log: str, kind: Kind) -> str:
    """What the converter did instead, and why: from its exit code (negative for signals) and what it printed."""
    stages = _STAGE.findall(log)
    where = f" in {stages[-1]}" if stages else ""
    if code < 0:
        how = f"crashed{where} ({_signal_name(-code)})"
    elif code:
        how = f"gave up{where} (exit code {code})"
    else:
        how = f"ended{where} without a complete model"
    reason = _reason(log)
    if reason:
        return f"{how}: {reason}"
    if code == -signal.SIGKILL:
        return f"{how}: something killed it, most likely for want of memory"
    if code < 0 and kind is Kind.TORCHSCRIPT:
        return f"{how}; {_TRACE_OR_FREEZE}"
    return how


def _reason(log: str) -> str:
    for pattern, meaning in _REASONS:
        found = re.search(pattern, log)
        if found:
            return meaning.format(*(group.strip() for group in found.groups()))
    lines = [line.strip() for line in log.splitlines() if not _NOISE.match(line)]
    return "; ".join(lines[-3:])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def losses(log: str) -> list[str]:
    """What the converter says of values that it could not write into the model, each line once."""
    return list(dict.fromkeys(line.strip() for line in _LOSS.findall(log)))


def shapes_in_log(log: str) -> tuple[str, str]:
    """The first and second input shapes that the converter worked with, as it wrote them; empty where there were none."""
    last = {name: text.strip() for name, text in _SHAPES.findall(log)}
    return last.get("inputshape", ""), last.get("inputshape2", "")
