"""Columns of pictures as the input of a network, for `Predictor(model, preprocess=…)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import Array
from ..errors import InputError, did_you_mean


@dataclass(frozen=True)
class Pictures:
    """Reads the pictures of one column and prepares each with `preprocess`, such as `vision.preprocess_for(…)`.

    A picture is a path, encoded bytes (`ray.data.read_binary_files` has them in "bytes"), or a (H, W, 3) uint8 array
    (`ray.data.read_images` has them in "image"). Raises `InputError` where one cannot be read.
    """

    preprocess: Callable[[Array], Array]
    column: str = "image"

    def __call__(self, columns: Mapping[str, Any]) -> dict[str, Array]:
        """N pictures -> (N, C, H, W)."""
        from ..vision import read_picture

        if self.column not in columns:
            raise InputError(
                f"there is no column '{self.column}', only {', '.join(columns) or 'none'}"
                f"{did_you_mean(self.column, columns)}"
            )
        pictures = columns[self.column]
        if len(pictures) == 0:
            raise InputError(f"column '{self.column}' has no rows")
        return {self.column: np.concatenate([self.preprocess(read_picture(picture)) for picture in pictures])}
