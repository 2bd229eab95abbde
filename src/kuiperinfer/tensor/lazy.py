"""Arithmetic that is put off: expressions of tensors, evaluated in one loop when somebody asks for their values.

`defer` makes a tensor whose elements do not exist yet. When its storage is asked for, the expressions of all operands that
were put off as well become part of its own, and `fused` evaluates the whole without temporaries. A tensor that is written
in place first has the expressions evaluated that still read its old elements (`Readers`), so that putting off never shows.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ..dtypes import Array, DType, Scalar, broadcast_shapes
from ..errors import InputError, ShapeError
from ..expression import Expression, Operand, substitute
from ..memory.shape import Shape
from ..memory.storage import Storage
from .fused import FusedLoop, Kind, fused

if TYPE_CHECKING:
    from .tensor import Tensor

Value: TypeAlias = "Tensor | Scalar"

NUMBERS = (bool, int, float, complex)
NUMBER_TYPES = frozenset(NUMBERS)
_MOST_CALLS = 32  # functions of one loop: longer chains are evaluated in pieces
_MOST_COPIES = 2  # loops into which a shared operand is taken before it is evaluated by itself
_MOST_PROGRAMS = 4096
_IDENTITY = fused(Operand(0))


class Pending:
    """A value that is not calculated yet: an expression, its operands, and the storage once there is one."""

    __slots__ = (
        "__weakref__",
        "array",
        "calls",
        "copies",
        "dtype",
        "handle",
        "is_private",
        "loop",
        "operands",
        "readers",
        "shape",
        "storage",
        "uses",
    )

    def __init__(self, loop: FusedLoop, operands: Sequence[Any], shape: Shape, dtype: DType, calls: int) -> None:
        self.loop = loop
        self.operands = operands  # numbers, tensors with a storage, and other pending values
        self.shape = shape
        self.dtype = dtype
        self.calls = calls  # functions of the expression, those of pending operands included
        self.uses = 0  # expressions that have this as an operand
        self.copies = 0  # loops that calculated this on the way
        self.array: Array | None = None  # the elements, once they are in the storage
        self.storage: Storage | None = None
        self.readers: Readers | None = None
        self.handle: weakref.ref[Tensor] | None = None  # the tensor that shows this value, for as long as it lives
        self.is_private = False

    def realize(self, tensor: Tensor) -> None:
        """Gives a tensor that shows this value its storage."""
        tensor._storage = self.evaluate()
        tensor._array = self.array
        tensor._pending = None

    def evaluate(self) -> Storage:
        """The storage, in row-major order."""
        if self.storage is None:
            evaluate([self])
        return cast(Storage, self.storage)


class Readers:
    """Pending values that still have to read a piece of memory."""

    __slots__ = ("_limit", "_pending")

    def __init__(self) -> None:
        self._pending: list[weakref.ref[Pending]] = []
        self._limit = 64

    def add(self, pending: Pending) -> None:
        """One more."""
        if len(self._pending) >= self._limit:
            self._pending = [ref for ref in self._pending if (one := ref()) is not None and one.storage is None]
            self._limit = max(64, 2 * len(self._pending))
        self._pending.append(weakref.ref(pending))

    def evaluate(self) -> None:
        """Lets all of them read now: the memory is about to change."""
        waiting, self._pending = self._pending, []
        for ref in waiting:
            pending = ref()
            if pending is not None and pending.storage is None and not pending.is_private:
                pending.evaluate()


# ------------------------------------------------------------------------------------------- putting off


def defer(loop: FusedLoop, *operands: Value) -> Tensor:
    """The value of an expression with one result; shape and dtype are found, and errors in them raised, at once."""
    first: Any = None
    shape: Any = None
    calls = loop.calls
    kinds: list[Kind] = []
    given: list[Any] = []
    for operand in operands:
        if type(operand) in NUMBER_TYPES:
            kinds.append(type(operand))
            given.append(operand)
            continue
        one = cast("Tensor", operand)
        kinds.append((one._dtype, bool(one._shape)))
        if shape is None:
            first, shape = one, one._shape
        elif shape != one._shape:
            shape = Shape(broadcast_shapes(shape, one._shape))
        value = one._pending
        if value is None or value.storage is not None:
            given.append(one)
        else:
            calls += value.calls
            given.append(value)
    assert first is not None, "an expression of numbers alone is no tensor"
    dtype = loop.dtypes(tuple(kinds))[0]
    if calls > _MOST_CALLS:
        calls = _shorten(given, calls)
        given = [_settled(operand) for operand in operands]
    pending = Pending(loop, given, shape, dtype, calls)
    for value in given:
        if type(value) is Pending:
            value.uses += 1
            if value.readers is None:
                value.readers = Readers()
            value.readers.add(pending)
        elif type(value) not in NUMBER_TYPES:
            _watch(pending, value.storage)
    tensor: Tensor = first.not_evaluated(pending, shape, dtype)
    pending.handle = weakref.ref(tensor)
    return tensor


def _shorten(given: Sequence[Any], calls: int) -> int:
    """Evaluates the longest of the operands until the expression is short enough; returns how long it is then."""
    for one in sorted((one for one in given if type(one) is Pending), key=lambda one: -one.calls):
        if calls > _MOST_CALLS:
            one.evaluate()
            calls -= one.calls
    return calls


def alias(tensor: Tensor) -> Tensor:
    """Another tensor that shows the same value, without a history; what is pending stays so."""
    pending = tensor._pending
    if pending is None or pending.storage is not None:
        return tensor.detach()
    pending.uses += 1  # this value may be asked for, whatever becomes of the tensor that shows it
    return tensor.not_evaluated(pending, tensor._shape, tensor._dtype)


def _settled(operand: Value) -> Any:
    """An operand as a pending value where it still is one."""
    if isinstance(operand, NUMBERS):
        return operand
    pending = operand._pending
    return operand if pending is None or pending.storage is not None else pending


def _watch(pending: Pending, storage: Storage) -> None:
    block = storage.block
    if block.exposed:  # others may write it unseen
        pending.evaluate()
        return
    if block.readers is None:
        block.readers = Readers()
    block.readers.add(pending)


# ------------------------------------------------------------------------------------------- evaluating

_programs: dict[Any, FusedLoop] = {}
_lock = threading.RLock()  # one thread evaluates at a time: pending values may be shared


def _forget_lock() -> None:
    """After a fork the lock may be held by a thread that is gone."""
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)


def evaluate(targets: Sequence[Pending], outputs: Sequence[Array] | None = None) -> None:
    """Evaluates values of one shape in one loop: into storages of their own, or into arrays, the values staying pending."""
    with _lock:
        _evaluate(targets, outputs)


def _evaluate(targets: Sequence[Pending], outputs: Sequence[Array] | None) -> None:
    if any(target.storage is not None for target in targets):  # by another thread, or on the way to another operand
        _evaluate_rest(targets, outputs)
        return
    if len(targets) == 1 and not any(type(one) is Pending and one.storage is None for one in targets[0].operands):
        loop, operands = targets[0].loop, [_value(one) for one in targets[0].operands]
    else:
        order = _in_order(targets)
        if any(target.storage is not None for target in targets):
            _evaluate_rest(targets, outputs)
            return
        loop, operands = _loop_of(targets, order)
    if outputs is not None:
        loop(operands, outputs)
        return
    storages = [Storage(target.shape.dsize * target.dtype.itemsize) for target in targets]
    arrays = [
        np.ndarray(target.shape, target.dtype.storage, storage.block.data)
        for target, storage in zip(targets, storages, strict=True)
    ]
    loop(operands, arrays)
    for target, storage, array in zip(targets, storages, arrays, strict=True):
        storage.block.readers, target.readers = target.readers, None
        target.array = array
        target.storage = storage
        target.operands = ()


def evaluate_together(tensors: Iterable[Tensor]) -> None:
    """Evaluates tensors; those of one shape in one loop, which reads what they have in common once."""
    groups: dict[Shape, dict[int, Pending]] = {}
    for tensor in tensors:
        pending = tensor._pending
        if pending is not None and pending.storage is None:
            groups.setdefault(pending.shape, {})[id(pending)] = pending
    for group in groups.values():
        together: list[Pending] = []
        for pending in group.values():
            if together and sum(one.calls for one in together) + pending.calls > _MOST_CALLS:
                evaluate(together)
                together = []
            together.append(pending)
        evaluate(together)


def _evaluate_rest(targets: Sequence[Pending], outputs: Sequence[Array] | None) -> None:
    rest = [number for number, target in enumerate(targets) if target.storage is None]
    if rest:
        evaluate(
            [targets[number] for number in rest], None if outputs is None else [outputs[number] for number in rest]
        )
    if outputs is not None:
        for number in set(range(len(targets))) - set(rest):
            outputs[number][...] = _value(targets[number])


def gather(targets: Sequence[Pending]) -> tuple[FusedLoop, list[Any]]:
    """The loop that calculates pending values of one shape from what has a storage, and its operands."""
    return _loop_of(targets, _in_order(targets))


def _loop_of(targets: Sequence[Pending], order: Sequence[Pending]) -> tuple[FusedLoop, list[Any]]:
    operands: list[Any] = []
    slots: dict[int, int] = {}  # by the id of a value: an operand's number, or ~number of a step
    key: list[Any] = []  # loops and the numbers of their operands
    for number, pending in enumerate(order):
        key.append(pending.loop)
        for value in pending.operands:
            place = slots.get(id(value))
            if place is None:
                place = slots[id(value)] = len(operands)
                operands.append(_value(value))
            key.append(place)
        slots[id(pending)] = ~number
    key.extend(slots[id(target)] for target in targets)
    known = tuple(key)
    loop = _programs.get(known)
    if loop is None:
        if len(_programs) >= _MOST_PROGRAMS:
            _programs.clear()
        loop = _programs[known] = _combine(known, len(targets))
    return loop, operands


def _combine(key: Sequence[Any], targets: int) -> FusedLoop:
    """One loop of several, as `_loop_of` lists them."""
    trees: list[Expression] = []
    words = list(key[: len(key) - targets])
    while words:
        loop = words.pop(0)
        places = []
        while words and isinstance(words[0], int):
            places.append(words.pop(0))
        trees.append(substitute(loop.trees[0], [Operand(p) if p >= 0 else trees[~p] for p in places]))
    return fused(*(trees[~result] for result in key[len(key) - targets :]))


def _value(value: Any) -> Any:
    """An operand as a loop takes it: a number or an array."""
    if type(value) is Pending:
        value.evaluate()
        return value.array
    return value if type(value) in NUMBER_TYPES else value.array


def _in_order(targets: Sequence[Pending]) -> list[Pending]:
    """The targets and all pending operands that become part of the loop, each after its own operands.

    Operands of another shape are evaluated by themselves, and so are those that were part of several loops already.
    """
    shape = targets[0].shape
    order: dict[int, Pending] = {}
    waiting: list[Pending | None] = list(targets)  # None: what stands before it is ready
    while waiting:
        pending = waiting.pop()
        if pending is None:
            pending = cast(Pending, waiting.pop())
            order[id(pending)] = pending
            pending.copies += 1
            continue
        if id(pending) in order:
            continue
        waiting += (pending, None)
        for value in pending.operands:
            if type(value) is not Pending or value.storage is not None:
                continue
            if (value.shape == shape and value.copies < _MOST_COPIES) or value in targets:
                waiting.append(value)
            else:
                value.evaluate()
    return [pending for pending in order.values() if pending.storage is None]  # some were evaluated on the way


# ------------------------------------------------------------------------------------------- writing in place


def write(target: Tensor, source: Tensor) -> None:
    """`target[...] = source`, broadcast and converted: what is pending is evaluated straight into the target's memory."""
    update((target, source))


