"""Weights for a model of which only the text is at hand: good enough to time it, for no engine's time hangs on their values.

Magnitudes are sane, so that neither infinities nor subnormal numbers arise: filters keep the variance of what they are
applied to, variances and scales of normalisations are positive.
"""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import Array, DType, narrow
from ..errors import ResourceLimitError
from ..settings import settings
from .graph import Attribute, Graph


def fill_random_weights(graph: Graph, seed: int = 0) -> Graph:
    """The graph itself, every weight without data given some. The same seed gives the same weights.

    Floats are random, integers and bools are 0, which is a valid index into anything. Raises `ResourceLimitError` where all
    together would exceed `settings.max_memory`.
    """
    wanted = [
        (operator, key, attribute)
        for operator in graph.operators
        for key, attribute in operator.attributes.items()
        if attribute.data is None and attribute.dtype is not None
    ]
    total = sum(attribute.nbytes for _, _, attribute in wanted)
    if total > settings.max_memory:
        raise ResourceLimitError(
            f"the weights have {total:,} bytes, more than the limit of {settings.max_memory:,} that settings.max_memory sets"
        )
    generator = np.random.default_rng(seed)
    for operator, key, attribute in wanted:
        assert attribute.dtype is not None
        operator.attributes[key] = Attribute.of(_draw(generator, key, attribute.shape, attribute.dtype))
    return graph


def _draw(generator: np.random.Generator, key: str, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.kind in ("int", "bool"):
        return np.zeros(shape, dtype.storage)
    values: Array = generator.standard_normal(shape, np.float32)
    if len(shape) >= 2:
        values *= np.float32(math.sqrt(2.0 / max(1, math.prod(shape[1:]))))
    elif "var" in key or key.startswith("weight"):  # a normalisation's
        values = generator.uniform(0.5, 1.5, shape).astype(np.float32)
    else:
        values *= np.float32(0.1)
    return narrow(np.asarray(values).astype(dtype.compute), dtype)
