"""Converts the networks that people use, as they are published, and compares the results with torch, by both engines.

    python scripts/convert_zoo.py [NAME…]

Needs torch and the converter, and what defines the networks: torchvision, ultralytics, and (for YOLOv5 as it was first
published, in its three forms) yolov5; what is not installed is skipped. Weights are random, batch normalisations have means and
deviations of their own. Exit code 1 if any output is further from torch than 1e-4 of its largest magnitude.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import kuiperinfer
from kuiperinfer.convert.other_engines import arrays_of

if TYPE_CHECKING:
    from torch import nn

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = 1e-4


def published(name: str) -> nn.Module:
    """A network of torchvision or ultralytics, or the U-Net, as the benchmarks have it."""
    sys.path.insert(0, str(ROOT / "bench"))
    made: nn.Module = importlib.import_module("models").network(name)
    return made


def yolov5s(raw: bool = False) -> nn.Module:
    """YOLOv5s with its anchors, whose output is decoded: (N, 25200, 85); `raw` gives the three maps of the head instead."""
    import torch
    import yolov5
    from yolov5.models.yolo import DetectionModel

    torch.manual_seed(1)
    net = DetectionModel(str(Path(yolov5.__file__).parent / "models" / "yolov5s.yaml"))
    for part in net.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(part.running_mean, std=0.1)
            torch.nn.init.uniform_(part.running_var, 0.6, 1.4)
    net.model[-1].export = not raw

    class RawHeads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any) -> Any:
            return tuple(self.net(x)[1])

    return (RawHeads() if raw else net).eval()


# name -> what makes it, height and width of its input, options of the conversion
NETWORKS: dict[str, tuple[Callable[[], Any], int, dict[str, Any]]] = {
    "resnet18": (lambda: published("resnet18"), 224, {}),
    "mobilenet_v3_small": (lambda: published("mobilenet_v3_small"), 224, {}),
    "unet": (lambda: published("unet32"), 256, {}),
    "yolov5s-decoded": (yolov5s, 640, {}),
    "yolov5s-raw": (lambda: yolov5s(raw=True), 640, {}),
    "yolov5s-Detect": (yolov5s, 640, {"module_operators": ["yolov5.models.yolo.Detect"]}),
    "yolov5su": (lambda: published("yolov5s"), 640, {}),
    "yolov8n": (lambda: published("yolov8n"), 640, {}),
}


def error_of(model: kuiperinfer.Model, x: Any, expected: list[Any], engine: str) -> float:
    """The largest difference of any output, relative to that output's largest magnitude."""
    with kuiperinfer.settings(engine=engine):
        found = model(x)
    outputs = found if isinstance(found, tuple) else (found,)
    assert [one.shape for one in outputs] == [other.shape for other in expected]
    return max(
        float(np.abs(one - other).max() / np.abs(other).max()) for one, other in zip(outputs, expected, strict=True)
    )


def main() -> int:
    """Converts the networks named, or all."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    names = parser.parse_args().names or list(NETWORKS)
    warnings.simplefilter("ignore")  # of the networks' own code, which also logs each of its layers
    logging.disable(logging.WARNING)
    failed = False
    print(f"{'network':20}{'operators':>10}{'seconds':>9}{'reference':>11}{'compiled':>10}")
    for name in names:
        build, size, options = NETWORKS[name]
        try:
            net = build()
        except ImportError as error:
            print(f"{name:20}skipped: {error}")
            continue
        x = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))
        start = time.perf_counter()
        model = kuiperinfer.from_torch(net, x, **options)
        seconds = time.perf_counter() - start
        with torch.no_grad():
            expected = arrays_of(net(x))
        errors = [error_of(model, x, expected, engine) for engine in ("reference", "compiled")]
        agrees = all(error <= TOLERANCE for error in errors)
        failed |= not agrees
        shown = "".join(f"{error:>{width}.1e}" for error, width in zip(errors, (11, 10), strict=True))
        print(
            f"{name:20}{len(model.graph.operators):10}{seconds:9.1f}{shown}{'' if agrees else '  differs'}", flush=True
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
