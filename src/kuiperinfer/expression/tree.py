"""The expression tree: immutable, hashable, with a text form that `parse` reads back.

No method here recurses, so a tree may be of any depth; a subtree may be shared, by any number of parents.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..dtypes import Scalar
from ..errors import ExpressionError, did_you_mean
from ..settings import settings
from .activations import ALL_FUNCTIONS
from .lexer import is_word


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Expression:
    """Base of the nodes. `depth` is 0 for a leaf. Equal are trees of one form whose literals have the same type and bits."""

    depth: int = field(init=False)
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        children = self.children
        object.__setattr__(self, "depth", 1 + max((child.depth for child in children), default=-1))
        object.__setattr__(self, "_hash", hash((self._label(), *(child._hash for child in children))))

    @property
    def children(self) -> tuple[Expression, ...]:
        """The arguments of a call, the items of a list, nothing for a leaf."""
        return ()

    def _label(self) -> tuple[object, ...]:
        """What tells this node from others with the same children."""
        raise NotImplementedError

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        compared = set()
        pairs: list[tuple[Expression, Expression]] = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b or (id(a), id(b)) in compared:
                continue
            if a._hash != b._hash or a._label() != b._label() or len(a.children) != len(b.children):
                return False
            compared.add((id(a), id(b)))
            pairs.extend(zip(a.children, b.children, strict=True))
        return True

    def __str__(self) -> str:
        return "".join(piece for piece, _ in _pieces(self))

    def __repr__(self) -> str:
        pieces = [piece for piece, _ in itertools.islice(_pieces(self), 101)]
        return f"{type(self).__name__}<{''.join(pieces[:100])}{'…' if len(pieces) > 100 else ''}>"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Operand(Expression):
    """`@index`: an input of the operator that has the expression."""

    index: int

    def _label(self) -> tuple[object, ...]:
        return ("@", self.index)

    def __reduce__(self) -> tuple[Any, ...]:
        return Operand, (self.index,)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Literal(Expression):
    """A number, True, False, None, or a word. `ExpressionError` for one that cannot be written as such."""

    value: Scalar | str | None

    def __post_init__(self) -> None:
        if isinstance(self.value, int) and not -(2**63) <= self.value < 2**63:
            raise ExpressionError("an integer outside of 64 bits cannot be part of an expression")
        if isinstance(self.value, str) and not is_word(self.value):
            raise ExpressionError(f"{self.value!r} does not read as one word, so it cannot be part of an expression")
        Expression.__post_init__(self)

    def _label(self) -> tuple[object, ...]:
        return (type(self.value).__name__, repr(self.value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Literal, (self.value,)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Call(Expression):
    """A function of `FUNCTIONS` or `ACTIVATIONS`, by name, and its arguments; `ExpressionError` where these do not fit."""

    function: str
    arguments: tuple[Expression, ...]

    def __post_init__(self) -> None:
        known = ALL_FUNCTIONS.get(self.function)
        if known is None:
            raise ExpressionError(f"there is no function '{self.function}'{did_you_mean(self.function, ALL_FUNCTIONS)}")
        if error := known.arity_error(len(self.arguments)):
            raise ExpressionError(error)
        for argument in self.arguments:
            if isinstance(argument, ListNode) or (isinstance(argument, Literal) and isinstance(argument.value, str)):
                raise ExpressionError(f"'{argument}' cannot be an argument of '{self.function}'")
        Expression.__post_init__(self)

    @property
    def children(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments

    def _label(self) -> tuple[object, ...]:
        return ("call", self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return Call, (self.function, self.arguments)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ListNode(Expression):
    """`[item,item,...]`, such as the argument of a reshape."""

    items: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """The items."""
        return self.items

    def _label(self) -> tuple[object, ...]:
        return ("list",)

    def __reduce__(self) -> tuple[Any, ...]:
        return ListNode, (self.items,)


# ------------------------------------------------------------------------------------------- walking


def reverse_polish(tree: Expression) -> list[Expression]:
    """All nodes, each after its arguments: what a machine with a stack would execute. A shared node stands there again."""
    order: list[Expression] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(node.children)
    return order[::-1]


def distinct_nodes(tree: Expression) -> list[Expression]:
    """Every node once, each after its arguments; equal nodes count as one."""
    order: dict[Expression, None] = {}
    waiting: list[tuple[Expression, bool]] = [(tree, False)]
    while waiting:
        node, children_done = waiting.pop()
        if node in order:
            continue
        if children_done or not node.children:
            order[node] = None
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children))
    return list(order)


def fold(tree: Expression, function: Callable[[Expression, Sequence[Any]], Any]) -> Any:
    """`function(node, results of its children)` for every distinct node; the result for the whole tree.

    A result is dropped as soon as the last parent has used it.
    """
    order = distinct_nodes(tree)
    uses = Counter(child for node in order for child in node.children)
    results: dict[Expression, Any] = {}
    for node in order:
        results[node] = function(node, [results[child] for child in node.children])
        for child in node.children:
            uses[child] -= 1
            if not uses[child]:
                del results[child]
    return results[tree]


def operands(tree: Expression) -> tuple[int, ...]:
    """The indices of the operands used, ascending."""
    return tuple(sorted({node.index for node in distinct_nodes(tree) if isinstance(node, Operand)}))


def substitute(tree: Expression, replacements: Mapping[int, Expression] | Sequence[Expression]) -> Expression:
    """The tree with operand i replaced by `replacements[i]`; operands without a replacement stay."""
    known = dict(replacements.items() if isinstance(replacements, Mapping) else enumerate(replacements))

    def rebuild(node: Expression, children: Sequence[Expression]) -> Expression:
        if isinstance(node, Operand):
            return known.get(node.index, node)
        if isinstance(node, Call):
            return Call(node.function, tuple(children))
        return ListNode(tuple(children)) if isinstance(node, ListNode) else node

    result: Expression = fold(tree, rebuild)
    return result


# ------------------------------------------------------------------------------------------- printing


def _pieces(tree: Expression) -> Iterator[tuple[str, Expression | None]]:
    """The text in pieces; the first piece of every node comes with the node."""
    waiting: list[Expression | str] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield node, None
            continue
        opening, closing = _brackets(node)
        yield opening, node
        if closing:
            waiting.append(closing)
            for position, child in enumerate(reversed(node.children)):
                waiting.extend([",", child] if position else [child])


def _brackets(node: Expression) -> tuple[str, str]:
    if isinstance(node, Call):
        return f"{node.function}(", ")"
    if isinstance(node, ListNode):
        return "[", "]"
    if isinstance(node, Operand):
        return f"@{node.index}", ""
    assert isinstance(node, Literal)
    return literal_text(node.value), ""


def text_and_position(tree: Expression, node: Expression) -> tuple[str, int]:
    """The text of `tree`, and where `node` begins in it (from 0); of a tree too large to print, the node's text alone."""
    pieces = list(itertools.islice(_pieces(tree), 4 * settings.max_expression_nodes))
    before = itertools.takewhile(lambda piece: piece[1] is None or piece[1] != node, pieces)
    position = sum(len(piece) for piece, _ in before)
    text = "".join(piece for piece, _ in pieces)
    return (text, position) if position < len(text) or tree is node else text_and_position(node, node)


