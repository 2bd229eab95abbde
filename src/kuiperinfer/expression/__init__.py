"""The language of `pnnx.Expression`: text, tokens, trees, values, derivatives.

tree = parse("add(@0,mul(@1,2.5))")
evaluate(tree, [x, y])          the value, with NumPy
infer(tree, [spec, spec])       shape and dtype beforehand
str(tree)                       the text again
"""

from .activations import ACTIVATIONS, ALL_FUNCTIONS
from .comparisons import COMPARISONS
from .derivative import derivative, gradients
from .evaluate import evaluate, infer
from .functions import FUNCTIONS, Function
from .lexer import Token, TokenType, tokenize
from .parser import parse
from .tree import Call, Expression, ListNode, Literal, Operand, operands, reverse_polish, substitute

__all__ = [
    "ACTIVATIONS",
    "ALL_FUNCTIONS",
    "COMPARISONS",
    "FUNCTIONS",
    "Call",
    "Expression",
    "Function",
    "ListNode",
    "Literal",
    "Operand",
    "Token",
    "TokenType",
    "derivative",
    "evaluate",
    "gradients",
    "infer",
    "operands",
    "parse",
    "reverse_polish",
    "substitute",
    "tokenize",
]
