"""Batches of samples, in order or shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...dtypes import Array
from ...errors import InputError
from ..random import checked_seed, default_generator
from ..tensor import Tensor
from ..wrapping import wrap
from .samples import Samples

Transform: TypeAlias = Callable[..., Sequence[Any]]


class DataLoader:
    """Walks over samples in batches; every walk is one epoch. Iterating gives a tuple of tensors a batch.

    `dataset` is `Samples`, or a sequence of arrays or tensors whose first dimensions are equal. With `shuffle`, every epoch has
    another order; the same `seed` gives the same orders again, and without one the order is that of `manual_seed`. The last
    batch may be smaller, unless `drop_last` is set. `transform(*arrays)` changes the NumPy arrays of a batch before they
    become tensors.
    """

    def __init__(
        self,
        dataset: Samples | Sequence[Array | Tensor],
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        drop_last: bool = False,
        transform: Transform | None = None,
    ) -> None:
        if not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise InputError(f"DataLoader: batch_size {batch_size!r}; expected at least 1")
        self._take, self.sample_count = _source(dataset)
        self.batch_size, self.shuffle, self.drop_last, self.transform = batch_size, shuffle, drop_last, transform
        self._generator = default_generator() if seed is None else np.random.default_rng(checked_seed(seed))

    def __len__(self) -> int:
        """Batches of an epoch."""
        whole, rest = divmod(self.sample_count, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        order = self._generator.permutation(self.sample_count) if self.shuffle else np.arange(self.sample_count)
        for number in range(len(self)):
            arrays = self._take(order[number * self.batch_size : (number + 1) * self.batch_size])
            if self.transform is None:
                yield tuple(wrap(array) for array in arrays)  # which nobody else has
            else:
                yield tuple(Tensor(array) for array in self.transform(*arrays))


def _source(dataset: Samples | Sequence[Array | Tensor]) -> tuple[Callable[[Array], Sequence[Array]], int]:
    if isinstance(dataset, Samples):
        return dataset.__getitem__, len(dataset)
    if not isinstance(dataset, Iterable):
        raise InputError(f"DataLoader: expected samples or a list of arrays or tensors, found {dataset!r}")
    arrays = [array.detach().array if isinstance(array, Tensor) else _native(array) for array in dataset]
    counts = {array.shape[0] if array.ndim else None for array in arrays}
    if len(counts) != 1 or None in counts:
        shapes = ", ".join(str(array.shape) for array in arrays) or "nothing"
        raise InputError(f"DataLoader: expected arrays of one number of samples, found {shapes}")
    return (lambda indices: [array[indices] for array in arrays]), len(arrays[0])


def _native(values: Any) -> Array:
    """An array in this machine's byte order."""
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder("="), copy=False)
