"""The text of a model: what loads, and every way in which it may be wrong, with the place of the error."""

from __future__ import annotations

import contextlib
import gc
import time

import pytest

from kuiperinfer import dtypes, pnnx
from kuiperinfer.errors import ModelFileError, ResourceLimitError
from kuiperinfer.pnnx import Graph
from kuiperinfer.settings import settings

from .models import INPUT, OUTPUT, RELU, around, text


def read(content: str | bytes) -> Graph:
    return pnnx.read(content.encode() if isinstance(content, str) else content, weights=False)


PLAIN = text(INPUT, RELU, OUTPUT)


# ------------------------------------------------------------------------------------------- what loads


def test_a_model() -> None:
    graph = read(
        text(
            "pnnx.Input               pnnx_input_0             0 1 0 #0=(1,?,3)f32",
            "nn.Conv2d                features.0               1 1 0 1 bias=True stride=(2,2) "
            "@weight=(4,3,1,1)f16 $input=0 #0=(1,?,3)f32",
            "torch.where              torch.where_0            3 2 1 1 0 a.1 b $self=1 $condition=1 #b=(2)null",
            OUTPUT,
        )
    )
    conv, where = graph.operators[1:3]
    assert [operator.type for operator in graph.operators] == ["pnnx.Input", "nn.Conv2d", "torch.where", "pnnx.Output"]
    assert [operator.line for operator in graph.operators] == [3, 4, 5, 6]
    assert list(graph.operands) == ["0", "1", "a.1", "b"]
    assert graph.file is None
    assert {key: parameter.value for key, parameter in conv.params.items()} == {"bias": True, "stride": (2, 2)}
    assert conv.attributes["weight"].shape == (4, 3, 1, 1)
    assert conv.attributes["weight"].dtype is dtypes.f16
    assert conv.attributes["weight"].data is None
    assert where.inputs == [graph.operands["1"], graph.operands["1"], graph.operands["0"]]
    assert where.input_names == ["self", "condition", None]
    assert where.outputs == [graph.operands["a.1"], graph.operands["b"]]
    zero, one = graph.operands["0"], graph.operands["1"]
    assert (zero.shape, zero.dtype) == ((1, None, 3), dtypes.f32)
    assert (one.shape, one.dtype) == (None, None)
    assert (graph.operands["b"].shape, graph.operands["b"].dtype) == ((2,), None)
    assert one.producer is conv
    assert one.consumers == [where, where, graph.operators[3]]
    assert graph.operators_of_type("pnnx.Input", "pnnx.Output") == [graph.operators[0], graph.operators[3]]


HARMLESS = {
    "byte order mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "CRLF": PLAIN.replace("\n", "\r\n").encode(),
    "some CRLF": PLAIN.replace("\n", "\r\n", 2).encode(),
    "tabs": PLAIN.replace(" ", "\t").encode(),
    "trailing blanks": PLAIN.replace("\n", " \t \n").encode(),
    "trailing blanks and CRLF": PLAIN.replace("\n", " \r\n").encode(),
    "leading blanks": PLAIN.replace("\n", "\n  ").encode(),
    "no final newline": PLAIN.rstrip("\n").encode(),
    "no final newline, but a carriage return": PLAIN.rstrip("\n").encode() + b"\r",
    "blank lines at the end": PLAIN.encode() + b"\n \r\n\n",
    "single blanks": " ".join(PLAIN.replace("\n", " \n ").split(" ")).encode(),
}


@pytest.mark.parametrize("content", HARMLESS.values(), ids=HARMLESS.keys())
def test_harmless_differences(content: bytes) -> None:
    assert pnnx.to_text(read(content)) == PLAIN


def test_text_that_is_not_ascii() -> None:
    graph = read(around("F.relu réseau.x\u00a0y\u2003z 1 1 0 1 π=名前\x85x"))
    assert graph.operators[1].name == "réseau.x\u00a0y\u2003z"  # only ASCII has blanks
    assert graph.operators[1].params["π"].value == "名前\x85x"
    assert read(pnnx.to_text(graph)).operators[1].params == graph.operators[1].params


