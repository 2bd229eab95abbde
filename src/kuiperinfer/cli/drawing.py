"""A model's graph as a picture: SVG, drawn here, and the text of Graphviz' dot for those who want another look."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from .layout import lay_out

if TYPE_CHECKING:
    from ..graph import RuntimeOperand, RuntimeOperator

# The first word that an operator's type contains decides its colour; light fill, dark outline.
_COLOURS = (
    (("pnnx.Input", "pnnx.Output"), ("#e8e8ee", "#55556a")),
    (("pnnx.Attribute",), ("#fdf3d0", "#b08a1e")),
    (
        ("conv", "linear", "matmul", ".mm", "bmm", "addmm", "attention", "lstm", "gru", "rnn", "embedding"),
        ("#dbe9fb", "#2f6db5"),
    ),
    (("relu", "silu", "sigmoid", "tanh", "gelu", "swish", "elu", "softmax", "mish"), ("#ddf3e0", "#3a8a4c")),
    (("pool", "upsample", "interpolate", "pad"), ("#fbe5d6", "#c0662b")),
    (("norm",), ("#efe2f8", "#7d4aa8")),
    (("pnnx.Expression",), ("#fde3ea", "#b8416a")),
)
_OTHER_COLOUR = ("#f3f3f3", "#808080")

_LINE_HEIGHT = 15
_BOX_HEIGHT = 42
_LAYER_HEIGHT = 86
_MARGIN = 20
_CHARACTER_WIDTH = 6.7


def colours_of(kind: str) -> tuple[str, str]:
    """Fill and outline of an operator type."""
    for words, colours in _COLOURS:
        if any(word.lower() in kind.lower() for word in words):
            return colours
    return _OTHER_COLOUR


def edges_of(operators: Sequence[RuntimeOperator]) -> list[tuple[int, int, RuntimeOperand]]:
    """Producer, consumer (as indices) and operand of every edge; an operand used twice has two."""
    index = {id(operator): number for number, operator in enumerate(operators)}
    return [
        (index[id(operand.producer)], index[id(operator)], operand)
        for operator in operators
        for operand in operator.input_operands_seq
    ]


def _shape(operand: RuntimeOperand) -> str:
    from ..graph.text import shape_text

    return shape_text(operand.shape, operand.dtype)


def dot_text(operators: Sequence[RuntimeOperator]) -> str:
    """The graph in Graphviz' language."""
    lines = [
        "digraph model {",
        '    node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11]',
        '    edge [fontname="Helvetica", fontsize=9, color="#707070"]',
    ]
    for number, operator in enumerate(operators):
        fill, outline = colours_of(operator.type)
        label = f"{_dot_escaped(operator.type)}\\n{_dot_escaped(operator.name)}"
        lines.append(f'    n{number} [label="{label}", fillcolor="{fill}", color="{outline}"]')
    for source, target, operand in edges_of(operators):
        lines.append(f'    n{source} -> n{target} [label="{_dot_escaped(_shape(operand))}"]')
    return "\n".join([*lines, "}"])


def _dot_escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def svg_text(operators: Sequence[RuntimeOperator]) -> str:
    """The graph as a stand-alone SVG picture; pointing at a box shows the operator's whole line of the printed graph."""
    from ..graph.text import operator_text

    edges = edges_of(operators)
    captions = [_caption(operator) for operator in operators]
    widths = [
        max(len(operator.type), len(caption)) * _CHARACTER_WIDTH + 24
        for operator, caption in zip(operators, captions, strict=True)
    ]
    layout = lay_out(widths, [(source, target) for source, target, _ in edges])
    width = layout.width + 2 * _MARGIN + 90  # room for the shape beside the rightmost edge
    height = layout.layers * _LAYER_HEIGHT - (_LAYER_HEIGHT - _BOX_HEIGHT) + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#707070"/></marker></defs>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for (source, target, _), bends in zip(edges, layout.bends, strict=True):
        parts.append(_edge([layout.x[source], *bends, layout.x[target]], layout.layer[source], layout.layer[target]))
    for number, operator in enumerate(operators):
        for line, operand in enumerate(operator.output_operands):
            x, y = layout.x[number] + _MARGIN + 6, _top(layout.layer[number]) + _BOX_HEIGHT + 11 + 10 * line
            parts.append(
                f'<text x="{x:.1f}" y="{y:.1f}" font-size="9" fill="#707070" stroke="white" stroke-width="3" '
                f'paint-order="stroke">{escape(_shape(operand))}</text>'
            )
    for number, operator in enumerate(operators):
        x, y = layout.x[number] - widths[number] / 2 + _MARGIN, _top(layout.layer[number])
        fill, outline = colours_of(operator.type)
        middle = layout.x[number] + _MARGIN
        kind, caption = (
            escape(without_control_characters(operator.type)),
            escape(without_control_characters(captions[number])),
        )
        parts.append(
            f"<g><title>{escape(without_control_characters(operator_text(operator)))}</title>"
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{widths[number]:.1f}" height="{_BOX_HEIGHT}" rx="6" '
            f'fill="{fill}" stroke="{outline}"/>'
            f'<text x="{middle:.1f}" y="{y + 18:.1f}" text-anchor="middle" font-weight="bold">{kind}</text>'
            f'<text x="{middle:.1f}" y="{y + 18 + _LINE_HEIGHT:.1f}" text-anchor="middle" fill="#505050">{caption}</text></g>'
        )
    return "\n".join([*parts, "</svg>"])


def _top(layer: int) -> float:
    return float(layer * _LAYER_HEIGHT + _MARGIN)


def _edge(xs: Sequence[float], first: int, last: int) -> str:
    """A smooth line from the bottom of a box in layer `first` to the top of one in layer `last`, through the bends between."""
    x, y = xs[0] + _MARGIN, _top(first) + _BOX_HEIGHT
    path = [f"M{x:.1f},{y:.1f}"]
    for step, layer in enumerate(range(first + 1, last + 1), start=1):
        next_x, next_y = xs[step] + _MARGIN, _top(layer)
        bend = (next_y - y) / 2
        path.append(f"C{x:.1f},{y + bend:.1f} {next_x:.1f},{next_y - bend:.1f} {next_x:.1f},{next_y:.1f}")
        x, y = next_x, next_y
        if layer < last:
            y += _BOX_HEIGHT
            path.append(f"L{x:.1f},{y:.1f}")
    return f'<path d="{" ".join(path)}" fill="none" stroke="#707070" marker-end="url(#arrow)"/>'


def _caption(operator: RuntimeOperator) -> str:
    """What stands below an operator's type: the formula of an expression, the name of all else."""
    formula = operator.params.get("expr") if operator.type == "pnnx.Expression" else None
    text = str(formula.text) if formula else operator.name
    return text if len(text) <= 32 else f"{text[:14]}…{text[-17:]}"


def without_control_characters(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
