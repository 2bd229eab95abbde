"""What is read, what is repaired, what is refused."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import ExpressionError, KuiperError
from kuiperinfer.expression import FUNCTIONS, Call, Expression, ListNode, Literal, Operand, evaluate, parse
from kuiperinfer.settings import settings


def call(function: str, *arguments: Expression) -> Call:
    return Call(function, arguments)


A, B = Operand(0), Operand(1)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("@0", A),
        ("add(@0,@1)", call("add", A, B)),
        ("add(sin(@0),@1)", call("add", call("sin", A), B)),
        ("sub(@0,mul(@1,2.5))", call("sub", A, call("mul", B, Literal(2.5)))),
        ("size(@0)", call("size", A)),
        ("size(@0,-1)", call("size", A, Literal(-1))),
        ("[size(@0),3]", ListNode((call("size", A), Literal(3)))),
        ("[]", ListNode(())),
        ("[@0]", ListNode((A,))),
        (
            "[[True,False],None,[1,0]]",
            ListNode(
                (
                    ListNode((Literal(True), Literal(False))),
                    Literal(None),
                    ListNode((Literal(1), Literal(0))),
                )
            ),
        ),
        ("[a,b]", ListNode((Literal("a"), Literal("b")))),
        ("a", Literal("a")),
        ("trunc", Literal("trunc")),
        ("torch.float", Literal("torch.float")),
        ("2d", Literal("2d")),
        ("torch.float(size(@0,2))", call("torch.float", call("size", A, Literal(2)))),
        (" add ( @0 , 1 ) ", call("add", A, Literal(1))),
    ],
)
def test_regular_texts(text: str, tree: Expression) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("log1p,@0", "log1p(@0)"),
        ("expm1,sub(@0,0.5)", "expm1(sub(@0,0.5))"),
        ("mul(expm1,@0),2", "mul(expm1(@0),2)"),
        ("sqrt(log1p),@0", "sqrt(log1p(@0))"),
        ("log1p,expm1,@0", "log1p(expm1(@0))"),
        ("sub(3,div(log1p,@0)),expm1,@1", "sub(3,div(log1p(@0),expm1(@1)))"),
        (
            "add(expm1,@0),mul(log1p,@1),expm1,add(@1,1)",
            "add(expm1(@0),mul(log1p(@1),expm1(add(@1,1))))",
        ),
        ("logaddexp,@0,@1", "logaddexp(@0,@1)"),
        ("[expm1,@0,size(@1,0)]", "[expm1(@0),size(@1,0)]"),
        ("[size(expm1),@0]", "[size(expm1(@0))]"),
        ("size(expm1,@0),1", "size(expm1(@0),1)"),
        ("log1p,size(@0,1)", "log1p(size(@0,1))"),
        ("add(@0,,mul(@1,2.5))", "add(@0,mul(@1,2.5))"),
        ("sub(,mul(@0,2.5),@1)", "sub(mul(@0,2.5),@1)"),
        ("add(@0,,mul(add(@1,,mul(@2,3)),2))", "add(@0,mul(add(@1,mul(@2,3)),2))"),
    ],
)
def test_damage_of_the_converter_is_undone(text: str, meant: str) -> None:
    assert parse(text) == parse(meant)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "empty"),
        ("   ", 4, "empty"),
        ("add(@0,@1", 1, "'add' is never closed"),
        ("[@0", 1, "never closed"),
        ("add(@0,@1))", 11, "closes nothing"),
        ("@0]", 3, "closes nothing"),
        ("add(@0,@1]", 10, "end of 'add' is due"),
        ("[@0)", 4, r"end of '\[' is due"),
        ("(@0)", 1, "after no function"),
        ("@0(@1)", 3, "after no function"),
        ("add((@0),@1)", 5, "after no function"),
        ("add(@0)(@1)", 1, "takes 2 arguments, found 1"),
        ("neg(@0)(@1)", 8, "after no function"),
        ("adds(@0,@1)", 1, "no function 'adds'; did you mean 'add'"),
        ("add(@0,sine(@1))", 8, "no function 'sine'; did you mean 'sin"),
        ("sine,@0", 1, "no function 'sine'"),
        ("add(@0,x)", 8, "no function 'x'"),
        ("add(@0,1_000)", 8, "no function '1_000'"),
        ("[a(@0)]", 2, "no function 'a'"),
        ("neg()", 5, "a term is missing before '\\)'"),
        ("neg(@0,@1)", 1, "takes 1 argument, found 2"),
        ("add(@0)", 1, "takes 2 arguments, found 1"),
        ("add(@0,@1,@2)", 1, "takes 2 arguments, found 3"),
        ("size(@0,1,2)", 1, "takes 1 or 2 arguments, found 3"),
        ("mul(@0,)", 8, "a term is missing before '\\)'"),
        ("mul(,@0)", 1, "takes 2 arguments, found 1"),
        ("add(@0,,,@1)", 9, "a term is missing before ','"),
        ("add(,@0,,@1)", 9, "a term is missing before ','"),
        ("add(@0,@1,)", 11, "a term is missing before '\\)'"),
        ("size(@0,,1)", 9, "a term is missing before ','"),
        ("neg(,@0)", 5, "a term is missing before ','"),
        ("[@0,,@1]", 5, "a term is missing before ','"),
        ("[,@0]", 2, "a term is missing before ','"),
        ("[@0,]", 5, "a term is missing before '\\]'"),
        (",@0", 1, "a term is missing before ','"),
        ("@0,", 4, "ends where a term is due"),
        ("add(@0,@1),@2", 12, "complete before this"),
        ("@0,@1", 4, "complete before this"),
        ("@0 @1", 4, "'@1' follows a term"),
        ("add(@0 @1)", 8, "'@1' follows a term"),
        ("add(@0,@1)mul", 11, "'mul' follows a term"),
        ("add(@0,sin)", 8, "takes 1 argument, found none"),
        ("mul(expm1,log1p),@0", 1, "takes 2 arguments, found 1"),
        ("[expm1],@0", 2, "takes 1 argument, found none"),
        ("expm1,log1p", 7, "takes 1 argument, found none"),
        ("sin,@0,@1", 8, "complete before this"),
        ("add(@0,[1,2])", 8, "a list cannot be an argument of 'add'"),
        ("neg,[1,2]", 1, "cannot be an argument of 'neg'"),
        ("[neg,a]", 2, "'a' cannot be an argument of 'neg'"),
        ("[@0],[@1]", 6, "complete before this"),
    ],
)
def test_refusals_say_where(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        parse(text)
    assert caught.value.column == column


def test_operand_count() -> None:
    assert parse("add(@0,@1)", operand_count=2) == call("add", A, B)
    with pytest.raises(ExpressionError, match="column 8: '@1' is out of range: there is 1 operand"):
        parse("add(@0,@1)", operand_count=1)


def test_terms_side_by_side_are_a_list_where_one_is_wanted() -> None:
    assert parse("size(@0,0),2,expm1,@1", as_list=True) == parse("[size(@0,0),2,expm1(@1)]")
    assert parse("[@0,1]", as_list=True) == parse("[@0,1]")
    assert parse("@0", as_list=True) == ListNode((A,))


@pytest.mark.parametrize("nest", ["neg({})", "add({},1)", "add(1,{})", "[{}]", "neg,{}"])
def test_depth_is_limited(nest: str) -> None:
    head, tail = nest.split("{}")
    assert parse(head * 256 + "@0" + tail * 256).depth == 256
    for levels in (257, 3_000):
        with pytest.raises(ExpressionError, match="max_expression_depth is 256"):
            parse(head * levels + "@0" + tail * levels)


@pytest.mark.parametrize("nest", ["neg({})", "[{}]", "neg,{}"])
def test_a_hundred_thousand_levels(nest: str) -> None:
    head, tail = nest.split("{}")
    text = head * 100_000 + "@0" + tail * 100_000
    with pytest.raises(ExpressionError, match="max_expression_bytes"):
        parse(text)
    with (
        settings(max_expression_bytes=1 << 20, max_expression_nodes=1 << 20),
        pytest.raises(ExpressionError, match="max_expression_depth"),
    ):
        parse(text)


def test_the_limit_of_depth_can_be_raised() -> None:
    with settings(max_expression_depth=10_000, max_expression_nodes=20_000):
        assert parse("neg(" * 10_000 + "@0" + ")" * 10_000).depth == 10_000


def test_number_of_nodes_is_limited() -> None:
    assert len(parse(f"[{','.join('1' * 50)}]").children) == 50
    with settings(max_expression_nodes=50), pytest.raises(ExpressionError, match="max_expression_nodes is 50"):
        parse(f"[{','.join('1' * 50)}]")


def test_ten_megabytes() -> None:
    with pytest.raises(ExpressionError, match="max_expression_bytes"):
        parse("add(@0,1)" * 1_200_000)


_PIECES = [
    *FUNCTIONS,
    "(",
    ")",
    ",",
    "[",
    "]",
    "@0",
    "@1",
    "@",
    "1",
    "-2.5",
    "1e9",
    "None",
    "a",
    "",
    " ",
    "2.0e+00+1.0e+00j",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join) | st.text(max_size=20))
def test_random_texts_raise_our_errors_only(text: str) -> None:
    try:
        tree = parse(text)
    except ExpressionError as error:
        column = error.column
        tree = None
    if tree is None:
        assert column is not None
        assert 1 <= column <= len(text) + 1
        return
    assert parse(str(tree)) == tree
    with contextlib.suppress(KuiperError):
        evaluate(tree, [2, 3.0])


def test_damaged_parentheses_always_read_back() -> None:
    """Loses the parentheses of some functions in the way in which the converter does."""
    generator = random.Random(0)
    unary = ["sin", "expm1", "log1p", "neg"]

    def grow(depth: int) -> Expression:
        if depth == 0 or generator.random() < 0.2:
            return generator.choice([A, B, Literal(2), Literal(0.5)])
        if generator.random() < 0.5:
            return call(generator.choice(unary), grow(depth - 1))
        return call(generator.choice(["add", "mul", "logaddexp"]), grow(depth - 1), grow(depth - 1))

    def prefix(tree: Expression) -> list[str]:
        head = tree.function if isinstance(tree, Call) else str(tree)
        return [head, *(token for child in tree.children for token in prefix(child))]

    for _ in range(300):
        tree = grow(4)
        lost = set(generator.sample([*unary, "logaddexp"], 2))
        terms: list[str] = []
        for token in reversed(prefix(tree)):
            arity = FUNCTIONS[token].arity if token in FUNCTIONS and token not in lost else 0
            terms.append(
                f"{token}({','.join(terms.pop() for _ in range(arity))})" if arity and len(terms) >= arity else token
            )
        assert parse(",".join(reversed(terms))) == tree
