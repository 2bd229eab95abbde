"""Views: random chains of them against torch and NumPy, and each kind by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kuiperinfer import Tensor
from kuiperinfer import tensor as kt
from kuiperinfer.dtypes import Array
from kuiperinfer.errors import DTypeError, InputError, KuiperError, ShapeError

SHAPES = st.lists(st.sampled_from([0, 1, 1, 2, 3, 4, 6]), max_size=5).map(tuple)


def numbered(shape: tuple[int, ...]) -> tuple[Tensor, torch.Tensor]:
    """The same numbers in a tensor of ours and in one of torch's."""
    count = int(np.prod(shape, dtype=int))
    return kt.arange(count, dtype="f32").view(shape), torch.arange(count, dtype=torch.float32).view(shape)


def assert_same_view(ours: Tensor, theirs: torch.Tensor, base: Tensor, their_base: torch.Tensor) -> None:
    """Equal geometry and values, and what is written through the view is seen in the base."""
    assert ours.shape == tuple(theirs.shape)
    assert ours.stride() == theirs.stride()
    assert ours.storage_offset() == theirs.storage_offset()
    assert ours.is_contiguous() == theirs.is_contiguous()
    assert ours.tolist() == theirs.tolist()
    assert ours.shares_memory_with(base)
    if not any(stride == 0 and size > 1 for size, stride in zip(ours.shape, ours.strides, strict=True)):
        theirs.fill_(-1)
        ours.fill_(-1)
        assert base.tolist() == their_base.tolist()


# ------------------------------------------------------------------------------------------- random chains


def dimension(draw: Any, ndim: int, extra: int = 0) -> int:
    return int(draw(st.integers(-ndim - extra, ndim + extra - 1)))


def some_slice(draw: Any, negative_steps: bool) -> slice:
    ends = st.none() | st.integers(-8, 8)
    step = draw(st.sampled_from([None, 1, 2, 3, *([-1, -2, -3] if negative_steps else [])]))
    return slice(draw(ends), draw(ends), step)


def some_index(draw: Any, shape: tuple[int, ...], negative_steps: bool) -> tuple[Any, ...]:
    items: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kinds = ["slice", "slice", "none", *(["integer"] if size else [])]
        kind = draw(st.sampled_from(kinds))
        if kind == "none":
            items.append(None)
        items.append(draw(st.integers(-size, size - 1)) if kind == "integer" else some_slice(draw, negative_steps))
    used = sum(item is not None for item in items)
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
        tail = [item for item in items[items.index(Ellipsis) + 1 :] if item is not None]
        if tail and used < len(shape):  # integers were drawn for dimensions at the front
            items = [item for item in items if not isinstance(item, int)]
    return tuple(items)


def numpy_view(array: Array, index: tuple[Any, ...]) -> Array:
    """`array[index]` as an array where it has no dimensions, too."""
    view: Array = array[index if Ellipsis in index else (*index, Ellipsis)]
    return view


def factors(draw: Any, count: int) -> tuple[int, ...]:
    """Sizes whose product is `count`, one of them perhaps written -1."""
    sizes: list[int] = []
    rest = count
    while rest > 1 and len(sizes) < 4:
        size = draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
        sizes.append(size)
        rest //= size
    sizes.append(rest)
    if count and draw(st.booleans()):
        sizes[draw(st.integers(0, len(sizes) - 1))] = -1
    return tuple(sizes)


