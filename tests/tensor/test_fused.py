"""One loop for an expression of arrays in any layout: compiled and NumPy's, against plain evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kuiperinfer
from kuiperinfer.codegen.kernels.any_shape_map import AnyShapeMapSpec, MapPart
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import runs_here, target_named
from kuiperinfer.dtypes import ALL, bf16, bool_, f16, f32, narrow
from kuiperinfer.errors import InputError, KuiperError, ShapeError
from kuiperinfer.expression import evaluate, parse
from kuiperinfer.tensor import fused as module
from kuiperinfer.tensor.fused import FusedLoop, fused

Array = Any


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compiles whatever can be, however small."""
    monkeypatch.setattr(module, "COMPILED_FROM", 1)
    fused.cache_clear()
    yield
    fused.cache_clear()


def loop(*texts: str) -> FusedLoop:
    return fused(*(parse(text, internal=True) for text in texts))


def numbers(shape: Sequence[int], seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def reference(text: str, operands: Sequence[Any], shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(evaluate(parse(text, internal=True), operands), shape)


def check(text: str, operands: Sequence[Any], output: Array, rtol: float = 2e-6) -> None:
    expected = np.array(reference(text, operands, output.shape))
    loop(text)(operands, [output])
    np.testing.assert_allclose(output, expected, rtol=rtol, atol=1e-6)


# ------------------------------------------------------------------------------------------- layouts

LAYOUTS: dict[str, Any] = {
    "dense": numbers,
    "transposed": lambda shape, seed: numbers(shape[::-1], seed).T,
    "reversed": lambda shape, seed: numbers(shape, seed)[..., ::-1],
    "every second": lambda shape, seed: numbers((*shape[:-1], 2 * shape[-1]), seed)[..., ::2],
    "rows apart": lambda shape, seed: numbers((*shape[:-1], shape[-1] + 3), seed)[..., 1:-2],
    "one row": lambda shape, seed: numbers(shape[-1:], seed),
    "one column": lambda shape, seed: numbers((*shape[:-1], 1), seed),
    "one element": lambda shape, seed: numbers((1,) * len(shape), seed),
    "no dimensions": lambda shape, seed: numbers((), seed),
    "number": lambda shape, seed: 0.75,
}


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("shape", [(1,), (5,), (16,), (67,), (3, 4), (2, 65), (7, 1), (3, 5, 33), (2, 3, 2, 17)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_compiled_loops_read_every_layout(layout: str, shape: tuple[int, ...]) -> None:
    x, y = numbers(shape, 1), LAYOUTS[layout](shape, 2)
    check("add(mul(@0,@1),sigmoid(@0))", [x, y], np.empty(shape, np.float32))
    check("sub(@1,@0)", [x, y], np.empty(shape, np.float32))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("layout", ["dense", "transposed", "reversed", "every second", "rows apart"])
@pytest.mark.parametrize("shape", [(5,), (33,), (3, 5, 18)])
def test_compiled_loops_write_every_layout(layout: str, shape: tuple[int, ...]) -> None:
    around = LAYOUTS[layout](shape, 9)
    whole = around if around.base is None else around.base
    before = whole.copy()
    check("mul(@0,@1)", [numbers(shape, 1), numbers(shape, 2)], around)
    around[...] = 0
    untouched = whole != 0
    np.testing.assert_array_equal(whole[untouched], before[untouched])  # nothing between the elements was written


@settings(max_examples=30)  # every other one compiles
@given(st.data())
def test_random_expressions_of_random_layouts(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=3), "shape"))
    names = data.draw(st.lists(st.sampled_from(list(LAYOUTS)), min_size=1, max_size=4), "layouts")
    operands = [LAYOUTS[name](shape, seed) for seed, name in enumerate(names)]
    text = data.draw(expressions(len(operands)), "text")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COMPILED_FROM", data.draw(st.sampled_from([1, 1 << 60]), "compiled from"))
        patch.setattr(module, "_BLOCK", data.draw(st.sampled_from([7, 1 << 14]), "block"))
        expected = evaluate(parse(text, internal=True), operands)
        if not isinstance(expected, np.ndarray):
            return
        output = np.empty(shape, np.float32)
        FusedLoop((parse(text, internal=True),))(operands, [output])
        np.testing.assert_allclose(output, np.broadcast_to(expected, shape), rtol=1e-4, atol=1e-5)


@st.composite
def expressions(draw: st.DrawFn, operands: int) -> str:
    """Text of a tree in which every function is one that the compiler knows and that stays finite."""
    leaves = [f"@{index}" for index in range(operands)] + ["2.5", "-1.5"]

    def extend(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        unary = st.builds(
            lambda f, x: f"{f}({x})", st.sampled_from(["neg", "abs", "relu", "tanh", "sigmoid"]), children
        )
        names = st.sampled_from(["add", "sub", "mul", "maximum", "minimum"])
        return unary | st.builds(lambda f, x, y: f"{f}({x},{y})", names, children, children)

    tree = draw(st.recursive(st.sampled_from(leaves), extend, max_leaves=5))
    return f"add({tree},@{draw(st.integers(0, operands - 1))})"


@pytest.mark.usefixtures("compiled")
def test_one_kernel_serves_all_shapes() -> None:
    one = loop("add(mul(@0,@1),3.0)")
    for shape in ((5,), (64,), (3, 4, 5), (100, 2)):
        for number in (0.5, 2.0, -1e30):
            output = np.empty(shape, np.float32)
            one([numbers(shape), number], [output])
            np.testing.assert_array_equal(output, numbers(shape) * np.float32(number) + np.float32(3))
    assert len(one._kernels) == 1


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.usefixtures("compiled")
def test_every_target_calculates_the_same(name: str) -> None:
    if not runs_here(target_named(name)):
        pytest.skip(f"this machine does not run {name}")
    with kuiperinfer.settings(target=name):
        for shape in ((37,), (5, 19)):
            x = numbers(shape)
            check("gelu(add(@0,@1))", [x, x[..., ::-1]], np.empty(shape, np.float32), rtol=1e-5)


@pytest.mark.parametrize("step", ["dense", "broadcast", "any", "number"])
def test_other_processors_get_code_too(step: str) -> None:
    target = target_named("aarch64")
    parts = (MapPart(f32), MapPart(f32, step))
    spec = AnyShapeMapSpec(("mul(exp(@0),@1)", "add(@0,@1)"), parts, (MapPart(f32), MapPart(f32, "any")), 2)
    assembly = assembly_of(spec.module("fused", target), target)
    assert "fused:" in assembly and "fmul\tv" in assembly


def test_threads_share_the_work_and_change_nothing() -> None:
    one = loop("mul(tanh(@0),add(@1,@2))")
    for shape in ((1 << 18,), (1000, 300), (3, 100_000), (200_000, 2)):
        x, y = numbers(shape, 1), numbers(shape[-1:], 2)
        results = []
        for threads in (1, 2, 3):
            output = np.full(shape, np.nan, np.float32)
            with kuiperinfer.settings(threads=threads):
                one([x, y, 0.25], [output])
            results.append(output)
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])
        np.testing.assert_allclose(results[0], np.tanh(x) * (y + np.float32(0.25)), rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------- several results


@pytest.mark.parametrize("compiled_from", [1, 1 << 60])
@pytest.mark.parametrize("size", [5, 40_000])
def test_several_results_of_one_loop(monkeypatch: pytest.MonkeyPatch, compiled_from: int, size: int) -> None:
    monkeypatch.setattr(module, "COMPILED_FROM", compiled_from)
    both = FusedLoop(tuple(parse(text) for text in ("add(mul(@2,@1),@0)", "sub(@0,mul(@3,add(mul(@2,@1),@0)))")))
    gradient, velocity, parameter = (numbers((size,), seed) for seed in range(3))
    # both outputs are operands as well: what is read is old
    momentum = FusedLoop(tuple(parse(text) for text in ("add(mul(@3,@1),@0)", "sub(@2,mul(@4,add(mul(@3,@1),@0)))")))
    expected_velocity = np.float32(0.9) * velocity + gradient
    expected = parameter - np.float32(0.1) * expected_velocity
    momentum([gradient, velocity, parameter, 0.9, 0.1], [velocity, parameter])
    np.testing.assert_allclose(velocity, expected_velocity, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(parameter, expected, rtol=1e-6, atol=1e-7)
    first, second = np.empty_like(gradient), np.empty_like(gradient)
    both([gradient, velocity, 2.0, 3.0], [first, second])
    np.testing.assert_allclose(second, gradient - 3 * first, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------- overlapping memory


@pytest.mark.parametrize("compiled_from", [1, 1 << 60])
@pytest.mark.parametrize("block", [50, 1 << 14])
@pytest.mark.parametrize(
    ("operand", "output"),
    [
        (np.s_[:], np.s_[:]),
        (np.s_[::-1], np.s_[:]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[1:], np.s_[:-1]),
        (np.s_[::2], np.s_[: (300 + 1) // 2]),
        (np.s_[:1], np.s_[:]),
        (np.s_[-1:], np.s_[:]),
        (np.s_[100:200], np.s_[150:250]),
    ],
)
def test_results_over_operands(
    monkeypatch: pytest.MonkeyPatch, compiled_from: int, block: int, operand: Any, output: Any
) -> None:
    """What is read is what was there before, however the memory of the result overlaps that of the operands."""
    monkeypatch.setattr(module, "COMPILED_FROM", compiled_from)
    monkeypatch.setattr(module, "_BLOCK", block)
    one = FusedLoop((parse("add(mul(@0,2),@1)"),))
    for columns in (1, 7):
        memory = numbers((300, columns))
        before = memory.copy()
        one([memory[operand], memory[output]], [memory[output]])
        expected = before.copy()
        expected[output] = before[operand] * 2 + before[output]
        np.testing.assert_allclose(memory, expected, rtol=1e-6)


@pytest.mark.parametrize("compiled_from", [1, 1 << 60])
@pytest.mark.parametrize(
    "part",
    [np.s_[:149, :199], np.s_[::2, ::-1], np.s_[::-1, 1::3], np.s_[::-2, :], np.s_[:, 5]],
)
def test_over_itself_in_memory_with_gaps(monkeypatch: pytest.MonkeyPatch, compiled_from: int, part: Any) -> None:
    """What is calculated elsewhere first lies there with the same gaps, and what lies in these is left alone."""
    monkeypatch.setattr(module, "COMPILED_FROM", compiled_from)
    memory = numbers((150, 200))
    expected = memory.copy()
    backwards = (slice(None, None, -1),) * memory[part].ndim
    expected[part] += memory[part][backwards]
    loop("add(@0,@1)")([memory[part][backwards], memory[part]], [memory[part]])
    np.testing.assert_array_equal(memory, expected)
    elsewhere = module._with_strides_of(memory[part])
    assert elsewhere.strides == memory[part].strides and elsewhere.shape == memory[part].shape
    assert not np.may_share_memory(elsewhere, memory)


def test_transposed_onto_itself() -> None:
    memory = numbers((150, 150))
    before = memory.copy()
    loop("add(@0,@1)")([memory.T, memory], [memory])
    np.testing.assert_array_equal(memory, before.T + before)


# ------------------------------------------------------------------------------------------- dtypes and values


@pytest.mark.parametrize("compiled_from", [1, 1 << 60])
@pytest.mark.parametrize("dtype", [d for d in ALL if d.kind != "complex"], ids=str)
def test_every_dtype_beside_floats(monkeypatch: pytest.MonkeyPatch, compiled_from: int, dtype: Any) -> None:
    monkeypatch.setattr(module, "COMPILED_FROM", compiled_from)
    other = narrow(np.arange(-30, 30).astype(np.float32) % 7, dtype)
    x = numbers((60,))
    for text in ("add(mul(@0,@1),1)", "lt(@0,@1)", "where(gt(@0,0),@1,@0)"):
        one = FusedLoop((parse(text, internal=True),))
        expected = evaluate(parse(text, internal=True), [x, other])
        (result,) = one.dtypes(((f32, True), (dtype, True)))
        output = np.empty(60, result.storage)
        one([x, other], [output])
        np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint8, np.int64, np.complex64])
def test_other_dtypes_go_block_by_block(dtype: Any, size: int) -> None:
    x = np.arange(size).astype(dtype).reshape(-1, 5)
    y = x[::-1, :1]
    output = np.empty_like(x)
    loop("add(mul(@0,@1),@2)")([x, y, 3], [output])
    np.testing.assert_array_equal(output, x * y + dtype(3))


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_half_precision_is_rounded_after_every_function(dtype: Any) -> None:
    x = narrow(numbers((40_000,)), dtype)
    text = "mul(add(@0,@1),@0)"
    output = np.empty(x.shape, dtype.storage)
    loop(text)([x, x[::-1]], [output])
    np.testing.assert_array_equal(output, evaluate(parse(text), [x, x[::-1]]))


def test_results_are_cast_to_the_output() -> None:
    x = np.array([1.9, -1.9, 200.5], np.float32)
    output = np.empty(3, np.int64)
    loop("mul(@0,2)")([x], [output])
    assert output.tolist() == [3, -3, 401]
    wide = np.empty(3, np.float64)
    loop("mul(@0,2)")([x], [wide])
    np.testing.assert_array_equal(wide, (x * 2).astype(np.float64))


@pytest.mark.usefixtures("compiled")
def test_infinities_and_nan_pass_through() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0] * 7, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("relu(@0)", "add(@0,@1)", "mul(@0,@1)", "div(@0,@1)", "maximum(@0,@1)", "sub(@0,@0)", "log(@0)"):
            output = np.empty_like(x)
            loop(text)([x, 0.0] if "@1" in text else [x], [output])
            np.testing.assert_array_equal(output, evaluate(parse(text, internal=True), [x, 0.0]))
    output = np.empty(20, np.float32)
    loop("mul(@0,@1)")([np.ones(20, np.float32), 1e300], [output])
    assert np.isposinf(output).all()


def test_no_dimensions_count_less_than_some() -> None:
    """A 0-d f64 tensor does not turn an f32 tensor into f64, as in PyTorch; nor does it where blocks are taken."""
    for size in (3, 70_000):
        x = np.ones(size, np.float32)
        scale = np.array(0.1, np.float64)
        one = loop("mul(@0,@1)")
        output = np.empty(size, np.float32)
        one([x, scale], [output])
        np.testing.assert_array_equal(output, np.full(size, np.float32(0.1)))
        assert one.dtypes(((f32, True), (kuiperinfer.dtypes.f64, False))) == (f32,)


# ------------------------------------------------------------------------------------------- what is refused


def test_operands_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"shape \(3,\) cannot be broadcast to the result's shape \(4,\)"):
        loop("add(@0,@1)")([np.ones(3, np.float32), 1.0], [np.empty(4, np.float32)])
    with pytest.raises(KuiperError, match="sub"):
        loop("sub(@0,@1)").dtypes(((bool_, True), (bool_, True)))
    with pytest.raises(InputError, match="by zero"):
        loop("floor_divide(@0,@1)")([np.ones(3, np.int64), np.zeros(3, np.int64)], [np.empty(3, np.int64)])


@pytest.mark.usefixtures("compiled")
def test_the_reference_engine_compiles_nothing() -> None:
    one = loop("add(@0,exp(@1))")
    x, output = numbers((100,)), np.empty(100, np.float32)
    with kuiperinfer.settings(engine="reference"):
        one([x, x], [output])
    assert not one._kernels
    np.testing.assert_allclose(output, x + np.exp(x), rtol=1e-6)
    one([x, x], [output])
    assert len(one._kernels) == 1


def test_nothing_to_do() -> None:
    loop("add(@0,@1)")([np.empty((0, 3), np.float32), 1.0], [np.empty((0, 3), np.float32)])
