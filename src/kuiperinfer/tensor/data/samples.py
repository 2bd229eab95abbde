"""Readers for the files of MNIST (idx, also gzipped) and CIFAR-10 (binary version).

The files are data from a stranger: magic numbers, sizes and labels are checked, and nothing larger than what the header
promises is unpacked.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

import numpy as np

from ...dtypes import Array
from ...errors import InputError, ResourceLimitError
from ...settings import settings

PathLike: TypeAlias = "str | os.PathLike[str]"

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CIFAR_SHAPE = (3, 32, 32)
_CIFAR_FILES = {True: [f"data_batch_{number}.bin" for number in range(1, 6)], False: ["test_batch.bin"]}
_MNIST_PARTS = {True: "train", False: "t10k"}


@dataclass(frozen=True)
class Samples:
    """Pictures with their classes: `images` are bytes (N, C, H, W), `labels` (N,) int64, `classes` the names of classes."""

    images: Array
    labels: Array
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int | slice | Sequence[int] | Array) -> tuple[Array, Array]:
        """The chosen images as float32 between 0 and 1, and their labels."""
        return np.asarray(self.images[index], np.float32) / np.float32(255), self.labels[index]


# ------------------------------------------------------------------------------------------- idx


def read_idx(path: PathLike, *, dtype: str | None = None, ndim: int | None = None) -> Array:
    """The array of an idx file, gzipped or not, in native byte order.

    `dtype` (a NumPy name) and `ndim` are what it must have, where given. Raises `InputError` for a file that is missing or
    broken or holds something else, `ResourceLimitError` for one beyond `settings.max_memory`. The format is described at
    http://yann.lecun.com/exdb/mnist.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not zipped:
                return _idx_array(raw, name, dtype, ndim)
            with gzip.open(raw) as unpacked:
                return _idx_array(cast("BinaryIO", unpacked), name, dtype, ndim)
    except (OSError, EOFError, zlib.error) as error:  # gzip's own complaints are among them
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> InputError:
    return InputError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}")


def _idx_array(stream: BinaryIO, name: str, dtype: str | None, ndim: int | None) -> Array:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_DTYPES or magic[3] == 0:
        expected = "two zero bytes, a type code of 8, 9, 11, 12, 13 or 14, and the number of dimensions"
        raise InputError(f"{name}: no idx file: it begins with {magic.hex(' ') or 'nothing'}; expected {expected}")
    found = np.dtype(_IDX_DTYPES[magic[2]])
    if (dtype or found.name, ndim or magic[3]) != (found.name, magic[3]):
        described = f"{found.name} in {magic[3]} dimensions (magic {int.from_bytes(magic, 'big')})"
        raise InputError(f"{name}: holds {described}; expected {dtype or found.name} in {ndim or magic[3]}")
    header = stream.read(4 * magic[3])
    if len(header) < 4 * magic[3]:
        raise InputError(f"{name}: ends within its header, which promises {magic[3]} dimensions")
    shape = struct.unpack(f">{magic[3]}I", header)
    size = math.prod(shape) * found.itemsize
    if size > settings.max_memory or magic[3] > settings.max_rank:
        limits = f"settings.max_memory={settings.max_memory}, settings.max_rank={settings.max_rank}"
        raise ResourceLimitError(f"{name}: shape {shape} of {found.name} exceeds {limits}")
    content = stream.read(size + 1)
    if len(content) != size:
        what = "more" if len(content) > size else f"{len(content):,}"
        raise InputError(f"{name}: expected {size:,} bytes for shape {shape} of {found.name}, found {what}")
    return np.frombuffer(content, found).reshape(shape).astype(found.newbyteorder("="))


def read_mnist(folder: PathLike, *, train: bool = True) -> Samples:
    """MNIST, or any data set in its form (Fashion-MNIST, …): images (N, 1, H, W) and labels 0 to 9.

    Reads `train-images-idx3-ubyte` and `train-labels-idx1-ubyte` of the folder, `t10k-…` with `train=False`; names that end
    with `.gz` and names with `.idx` for `-idx` do as well.
    """
    part = _MNIST_PARTS[train]
    images_path = _find(folder, f"{part}-images-idx3-ubyte")
    labels_path = _find(folder, f"{part}-labels-idx1-ubyte")
    images = read_idx(images_path, dtype="uint8", ndim=3)
    labels = read_idx(labels_path, dtype="uint8", ndim=1)
    if len(images) != len(labels):
        raise InputError(f"{labels_path}: {len(labels):,} labels for the {len(images):,} images of {images_path.name}")
    _check_labels(labels, labels_path, 10)
    return Samples(images[:, np.newaxis], labels.astype(np.int64), tuple("0123456789"))


def _find(folder: PathLike, name: str) -> Path:
    candidates = [spelled + ending for spelled in (name, name.replace("-idx", ".idx")) for ending in ("", ".gz")]
    for candidate in candidates:
        if (path := Path(folder, candidate)).is_file():
            return path
    raise InputError(f"{os.fspath(folder)}: none of the files {', '.join(candidates)} is there")


def _check_labels(labels: Array, path: Path, classes: int) -> None:
    if len(wrong := np.flatnonzero(labels >= classes)):
        where = f"{path}: sample {wrong[0]}"
        raise InputError(f"{where}: label {labels[wrong[0]]}; expected one between 0 and {classes - 1}")


# ------------------------------------------------------------------------------------------- CIFAR-10


def read_cifar10(folder: PathLike, *, train: bool = True) -> Samples:
    """CIFAR-10 in its binary version: images (N, 3, 32, 32), red, green, blue, and labels 0 to 9.

    Reads `data_batch_1.bin` to `data_batch_5.bin` of the folder, `test_batch.bin` with `train=False`. A record is one byte for
    the label and 3072 for the picture (https://www.cs.toronto.edu/~kriz/cifar.html).
    """
    inner = Path(folder, "cifar-10-batches-bin")
    parts = [
        _cifar_records(path) for path in (Path(inner if inner.is_dir() else folder, n) for n in _CIFAR_FILES[train])
    ]
    records = np.concatenate(parts)
    images = np.ascontiguousarray(records[:, 1:]).reshape(-1, *_CIFAR_SHAPE)
    return Samples(images, records[:, 0].astype(np.int64), CIFAR10_CLASSES)


def _cifar_records(path: Path) -> Array:
    record = 1 + math.prod(_CIFAR_SHAPE)
    try:
        size = path.stat().st_size
        if size == 0 or size % record:
            raise InputError(f"{path}: {size:,} bytes; expected a multiple of {record}, a label and a picture each")
        if size > settings.max_memory:
            raise ResourceLimitError(f"{path}: {size:,} bytes exceed settings.max_memory={settings.max_memory}")
        records = np.fromfile(path, np.uint8, size).reshape(-1, record)
    except OSError as error:
        raise _unreadable(str(path), error) from error
    _check_labels(records[:, 0], path, len(CIFAR10_CLASSES))
    return records