@pytest.mark.parametrize(
    ("tail", "params"),
    [
        ("a=", {"a": ""}),
        ("a==", {"a": "="}),
        ("expr=a=b,c", {"expr": "a=b,c"}),
        ("0=1", {"0": 1}),
        ("a@#$=1", {"a@#$": 1}),
        ("b=1 a=2", {"b": 1, "a": 2}),
        ("#1=(2)f32 b=(1) @w=(1)f32 a=2 $input=0", {"b": (1,), "a": 2}),
    ],
)
def test_parameters(tail: str, params: dict[str, object]) -> None:
    found = read(around(f"{RELU} {tail}")).operators[1].params
    assert {key: parameter.value for key, parameter in found.items()} == params


@pytest.mark.parametrize(
    ("annotation", "shape", "dtype"),
    [
        ("(1,3,?,?)f32", (1, 3, None, None), dtypes.f32),
        ("(0)i64", (0,), dtypes.i64),
        ("(2147483647)bool", (2147483647,), dtypes.bool_),
        ("(2,3)null", (2, 3), None),
        ("()f32", (), dtypes.f32),
        ("(1,1,1,1,1,1,1,1)c32", (1,) * 8, dtypes.c32),
        *((f"(1){dtype.name}", (1,), dtype) for dtype in dtypes.ALL),
    ],
)
def test_annotations(annotation: str, shape: tuple[int | None, ...], dtype: object) -> None:
    operand = read(around(f"{RELU} #1={annotation}")).operands["1"]
    assert operand.shape == shape
    assert operand.dtype is dtype


def test_names_of_inputs_go_to_the_next_input_of_that_operand() -> None:
    line = "F.attention a 4 1 0 0 9 0 1 $query=0 $mask=9 $key=0 $value=0"
    graph = read(text(INPUT, "pnnx.Input mask 0 1 9", line, OUTPUT, operands=3))
    assert graph.operators[2].input_names == ["query", "key", "mask", "value"]


def test_a_model_without_inputs() -> None:
    assert len(read(text("pnnx.Expression e 0 1 1 expr=2", OUTPUT)).operators) == 2


def test_several_inputs_and_outputs() -> None:
    graph = read(text(INPUT, "pnnx.Input b 0 1 1", "pnnx.Output o1 1 0 1", "pnnx.Output o0 1 0 0"))
    assert [operator.inputs[0].name for operator in graph.operators_of_type("pnnx.Output")] == ["1", "0"]


# ------------------------------------------------------------------------------------------- what is refused

NCNN = """7767517
3 3
Input            data             0 1 data 0=227 1=227 2=3
Convolution      conv1            1 1 data conv1 0=64 1=3
Softmax          prob             1 1 conv1 prob 0=0
"""

UNDEFINED = "operand '9' is not the output of any operator"

