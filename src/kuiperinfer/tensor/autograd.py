"""Reverse-mode differentiation: what was calculated is recorded as nodes, and `backward` walks them in reverse.

A node knows the edges to what it was calculated from (nodes, or leaves: tensors that require a gradient by themselves), and
how a gradient of its result becomes gradients of these. Gradients are tensors, put off like all arithmetic. Tensors that a
node needs are saved with the version of their storage, so that one that was modified since is noticed.

A view has no history of its own: it is found in the tensor that it looks at, whose gradient has room for that of the view.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from ..dtypes import DType, narrow
from ..errors import GradientError, ShapeError
from ..memory.shape import Shape
from . import lazy
from .lazy import alias
from .sums import sum_over
from .windows import Layout, Window
from .wrapping import wrap

if TYPE_CHECKING:
    from .tensor import Tensor

Edge: TypeAlias = "Node | Tensor | None"  # of a leaf the tensor itself; None where no gradient is wanted
Gradient: TypeAlias = "Tensor | Window | None"
P = ParamSpec("P")
R = TypeVar("R")

_enabled: contextvars.ContextVar[bool] = contextvars.ContextVar("kuiperinfer.tensor.gradients", default=True)
is_grad_enabled = _enabled.get


class _Mode(contextlib.AbstractContextManager["_Mode"]):
    """Recording switched on or off within a `with` block or a decorated function."""

    def __init__(self, enabled: bool) -> None:
        self._value = enabled
        self._tokens: list[contextvars.Token[bool]] = []

    def __enter__(self) -> _Mode:
        self._tokens.append(_enabled.set(self._value))
        return self

    def __exit__(self, *exception: object) -> None:
        _enabled.reset(self._tokens.pop())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function):
            raise GradientError(
                f"'{function.__name__}' is a generator, between whose steps others calculate; write `with no_grad():` in it, "
                "around what it calculates"
            )

        @functools.wraps(function)
        def within(*arguments: P.args, **named: P.kwargs) -> R:
            with _Mode(self._value):
                return function(*arguments, **named)

        return within


def no_grad() -> _Mode:
    """`with no_grad():` or `@no_grad()`: nothing that is calculated there is recorded for gradients."""
    return _Mode(False)


def enable_grad() -> _Mode:
    """Within `no_grad`: records again."""
    return _Mode(True)


# ------------------------------------------------------------------------------------------- nodes


class Saved:
    """A tensor that a node needs, and the version of its memory at that time."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        pending = tensor._pending
        self.version = 0 if pending is not None and pending.storage is None else tensor.storage.version

    def get(self, name: str) -> Tensor:
        """The tensor; `GradientError` where it was modified since, naming the operation `name` that needs it."""
        pending = self.tensor._pending
        found = self.version if pending is not None and pending.storage is None else self.tensor.storage.version
        if found != self.version:
            tensor = self.tensor
            made = "" if tensor.grad_fn is None else f", the result of '{tensor.grad_fn.name}',"
            raise GradientError(
                f"a tensor of shape {tensor._shape} and dtype {tensor._dtype}{made} is needed for the gradient of '{name}', "
                f"but was modified in place: its memory is at version {found}, and was at {self.version} when it was used; "
                "modify a clone() of it instead"
            )
        return self.tensor


class Node:
    """An operation that was recorded: `function(node, gradient)` gives the gradients along its `edges`.

    `values` is what it needs for that: `Saved` tensors and anything else. They are given up after `backward`, unless that
    retains the graph.
    """

    __slots__ = ("__weakref__", "edges", "function", "is_freed", "name", "retained", "shape", "values")

    def __init__(
        self,
        name: str,
        edges: Sequence[Edge],
        function: Callable[[Node, Tensor], Sequence[Gradient]],
        values: tuple[Any, ...],
        shape: Shape,
    ) -> None:
        self.name = name
        self.edges = edges
        self.function = function
        self.values = values
        self.shape = shape
        self.is_freed = False
        self.retained: weakref.ref[Tensor] | None = None  # a tensor that wants to keep this gradient

    def saved(self, index: int) -> Tensor:
        """The tensor that was saved as value number `index`."""
        value: Saved = self.values[index]
        return value.get(self.name)

    def gradients(self, gradient: Tensor) -> Sequence[Gradient]:
        """The gradients along the edges, given that of the result."""
        if self.is_freed:
            raise GradientError(
                f"what the gradient of '{self.name}' needs was freed by an earlier backward(); "
                "pass retain_graph=True to that one"
            )
        return self.function(self, gradient)

    def free(self) -> None:
        """Gives up what was saved."""
        if self.values:
            self.values, self.is_freed = (), True

    def __repr__(self) -> str:
        return f"<{self.name}>"


