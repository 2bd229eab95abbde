"""The networks that people convert, as published but narrow: ResNet-18, MobileNetV3-small, U-Net, YOLOv5s and YOLOv8n."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def with_random_statistics(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in evaluation mode, its batch norms with statistics of their own: zeros and ones would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.normal_(0, 0.1, generator=generator)
            part.running_var.uniform_(0.5, 1.5, generator=generator)
    return module.eval()


def convolution(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: Any = None
) -> nn.Module:
    """Convolution, batch norm, and an activation where one is given."""
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


# ------------------------------------------------------------------------------------------- He et al. 2015


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(inputs, outputs, 3, stride, act=nn.ReLU)
        self.second = convolution(outputs, outputs, 3)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.shortcut(x))


def resnet18(width: int = 8, classes: int = 10) -> nn.Module:
    """(N, 3, H, W) -> (N, classes); published with a width of 64."""
    stages: list[nn.Module] = []
    inputs = width
    for index in range(4):
        outputs = width << index
        stages += [BasicBlock(inputs, outputs, 1 if index == 0 else 2), BasicBlock(outputs, outputs, 1)]
        inputs = outputs
    stem = [convolution(3, width, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


# ------------------------------------------------------------------------------------------- Howard et al. 2019, table 2


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, channels // 4, 1)
        self.excite = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, kernel: int, wide: int, outputs: int, excite: bool, act: Any, stride: int) -> None:
        super().__init__()
        layers = [convolution(inputs, wide, act=act)] if wide != inputs else []
        layers.append(convolution(wide, wide, kernel, stride, groups=wide, act=act))
        layers += [SqueezeExcitation(wide)] if excite else []
        self.layers = nn.Sequential(*layers, convolution(wide, outputs))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v3_small(classes: int = 10) -> nn.Module:
    """(N, 3, H, W) -> (N, classes), with half of the published widths."""
    relu, swish = nn.ReLU, nn.Hardswish
    table = [(3, 16, 16, True, relu, 2), (3, 72, 24, False, relu, 2), (3, 88, 24, False, relu, 1)]
    table += [(5, 96, 40, True, swish, 2), (5, 240, 40, True, swish, 1), (5, 240, 40, True, swish, 1)]
    table += [(5, 120, 48, True, swish, 1), (5, 144, 48, True, swish, 1), (5, 288, 96, True, swish, 2)]
    table += [(5, 576, 96, True, swish, 1), (5, 576, 96, True, swish, 1)]
    layers: list[nn.Module] = [convolution(3, 8, 3, 2, act=swish)]
    inputs = 8
    for kernel, wide, outputs, excite, act, stride in table:
        layers.append(InvertedResidual(inputs, kernel, wide // 2, outputs // 2, excite, act, stride))
        inputs = outputs // 2
    layers += [convolution(inputs, 288, act=swish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(288, 512), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(512, classes))


# ------------------------------------------------------------------------------------------- Ronneberger et al. 2015


def double_convolution(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(convolution(inputs, outputs, 3, act=nn.ReLU), convolution(outputs, outputs, 3, act=nn.ReLU))


class UNet(nn.Module):
    """(N, 3, H, W) -> (N, classes, H, W), for multiples of 16; published with a width of 64."""

    def __init__(self, width: int = 8, classes: int = 2, depth: int = 4) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.first = double_convolution(3, width)
        self.down = nn.ModuleList(double_convolution(a, b) for a, b in pairwise(widths))
        up = list(reversed(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairwise(up))
        self.join = nn.ModuleList(double_convolution(a, b) for a, b in pairwise(up))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(F.max_pool2d(levels[-1], 2)))
        y = levels.pop()
        for up, join in zip(self.up, self.join, strict=True):
            y = join(torch.cat([levels.pop(), up(y)], dim=1))
        return self.last(y)


# ------------------------------------------------------------------------------------------- YOLO


class Bottleneck(nn.Module):
    def __init__(self, channels: int, add: bool, kernels: tuple[int, int]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(convolution(channels, channels, kernel, act=nn.SiLU) for kernel in kernels))
        self.add = add

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.add else self.layers(x)


class C3(nn.Module):
    """YOLOv5's block: half of the channels through bottlenecks, the other half past them."""

    def __init__(self, inputs: int, outputs: int, count: int = 1, add: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.through = convolution(inputs, half, act=nn.SiLU)
        self.past = convolution(inputs, half, act=nn.SiLU)
        self.blocks = nn.Sequential(*(Bottleneck(half, add, (1, 3)) for _ in range(count)))
        self.join = convolution(2 * half, outputs, act=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat((self.blocks(self.through(x)), self.past(x)), dim=1))


class C2f(nn.Module):
    """YOLOv8's block: the result of every bottleneck goes to the end."""

    def __init__(self, inputs: int, outputs: int, count: int = 1, add: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.split = convolution(inputs, outputs, act=nn.SiLU)
        self.blocks = nn.ModuleList(Bottleneck(half, add, (3, 3)) for _ in range(count))
        self.join = convolution((2 + count) * half, outputs, act=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.split(x).chunk(2, dim=1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.join(torch.cat(parts, dim=1))


class SPPF(nn.Module):
    """Three max pools in a row see what pools of 5, 9 and 13 would."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = convolution(channels, channels // 2, act=nn.SiLU)
        self.last = convolution(channels * 2, channels, act=nn.SiLU)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        maps = [self.first(x)]
        for _ in range(3):
            maps.append(self.pool(maps[-1]))
        return self.last(torch.cat(maps, dim=1))


class Yolo(nn.Module):
    """Backbone and neck of YOLOv5 (`block=C3`) and YOLOv8 (`block=C2f`) with a head for strides of 8, 16 and 32 pixels."""

    def __init__(self, block: Any, stem: int, width: int, depths: tuple[int, ...], head: Any) -> None:
        super().__init__()
        down = [width << level for level in range(5)]
        self.is_v5 = block is C3
        self.stem = nn.Sequential(
            nn.Conv2d(3, down[0], stem, 2, 2 if stem == 6 else 1, bias=False), nn.BatchNorm2d(down[0])
        )
        self.down = nn.ModuleList(convolution(a, b, 3, 2, act=nn.SiLU) for a, b in pairwise(down))
        self.blocks = nn.ModuleList(block(c, c, depth) for c, depth in zip(down[1:], depths, strict=True))
        self.pyramid = SPPF(down[4])
        c3, c4, c5 = down[2:]
        self.lateral = nn.ModuleList([convolution(c5, c4, act=nn.SiLU), convolution(c4, c3, act=nn.SiLU)])
        top, middle = (c4, c3) if self.is_v5 else (c5, c4)
        self.up = nn.ModuleList([block(top + c4, c4, 1, False), block(middle + c3, c3, 1, False)])
        self.again = nn.ModuleList([convolution(c3, c3, 3, 2, act=nn.SiLU), convolution(c4, c4, 3, 2, act=nn.SiLU)])
        last = c4 if self.is_v5 else c5
        self.out = nn.ModuleList([block(c3 + middle, c4, 1, False), block(c4 + last, c5, 1, False)])
        self.head = head([c3, c4, c5])

    def forward(self, x: Tensor) -> Any:
        y = F.silu(self.stem(x))
        maps = []
        for down, block in zip(self.down, self.blocks, strict=True):
            y = block(down(y))
            maps.append(y)
        top = self.pyramid(maps[-1])
        top = self.lateral[0](top) if self.is_v5 else top
        middle = self.up[0](torch.cat([F.interpolate(top, scale_factor=2.0), maps[2]], dim=1))
        middle = self.lateral[1](middle) if self.is_v5 else middle
        fine = self.up[1](torch.cat([F.interpolate(middle, scale_factor=2.0), maps[1]], dim=1))
        medium = self.out[0](torch.cat([self.again[0](fine), middle], dim=1))
        coarse = self.out[1](torch.cat([self.again[1](medium), top], dim=1))
        return self.head([fine, medium, coarse])


class Detect(nn.Module):
    """YOLOv5's head: three anchor boxes a cell. `raw` gives what the convolutions give, for somebody else to decode."""

    ANCHORS = (
        ((10, 13), (16, 30), (33, 23)),
        ((30, 61), (62, 45), (59, 119)),
        ((116, 90), (156, 198), (373, 326)),
    )

    def __init__(self, channels: list[int], classes: int = 4, raw: bool = False) -> None:
        super().__init__()
        self.values, self.raw = 5 + classes, raw
        self.m = nn.ModuleList(nn.Conv2d(c, 3 * self.values, 1) for c in channels)
        self.stride = torch.tensor([8.0, 16.0, 32.0])
        self.grids: dict[tuple[int, int, int], tuple[Tensor, Tensor]] = {}

    def grid(self, stage: int, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Corners of the cells and sizes of the anchor boxes, both (1, 3, H, W, 2); kept, as the original keeps them."""
        key = (stage, height, width)
        if key not in self.grids:
            y, x = torch.meshgrid(torch.arange(height).float(), torch.arange(width).float(), indexing="ij")
            corners = (torch.stack((x, y), 2) - 0.5).expand(1, 3, height, width, 2).contiguous()
            sizes = torch.tensor(self.ANCHORS[stage]).float().view(1, 3, 1, 1, 2)
            self.grids[key] = corners, sizes.expand(1, 3, height, width, 2).contiguous()
        return self.grids[key]

    def forward(self, maps: list[Tensor]) -> Any:
        raw, boxes = [], []
        for stage, convolve in enumerate(self.m):
            y = convolve(maps[stage])
            batch, _, height, width = y.shape
            y = y.view(batch, 3, self.values, height, width).permute(0, 1, 3, 4, 2).contiguous()
            raw.append(y)
            corners, sizes = self.grid(stage, int(height), int(width))
            xy, wh, rest = y.sigmoid().split((2, 2, self.values - 4), 4)
            box = ((xy * 2 + corners) * self.stride[stage], (wh * 2) ** 2 * sizes, rest)
            boxes.append(torch.cat(box, 4).view(batch, 3 * int(height) * int(width), self.values))
        return tuple(raw) if self.raw else torch.cat(boxes, 1)


Detect.__module__ = "models.yolo"  # where the original stands, so that the head can be named to the converter


class DistributionDetect(nn.Module):
    """YOLOv8's head: the distances to the four sides as distributions over 16 bins, and class scores, no objectness."""

    def __init__(self, channels: list[int], classes: int = 4, bins: int = 16) -> None:
        super().__init__()
        self.classes, self.bins = classes, bins
        middle = max(16, channels[0] // 4)

        def branch(inputs: int, outputs: int) -> nn.Module:
            hidden = [convolution(a, middle, 3, act=nn.SiLU) for a in (inputs, middle)]
            return nn.Sequential(*hidden, nn.Conv2d(middle, outputs, 1))

        self.sides = nn.ModuleList(branch(c, 4 * bins) for c in channels)
        self.scores = nn.ModuleList(branch(c, classes) for c in channels)

    def forward(self, maps: list[Tensor]) -> Tensor:
        found, centres, strides = [], [], []
        for stage, (sides, scores) in enumerate(zip(self.sides, self.scores, strict=True)):
            y = torch.cat((sides(maps[stage]), scores(maps[stage])), dim=1)
            height, width = int(y.shape[2]), int(y.shape[3])
            found.append(y.flatten(2))
            row, column = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
            centres.append(torch.stack((column, row), -1).view(-1, 2))
            strides.append(torch.full((height * width, 1), 8.0 * 2**stage))
        sides, scores = torch.cat(found, 2).split((4 * self.bins, self.classes), 1)
        batch, _, cells = sides.shape
        bins = torch.arange(self.bins, dtype=torch.float32).view(1, self.bins, 1, 1)
        distance = (sides.view(batch, 4, self.bins, cells).transpose(2, 1).softmax(1) * bins).sum(1)
        near, far = distance.chunk(2, 1)
        centre, stride = torch.cat(centres).t().unsqueeze(0), torch.cat(strides).t()
        boxes = torch.cat(((centre - near + centre + far) / 2, far + near), 1) * stride
        return torch.cat((boxes, scores.sigmoid()), 1)


def yolov5(raw: bool = False) -> nn.Module:
    """(N, 3, H, W) -> (N, boxes, 9), or the raw maps (N, 3, H', W', 9) of three scales, for multiples of 32."""
    return Yolo(C3, 6, 8, (1, 2, 3, 1), lambda channels: Detect(channels, raw=raw))


def yolov8() -> nn.Module:
    """(N, 3, H, W) -> (N, 8, cells), for multiples of 32."""
    return Yolo(C2f, 3, 8, (1, 2, 2, 1), DistributionDetect)
