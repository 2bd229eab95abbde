"""Where the nodes of a directed acyclic graph go in a picture: in layers from top to bottom, edges running downwards.

The classic three steps: a layer for every node (longest path), an order within layers that crosses few edges (barycentres), and
places within layers as near to the neighbours as the order lets them (isotonic regression). An edge across several layers has
a bend in each of them, so that it runs around the nodes between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SWEEPS = 8
_BEND_WIDTH = 6.0
_GAP = 18.0


@dataclass
class _Node:
    """A node, or the bend of an edge, with its neighbours in the layers above and below."""

    width: float
    layer: int
    above: list[_Node] = field(default_factory=list)
    below: list[_Node] = field(default_factory=list)
    order: float = 0.0
    x: float = 0.0


@dataclass(frozen=True)
class Layout:
    """Per node its centre `x` and its `layer`; per edge the centres of its bends, from producer to consumer."""

    x: Sequence[float]
    layer: Sequence[int]
    bends: Sequence[Sequence[float]]
    width: float
    layers: int


def lay_out(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> Layout:
    """Places nodes of the given widths. Edges lead from a node to one of a higher index."""
    layers = _assign_layers(len(widths), edges)
    nodes = [_Node(width, layer) for width, layer in zip(widths, layers, strict=True)]
    rows: list[list[_Node]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for node in nodes:
        rows[node.layer].append(node)
    bends = [_connect(nodes[source], nodes[target], rows) for source, target in edges]
    for row in rows:
        for index, node in enumerate(row):
            node.order = float(index)
    for sweep in range(_SWEEPS):
        _sort_by_neighbours(rows, downwards=sweep % 2 == 0)
    for sweep in range(_SWEEPS):
        _place_by_neighbours(rows, downwards=sweep % 2 == 0)
    everything = [node for row in rows for node in row]
    left = min((node.x - node.width / 2 for node in everything), default=0.0)
    right = max((node.x + node.width / 2 for node in everything), default=0.0)
    return Layout(
        [node.x - left for node in nodes],
        layers,
        [[bend.x - left for bend in chain] for chain in bends],
        right - left,
        len(rows),
    )


def _assign_layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Every node one below its lowest predecessor; a node without predecessors just above its highest successor."""
    layers = [0] * count
    incoming: list[list[int]] = [[] for _ in range(count)]
    outgoing: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        incoming[target].append(source)
        outgoing[source].append(target)
    for node in range(count):
        layers[node] = max((layers[source] + 1 for source in incoming[node]), default=0)
    for node in range(count):
        if not incoming[node] and outgoing[node]:
            layers[node] = min(layers[target] for target in outgoing[node]) - 1
    return layers


def _connect(source: _Node, target: _Node, rows: list[list[_Node]]) -> list[_Node]:
    chain = [_Node(_BEND_WIDTH, layer) for layer in range(source.layer + 1, target.layer)]
    for bend in chain:
        rows[bend.layer].append(bend)
    path = [source, *chain, target]
    for upper, lower in pairwise(path):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _sort_by_neighbours(rows: list[list[_Node]], *, downwards: bool) -> None:
    for row in rows if downwards else reversed(rows):
        for node in row:
            neighbours = node.above if downwards else node.below
            if neighbours:
                node.order = sum(n.order for n in neighbours) / len(neighbours)
        row.sort(key=lambda node: node.order)
        for index, node in enumerate(row):
            node.order = float(index)


def _place_by_neighbours(rows: list[list[_Node]], *, downwards: bool) -> None:
    for row in rows if downwards else reversed(rows):
        wanted = []
        for node in row:
            neighbours = node.above if downwards else node.below
            wanted.append(sum(n.x for n in neighbours) / len(neighbours) if neighbours else node.x)
        for node, x in zip(row, _nearest_in_order(wanted, [node.width for node in row]), strict=True):
            node.x = x


def _nearest_in_order(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Centres in order and without overlap, whose squared distances to the wanted ones are least.

    With the room that all nodes to the left need subtracted, this is isotonic regression: pool adjacent violators.
    """
    offsets = [0.0]
    for left, right in pairwise(widths):
        offsets.append(offsets[-1] + (left + right) / 2 + _GAP)
    pools: list[tuple[float, int]] = []  # mean, members
    for target, offset in zip(wanted, offsets, strict=False):
        mean, members = target - offset, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean, members = (mean * members + other * others) / (members + others), members + others
        pools.append((mean, members))
    means = [mean for mean, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