def literal_text(value: Scalar | str | None) -> str:
    """A value as the converter writes it, but never shorter than it takes to read the same value back."""
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, complex):
        return f"{_exponent_form(value.real)}{_exponent_form(value.imag, '+')}j"
    return str(value)


def _exponent_form(value: float, sign: str = "") -> str:
    short = format(value, f"{sign}e")
    return short if float(short) == value else format(value, f"{sign}.16e")


def _float_text(value: float) -> str:
    if value != value:
        return "nan.0"
    if value in (float("inf"), float("-inf")):
        return str(value)
    text = _shortest(value, ("e", ".8e", ".16e")) if value and not 1e-4 <= abs(value) < 1e6 else _plain_text(value)
    mantissa, _, exponent = text.partition("e")
    if exponent:
        return f"{mantissa}e{int(exponent)}"
    return text if "." in text else f"{text}.0"


def _plain_text(value: float) -> str:
    for precision, exponent_format in ((6, ".5e"), (9, ".8e"), (17, ".16e")):
        text = format(value, f".{precision}g")
        if float(text) == value:
            fraction = text.partition(".")[2]
            return text if len(fraction) <= precision or precision == 6 else format(value, exponent_format)
    raise AssertionError("17 digits always read back")


def _shortest(value: float, formats: Sequence[str]) -> str:
    return next(text for text in (format(value, form) for form in formats) if float(text) == value)
