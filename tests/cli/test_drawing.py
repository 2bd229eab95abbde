"""Pictures of graphs: places that do not overlap, edges that run downwards, and valid SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.cli.drawing import dot_text, svg_text
from kuiperinfer.cli.layout import lay_out
from kuiperinfer.graph import RuntimeGraph
from tests.small_models import TWO_WAYS, UNKNOWN, write_model


def test_a_chain_is_a_straight_line() -> None:
    layout = lay_out([40.0, 80.0, 40.0], [(0, 1), (1, 2)])
    assert layout.layer == [0, 1, 2]
    assert layout.x == pytest.approx([40.0, 40.0, 40.0])
    assert layout.width == pytest.approx(80.0)


def test_a_skipping_edge_runs_around_what_it_skips() -> None:
    layout = lay_out([40.0] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert [len(bends) for bends in layout.bends] == [0, 0, 0, 2]
    for layer, bend in zip((1, 2), layout.bends[3], strict=True):
        assert abs(bend - layout.x[layer]) >= 20.0


def test_constants_stand_just_above_their_use() -> None:
    layout = lay_out([40.0] * 5, [(0, 1), (1, 2), (3, 4), (2, 4)])
    assert layout.layer == [0, 1, 2, 2, 3]


def test_nothing_to_draw() -> None:
    layout = lay_out([], [])
    assert (layout.width, layout.layers) == (0.0, 0)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, int]]]:
    widths = draw(st.lists(st.floats(10, 200), min_size=1, max_size=20))
    nodes = st.integers(0, len(widths) - 1)
    pairs = draw(st.lists(st.tuples(nodes, nodes), max_size=40))
    return widths, [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]


@given(graphs())
def test_edges_run_downwards_and_nothing_overlaps(graph: tuple[list[float], list[tuple[int, int]]]) -> None:
    widths, edges = graph
    layout = lay_out(widths, edges)
    rows: dict[int, list[tuple[float, float]]] = {}
    for x, layer, width in zip(layout.x, layout.layer, widths, strict=True):
        rows.setdefault(layer, []).append((x - width / 2, x + width / 2))
    for (source, target), bends in zip(edges, layout.bends, strict=True):
        assert layout.layer[source] < layout.layer[target]
        assert len(bends) == layout.layer[target] - layout.layer[source] - 1
        for step, x in enumerate(bends, start=1):
            rows.setdefault(layout.layer[source] + step, []).append((x, x))
    for spans in rows.values():
        spans.sort()
        assert spans[0][0] >= -1e-6
        assert spans[-1][1] <= layout.width + 1e-6
        for (_, end), (start, _) in pairwise(spans):
            assert start >= end - 1e-6


def read_graph(folder: Path, text: str) -> RuntimeGraph:
    graph = RuntimeGraph(write_model(folder, text))
    graph.init()
    return graph


@pytest.mark.parametrize("text", [TWO_WAYS, UNKNOWN])
@pytest.mark.parametrize("name", ["plain", "<&\"'\x01>"])
def test_svg_is_valid_and_has_everything(tmp_path: Path, text: str, name: str) -> None:
    graph = read_graph(tmp_path, text)
    graph.operators[2].name = name
    root = ElementTree.fromstring(svg_text(graph.operators))
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text or "" for title in root.iter(f"{space}title")]
    assert len(titles) == len(graph.operators)
    assert all(operator.type in title for operator, title in zip(graph.operators, titles, strict=True))
    paths = [path for path in root.findall(f"{space}path") if path.get("marker-end")]
    assert len(paths) == sum(len(operator.input_operands_seq) for operator in graph.operators)


def test_dot(tmp_path: Path) -> None:
    graph = read_graph(tmp_path, TWO_WAYS)
    graph.operators[4].name = 'a"b\\'
    text = dot_text(graph.operators)
    assert text.startswith("digraph model {")
    assert 'label="prim::TupleConstruct\\na\\"b\\\\"' in text
    assert 'n0 -> n2 [label="(3)f32"]' in text
    assert text.count(" -> ") == 7
