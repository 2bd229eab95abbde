"""Lanes of several vectors brought into another order."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..builder import I32, Code, Vector

Lane = tuple[int, int]  # number of the vector, lane within it


def permute(code: Code, vectors: Sequence[Vector], lanes: Sequence[Lane]) -> Vector:
    """A vector whose lane i is lane ``lanes[i][1]`` of vector number ``lanes[i][0]``; all vectors have one type."""
    used = sorted({number for number, _ in lanes})
    if len(used) > 2:
        middle = len(used) // 2
        halves = []
        for part in (used[:middle], used[middle:]):
            rest = [lane if lane[0] in part else (part[0], 0) for lane in lanes]
            halves.append(permute(code, vectors, rest))
        return permute(code, halves, [(int(number not in used[:middle]), i) for i, (number, _) in enumerate(lanes)])
    first, second = vectors[used[0]], vectors[used[-1]]
    if len(used) == 1 and [lane for _, lane in lanes] == list(range(first.type.count)):
        return first
    indices = [lane + (first.type.count if number != used[0] else 0) for number, lane in lanes]
    mask = ir.Constant(ir.VectorType(I32, len(indices)), [ir.Constant(I32, index) for index in indices])
    other = second if len(used) == 2 else ir.Constant(first.type, ir.Undefined)
    return code.builder.shuffle_vector(first, other, mask)


def interleave(code: Code, vectors: Sequence[Vector]) -> list[Vector]:
    """The elements of r vectors in turn, as r vectors: the first of each, then the second of each, and so on."""
    count, lanes = len(vectors), vectors[0].type.count
    order = [(place % count, place // count) for place in range(count * lanes)]
    return [permute(code, vectors, order[start : start + lanes]) for start in range(0, count * lanes, lanes)]