def update(*pairs: tuple[Tensor, Tensor]) -> None:
    """Writes several tensors of one shape, as if at once: sources that read targets read the old elements.

        update((m, 0.9 * m + 0.1 * g), (p, p - rate * m))     # one loop; p takes the old m

    Sources of the same shape that are pending are evaluated in one loop.
    """
    direct: list[tuple[Tensor, Pending]] = []
    others: list[tuple[Tensor, Tensor]] = []
    for target, source in pairs:
        expect_writable(target, source)
        pending = source._pending
        fits = pending is not None and pending.shape == target._shape == pairs[0][0]._shape
        if fits and pending.storage is None and pending.dtype is target._dtype:
            direct.append((target, pending))
        else:
            others.append((target, source))
    with _lock:
        _write(direct, others)


def _write(direct: Sequence[tuple[Tensor, Pending]], others: Sequence[tuple[Tensor, Tensor]]) -> None:
    private = _private([pending for _, pending in direct])
    for pending in private:
        pending.is_private = True
    try:
        values = [(target, _conform(source, target)) for target, source in others]
        outputs = [target.writable_array() for target, _ in direct]
        if direct:
            evaluate([pending for _, pending in direct], outputs)
    finally:
        for pending in private:
            pending.is_private = False
    for target, pending in direct:
        _look_at(pending, target)
    for target, array in values:
        target.writable_array()[...] = array


