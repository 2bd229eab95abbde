"""Tokens to a tree.

The converter writes `add(@0,mul(@1,2.5))`, and damages that in two ways, which only the number of arguments of every function
can undo: a function that one of its passes does not know loses its parentheses and stands before its arguments, wherever
these have got to (`mul(expm1,@0),2` for `mul(expm1(@0),2)`), and an argument may have a comma too many before it
(`add(@0,,mul(@1,2.5))`). Hence two steps. First the brackets are checked as they stand: every call has as many terms as its
function takes, where a function without parentheses is a term. What then is left without parentheses and commas is Polish
prefix notation, and is read by arity. For an undamaged text the two steps agree.
"""

from __future__ import annotations

from ..errors import ExpressionError, did_you_mean
from ..records import dataclass
from ..settings import settings
from .activations import ALL_FUNCTIONS
from .functions import FUNCTIONS, Function
from .lexer import Token, TokenType, expression_error, literal_value, tokenize
from .tree import Call, Expression, ListNode, Literal, Operand

_NAMES = (TokenType.FUNCTION, TokenType.WORD)


def parse(text: str, *, operand_count: int | None = None, as_list: bool = False, internal: bool = False) -> Expression:
    """The tree of an expression's text.

    `operand_count`: how many operands there are, if that is to be checked. `as_list`: a list is wanted, whose items may also
    stand side by side without brackets. `internal`: the text is this package's own, and may call `ACTIVATIONS` and
    `COMPARISONS` too. A text that is one word, such as `a` or `torch.float`, is that word.

    Raises `ExpressionError` with the column of the mistake. Definition: `expand_expression` of PNNX's `ir.cpp`.
    """
    tokens = tokenize(text, internal=internal)
    if len(tokens) == 1 and tokens[0].type in _NAMES:
        return Literal(tokens[0].text)
    terms = _read_by_arity(text, _Brackets(text, operand_count).prefix_order(tokens))
    if as_list and not (len(terms) == 1 and isinstance(terms[0].node, ListNode)):
        return ListNode(tuple(term.node for term in terms))
    if len(terms) > 1:
        raise expression_error(text, terms[1].token.start, "the expression is complete before this")
    return terms[0].node


# ------------------------------------------------------------------------------------------- step 1: brackets


@dataclass
class _Prefix:
    """A token in prefix order. `arguments` of a function: how many there are, None where only arity tells."""

    token: Token
    arguments: int | None = None


@dataclass
class _Group:
    """What is open: a call, a list, or the whole text. Another term is due while there are no more terms than commas."""

    opening: _Prefix | None = None
    terms: int = 0
    commas: int = 0
    comma_too_many: bool = False
    damaged: bool = False  # a function without parentheses is somewhere inside

    @property
    def function(self) -> Function | None:
        """The function that is called, if it is a call that is open."""
        return ALL_FUNCTIONS.get(self.opening.token.text) if self.opening else None

    @property
    def is_list(self) -> bool:
        """Whether it is a list that is open."""
        return self.opening is not None and self.opening.token.type is TokenType.LEFT_BRACKET

    @property
    def due(self) -> bool:
        """Whether a term is due, rather than a comma or an end."""
        return self.terms == self.commas


