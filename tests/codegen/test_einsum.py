"""Sums of products against their reference."""

import pytest

from tests.codegen.running import check_graph, check_operator, kernels, random

SIZES = {"b": 2, "h": 3, "i": 9, "j": 20, "k": 7, "d": 18, "e": 4}


def shapes(equation):
    return [tuple(SIZES[letter] for letter in term) for term in equation.partition("->")[0].split(",")]


@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk->ik",
        "ij,kj->ik",
        "ji,jk->ik",
        "ij,jk->ki",
        "bij,bjk->bik",
        "bhid,bhjd->bhij",
        "bihd,bjhd->bhij",
        "bhij,bjhd->bihd",
        "bihd,hde->bie",
        "bijd,dk->bijk",
        "bid,de->bei",
        "id,d->i",
        "d,id->i",
        "d,d->",
        "i,j->ij",
        "bi,bj->bij",
        "bijk,ke->bije",
        "ijk,ijd->kd",
    ],
)
def test_equations(equation):
    inputs = [random(*shape, seed=i) for i, shape in enumerate(shapes(equation))]
    plan = check_operator("torch.einsum", inputs, {"equation": equation})
    assert kernels(plan) == ["MatrixProductSpec"]


def test_broadcast_dimensions_and_lists():
    plan = check_operator("torch.einsum", [random(2, 1, 9, 18), random(1, 3, 20, 18)], {"equation": "bhid,bhjd->bhij"})
    assert kernels(plan) == ["MatrixProductSpec"]
    lines = [
        ("prim::ListConstruct", "list", "x0 x1", "l"),
        ("torch.einsum", "op", "l", "y0", {"equation": "...ij,...jk->...ik"}),
    ]
    plan = check_graph([random(2, 3, 9, 20), random(3, 20, 7)], lines, ["y0"])
    assert kernels(plan) == ["MatrixProductSpec"]


@pytest.mark.parametrize(
    ("equation", "constant"), [("bid,de->bie", "de"), ("bihd,hde->bie", "hde"), ("bid,ed->bie", "ed")]
)
def test_constants_are_packed(equation, constant):
    first = [SIZES[letter] for letter in equation.partition(",")[0]]
    weight = ("pnnx.Attribute", "w", "", "w", {}, {"data": random(*(SIZES[letter] for letter in constant))})
    plan = check_graph([random(*first)], [weight, ("torch.einsum", "op", "x0 w", "y0", {"equation": equation})], ["y0"])
    assert kernels(plan) == ["MatrixProductSpec"]


@pytest.mark.parametrize(
    "equation", ["bid->bi", "bij,bij->bij", "bi,bj->j", "ii,ij->ij", "ij,jk,kd->id", "bd,bd->b", "ijd,ijd->ij"]
)
def test_what_no_product_is(equation):
    sizes = [tuple(SIZES[letter] for letter in term) for term in equation.partition("->")[0].split(",")]
    check_operator("torch.einsum", [random(*shape) for shape in sizes], {"equation": equation}, compiled=False)