def _conform(source: Tensor, target: Tensor) -> Array:
    from ..dtypes import cast as convert

    array = convert(source.array, target._dtype)
    return array.copy() if len(array.shape) and np.may_share_memory(array, target.array) else array


def expect_writable(target: Tensor, source: Tensor) -> None:
    """`InputError` or `ShapeError` where the target cannot take the source's values."""
    if any(stride == 0 and size > 1 for size, stride in zip(target._shape, target._strides, strict=True)):
        raise InputError(
            f"a tensor of shape {target._shape} with strides {target._strides} shows some elements several times, so it "
            "cannot be written in place; write into a clone() of it"
        )
    if source._shape != target._shape:
        try:
            fits = broadcast_shapes(source._shape, target._shape) == target._shape
        except ShapeError:
            fits = False
        if not fits:
            raise ShapeError(f"values of shape {source._shape} cannot be broadcast to shape {target._shape}")


def _private(targets: Sequence[Pending]) -> list[Pending]:
    """Of the pending values that targets are made of, those that nobody else will ask for; the targets too."""
    found: dict[int, Pending] = {id(target): target for target in targets}
    uses: Counter[int] = Counter()
    waiting = list(found.values())
    while waiting:
        for value in waiting.pop().operands:
            if not isinstance(value, Pending) or value.storage is not None or value.shape != targets[0].shape:
                continue
            uses[id(value)] += 1
            alone = value.handle is None or value.handle() is None
            if alone and uses[id(value)] == value.uses and id(value) not in found:
                found[id(value)] = value
                waiting.append(value)
    return list(found.values())


def _look_at(pending: Pending, target: Tensor) -> None:
    """A value that was calculated into the target's memory: should it still be asked for, it is a copy of what is there."""
    pending.loop, pending.operands, pending.calls = _IDENTITY, (target,), 0
    _watch(pending, target.storage)