def some_view(draw: Any, shape: tuple[int, ...], negative_steps: bool) -> tuple[str, tuple[Any, ...]]:
    """A method that gives a view, as both sides know it, and arguments that fit the shape."""
    ndim = len(shape)
    names = ["unsqueeze", "squeeze_all", "view", "expand", "index"]
    names += ["transpose", "permute", "squeeze", "index", "index", "narrow", "unfold"] * bool(ndim)
    names += ["diagonal"] * (ndim >= 2)
    if 0 not in shape and ndim:
        names.append("select")
    name = draw(st.sampled_from(names))
    if name == "unsqueeze":
        return name, (dimension(draw, ndim, 1),)
    if name == "squeeze_all":
        return "squeeze", ()
    if name == "squeeze":
        return name, (dimension(draw, ndim),)
    if name == "transpose":
        return name, (dimension(draw, ndim), dimension(draw, ndim))
    if name == "permute":
        return name, (tuple(draw(st.permutations(range(ndim)))),)
    if name == "view":
        return name, (factors(draw, int(np.prod(shape, dtype=int))),)
    if name == "expand":
        front = draw(st.lists(st.integers(0, 3), max_size=2))
        return name, ((*front, *(draw(st.sampled_from([2, 3, 1])) if size == 1 else -1 for size in shape)),)
    if name == "index":
        return "__getitem__", (some_index(draw, shape, negative_steps),)
    dim = dimension(draw, ndim)
    size = shape[dim]
    if name == "select":
        return name, (dim, draw(st.integers(-size, size - 1)))
    if name == "narrow":
        start = draw(st.integers(0, size))
        return name, (dim, start, draw(st.integers(0, size - start)))
    if name == "unfold":
        return name, (dim, draw(st.integers(1, size)) if size else 0, draw(st.integers(1, 3)))
    other = draw(st.sampled_from([d for d in range(ndim) if d != dim % ndim]))
    return "diagonal", (draw(st.integers(-3, 3)), dim, other)


