"""The engines that are compared: each a function from a model's folder to a function that runs it.

Every one calculates in float32, on the CPU, with the given number of threads, and copies its outputs nowhere that it need not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Runner: TypeAlias = Callable[[], list[Array]]


def kuiperinfer(folder: Path, name: str, threads: int, x: Array) -> Runner:
    """This package."""
    import kuiperinfer

    compiled = kuiperinfer.load(folder / "model.pnnx.param").compile(x.shape, threads=threads)

    def run() -> list[Array]:
        y = compiled(x)
        return list(y) if isinstance(y, tuple) else [y]

    return run


def onnxruntime(folder: Path, name: str, threads: int, x: Array) -> Runner:
    """Microsoft's, with its own kernels."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feed)


def openvino(folder: Path, name: str, threads: int, x: Array) -> Runner:
    """Intel's, for the least time of one run."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
    }
    request = openvino.Core().compile_model(str(folder / "model.onnx"), "CPU", settings).create_infer_request()
    return lambda: [np.asarray(value) for value in request.infer([x], share_inputs=True).values()]


def ncnn(folder: Path, name: str, threads: int, x: Array) -> Runner:
    """Tencent's. It knows no batches: the samples go one after the other."""
    import ncnn

    net = ncnn.Net()
    net.opt.num_threads = threads
    for reduced in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, f"use_{reduced}", False)
    if net.load_param(str(folder / "model.ncnn.param")) or net.load_model(str(folder / "model.ncnn.bin")):
        raise RuntimeError("ncnn cannot load the model")
    samples = [ncnn.Mat(sample).clone() for sample in x]
    (source,), targets = net.input_names(), net.output_names()

    def run() -> list[Array]:
        results: list[list[Array]] = []
        for sample in samples:
            extractor = net.create_extractor()
            extractor.input(source, sample)
            results.append([np.array(extractor.extract(target)[1]) for target in targets])
        return [np.stack(outputs) for outputs in zip(*results, strict=True)]

    return run


def torch(folder: Path, name: str, threads: int, x: Array, *, compiled: bool = False) -> Runner:
    """PyTorch, eager, or compiled with its default back end."""
    import torch

    from models import network

    torch.set_num_threads(threads)
    made = network(name)
    source = torch.from_numpy(x)
    with torch.inference_mode():
        made(source)  # detectors settle their grid in the first run, and save it
        made.load_state_dict(torch.load(folder / "weights.pth"))
    if compiled:
        import torch._inductor.config

        torch._inductor.config.freezing = (
            True  # weights are constants, and convolutions choose their layouts: up to 1.6 times
        )
    call: Any = torch.compile(made) if compiled else made

    def run() -> list[Array]:
        with torch.inference_mode():
            y = call(source)
        return [one.numpy() for one in (y if isinstance(y, (list, tuple)) else [y]) if isinstance(one, torch.Tensor)]

    return run


def torch_compiled(folder: Path, name: str, threads: int, x: Array) -> Runner:
    """PyTorch with torch.compile, which needs a C++ compiler."""
    return torch(folder, name, threads, x, compiled=True)


ENGINES: dict[str, Callable[[Path, str, int, Array], Runner]] = {
    "kuiperinfer": kuiperinfer,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "ncnn": ncnn,
    "torch": torch,
    "torch.compile": torch_compiled,
}
OURS = "kuiperinfer"
RIVALS = ("onnxruntime", "openvino", "ncnn")  # the best of these is what a ratio is taken against
REFERENCE = "torch"  # whose outputs the others have to agree with