REFUSED: dict[str, tuple[str | bytes, str]] = {
    # the file as a whole
    "empty": ("", "<param>: the file is empty; expected a PNNX model"),
    "blank": (" \r\n\n", "<param>: the file is empty"),
    "only magic": (
        "7767517\n",
        "<param>: the file ends after its first line; expected the numbers of operators and operands",
    ),
    "wrong magic": (PLAIN.replace("7767517", "7767518"), "<param>:1:1: found '7767518', expected 7767517"),
    "something after the magic": ("7767517 1\n1 1\n", "<param>:1:1: found '7767517 1', expected 7767517"),
    "no magic": (PLAIN.partition("\n")[2], "<param>:1:1: found '3 2', expected 7767517"),
    "long first line": ("x" * 1000, f"<param>:1:1: found '{'x' * 40}', expected 7767517"),
    "blank first line": ("\n" + PLAIN, "<param>:1:1: found '', expected 7767517"),
    "ncnn": (NCNN, "<param>:3:1: this is an ncnn model (its first operator is 'Input'); expected a .pnnx.param"),
    "zip": (
        b"PK\x03\x04" + bytes(100),
        "<param>: this is a zip archive, perhaps the .bin; expected the text of a model",
    ),
    # encodings
    "UTF-16": (PLAIN.encode("utf-16"), "<param>: this is UTF-16 text; expected UTF-8"),
    "UTF-16, big end first": (b"\xfe\xff" + PLAIN.encode("utf-16-be"), "<param>: this is UTF-16 text"),
    "UTF-16 without mark": (PLAIN.encode("utf-16-le"), "<param>:1:2: a NUL byte (b'\\x00'); expected plain UTF-8 text"),
    "NUL": (PLAIN.encode().replace(b"F.relu_0", b"F.relu\x000"), "<param>:4:32: a NUL byte"),
    "control character": (PLAIN.replace("F.relu_0", "F.relu\x1b0"), "<param>:4:32: a control character (b'\\x1b')"),
    "vertical tab": (PLAIN.replace("F.relu_0", "F.relu\v0"), "<param>:4:32: a control character (b'\\x0b')"),
    "CR": (PLAIN.replace("\n", "\r"), "<param>:1:8: a carriage return within a line (b'\\r')"),
    "CR in a line": (PLAIN.replace(" 0 1\n", " 0\r1\n"), "<param>:4:56: a carriage return within a line"),
    "invalid UTF-8": (PLAIN.replace("relu_0", "rélu_0").encode("latin-1"), "<param>:4:29: byte 0xe9 is not UTF-8 text"),
    "UTF-8 cut off": (
        PLAIN.encode().rstrip() + b"\xc3",
        "<param>:5:56: byte 0xc3 is not UTF-8 text (unexpected end of data)",
    ),
    # counts
    "one count": ("7767517\n3\n", "<param>:2:1: 1 words; expected the number of operators and the number of operands"),
    "three counts": ("7767517\n3 2 1\n", "<param>:2:1: 3 words; expected"),
    "blank counts": (PLAIN.replace("3 2\n", "\n"), "<param>:2:1: 0 words; expected"),
    "counts that are words": (
        text(INPUT, RELU, OUTPUT, operators="three"),
        "<param>:2:1: found 'three', expected a count",
    ),
    "counts with a point": (text(INPUT, RELU, OUTPUT, operands="2.0"), "<param>:2:3: found '2.0', expected a count"),
    "counts with an underscore": (
        text(INPUT, RELU, OUTPUT, operators="0_3"),
        "<param>:2:1: found '0_3', expected a count",
    ),
    "counts in other digits": (text(INPUT, RELU, OUTPUT, operators="٣"), "<param>:2:1: found '٣', expected a count"),
    "negative count": (text(INPUT, RELU, OUTPUT, operators=-3), "<param>:2:1: found '-3', expected a count"),
    "negative operands": (text(INPUT, RELU, OUTPUT, operands=-2), "<param>:2:3: found '-2', expected a count"),
    "counts with leading zeros": (
        text(INPUT, RELU, OUTPUT, operators="03"),
        "<param>:2:1: found '03', expected a count",
    ),
    "too many digits": (text(INPUT, RELU, OUTPUT, operands="9" * 5000), "<param>:2:3: found '99999"),
    "fewer lines": (
        text(INPUT, RELU, OUTPUT, operators=4),
        "<param>:2:1: 4 operators are declared, but 3 lines follow; is the file cut off?",
    ),
    "more lines": (
        text(INPUT, RELU, OUTPUT, operators=2),
        "<param>:5:1: 2 operators are declared, but 3 lines follow; this is one too many",
    ),
    "no lines": ("7767517\n3 2\n", "<param>:2:1: 3 operators are declared, but 0 lines follow"),
    "fewer operands": (
        text(INPUT, RELU, OUTPUT, operands=3),
        "<param>:2:3: 3 operands are declared, but the operators have 2 outputs",
    ),
    "more operands": (
        text(INPUT, RELU, OUTPUT, operands=1),
        "<param>:2:3: 1 operands are declared, but the operators have 2 outputs",
    ),
    "huge operand count": (
        text(INPUT, RELU, OUTPUT, operands=10**17),
        "<param>:2:3: 100,000,000,000,000,000 operands are declared",
    ),
    # lines
    "blank line": (text(INPUT, "", RELU, OUTPUT, operators=4), "<param>:4:1: an empty line; expected an operator"),
    "one word": (
        around("F.relu"),
        "<param>:4:1: 1 words; expected an operator: type, name, number of inputs, number of outputs",
    ),
    "three words": (around("F.relu F.relu_0 1"), "<param>:4:1: 3 words; expected an operator"),
    "input count": (around("F.relu F.relu_0 x 1 0 1"), "<param>:4:17: found 'x', expected a count"),
    "name with a blank": (
        around("F.relu my relu 1 1 0 1"),
        "<param>:4:11: found 'relu', expected a count; the format cannot hold a name with a blank",
    ),
    "output count": (around("F.relu F.relu_0 1 one 0 1"), "<param>:4:19: found 'one', expected a count"),
    "negative input count": (around("F.relu F.relu_0 -1 1 0 1"), "<param>:4:17: found '-1', expected a count"),
    "inputs beyond the line": (
        around("F.relu F.relu_0 5 1 0 1"),
        "<param>:4:17: 6 operands are declared, but 2 words follow",
    ),
    "outputs beyond the line": (
        around("F.relu F.relu_0 1 2 0 1"),
        "<param>:4:17: 3 operands are declared, but 2 words follow",
    ),
    "huge count": (
        around("F.relu F.relu_0 1000000000000000000 1 0 1"),
        "<param>:4:17: found '1000000000000000000', expected a count",
    ),
    "large count": (
        around("F.relu F.relu_0 100000000000000000 1 0 1"),
        "<param>:4:17: 100,000,000,000,000,001 operands are declared, but 2 words follow",
    ),
    "a parameter as an input": (
        around("F.relu F.relu_0 2 1 0 a=1 1"),
        "<param>:4:23: operand 'a=1' is not the output of any operator",
    ),
    "a parameter as an output": (
        around("F.relu F.relu_0 1 2 0 1 a=1"),
        "<param>:4:25: found 'a=1', expected an output; is the count wrong?",
    ),
    "an annotation as an output": (
        around("F.relu F.relu_0 1 2 0 1 #1"),
        "<param>:4:25: found '#1', expected an output",
    ),
    # operands
    "never defined": (around("F.relu F.relu_0 1 1 9 1"), f"<param>:4:21: {UNDEFINED}"),
    "defined later": (
        text(INPUT, "F.relu a 1 1 2 1", "F.relu b 1 1 0 2", OUTPUT),
        "<param>:4:14: operand '2' comes from line 5; expected operators in the order in which they can run",
    ),
    "own output": (
        around("F.relu F.relu_0 1 1 1 1"),
        "<param>:4:21: operand '1' comes from line 4, which depends on this operator: the graph has a cycle",
    ),
    "cycle": (
        text(INPUT, "F.relu a 1 1 3 1", "F.relu b 1 1 1 2", "F.relu c 1 1 2 3", OUTPUT),
        "<param>:4:14: operand '3' comes from line 6, which depends on this operator: the graph has a cycle",
    ),
    "defined twice": (
        text(INPUT, RELU, "F.relu b 1 1 0 1", OUTPUT, operands=2),
        "<param>:5:16: operand '1' is an output of 'F.relu_0' in line 4 already",
    ),
    "defined twice by one": (
        around("torch.max m 1 2 0 1 1"),
        "<param>:4:21: operand '1' is an output of 'm' in line 4 already",
    ),
    "defined as its input": (
        around("F.relu F.relu_0 1 1 0 0"),
        "<param>:4:23: operand '0' is an output of 'pnnx_input_0' in line 3 already",
    ),
    # operators
    "name twice": (
        text(INPUT, RELU, "F.silu F.relu_0 1 1 1 2", "pnnx.Output o 1 0 2"),
        "<param>:5:8: an operator is called 'F.relu_0' already, in line 4",
    ),
    "input twice": (
        text(INPUT, "pnnx.Input pnnx_input_0 0 1 1", OUTPUT),
        "<param>:4:12: an operator is called 'pnnx_input_0' already, in line 3",
    ),
    "no output": (text(INPUT, RELU), "<param>: the model has no output; expected at least one operator pnnx.Output"),
    "no operators": ("7767517\n0 0\n", "<param>: the model has no output"),
    "output with two operands": (
        text(INPUT, RELU, "pnnx.Output o 2 0 0 1"),
        "<param>:5:15: pnnx.Output has 2 inputs and 0 outputs; expected 1 and 0",
    ),
    "output without operands": (
        text(INPUT, RELU, "pnnx.Output o 0 0"),
        "<param>:5:15: pnnx.Output has 0 inputs and 0 outputs",
    ),
    "output with outputs": (
        text(INPUT, RELU, "pnnx.Output o 1 1 1 2"),
        "<param>:5:15: pnnx.Output has 1 inputs and 1 outputs",
    ),
    "input with inputs": (
        text(INPUT, "pnnx.Input i 1 1 0 1", OUTPUT),
        "<param>:4:14: pnnx.Input has 1 inputs and 1 outputs; expected 0 and 1",
    ),
    "input with two outputs": (
        text("pnnx.Input i 0 2 0 1", OUTPUT),
        "<param>:3:14: pnnx.Input has 0 inputs and 2 outputs",
    ),
    # keys
    "no =": (
        around(f"{RELU} inplace"),
        "<param>:4:59: found 'inplace', expected key=value; the format cannot hold a value with a blank",
    ),
    "value with a blank": (around(f"{RELU} mode=a b"), "<param>:4:66: found 'b', expected key=value"),
    "no key": (around(f"{RELU} =1"), "<param>:4:59: '=1' has an empty key"),
    "only =": (around(f"{RELU} ="), "<param>:4:59: '=' has an empty key"),
    "@ alone": (around(f"{RELU} @=(1)f32"), "<param>:4:59: '@=(1)f32' has an empty key"),
    "$ alone": (around(f"{RELU} $=0"), "<param>:4:59: '$=0' has an empty key"),
    "# alone": (around(f"{RELU} #=(1)f32"), "<param>:4:59: '#' is neither an input nor an output of this operator"),
    "@ without =": (around(f"{RELU} @weight"), "<param>:4:59: found '@weight', expected key=value"),
    "key twice": (around(f"{RELU} a=1 b=2 a=1"), "<param>:4:67: the key 'a' is there twice"),
    "weight twice": (around(f"{RELU} @w=(1)f32 @w=(1)f32"), "<param>:4:69: the key '@w' is there twice"),
    "input name twice": (around("torch.add a 2 1 0 0 1 $x=0 $x=0"), "<param>:4:28: the key '$x' is there twice"),
    "name of no input": (around(f"{RELU} $input=9"), "<param>:4:59: '$input=9': '9' is no input of this operator"),
    "name of an output": (around(f"{RELU} $input=1"), "<param>:4:59: '$input=1': '1' is no input of this operator"),
    "name of nothing": (around(f"{RELU} $input="), "<param>:4:59: '$input=': '' is no input of this operator"),
    "more names than inputs": (
        around(f"{RELU} $input=0 $other=0"),
        "<param>:4:68: '$other=0': all inputs that are '0' have a name already",
    ),
    "two weights of one name": (
        text(INPUT, "nn.A a 1 1 0 1 @b.c=(1)f32", "nn.B a.b 1 1 1 2 @c=(1)f32", "pnnx.Output o 1 0 2"),
        "<param>:5:18: a weight is called 'a.b.c' already, in line 4",
    ),
    # annotations
    "annotation of another": (
        text(INPUT, RELU, "F.relu b 1 1 1 2 #0=(1)f32", "pnnx.Output o 1 0 2"),
        "<param>:5:18: '#0' is neither an input nor an output of this operator",
    ),
    "annotation of nothing": (around(f"{RELU} #9=(1)f32"), "<param>:4:59: '#9' is neither an input nor an output"),
    "two sizes": (
        text(INPUT + " #0=(1,3)f32", RELU + " #0=(1,4)f32", OUTPUT),
        "<param>:4:59: operand '0' is annotated (1,4)f32 here, but (1,3)f32 before",
    ),
    "two ranks": (
        text(INPUT + " #0=(3)f32", RELU + " #0=(1,3)f32", OUTPUT),
        "operand '0' is annotated (1,3)f32 here, but (3)f32 before",
    ),
    "two dtypes": (
        text(INPUT + " #0=(3)f32", RELU + " #0=(3)f16", OUTPUT),
        "operand '0' is annotated (3)f16 here, but (3)f32 before",
    ),
    "known and unknown size": (
        text(INPUT + " #0=(?)f32", RELU + " #0=(3)f32", OUTPUT),
        "operand '0' is annotated (3)f32 here, but (?)f32 before",
    ),
    "contradiction in a line": (
        around(f"{RELU} #1=(1)f32 #1=(2)f32"),
        "<param>:4:69: operand '1' is annotated (2)f32 here",
    ),
    "symbol": (
        around(f"{RELU} #1=(1,%c)f32"),
        "<param>:4:59: dimension '%c' is symbolic, as in the converter's pattern files; expected a size or ?",
    ),
    "negative": (
        around(f"{RELU} #1=(-1,3)f32"),
        "<param>:4:59: dimension '-1' is no size; expected a number of 0 or more, or ?",
    ),
    "-233": (around(f"{RELU} #1=(-233)f32"), "<param>:4:59: dimension '-233' is no size"),
    "empty dimension": (around(f"{RELU} #1=(1,,3)f32"), "<param>:4:59: dimension '' is no size"),
    "trailing comma": (around(f"{RELU} #1=(1,)f32"), "<param>:4:59: dimension '' is no size"),
    "fraction": (around(f"{RELU} #1=(1.5)f32"), "<param>:4:59: dimension '1.5' is no size"),
    "leading zero": (around(f"{RELU} #1=(07)f32"), "<param>:4:59: dimension '07' is no size"),
    "other digits": (around(f"{RELU} #1=(²)f32"), "<param>:4:59: dimension '²' is no size"),
    "2^31": (
        around(f"{RELU} #1=(2147483648)f32"),
        "<param>:4:59: dimension 2147483648 is too large; expected at most 2,147,483,647",
    ),
    "2^63": (around(f"{RELU} #1=(9223372036854775808)f32"), "dimension 9223372036854775808 is too large"),
    "10 000 digits": (around(f"{RELU} #1=({'9' * 10_000})f32"), "is too large"),
    "no dtype": (around(f"{RELU} #1=(1)"), "<param>:4:59: unknown dtype ''; expected one of f32, f64"),
    "unknown dtype": (
        around(f"{RELU} #1=(1)f8"),
        "<param>:4:59: unknown dtype 'f8'; expected one of f32, f64, f16, i32, i64, i16, i8, u8, bool, c64, c128, ",
    ),
    "upper-case dtype": (around(f"{RELU} #1=(1)F32"), "unknown dtype 'F32'"),
    "torch's dtype": (around(f"{RELU} #1=(1)torch.float"), "unknown dtype 'torch.float'"),
    "no brackets": (
        around(f"{RELU} #1=1,3"),
        "<param>:4:59: '1,3' is no shape with a dtype; expected one like (1,3,?)f32",
    ),
    "nested brackets": (around(f"{RELU} #1=((1))f32"), "'((1))f32' is no shape with a dtype"),
    "no annotation": (around(f"{RELU} #1="), "'' is no shape with a dtype"),
    # weights
    "weight of unknown size": (
        around(f"{RELU} @w=(?)f32"),
        "<param>:4:59: weight 'w' has the shape (?)f32; expected sizes alone, without ?",
    ),
    "weight of negative size": (around(f"{RELU} @w=(-2)f32"), "<param>:4:59: dimension '-2' is no size"),
    "weight without a shape": (around(f"{RELU} @w="), "<param>:4:59: '' is no shape with a dtype"),
    "weight of a pattern": (around(f"{RELU} @w=%op.data"), "<param>:4:59: '%op.data' is no shape with a dtype"),
    # values
    "list that never ends": (
        around(f"{RELU} a=(1,2"),
        "<param>:4:59: '(1,2': expected a list, but '(' is never closed",
    ),
    "large float": (around(f"{RELU} b=1 a=1e400"), "<param>:4:63: the number 1e400 is out of range"),
    "10 000-digit integer": (
        around(f"{RELU} a={'9' * 10_000}"),
        "<param>:4:59: a number of 10000 characters; expected at most 640",
    ),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(content: str | bytes, message: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        read(content)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300
    place = str(caught.value).split(" ")[0]
    assert place == ":".join(str(part) for part in ("<param>", caught.value.line, caught.value.column) if part) + ":"


LIMITS: dict[str, tuple[str, dict[str, int], str]] = {
    "declared operators": (
        PLAIN.replace("3 2", "1000001 2"),
        {},
        "<param>:2:1: 1,000,001 operators are declared; settings.max_operators is 1,000,000",
    ),
    "10^17 operators": (
        PLAIN.replace("3 2", "1" + "0" * 17 + " 2"),
        {},
        "<param>:2:1: 100,000,000,000,000,000 operators are declared",
    ),
    "operators": (PLAIN, {"max_operators": 2}, "<param>: 5 lines of text; settings.max_operators is 2"),
    "bytes": (
        PLAIN,
        {"max_param_bytes": 100},
        "<param>: has more than 100 bytes, the limit that settings.max_param_bytes sets",
    ),
    "line": (PLAIN, {"max_line_bytes": 50}, "<param>:3: a line of 55 bytes; settings.max_line_bytes is 50"),
    "operands": (
        around("torch.cat c 4 1 0 0 0 0 1"),
        {"max_operator_operands": 4},
        "<param>:4: an operator with 5 operands; settings.max_operator_operands is 4",
    ),
    "rank": (around(f"{RELU} #1=(1,1,1,1,1,1,1,1,1)f32"), {}, "<param>:4:59: 9 dimensions; settings.max_rank is 8"),
    "elements": (
        around(f"{RELU} @w=(65536,65536,65536,65536)f32"),
        {},
        "<param>:4:59: '(65536,65536,65536,65536)f32' has more elements than settings.max_elements",
    ),
    "elements besides a 0": (around(f"{RELU} @w=(2147483647,0,2147483647)f32"), {}, "has more elements than"),
    "annotated elements": (
        around(f"{RELU} #1=(1048576,1048577,?)f32"),
        {},
        "has more elements than settings.max_elements=1,099,511,627,776",
    ),
}


@pytest.mark.parametrize(("content", "limits", "message"), LIMITS.values(), ids=LIMITS.keys())
def test_limits(content: str, limits: dict[str, int], message: str) -> None:
    with settings(**limits), pytest.raises(ResourceLimitError) as caught:
        read(content)
    assert str(caught.value).startswith(message) or message in str(caught.value)


# ------------------------------------------------------------------------------------------- large ones, in bounded time


def seconds_to_read(content: str) -> float:
    begin = time.process_time()
    read(content)
    return time.process_time() - begin


def test_many_operators() -> None:
    count = 100_000
    lines = [f"F.relu relu_{n} 1 1 {n} {n + 1} #{n}=(1,3)f32 #{n + 1}=(1,3)f32" for n in range(count)]
    assert seconds_to_read(text(INPUT, *lines, f"pnnx.Output o 1 0 {count}", operands=count + 1)) < 10


def test_many_inputs() -> None:
    count = 60_000
    inputs, tail = " ".join(["0"] * count), " ".join(f"$k{n}=0" for n in range(count))
    assert seconds_to_read(around(f"torch.cat c {count} 1 {inputs} 1 {tail}")) < 10
    outputs = " ".join(f"o{n}" for n in range(count))
    annotations = " ".join(f"#o{n}=(1)f32" for n in range(count))
    lines = (INPUT, f"torch.chunk c 1 {count} 0 {outputs} {annotations}", "pnnx.Output o 1 0 o1")
    with settings(max_line_bytes=1 << 22):
        assert seconds_to_read(text(*lines, operands=count + 1)) < 10


def test_a_million_inputs_are_too_many() -> None:
    cat = around(f"torch.cat c 1000000 1 {'0 ' * 1_000_000}1")
    with pytest.raises(ResourceLimitError, match=r"<param>:4: a line of 2,000,0.. bytes; settings.max_line_bytes"):
        read(cat)
    with settings(max_line_bytes=1 << 22), pytest.raises(ResourceLimitError, match=r"settings.max_operator_operands"):
        read(cat)


def test_reading_leaves_the_cycle_collector_as_it_was() -> None:
    for content in (PLAIN, "nonsense"):
        with contextlib.suppress(ModelFileError):
            read(content)
        assert gc.isenabled()
    gc.disable()
    try:
        read(PLAIN)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("filler", ["\n", " ", "x", "\r\n", "x\n", "("])
def test_large_rubbish(filler: str) -> None:
    begin = time.process_time()
    with pytest.raises((ModelFileError, ResourceLimitError)):
        read(around(f"{RELU} a=" + filler * ((8 << 20) // len(filler))))
    assert time.process_time() - begin < 5


def test_the_reason_of_an_undefined_operand_is_found_in_bounded_time() -> None:
    count = 50_000
    lines = [f"F.relu relu_{n} 1 1 {n + 1} {n}" for n in range(1, count)]  # from last to first
    begin = time.process_time()
    with pytest.raises(
        ModelFileError, match="<param>:4:19: operand '2' comes from line 5; expected operators in the order"
    ):
        read(text(INPUT, *lines, f"F.relu x 1 1 0 {count}", OUTPUT, operands=count + 1))
    assert time.process_time() - begin < 10