def view_of_torch(tensor: torch.Tensor, name: str, arguments: tuple[Any, ...]) -> torch.Tensor | None:
    """The view, or None where strides cannot express it."""
    try:
        view: torch.Tensor = getattr(tensor, name)(*arguments)
    except RuntimeError as error:
        if "view size is not compatible" in str(error):
            return None
        raise
    return view


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_chains_of_views_are_those_of_torch(data: st.DataObject) -> None:
    base, their_base = numbered(data.draw(SHAPES))
    ours, theirs = base, their_base
    for _ in range(data.draw(st.integers(1, 8))):
        if theirs.numel() > 2000 or theirs.ndim > 7:
            break
        name, arguments = some_view(data.draw, tuple(theirs.shape), negative_steps=False)
        view = view_of_torch(theirs, name, arguments)
        if view is None:
            with pytest.raises(ShapeError, match=r"cannot be seen as .* use reshape"):
                getattr(ours, name)(*arguments)
            ours, theirs = ours.reshape(*arguments), theirs.reshape(*arguments)
            assert not ours.shares_memory_with(base)
            base, their_base = ours, theirs
        else:
            ours, theirs = getattr(ours, name)(*arguments), view
        assert ours.shape == tuple(theirs.shape) and ours.stride() == theirs.stride()
    assert_same_view(ours, theirs, base, their_base)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_chains_with_steps_backwards_are_those_of_numpy(data: st.DataObject) -> None:
    base, _ = numbered(data.draw(SHAPES))
    original = np.array(base.array)
    ours, theirs = base, original
    for _ in range(data.draw(st.integers(1, 8))):
        kind = data.draw(st.sampled_from(["index", "index", "flip", "permute", "transpose"]))
        ndim = theirs.ndim
        if kind == "index":
            index = some_index(data.draw, theirs.shape, negative_steps=True)
            ours, theirs = ours[index], numpy_view(theirs, index)
        elif kind == "flip":
            axes = tuple(data.draw(st.sets(st.integers(0, ndim - 1)))) if ndim else ()
            ours, theirs = ours.flip(axes), np.flip(theirs, axes) if axes else theirs
        elif kind == "permute":
            order = tuple(data.draw(st.permutations(range(ndim))))
            ours, theirs = ours.permute(order), theirs.transpose(order)
        elif ndim:
            first, second = dimension(data.draw, ndim), dimension(data.draw, ndim)
            ours, theirs = ours.transpose(first, second), theirs.swapaxes(first, second)
        assert ours.shape == theirs.shape
    assert ours.tolist() == theirs.tolist()
    assert ours.shares_memory_with(base)
    if theirs.size:
        assert ours.strides == tuple(stride // 4 for stride in theirs.strides) or 1 in theirs.shape
        assert ours.data_ptr() - base.data_ptr() == theirs.ctypes.data - original.ctypes.data
        assert np.shares_memory(ours.array, base.array)
    theirs[...] = -theirs
    ours.copy_(-ours.array)
    assert base.tolist() == original.tolist()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_reshape_shares_memory_where_numpy_does(data: st.DataObject) -> None:
    base, _ = numbered(data.draw(SHAPES))
    original = np.array(base.array)
    ours, theirs = base, original
    for _ in range(data.draw(st.integers(0, 3))):
        index = some_index(data.draw, theirs.shape, negative_steps=True)
        ours, theirs = ours[index], numpy_view(theirs, index)
        order = tuple(data.draw(st.permutations(range(theirs.ndim))))
        ours, theirs = ours.permute(order), theirs.transpose(order)
    sizes = factors(data.draw, theirs.size)
    if theirs.size == 0:
        return
    ours_reshaped, theirs_reshaped = ours.reshape(sizes), theirs.reshape(sizes)
    assert ours_reshaped.tolist() == theirs_reshaped.tolist()
    assert ours_reshaped.shares_memory_with(base) == np.shares_memory(theirs_reshaped, original)


# ------------------------------------------------------------------------------------------- one by one

METHODS: list[tuple[tuple[int, ...], Callable[[Any], Any]]] = [
    ((2, 3, 4), lambda x: x.T if x.ndim == 2 else x.permute(2, 1, 0)),
    ((3, 4), lambda x: x.T),
    ((3, 4), lambda x: x.t()),
    ((5,), lambda x: x.t()),
    ((2, 3, 4), lambda x: x.mT),
    ((2, 3, 4), lambda x: x.swapaxes(0, 2)),
    ((2, 3, 4), lambda x: x.swapdims(-1, 0)),
    ((2, 3, 4, 5), lambda x: x.movedim(1, -1)),
    ((2, 3, 4, 5), lambda x: x.movedim((0, 2), (3, 0))),
    ((2, 3, 4, 5), lambda x: x.moveaxis(3, 0)),
    ((2, 1, 3, 1), lambda x: x.squeeze((1, 3))),
    ((2, 1, 3, 1), lambda x: x.squeeze((0, 1))),
    ((6, 4), lambda x: x.unflatten(0, (2, -1))),
    ((6, 4), lambda x: x.unflatten(-1, (2, 2))),
    ((2, 3), lambda x: x.broadcast_to((4, 2, 3))),
    ((1, 3), lambda x: x.expand_as(x.reshape(3).unsqueeze(0).expand(2, 3))),
    ((6, 4), lambda x: x.view_as(x.reshape(3, 8))),
    ((6, 4), lambda x: x.reshape_as(x.reshape(3, 8))),
    ((6, 4), lambda x: x.ravel()),
    ((7, 2), lambda x: x.split(3)[2]),
    ((7, 2), lambda x: x.split([2, 0, 5])[2]),
    ((7, 2), lambda x: x.chunk(3)[1]),
    ((2, 7), lambda x: x.chunk(4, dim=1)[3]),
    ((3, 2), lambda x: x.unbind(1)[1]),
    ((3, 2), lambda x: list(x)[2]),
    ((4, 4), lambda x: x.diagonal()),
    ((8,), lambda x: x.unfold(0, 3, 2)),
    ((), lambda x: x.unsqueeze(-1)),
    ((), lambda x: x.view(1, 1)),
    ((3,), lambda x: x[..., None]),
]


@pytest.mark.parametrize(("shape", "method"), METHODS)
def test_methods_are_those_of_torch(shape: tuple[int, ...], method: Callable[[Any], Any]) -> None:
    ours, theirs = numbered(shape)
    assert_same_view(method(ours), method(theirs), ours, theirs)


@pytest.mark.parametrize(("size", "pieces"), [(7, 3), (7, 7), (7, 9), (8, 4), (0, 3), (1, 1)])
def test_splitting_gives_as_many_pieces_as_in_torch(size: int, pieces: int) -> None:
    ours, theirs = numbered((size, 2))
    for method in ("chunk", "split"):
        found, expected = getattr(ours, method)(pieces), getattr(theirs, method)(pieces)
        assert [part.tolist() for part in found] == [part.tolist() for part in expected]


def test_expanded_tensors_are_those_of_torch() -> None:
    pairs = [numbered((3, 1)), numbered((1, 4)), numbered(())]
    ours = kt.broadcast_tensors(*(pair[0] for pair in pairs))
    theirs = torch.broadcast_tensors(*(pair[1] for pair in pairs))  # type: ignore[no-untyped-call]
    assert [(t.shape, t.stride(), t.tolist()) for t in ours] == [
        (tuple(t.shape), t.stride(), t.tolist()) for t in theirs
    ]


def test_flip_is_a_view_that_walks_backwards() -> None:
    base, theirs = numbered((2, 3))
    flipped = base.flip(1)
    assert (flipped.strides, flipped.offset) == ((3, -1), 2)
    assert base.flip(0, 1).tolist() == theirs.flip(0, 1).tolist() == base[::-1, ::-1].tolist()
    flipped[0, 0] = 50
    assert base[0, 2].item() == 50
    assert base.flip(-1).flip(1).is_contiguous()
    assert flipped.view(2, 3, 1).strides == (3, -1, -1)


def test_a_view_of_a_flipped_tensor_needs_no_copy_where_strides_allow() -> None:
    base, _ = numbered((4, 3))
    backwards = base.flip(0, 1)
    assert backwards.view(12).strides == (-1,)
    assert backwards.view(12).tolist() == list(range(11, -1, -1))
    with pytest.raises(ShapeError, match="use reshape"):
        base.flip(0).view(12)


# ------------------------------------------------------------------------------------------- what cannot be


def test_the_error_of_view_says_why_and_what_to_do() -> None:
    x = kt.zeros(2, 3, 4).transpose(1, 2)
    with pytest.raises(ShapeError) as caught:
        x.view(2, 12)
    assert str(caught.value) == (
        "view: shape (2, 4, 3) with strides (12, 1, 4) cannot be seen as (2, 12) without a copy, because the elements of "
        "dimensions to be joined do not lie evenly apart in memory; use reshape(), which copies them"
    )
    assert x.reshape(2, 12).shape == (2, 12)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: x.view(5, 5), ShapeError, r"view: shape \(2, 3, 4\) has 24 elements, and \(5, 5\) needs 25"),
        (lambda x: x.view(5, -1), ShapeError, r"\(5, -1\) needs a multiple of 5"),
        (lambda x: x.reshape(-1, -1), ShapeError, "reshape: only one size can be -1"),
        (lambda x: x.view(-2, 12), ShapeError, r"expected sizes of at least 0 \(or one -1\)"),
        (lambda x: x[:0].view(-1, 0), ShapeError, "-1 in .* can be anything, because another size is 0"),
        (
            lambda x: x.permute(0, 1),
            ShapeError,
            r"permute: \(0, 1\) does not name every dimension of shape \(2, 3, 4\)",
        ),
        (lambda x: x.permute(0, 0, 1), ShapeError, "does not name every dimension"),
        (lambda x: x.permute(0, 1, 3), ShapeError, "there is no dimension 3"),
        (lambda x: x.transpose(0, 3), ShapeError, r"there is no dimension 3 in shape \(2, 3, 4\)"),
        (lambda x: x.unsqueeze(4), ShapeError, "expected a number from -4 to 3"),
        (lambda x: x.squeeze(3), ShapeError, "there is no dimension 3"),
        (lambda x: x.squeeze((1, -2)), ShapeError, "squeeze: a dimension appears more than once"),
        (lambda x: x.flip(0, -3), ShapeError, "flip: a dimension appears more than once"),
        (lambda x: x.expand(4), ShapeError, r"expand: \(4,\) has fewer dimensions than shape \(2, 3, 4\)"),
        (lambda x: x.expand(2, 5, 4), ShapeError, r"dimension 1 has size 3, and 5 was asked for"),
        (lambda x: x.expand(-1, 2, 3, 4), ShapeError, "dimension 0 has size 1, and -1 was asked for"),
        (lambda x: x.select(1, 3), InputError, "index 3 is out of range for dimension 1 of size 3"),
        (lambda x: x.select(1, -4), InputError, "index -4 is out of range"),
        (lambda x: x[2], InputError, "index 2 is out of range for dimension 0 of size 2"),
        (lambda x: x[0, 0, 0, 0], InputError, "too many indices: 4 for a tensor of 3 dimensions"),
        (lambda x: x[..., ...], InputError, r"only one '\.\.\.'"),
        (lambda x: x[::0], InputError, "step of a slice cannot be zero"),
        (lambda x: x.narrow(1, 2, 2), InputError, "narrow: 2 positions from 2 on do not lie in dimension 1 of size 3"),
        (lambda x: x.narrow(1, 0, -1), InputError, "narrow: -1 positions"),
        (lambda x: x.unfold(1, 4, 1), InputError, "unfold: windows of 4 positions, 1 apart, do not fit dimension 1"),
        (lambda x: x.unfold(1, 2, 0), InputError, "a step of at least 1"),
        (lambda x: x.diagonal(0, 1, 1), ShapeError, "diagonal: dim1 and dim2 are both 1"),
        (lambda x: x.split(0), InputError, "split: expected pieces of at least 1 position"),
        (lambda x: x.split([1, 2]), ShapeError, "do not add up to the 2 of dimension 0"),
        (lambda x: x.chunk(0), InputError, "expected at least 1 chunk"),
        (lambda x: x.t(), ShapeError, "t: expected at most 2 dimensions"),
        (lambda x: x[0, 0].mT, ShapeError, "mT: expected at least 2 dimensions"),
        (lambda x: x.movedim((0, 1), (1,)), ShapeError, "movedim"),
        (lambda x: x.movedim((0, 0), (1, 2)), ShapeError, "movedim"),
        (lambda x: x[0, 0, 0].select(0, 0), ShapeError, "nothing to select from"),
        (lambda x: x[0, 0, 0].slice(0), ShapeError, "cannot be sliced"),
        (lambda x: x[0, 0, 0].unbind(), ShapeError, "unbind: expected a tensor with dimensions"),
        (lambda x: x[0, 0, 0].unfold(0, 1, 1), ShapeError, "has no windows"),
        (lambda x: x.unflatten(1, (2, 2)), ShapeError, "unflatten: shape"),
        (lambda x: x.view("a"), ShapeError, "view: expected sizes as integers"),
        (lambda x: x.reshape(2.0, 12), ShapeError, r"reshape: expected sizes as integers, found \(2.0, 12\)"),
        (lambda x: x.flip("a"), ShapeError, r"number of a dimension of shape \(2, 3, 4\), found 'a'"),
        (lambda x: x.to(None), DTypeError, "expected a dtype|not supported"),
    ],
)
def test_what_cannot_be_is_explained(call: Callable[[Tensor], Any], kind: type[KuiperError], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(kt.zeros(2, 3, 4))


def test_views_of_arrays_keep_the_memory_alive() -> None:
    tail = kt.arange(1000)[-3:]
    others = [kt.zeros(1000, dtype="i64") for _ in range(5)]
    assert tail.tolist() == [997, 998, 999] and not any(tail.shares_memory_with(other) for other in others)