def edge_of(tensor: Tensor) -> Edge:
    """Where the gradient of a tensor goes to."""
    if tensor._view_of is not None:
        _refresh(tensor)
    if tensor.grad_fn is not None:
        node: Node = tensor.grad_fn
        return node
    return tensor if tensor._requires_grad else None


def _refresh(view: Tensor) -> None:
    """Finds the history of a view anew where that of the tensor it looks at has changed."""
    root, known = view._view_of
    now = root.grad_fn or (root if root._requires_grad else None)
    if now is known:
        return
    view._view_of = (root, now)
    view.grad_fn = None
    if now is not None:
        view.grad_fn = Node("view", [now], view_gradient, (Layout.of(root), view._geometry(), ()), view._shape)
    view._requires_grad = now is not None


def view_gradient(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    """What a view's gradient adds to that of the tensor it looks at."""
    return [Window(node.values[0], node.values[1], gradient)]


def wants_gradient(tensor: Tensor) -> bool:
    """Whether a gradient of this tensor is wanted."""
    if tensor._view_of is not None:
        _refresh(tensor)
    return tensor._requires_grad


def attach(result: Tensor, name: str, inputs: Sequence[Any], function: Any, *values: Any) -> None:
    """Records that `result` was calculated from `inputs` (tensors, or anything else, which gets no gradient)."""
    edges = [edge_of(one) if hasattr(one, "grad_fn") else None for one in inputs]
    result.grad_fn = Node(name, edges, function, values, result._shape)
    result._requires_grad = True


def wanted(*inputs: Any) -> bool:
    """Whether an operation on these inputs has to be recorded."""
    if not _enabled.get():
        return False
    for one in inputs:  # noqa: SIM110 (a generator takes twice as long)
        if type(one) not in lazy.NUMBER_TYPES and one is not None and wants_gradient(one):
            return True
    return False


# ------------------------------------------------------------------------------------------- backward


def backward(
    tensors: Tensor | Sequence[Tensor],
    gradients: Any = None,
    retain_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """Adds to the `grad` of every leaf that `tensors` were calculated from (or of `inputs` alone) their gradient.

    A tensor of one element has the gradient 1 by itself; others need one of their shape.
    """
    roots = _roots(tensors, gradients)
    found = _run(roots, retain_graph, None if inputs is None else [edge_of(one) for one in inputs])
    _keep_at_leaves(found, roots)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `inputs`, without touching anything's `grad`.

    `GradientError` for an input that the outputs do not depend on, unless `allow_unused`, which gives None for it.
    """
    wanted_inputs: list[Any] = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    edges = [edge_of(one) for one in wanted_inputs]
    for number, edge in enumerate(edges):
        if edge is None:
            raise GradientError(f"input {number} does not require a gradient; expected one with requires_grad=True")
    found = _run(_roots(outputs, grad_outputs), retain_graph, edges)
    results = []
    for number, edge in enumerate(edges):
        gradient = found.get(id(edge), (None, None))[1]
        if gradient is None and not allow_unused:
            raise GradientError(
                f"the outputs do not depend on input {number}; pass allow_unused=True to get None as its gradient"
            )
        results.append(gradient)
    lazy.evaluate_together(one for one in results if one is not None)
    return tuple(results)


def _roots(tensors: Any, gradients: Any) -> list[tuple[Any, Tensor]]:
    several = list(tensors) if isinstance(tensors, (tuple, list)) else [tensors]
    given = list(gradients) if isinstance(gradients, (tuple, list)) else [gradients] * len(several)
    if len(given) != len(several):
        raise GradientError(f"expected a gradient for each of {len(several)} tensors, found {len(given)}")
    roots = []
    for tensor, gradient in zip(several, given, strict=True):
        edge = edge_of(tensor)
        if edge is None:
            raise GradientError(
                "backward() of a tensor that does not require a gradient and was calculated from none that does; "
                "set requires_grad=True on what to differentiate by"
            )
        roots.append((edge, _first_gradient(tensor, gradient)))
    return roots


def _first_gradient(tensor: Tensor, gradient: Any) -> Tensor:
    from .tensor import Tensor

    if gradient is None:
        if tensor._shape.dsize != 1:
            raise GradientError(
                f"backward() of a tensor of shape {tensor._shape} needs a gradient of this shape as an argument; "
                "only one element has the gradient 1 by itself"
            )
        return wrap(narrow(np.ones(tensor._shape, np.float32), tensor._dtype))
    if not isinstance(gradient, Tensor):
        gradient = Tensor(gradient, tensor._dtype)
    if gradient._shape != tensor._shape:
        raise ShapeError(f"the gradient has shape {gradient._shape}; expected {tensor._shape}, that of the tensor")
    return alias(gradient)


def _run(roots: Sequence[tuple[Any, Tensor]], retain: bool, only: Sequence[Edge] | None) -> dict[int, Any]:
    """The gradients of all leaves, or of the edges `only`: (edge, gradient) by the id of the edge."""
    with no_grad():
        waiting = _count_edges([edge for edge, _ in roots])
        received: dict[int, _Sum] = {}
        for edge, first in roots:
            received.setdefault(id(edge), _Sum()).add(first)
        found: dict[int, Any] = {}
        asked = None if only is None else set(map(id, only))
        ready: list[Any] = list({id(edge): edge for edge, _ in roots if not waiting[id(edge)]}.values())
        while ready:
            edge = ready.pop()
            total = received.pop(id(edge), None)
            gradient: Any = None if total is None else total.tensor
            if gradient is not None and (id(edge) in asked if asked is not None else not isinstance(edge, Node)):
                found[id(edge)] = (edge, gradient)
            if not isinstance(edge, Node):
                continue
            if edge.retained is not None and gradient is not None and asked is None:
                _keep(edge.retained(), gradient)
            parts: Sequence[Gradient] = [None] * len(edge.edges) if gradient is None else edge.gradients(gradient)
            if not retain:
                edge.free()
            for target, part in zip(edge.edges, parts, strict=True):
                if target is None:
                    continue
                if part is not None:
                    received.setdefault(id(target), _Sum()).add(part)
                waiting[id(target)] -= 1
                if not waiting[id(target)]:
                    ready.append(target)
        return found


def _count_edges(roots: Iterable[Any]) -> Counter[int]:
    """How many edges lead to each node and leaf that can be reached."""
    counts: Counter[int] = Counter()
    seen = {id(root): root for root in roots}
    stack = list(seen.values())
    while stack:
        edge = stack.pop()
        for target in edge.edges if isinstance(edge, Node) else ():
            if target is None:
                continue
            counts[id(target)] += 1
            if id(target) not in seen:
                seen[id(target)] = target
                stack.append(target)
    return counts


class _Sum:
    """A gradient that comes in parts."""

    __slots__ = ("is_own", "tensor")

    def __init__(self) -> None:
        self.tensor: Any = None
        self.is_own = False  # whether nobody else holds its memory

    def add(self, part: Tensor | Window) -> None:
        """One more part; views' parts are added in place."""
        if isinstance(part, Window):
            if not self.is_own:
                whole = part.whole.zeros()
                if self.tensor is not None:
                    lazy.write(whole, self.tensor)
                self.tensor, self.is_own = whole, True
            part.add_to(self.tensor)
        else:
            self.tensor = part if self.tensor is None else self.tensor + part
            self.is_own = False


def _keep_at_leaves(found: dict[int, Any], roots: Sequence[tuple[Any, Tensor]]) -> None:
    """Adds gradients to the `grad` of their leaves; no two of these share memory."""
    lazy.evaluate_together(gradient for _, gradient in found.values())
    taken = {id(gradient.storage.block) for _, gradient in roots}
    for edge, gradient in found.values():
        if isinstance(edge, Node):
            continue
        with no_grad():
            block = gradient.storage.block
            if edge.grad is not None:
                lazy.write(edge.grad, edge.grad + gradient)
            elif id(block) in taken or block.data.nbytes != gradient._shape.dsize * gradient._dtype.itemsize:
                edge.grad = gradient.clone()
            else:
                edge.grad = alias(gradient)
            taken.add(id(block))


def retain_grad(tensor: Tensor) -> None:
    """Lets `backward` keep the gradient of a tensor that is no leaf."""
    edge = edge_of(tensor)
    if edge is None:
        raise GradientError("retain_grad() of a tensor that does not require a gradient")
    if isinstance(edge, Node):
        edge.retained = weakref.ref(tensor)


def _keep(tensor: Tensor | None, gradient: Tensor) -> None:
    if tensor is not None:
        tensor.grad = gradient.clone() if tensor.grad is None else tensor.grad + gradient


# ------------------------------------------------------------------------------------------- shapes of gradients


def sum_to(gradient: Tensor, shape: Shape, dtype: DType) -> Tensor:
    """A gradient summed over the dimensions along which an operand of this shape was broadcast, in the operand's dtype."""
    if gradient._shape != shape:
        extra = len(gradient._shape) - len(shape)
        axes = (
            *range(extra),
            *(extra + i for i, size in enumerate(shape) if size == 1 and gradient._shape[extra + i] != 1),
        )
        gradient = wrap(sum_over(gradient.array, axes).reshape(shape))
    return gradient if gradient._dtype is dtype else gradient.to(dtype)
