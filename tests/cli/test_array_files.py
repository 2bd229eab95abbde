"""Archives of arrays: what goes in comes out, and what is no archive is an `InputError`."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from kuiperinfer import dtypes
from kuiperinfer.cli.array_files import from_stored, numbered, read_archive, read_array, to_stored, write_archive
from kuiperinfer.dtypes import DType, narrow
from kuiperinfer.errors import InputError


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
def test_every_dtype_survives_a_file(tmp_path: Path, dtype: DType, shape: tuple[int, ...]) -> None:
    array = narrow(np.arange(int(np.prod(shape))).reshape(shape).astype(dtype.compute), dtype)
    write_archive(tmp_path / "a.npz", {"out0": array})
    back = from_stored(read_archive(tmp_path / "a.npz")["out0"], dtype)
    assert back.dtype == array.dtype
    assert back.shape == shape
    assert back.tobytes() == array.tobytes()


def test_bit_patterns_are_plain_uint16(tmp_path: Path) -> None:
    bf16 = narrow(np.array([1.0, -2.0], np.float32), dtypes.bf16)
    c32 = narrow(np.array([1 + 2j], np.complex64), dtypes.c32)
    assert to_stored(bf16).tolist() == [0x3F80, 0xC000]
    assert to_stored(c32).tolist() == [[0x3C00, 0x4000]]
    assert from_stored(np.array([3], np.uint8), dtypes.bf16).dtype == np.uint8


def test_writing_leaves_no_partial_file_behind(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.npz", {"out0": np.zeros(3)})
    with pytest.raises(InputError, match="cannot be written"):
        write_archive(tmp_path / "missing" / "a.npz", {"out0": np.zeros(3)})
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_archive(tmp_path / "folder.npz", {"out0": np.zeros(3)})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.npz", "folder.npz"]


def test_numbered_arrays_come_in_the_order_of_their_numbers() -> None:
    arrays = {f"in{index}": np.array(index) for index in reversed(range(12))}
    assert [int(array) for array in numbered(arrays, "in", Path("a.npz"))] == list(range(12))
    with pytest.raises(InputError, match=r"a\.npz: expected arrays in0, in1; found in0, in2, so in1 is missing"):
        numbered({"in0": np.zeros(1), "in2": np.zeros(1)}, "in", Path("a.npz"))


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(InputError, match="no such file"):
        read_archive(path)
    np.savez(path, x=np.arange(1000.0))
    whole = path.read_bytes()
    for cut in (0, 1, 30, 200, len(whole) - 30):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="not a readable NumPy file"):
            read_archive(path)
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"expected an \.npz archive"):
        read_archive(tmp_path / "a.npy")
    path.write_bytes(whole)
    with pytest.raises(InputError, match=r"expected a single \.npy array"):
        read_array(path)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "b.npy").write_bytes(pickle.dumps({}))
    for name in ("a.npy", "b.npy"):
        with pytest.raises(InputError, match="not a readable NumPy file"):
            read_array(tmp_path / name)
