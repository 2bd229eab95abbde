"""Inputs of the detection operators, made from fixed formulas, so that only torchvision's answers need to be stored."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


def waves(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """A smooth but irregular float32 array, the same everywhere."""
    index = np.arange(int(np.prod(shape)), dtype=np.float64)
    values = np.sin(index * 0.7 + seed) + 0.5 * np.cos(index * 2.3 + 1.7 * seed) + 0.25 * np.sin(index * 11.1 + seed)
    return (scale * values).astype(np.float32).reshape(shape)


FEATURES = waves(2, 3, 9, 11)
# Ordinary boxes, boxes beyond the edges, tiny and empty ones, and boxes whose corners are the wrong way round.
BOXES = np.array(
    [
        [0, 1.0, 2.0, 30.0, 25.0], [1, 0.0, 0.0, 44.0, 36.0], [0, -20.0, -10.0, 12.0, 9.0], [1, 30.0, 20.0, 90.0, 70.0],
        [0, 5.0, 5.0, 5.0, 5.0], [1, 6.25, 7.5, 6.5, 8.0], [0, 20.0, 18.0, 4.0, 6.0], [1, -90.0, -90.0, -80.0, -80.0],
    ],
    np.float32,
)  # fmt: skip


def roi_align_params() -> Iterator[dict[str, Any]]:
    """Parameters of RoIAlign."""
    for size, scale, ratio, aligned in itertools.product([(3, 3), (1, 4)], [0.25, 1.0], [-1, 0, 1, 3], [False, True]):
        yield {"output_size": size, "spatial_scale": scale, "sampling_ratio": ratio, "aligned": aligned}


@dataclass
class DeformConvCase:
    """Arrays and parameters of one deformable convolution."""

    arrays: dict[str, np.ndarray[Any, Any]]
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int


def deform_conv_cases() -> Iterator[DeformConvCase]:
    """Deformable convolutions: kernels, groups, groups of offsets, with and without mask and bias."""
    geometries = [
        ((3, 3), (1, 1), (1, 1), (1, 1)),
        ((3, 2), (2, 1), (0, 1), (1, 2)),
        ((1, 1), (1, 2), (0, 0), (1, 1)),
    ]
    for geometry, (groups, offset_groups), masked, biased in itertools.product(
        geometries, [(1, 1), (2, 1), (1, 2), (2, 4)], [False, True], [False, True]
    ):
        kernel, stride, padding, dilation = geometry
        batch, channels, filters, size = 2, 4, 6, (7, 8)
        output = [
            (s + 2 * p - d * (k - 1) - 1) // t + 1
            for s, p, d, k, t in zip(size, padding, dilation, kernel, stride, strict=True)
        ]
        taps = kernel[0] * kernel[1]
        arrays = {
            "input": waves(batch, channels, *size, seed=1),
            "offset": waves(batch, 2 * offset_groups * taps, *output, seed=2, scale=1.5),
            "weight": waves(filters, channels // groups, *kernel, seed=3),
        }
        if masked:
            arrays["mask"] = np.abs(waves(batch, offset_groups * taps, *output, seed=4))
        if biased:
            arrays["bias"] = waves(filters, seed=5)
        yield DeformConvCase(arrays, kernel, stride, padding, dilation, groups)


_CORNERS = np.abs(waves(40, 2, seed=6, scale=10.0))
NMS_BOXES = np.concatenate([_CORNERS, _CORNERS + 2 + np.abs(waves(40, 2, seed=7, scale=6.0))], axis=1)
NMS_SCORES = np.round(np.abs(waves(40, seed=8)), 1)  # with equal scores
NMS_THRESHOLDS = [0.0, 0.2, 0.5, 0.7, 1.0]
