"""Records what torchvision keeps of 1000 random sets of boxes, for tests/vision/test_nms.py.

    pip install torch torchvision && python scripts/record_nms.py tests/vision/data/nms.npz

The sets themselves are made again from their numbers, by the same `random_set`; their digest tells whether they are the same.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

SETS = 1000
Array = np.ndarray[Any, np.dtype[Any]]


def random_set(number: int) -> tuple[Array, Array, Array, float]:
    """Boxes (N, 4), scores (N), classes (N) and a threshold. Some sets are empty, and some have equal boxes, equal scores,
    boxes without area, or NaN scores; corners are on a grid in some, so that overlaps are equal to thresholds.
    """
    random = np.random.default_rng(number)
    count = int(random.choice([0, 1, 2, 5, 20, 60, 150, 400], p=[0.02, 0.03, 0.05, 0.2, 0.3, 0.3, 0.09, 0.01]))
    clusters = random.uniform(0, 600, (max(1, count // 4), 2))
    corners = clusters[random.integers(len(clusters), size=count)] + random.normal(0, 12, (count, 2))
    sizes = random.uniform(10, 150, (count, 2))
    boxes = np.concatenate([corners, corners + sizes], axis=1)
    scores = random.random(count)
    if number % 3 == 0:
        boxes = np.round(boxes / 16) * 16
    if number % 4 == 1:
        scores = np.round(scores * 5) / 5
    if number % 5 == 2 and count:
        boxes[random.integers(count, size=count // 3)] = boxes[0]
    if number % 7 == 3 and count:
        scores[random.integers(count, size=1 + count // 10)] = np.nan
    threshold = float(random.choice([0.25, 0.45, 0.5, 0.7, random.random()]))
    return boxes.astype(np.float32), scores.astype(np.float32), random.integers(0, 5, count), threshold


def digest(sets: int = SETS) -> str:
    """SHA-256 of all sets."""
    total = hashlib.sha256()
    for number in range(sets):
        boxes, scores, classes, threshold = random_set(number)
        for array in (boxes, scores, classes.astype(np.int64), np.float64(threshold)):
            total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def main() -> None:
    """Writes the archive whose path is the argument."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    import torch
    import torchvision
    from torchvision.ops.boxes import _batched_nms_vanilla, nms

    recorded: dict[str, list[Array]] = {"kept": [], "kept_by_class": []}
    for number in range(SETS):
        boxes, scores, classes, threshold = random_set(number)
        arguments = torch.from_numpy(boxes), torch.from_numpy(scores)
        recorded["kept"].append(nms(*arguments, threshold).numpy())
        recorded["kept_by_class"].append(_batched_nms_vanilla(*arguments, torch.from_numpy(classes), threshold).numpy())
    arrays = {}
    for name, kept in recorded.items():
        arrays[name] = np.concatenate(kept).astype(np.uint16)
        arrays[f"{name}_counts"] = np.array([len(indices) for indices in kept], np.uint16)
    versions = f"torch {torch.__version__}, torchvision {torchvision.__version__}"
    np.savez_compressed(Path(sys.argv[1]), digest=np.array(digest()), versions=np.array(versions), **arrays)
    print(f"{sys.argv[1]}: {SETS} sets, {Path(sys.argv[1]).stat().st_size:,} bytes, {versions}")


if __name__ == "__main__":
    main()
