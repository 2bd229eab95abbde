"""Records what torchvision makes of regions and deformed kernels, for test_detection.py.

    python make_detection.py        # with torch 2.14 and torchvision 0.29; writes detection.npz beside this file

The cases are in `detection_cases.py`, which the test reads too; here are only their answers.
"""

from __future__ import annotations

from pathlib import Path

import detection_cases as cases
import numpy as np
import torch
from torchvision import ops

HERE = Path(__file__).parent

answers: dict[str, np.ndarray] = {}
for index, params in enumerate(cases.roi_align_params()):
    module = ops.RoIAlign(**params)
    answers[f"roi_align_{index}"] = module(torch.from_numpy(cases.FEATURES), torch.from_numpy(cases.BOXES)).numpy()

for index, case in enumerate(cases.deform_conv_cases()):
    tensors = {name: torch.from_numpy(array) for name, array in case.arrays.items()}
    result = ops.deform_conv2d(
        tensors["input"], tensors["offset"], tensors["weight"], tensors.get("bias"),
        case.stride, case.padding, case.dilation, tensors.get("mask"),
    )  # fmt: skip
    answers[f"deform_conv_{index}"] = result.numpy()

for index, threshold in enumerate(cases.NMS_THRESHOLDS):
    answers[f"nms_{index}"] = ops.nms(
        torch.from_numpy(cases.NMS_BOXES), torch.from_numpy(cases.NMS_SCORES), threshold
    ).numpy()

np.savez_compressed(HERE / "detection.npz", **answers)
print(len(answers), "answers,", (HERE / "detection.npz").stat().st_size, "bytes")
