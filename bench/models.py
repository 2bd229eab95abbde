"""The models that the benchmarks run: definitions of torchvision and ultralytics, random weights, in every engine's format.

    python bench/models.py FOLDER [NAME…] [--batch N]

writes FOLDER/NAME (FOLDER/NAME-batchN for another batch than 1) with model.pnnx.param and .bin, model.onnx, model.ncnn.param
and .bin, model.pt (TorchScript) and weights.pth. Needs torch, torchvision, ultralytics, onnx and pnnx.

Random weights are as good as trained ones here: no engine's time hangs on their values, as long as none of them becomes
subnormal, and they agree where engines are compared. Batch normalisations have statistics that no engine can fold to nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

# name -> height and width of the input
SIZES = {
    "resnet18": 224,
    "resnet50": 224,
    "mobilenet_v2": 224,
    "mobilenet_v3_small": 224,
    "squeezenet1_1": 224,
    "vgg16": 224,
    "unet32": 256,
    "yolov5n": 640,
    "yolov5s": 640,
    "yolov8n": 640,
    "vit_b_32": 224,
}
FILES = ("model.pnnx.param", "model.pnnx.bin", "model.onnx", "model.ncnn.param", "model.ncnn.bin", "weights.pth")


def network(name: str) -> nn.Module:
    """A network by its name, for inference, with the same weights each time."""
    import torch

    torch.manual_seed(1)
    if name.startswith("yolo"):
        made = _detector(name)
    elif name == "unet32":
        made = _unet(base=32, levels=4, classes=2)
    else:
        import torchvision

        made = torchvision.models.get_model(name, weights=None)
    made.eval()
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.6, 1.4)
    return made


def _detector(name: str) -> nn.Module:
    """A detector whose head gives one tensor of boxes and classes, as it is exported for inference."""
    from ultralytics.nn.tasks import DetectionModel

    made: Any = DetectionModel(f"{name}.yaml", verbose=False)
    head = made.model[-1]
    head.export, head.format = True, "onnx"
    return made


def _unet(base: int, levels: int, classes: int) -> nn.Module:
    """The network of Ronneberger et al., 2015, with padding, batch normalisation, and transposed convolutions on the way up."""
    import torch
    from torch import nn

    def block(inputs: int, outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [base * 2**level for level in range(levels + 1)]
            self.first = block(3, widths[0])
            self.down = nn.ModuleList(block(widths[i], widths[i + 1]) for i in range(levels))
            self.widen = nn.ModuleList(
                nn.ConvTranspose2d(widths[i + 1], widths[i], 2, stride=2) for i in reversed(range(levels))
            )
            self.up = nn.ModuleList(block(2 * widths[i], widths[i]) for i in reversed(range(levels)))
            self.last = nn.Conv2d(base, classes, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            skipped = []
            for step in self.down:
                skipped.append(x)
                x = step(nn.functional.max_pool2d(x, 2))
            for widen, step in zip(self.widen, self.up, strict=True):
                x = step(torch.cat((skipped.pop(), widen(x)), dim=1))
            return self.last(x)

    return UNet()


def folder_of(root: Path, name: str, batch: int) -> Path:
    """Where a model's files are."""
    return root / (name if batch == 1 else f"{name}-batch{batch}")


def input_shape(name: str, batch: int) -> tuple[int, int, int, int]:
    """(N, 3, H, W)"""
    return (batch, 3, SIZES[name], SIZES[name])


def is_made(folder: Path) -> bool:
    """Whether a folder has all files of a model."""
    return all((folder / file).exists() for file in FILES)


def make(root: Path, name: str, batch: int = 1) -> Path:
    """The folder of a model, its files made unless they are there."""
    folder = folder_of(root, name, batch)
    if is_made(folder):
        return folder
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    made, shape = network(name), input_shape(name, batch)
    example = torch.rand(shape)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the exporters used here have successors
        torch.backends.mha.set_fastpath_enabled(False)  # a single operator that no exporter knows
        made(example)  # detectors settle their grid in the first run
        torch.save(made.state_dict(), folder / "weights.pth")
        torch.onnx.export(made, (example,), str(folder / "model.onnx"), opset_version=17, dynamo=False)
        torch.jit.trace(made, example, check_trace=False).save(str(folder / "model.pt"))
    converter = shutil.which(
        "pnnx", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )
    if converter is None:
        raise SystemExit("pnnx is not installed: pip install pnnx")
    dims = ",".join(map(str, shape))
    done = subprocess.run(
        [converter, "model.pt", f"inputshape=[{dims}]", "fp16=0"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not (folder / "model.pnnx.param").exists():
        raise SystemExit(f"{folder}: pnnx failed\n{done.stdout}{done.stderr}")
    for leftover in ("model_pnnx.py", "model_ncnn.py", "model.pnnx.onnx"):
        (folder / leftover).unlink(missing_ok=True)
    return folder


def main() -> None:
    """Makes the models that the arguments name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SIZES)} [default: all]")
    parser.add_argument("--batch", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.names or SIZES:
        if name not in SIZES:
            parser.error(f"there is no model '{name}', only {', '.join(SIZES)}")
        print(make(arguments.folder, name, arguments.batch), flush=True)


if __name__ == "__main__":
    main()
