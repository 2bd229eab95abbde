"""The transforms of Winograd's algorithm, and code that applies them to vectors.

Definition: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015. With stride 2, even input pixels meet
the outer two of three filter elements, odd ones the middle one: F(4, 2) for the even, plain products for the odd, which makes
9 products for 4 results instead of 12, in each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ...records import dataclass
from ..builder import Code, Vector

Matrix: TypeAlias = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Form:
    """Transforms along one dimension: output = `output` · ((`weight` · filter) ⊙ (`input` · pixels)).

    The last row of `weight` serves all further rows of the transformed input.
    """

    input: Matrix
    weight: Matrix
    output: Matrix

    @property
    def span(self) -> int:
        """Elements of the transformed input, and input pixels of a tile."""
        return len(self.input)

    @property
    def filters(self) -> int:
        """Different elements of the transformed filter."""
        return len(self.weight)


# by the stride; powers of two where it costs nothing
FORMS = {
    1: Form(
        (
            (4, 0, -5, 0, 1, 0),
            (0, -4, -4, 1, 1, 0),
            (0, 4, -4, -1, 1, 0),
            (0, -2, -1, 2, 1, 0),
            (0, 2, -1, -2, 1, 0),
            (0, 4, 0, -5, 0, 1),
        ),
        ((1, 0, 0), (1, 1, 1), (1, -1, 1), (1, 2, 4), (1, -2, 4), (0, 0, 1)),
        (
            (1 / 4, -1 / 6, -1 / 6, 1 / 24, 1 / 24, 0),
            (0, -1 / 6, 1 / 6, 1 / 12, -1 / 12, 0),
            (0, -1 / 6, -1 / 6, 1 / 6, 1 / 6, 0),
            (0, -1 / 6, 1 / 6, 1 / 3, -1 / 3, 1),
        ),
    ),
    2: Form(
        (
            (2, 0, -1, 0, -2, 0, 1, 0, 0),
            (0, 0, -2, 0, -1, 0, 1, 0, 0),
            (0, 0, 2, 0, -3, 0, 1, 0, 0),
            (0, 0, -1, 0, 0, 0, 1, 0, 0),
            (0, 0, 2, 0, -1, 0, -2, 0, 1),
            *(tuple(float(place == odd) for place in range(9)) for odd in (1, 3, 5, 7)),
        ),
        ((1 / 2, 0, 0), (-1 / 2, 0, -1 / 2), (-1 / 6, 0, 1 / 6), (1 / 6, 0, 1 / 3), (0, 0, 1), (0, 1, 0)),
        (
            (1, 1, 1, 1, 0, 1, 0, 0, 0),
            (0, 1, -1, 2, 0, 0, 1, 0, 0),
            (0, 1, 1, 4, 0, 0, 0, 1, 0),
            (0, 1, -1, 8, 1, 0, 0, 0, 1),
        ),
    ),
}


def transform(code: Code, matrix: Matrix, vectors: Sequence[Vector]) -> list[Vector]:
    """A constant matrix times vectors. What neighbouring columns or rows share, but for the sign, is calculated once."""
    rows, terms, build = [list(row) for row in matrix], list(vectors), code.builder
    for j in range(len(terms) - 1):
        pairs = [(row[j], row[j + 1]) for row in rows if row[j] or row[j + 1]]
        if {a == b for a, b in pairs} == {True, False} and all(abs(a) == abs(b) for a, b in pairs):
            terms[j], terms[j + 1] = build.fadd(terms[j], terms[j + 1]), build.fsub(terms[j], terms[j + 1])
            for row in rows:
                row[j], row[j + 1] = (row[j], 0) if row[j] == row[j + 1] else (0, row[j])
    results: list[Vector] = []
    while len(results) < len(rows):
        row, following = rows[len(results)], rows[min(len(results) + 1, len(rows) - 1)]
        even = [a if a == b else 0.0 for a, b in zip(row, following, strict=True)]
        odd = [a if a == -b else 0.0 for a, b in zip(row, following, strict=True)]
        if any(even) and any(odd) and all(abs(a) == abs(b) for a, b in zip(row, following, strict=True)):
            size = max(abs(a) for a in odd)
            same = combine(code, even, terms)
            if size != 1 and all(abs(a) in (0, size) for a in odd):
                other = combine(code, [a / size for a in odd], terms)
                results += [code.fma(other, code.splat(sign * size), same) for sign in (1, -1)]
            else:
                other = combine(code, odd, terms)
                results += [build.fadd(same, other), build.fsub(same, other)]
        else:
            results.append(combine(code, row, terms))
    return results


def combine(code: Code, factors: Sequence[float], vectors: Sequence[Vector]) -> Vector:
    """The sum of vectors times small constants; constants of 0 cost nothing, of 1 and -1 no multiplication."""
    total: Vector | None = None
    for factor, vector in sorted(zip(factors, vectors, strict=True), key=lambda pair: pair[0] != 1):
        if factor == 0:
            continue
        if total is None:
            total = vector if factor == 1 else code.builder.fmul(vector, code.splat(factor))
        elif factor == 1:
            total = code.builder.fadd(total, vector)
        elif factor == -1:
            total = code.builder.fsub(total, vector)
        else:
            total = code.fma(vector, code.splat(factor), total)
    assert total is not None
    return total
