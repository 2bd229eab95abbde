"""What gradients have to know about views, copies and writes in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GradientError
from . import lazy, views
from .autograd import Gradient, Node, attach, edge_of, is_grad_enabled, sum_to, view_gradient, wanted
from .recording import note
from .windows import Layout, add_at
from .wrapping import wrap

if TYPE_CHECKING:
    from .tensor import Tensor


def record_view(base: Tensor, view: Tensor, name: str, arguments: tuple[Any, ...]) -> None:
    """`view` looks at the memory of `base`: `views.apply(name, geometry of base, arguments)`."""
    note(name, (base,), {"arguments": arguments}, view)
    if not is_grad_enabled():
        return
    edge = edge_of(base)
    root = base if base._view_of is None else base._view_of[0]
    view._view_of = (root, root.grad_fn or (root if root._requires_grad else None))
    if edge is not None:
        inverse = _INVERSES.get(name)
        layout, geometry = Layout.of(base), view._geometry()
        if inverse is None and (spread := Layout.spread(base)) != layout:  # gradients do not lie as the tensor does
            layout, geometry = spread, views.apply(name, spread.geometry, arguments)
        values = (layout, geometry, arguments)
        view.grad_fn = Node(name, [edge], view_gradient if inverse is None else inverse, values, view._shape)
        view._requires_grad = True


def _reshaped(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    return [gradient.reshape(node.values[0].geometry.shape)]


def _transposed(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    return [gradient.transpose(*node.values[2])]


def _permuted(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    order = [node.shape.dimension(dim) for dim in node.values[2][0]]
    return [gradient.permute([order.index(dim) for dim in range(len(order))])]


def _flipped(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    return [gradient.flip(*node.values[2])]


# Views that show every element once: their gradient, looked at the other way round.
_INVERSES: dict[str, Callable[[Node, Tensor], Sequence[Gradient]]] = {
    "view": _reshaped,
    "squeeze": _reshaped,
    "unsqueeze": _reshaped,
    "transpose": _transposed,
    "permute": _permuted,
    "flip": _flipped,
}


def record_copy(
    source: Tensor, copy: Tensor, name: str, arguments: tuple[Any, ...], indices: Sequence[Tensor | None] = ()
) -> None:
    """`copy` was made from `source` by the method `name`: "clone", "to" (dtype) or "gather" (index).

    `indices` are the tensors that the arrays of an index were, None for those that were none.
    """
    note(name, (source, *indices), {"arguments": arguments}, copy)
    if copy._dtype.kind == "float" and wanted(source):
        function = _gather_gradient if name == "gather" else _copy_gradient
        attach(copy, name, (source,), function, Layout.spread(source), arguments)


def _copy_gradient(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    layout: Layout = node.values[0]
    return [sum_to(gradient, layout.geometry.shape, layout.dtype)]


def _overwritten_gradient(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    """Nothing is left of what was overwritten: zeros, as in PyTorch."""
    return [wrap(np.zeros(node.shape, node.values[0].storage))]


def _gather_gradient(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    layout, items = node.values
    whole = layout.zeros()
    add_at(whole.array, items, gradient.array)
    return [whole]


def record_write(target: Tensor, name: str, source: Tensor, items: tuple[Any, ...] | None = None) -> None:
    """`target`, or `target[items]`, is about to take the values of `source`, broadcast and converted."""
    lazy.expect_writable(target, source if items is None else target)
    note(name, (target, source), {"items": items}, target)
    if not is_grad_enabled():
        return
    root = target if target._view_of is None else target._view_of[0]
    if root._requires_grad and root.grad_fn is None:
        raise GradientError(
            f"a leaf of shape {root._shape} that requires a gradient cannot be modified in place while operations are "
            "recorded; do it within no_grad()"
        )
    edges = (edge_of(root), edge_of(source))
    if edges[0] is None and edges[1] is None:
        return
    if root is target and items is None:
        if edges[1] is None:
            root.grad_fn = Node(name, edges[:1], _overwritten_gradient, (root._dtype,), root._shape)
        else:
            root.grad_fn = Node(name, edges[1:], _copy_gradient, (Layout.of(source),), root._shape)
        root._requires_grad = True
    else:
        values = (Layout.of(root), target._geometry(), items, source._shape, source._dtype)
        root.grad_fn = Node(name, edges, _write_gradient, values, root._shape)
        root._requires_grad = True


def _write_gradient(node: Node, gradient: Tensor) -> Sequence[Gradient]:
    """What was overwritten gets no gradient; what was written gets that of its place."""
    layout, view, items, shape, dtype = node.values
    whole = layout.zeros()
    lazy.write(whole, gradient)
    part = layout.part(whole, view)
    place = ... if items is None else items
    written = wrap(np.array(part.array[place]))
    part.writable_array()[place] = 0
    return [whole, sum_to(written, shape, dtype)]
