"""Readers for MNIST and CIFAR-10, and batches."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from kuiperinfer import InputError, KuiperError, ResourceLimitError, settings
from kuiperinfer.tensor import Tensor, data, manual_seed

RANDOM = np.random.default_rng(0)


def idx(array: np.ndarray, code: int = 8) -> bytes:
    big = array.astype(array.dtype.newbyteorder(">"))
    return struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + big.tobytes()


def write_mnist(folder: Path, images: np.ndarray, labels: np.ndarray, part: str = "train", ending: str = "") -> None:
    for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
        content = idx(array)
        (folder / f"{name}{ending}").write_bytes(gzip.compress(content, mtime=0) if ending else content)


IMAGES = RANDOM.integers(0, 256, (7, 28, 28), np.uint8)
LABELS = np.array([3, 1, 4, 1, 5, 9, 2], np.uint8)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("train", [True, False])
def test_mnist(tmp_path: Path, train: bool, ending: str) -> None:
    write_mnist(tmp_path, IMAGES, LABELS, "train" if train else "t10k", ending)
    samples = data.read_mnist(tmp_path, train=train)
    assert samples.images.shape == (7, 1, 28, 28)
    assert samples.images.dtype == np.uint8
    np.testing.assert_array_equal(samples.images[:, 0], IMAGES)
    np.testing.assert_array_equal(samples.labels, LABELS)
    assert samples.labels.dtype == np.int64
    assert samples.classes[9] == "9"


def test_mnist_under_the_other_spelling(tmp_path: Path) -> None:
    write_mnist(tmp_path, IMAGES, LABELS)
    for file in list(tmp_path.iterdir()):
        file.rename(tmp_path / file.name.replace("-idx", ".idx"))
    assert len(data.read_mnist(tmp_path)) == 7


def test_samples_are_floats_between_0_and_1(tmp_path: Path) -> None:
    write_mnist(tmp_path, IMAGES, LABELS)
    samples = data.read_mnist(tmp_path)
    images, labels = samples[[4, 0]]
    assert images.dtype == np.float32
    np.testing.assert_array_equal(images, IMAGES[[4, 0], None].astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(labels, [5, 3])
    image, label = samples[2]
    assert image.shape == (1, 28, 28)
    assert label == 4


@pytest.mark.parametrize(
    ("code", "dtype"),
    [(8, "u1"), (9, "i1"), (11, "i2"), (12, "i4"), (13, "f4"), (14, "f8")],
    ids=str,
)
def test_every_type_of_idx(tmp_path: Path, code: int, dtype: str) -> None:
    array = (RANDOM.normal(size=(2, 3, 4)) * 50).astype(dtype)
    (tmp_path / "x").write_bytes(idx(array, code))
    found = data.read_idx(tmp_path / "x")
    assert found.dtype == array.dtype
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, array)


GOOD = idx(IMAGES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it begins with nothing; expected two zero bytes"),
        (b"\0\0\x08", "it begins with 00 00 08"),
        (b"\x89PNG" + GOOD, "it begins with 89 50 4e 47"),
        (b"\0\0\x07\x03" + GOOD[4:], "type code of 8, 9, 11"),
        (b"\0\0\x08\0" + GOOD[4:], "number of dimensions"),
        (GOOD[:9], "ends within its header, which promises 3 dimensions"),
        (GOOD[:-1], r"expected 5,488 bytes for shape \(7, 28, 28\) of uint8, found 5,487"),
        (GOOD + b"x", "found more"),
        (gzip.compress(GOOD, mtime=0)[:-9], "cannot be read"),
        (gzip.compress(GOOD, mtime=0)[:40] + b"\xff" * 60, "cannot be read"),
        (gzip.compress(GOOD + b"x", mtime=0), "found more"),
        (idx(LABELS), r"holds uint8 in 1 dimensions \(magic 2049\); expected uint8 in 3"),
        (idx(IMAGES.astype(np.int16), 11), r"holds int16 in 3 dimensions \(magic 2819\); expected uint8 in 3"),
    ],
)
def test_broken_images(tmp_path: Path, content: bytes, message: str) -> None:
    write_mnist(tmp_path, IMAGES, LABELS)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        data.read_mnist(tmp_path)
    assert "train-images-idx3-ubyte" in str(caught.value)


def test_a_header_that_promises_too_much(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(struct.pack(">HBB3I", 0, 14, 3, *[2**32 - 1] * 3) + b"1234")
    with pytest.raises(ResourceLimitError, match=r"settings\.max_memory"):
        data.read_idx(tmp_path / "x")
    (tmp_path / "x").write_bytes(struct.pack(">HBB200I", 0, 8, 200, *[1] * 200) + b"1")
    with pytest.raises(ResourceLimitError, match="max_rank"):
        data.read_idx(tmp_path / "x")


def test_a_small_file_that_unpacks_to_much_more_than_its_header_says(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(idx(LABELS) + bytes(1 << 24)))
    with pytest.raises(InputError, match="expected 7 bytes"):
        data.read_idx(tmp_path / "x")


def test_labels_that_do_not_fit(tmp_path: Path) -> None:
    write_mnist(tmp_path, IMAGES, LABELS[:5])
    with pytest.raises(InputError, match="5 labels for the 7 images of train-images-idx3-ubyte"):
        data.read_mnist(tmp_path)
    write_mnist(tmp_path, IMAGES, np.array([0, 1, 2, 10, 4, 11, 6], np.uint8))
    with pytest.raises(InputError, match="sample 3: label 10; expected one between 0 and 9"):
        data.read_mnist(tmp_path)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the files train-images-idx3-ubyte, .*\.gz is there"):
        data.read_mnist(tmp_path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        data.read_idx(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"data_batch_1\.bin: cannot be read: No such file"):
        data.read_cifar10(tmp_path)


# ------------------------------------------------------------------------------------------- CIFAR-10


def write_cifar(folder: Path, counts: dict[str, int]) -> dict[str, np.ndarray]:
    parts = {}
    for name, count in counts.items():
        records = RANDOM.integers(0, 256, (count, 3073), np.uint8)
        records[:, 0] %= 10
        (folder / name).write_bytes(records.tobytes())
        parts[name] = records
    return parts


def test_cifar10(tmp_path: Path) -> None:
    parts = write_cifar(tmp_path, {f"data_batch_{n}.bin": n for n in range(1, 6)} | {"test_batch.bin": 4})
    samples = data.read_cifar10(tmp_path)
    assert samples.images.shape == (15, 3, 32, 32)
    fourth = parts["data_batch_4.bin"][2]
    assert samples.labels[1 + 2 + 3 + 2] == fourth[0]
    np.testing.assert_array_equal(samples.images[8, 1, 5, 7], fourth[1 + 1024 + 5 * 32 + 7])
    assert samples.classes[3] == "cat"
    test = data.read_cifar10(tmp_path, train=False)
    np.testing.assert_array_equal(test.images.reshape(4, -1), parts["test_batch.bin"][:, 1:])


def test_cifar10_in_the_folder_of_its_archive(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-bin").mkdir()
    write_cifar(tmp_path / "cifar-10-batches-bin", {"test_batch.bin": 2})
    assert len(data.read_cifar10(tmp_path, train=False)) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes; expected a multiple of 3073"),
        (bytes(3072), "3,072 bytes; expected a multiple of 3073"),
        (bytes(2 * 3073 + 1), "expected a multiple of 3073"),
        (bytes(3073) + b"\x0a" + bytes(3072), "sample 1: label 10; expected one between 0 and 9"),
    ],
)
def test_broken_cifar10(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "test_batch.bin").write_bytes(content)
    with pytest.raises(InputError, match=message):
        data.read_cifar10(tmp_path, train=False)


def test_cifar10_keeps_to_the_limit_of_memory(tmp_path: Path) -> None:
    write_cifar(tmp_path, {"test_batch.bin": 2})
    with settings(max_memory=5000), pytest.raises(ResourceLimitError, match=r"settings\.max_memory=5000"):
        data.read_cifar10(tmp_path, train=False)


# ------------------------------------------------------------------------------------------- batches


def batches(loader: data.DataLoader) -> list[list[int]]:
    return [batch[0].tolist() for batch in loader]


def test_batches_in_order_the_last_one_shorter() -> None:
    loader = data.DataLoader([np.arange(10), np.arange(10) * 2.0], 4)
    assert len(loader) == 3
    numbers, doubles = next(iter(loader))
    assert isinstance(numbers, Tensor)
    assert numbers.dtype.name == "i64"
    assert doubles.tolist() == [0, 2, 4, 6]
    assert batches(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches(data.DataLoader([np.arange(10)], 4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(data.DataLoader([np.arange(10)], 4, drop_last=True)) == 2
    assert len(data.DataLoader([np.arange(8)], 4)) == 2


def test_shuffling_keeps_samples_together_and_repeats_with_its_seed() -> None:
    arrays = [np.arange(50), np.arange(50) ** 2]
    loader = data.DataLoader(arrays, 8, shuffle=True, seed=3)
    first, second = batches(loader), batches(loader)
    assert sorted(number for batch in first for number in batch) == list(range(50))
    assert first != second
    again = data.DataLoader(arrays, 8, shuffle=True, seed=3)
    assert [batches(again), batches(again)] == [first, second]
    assert batches(data.DataLoader(arrays, 8, shuffle=True, seed=4)) != first
    for numbers, squares in loader:
        assert (numbers.numpy() ** 2 == squares.numpy()).all()


def test_without_a_seed_the_order_is_that_of_the_default_generator() -> None:
    orders = []
    for _ in range(2):
        manual_seed(7)
        orders.append(batches(data.DataLoader([np.arange(50)], 8, shuffle=True)))
    assert orders[0] == orders[1]


def test_batches_do_not_share_memory_with_the_data() -> None:
    array = np.zeros(4, np.float32)
    (batch,) = next(iter(data.DataLoader([array], 4)))
    batch.numpy()[:] = 1
    assert not array.any()


def test_data_in_the_other_byte_order() -> None:
    (batch,) = next(iter(data.DataLoader([np.arange(3, dtype=">f4")], 3)))
    assert batch.tolist() == [0, 1, 2]


def test_batches_of_samples_and_of_tensors(tmp_path: Path) -> None:
    write_mnist(tmp_path, IMAGES, LABELS)
    loader = data.DataLoader(data.read_mnist(tmp_path), 5, transform=lambda images, labels: (images - 0.5, labels % 2))
    images, labels = next(iter(loader))
    assert tuple(images.shape) == (5, 1, 28, 28)
    np.testing.assert_allclose(images.numpy(), IMAGES[:5, None] / np.float32(255) - 0.5, atol=1e-7)
    assert labels.tolist() == [1, 1, 0, 1, 1]
    (batch,) = next(iter(data.DataLoader([images], 2)))
    np.testing.assert_array_equal(batch.numpy(), images.numpy()[:2])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros(3), np.zeros(4)], r"found \(3,\), \(4,\)"),
        ([np.zeros(())], r"found \(\)"),
        ([], "found nothing"),
    ],
)
def test_data_that_makes_no_batches(arrays: list[np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        data.DataLoader(arrays)


def test_batches_of_nothing() -> None:
    with pytest.raises(KuiperError, match="batch_size 0; expected at least 1"):
        data.DataLoader([np.zeros(3)], 0)