class _Brackets:
    """Checks brackets, commas and the number of terms in every call."""

    def __init__(self, text: str, operand_count: int | None) -> None:
        self._text = text
        self._operand_count = operand_count
        self._groups = [_Group()]
        self._prefix: list[_Prefix] = []

    def prefix_order(self, tokens: list[Token]) -> list[_Prefix]:
        """The tokens without parentheses and commas; lists keep their brackets."""
        called = False
        for position, token in enumerate(tokens):
            if token.type is TokenType.LEFT_PARENTHESIS and not called:
                raise self._error(token, "'(' stands after no function")
            following = tokens[position + 1].type if position + 1 < len(tokens) else None
            called = token.type in _NAMES and following is TokenType.LEFT_PARENTHESIS
            if token.type is TokenType.COMMA:
                self._comma(token)
            elif token.type in (TokenType.RIGHT_PARENTHESIS, TokenType.RIGHT_BRACKET):
                self._close(token)
            elif token.type is not TokenType.LEFT_PARENTHESIS:
                self._term(token, called)
        return self._finished()

    def _finished(self) -> list[_Prefix]:
        group = self._groups[-1]
        if group.opening:
            raise self._error(group.opening.token, f"'{group.opening.token.text}' is never closed")
        if group.due:
            message = "ends where a term is due" if self._prefix else "is empty; expected a term such as 'add(@0,1)'"
            raise expression_error(self._text, len(self._text), message)
        limit = settings.max_expression_nodes
        if len(self._prefix) > limit:
            raise self._error(self._prefix[limit].token, f"too many parts; settings.max_expression_nodes is {limit:,}")
        return self._prefix

    def _term(self, token: Token, called: bool) -> None:
        group = self._groups[-1]
        if not group.due:
            raise self._error(token, f"'{token.text}' follows a term; expected ',' or a closing bracket")
        if token.type is TokenType.WORD and (called or not group.is_list):
            raise self._error(token, f"there is no function '{token.text}'{did_you_mean(token.text, FUNCTIONS)}")
        if token.type is TokenType.LEFT_BRACKET and group.function:
            raise self._error(token, f"a list cannot be an argument of '{group.function.name}'")
        if token.type is TokenType.OPERAND and self._operand_count is not None:
            self._check_operand(token, self._operand_count)
        self._prefix.append(_Prefix(token))
        if called or token.type is TokenType.LEFT_BRACKET:
            self._groups.append(_Group(self._prefix[-1]))
            if len(self._groups) - 1 > settings.max_expression_depth:
                raise self._error(token, _too_deep())
        else:
            group.terms += 1
            group.damaged |= token.type is TokenType.FUNCTION

    def _comma(self, token: Token) -> None:
        group = self._groups[-1]
        if not group.due:
            group.commas += 1
        elif group.comma_too_many or not group.function or group.function.arity != 2 or group.function.optional:
            raise self._error(token, "a term is missing before ','")
        else:
            group.comma_too_many = True

    def _close(self, token: Token) -> None:
        group = self._groups[-1]
        if not group.opening:
            raise self._error(token, f"'{token.text}' closes nothing")
        if group.is_list != (token.type is TokenType.RIGHT_BRACKET):
            raise self._error(token, f"'{token.text}' stands where the end of '{group.opening.token.text}' is due")
        if group.due and not (group.is_list and group.commas == 0):
            raise self._error(token, f"a term is missing before '{token.text}'")
        if group.is_list:
            self._prefix.append(_Prefix(token))
        elif group.function and (error := group.function.arity_error(group.terms)):
            raise self._error(group.opening.token, error)
        if not group.damaged:
            group.opening.arguments = group.terms
        self._groups.pop()
        self._groups[-1].terms += 1
        self._groups[-1].damaged |= group.damaged

    def _check_operand(self, token: Token, count: int) -> None:
        if int(token.text[1:]) >= count:
            found = f"{count} operand{'' if count == 1 else 's'}"
            raise self._error(token, f"'{token.text}' is out of range: there {'is' if count == 1 else 'are'} {found}")

    def _error(self, token: Token, message: str) -> ExpressionError:
        return expression_error(self._text, token.start, message)


def _too_deep() -> str:
    return f"nested too deeply; settings.max_expression_depth is {settings.max_expression_depth:,}"


# ------------------------------------------------------------------------------------------- step 2: arity


@dataclass
class _Term:
    node: Expression
    token: Token


def _read_by_arity(text: str, prefix: list[_Prefix]) -> list[_Term]:
    """The terms that stand side by side, read from the right: what a function finds to its right are its arguments."""
    # Terms still without a taker, the next one last; one level more for every list that is open.
    levels: list[list[_Term]] = [[]]
    for entry in reversed(prefix):
        token, terms = entry.token, levels[-1]
        if token.type is TokenType.RIGHT_BRACKET:
            levels.append([])
            continue
        node: Expression
        if token.type is TokenType.LEFT_BRACKET:
            levels.pop()
            node = ListNode(tuple(term.node for term in reversed(terms)))
        elif token.type is TokenType.FUNCTION:
            node = _call(text, entry, terms)
        elif token.type is TokenType.OPERAND:
            node = Operand(int(token.text[1:]))
        else:
            node = Literal(token.text if token.type is TokenType.WORD else literal_value(text, token))
        if node.depth > settings.max_expression_depth:
            raise expression_error(text, token.start, _too_deep())
        levels[-1].append(_Term(node, token))
    return levels[0][::-1]


def _call(text: str, entry: _Prefix, terms: list[_Term]) -> Call:
    """The function applied to as many of the terms to its right as it takes."""
    wanted = ALL_FUNCTIONS[entry.token.text].arity if entry.arguments is None else entry.arguments
    arguments = tuple(terms.pop().node for _ in range(min(wanted, len(terms))))
    try:
        return Call(entry.token.text, arguments)
    except ExpressionError as error:
        raise expression_error(text, entry.token.start, error.message) from None
