"""The public door: what may be handed in, what comes out, and that nothing handed in is changed."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import kuiperinfer
from kuiperinfer import DTypeError, InputError, ResourceLimitError, ShapeError, TensorSpec
from kuiperinfer.codegen.target import current_target
from kuiperinfer.dtypes import BFLOAT16_STORAGE, bf16, f32, i64
from kuiperinfer.runtime import model as model_module
from kuiperinfer.runtime.compiled import CompiledModel
from tests.graph.build import build


def model_of(*lines: tuple[Any, ...]) -> kuiperinfer.Model:
    return kuiperinfer.Model(kuiperinfer.RuntimeGraph.from_pnnx(build(*lines)))


@pytest.fixture
def double() -> kuiperinfer.Model:
    return model_of(
        ("pnnx.Input", "x", "", "0", {}, {}, (3, 4)),
        ("pnnx.Expression", "e", "0", "1", {"expr": "mul(@0,2)"}),
        ("pnnx.Output", "y", "1", ""),
    )


BASE = np.arange(12, dtype=np.float32).reshape(3, 4)


class Readable:
    """An object of another library that can be read as an array."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return BASE.copy()


FORMS: dict[str, Callable[[], Any]] = {
    "array": BASE.copy,
    "transposed": lambda: np.ascontiguousarray(BASE.T).T,
    "strided": lambda: np.repeat(BASE, 2, axis=1)[:, ::2],
    "reversed": lambda: np.ascontiguousarray(BASE[::-1, ::-1])[::-1, ::-1],
    "big-endian": lambda: BASE.astype(">f4"),
    "float64": lambda: BASE.astype(np.float64),
    "float16": lambda: BASE.astype(np.float16),
    "int64": lambda: BASE.astype(np.int64),
    "uint8": lambda: BASE.astype(np.uint8),
    "list": BASE.tolist,
    "list of ints": lambda: BASE.astype(int).tolist(),
    "torch": lambda: torch.from_numpy(BASE.copy()),
    "torch with grad": lambda: torch.from_numpy(BASE.copy()).requires_grad_(),
    "torch bfloat16": lambda: torch.from_numpy(BASE.copy()).bfloat16(),
    "torch transposed": lambda: torch.from_numpy(np.ascontiguousarray(BASE.T)).t(),
    "ml_dtypes bfloat16": lambda: BASE.astype(ml_dtypes.bfloat16),
    "__array__": Readable,
    "subclass": lambda: BASE.view(type("Sub", (np.ndarray,), {})),
    "masked, nothing masked": lambda: np.ma.masked_array(BASE.copy()),
    "memory without alignment": lambda: (
        np.frombuffer(b"\0" + BASE.tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 4)
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_any_array_like_is_taken(double: kuiperinfer.Model, form: str) -> None:
    y = double(FORMS[form]())
    assert type(y) is np.ndarray and y.dtype == np.float32 and y.flags.c_contiguous and y.flags.writeable
    np.testing.assert_array_equal(y, BASE * 2)


def test_read_only_and_broadcast_inputs_stay_as_they_are(double: kuiperinfer.Model) -> None:
    frozen = BASE.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(double(frozen), BASE * 2)
    np.testing.assert_array_equal(double(np.broadcast_to(BASE[:1], (3, 4))), np.broadcast_to(BASE[:1], (3, 4)) * 2)
    np.testing.assert_array_equal(frozen, BASE)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.zeros((3, 4), np.complex64), DTypeError, "expected f32, found c64"),
        (np.zeros((3, 4), object), InputError, "array of numbers"),
        (np.full((3, 4), "a"), InputError, "array of numbers"),
        ([[1.0, 2.0], [3.0]], InputError, "cannot be read as an array"),
        (np.ma.masked_array(BASE, BASE > 3), InputError, "masked"),
        (np.zeros((3, 4, 1), np.float32), ShapeError, "expected 2 dimensions"),
        (np.float32(1), ShapeError, "expected 2 dimensions"),
        (None, InputError, "array of numbers"),
        (np.zeros((3, 4), np.uint16), DTypeError, "uint16"),
        (np.zeros((3, 4), "datetime64[s]"), DTypeError, "datetime64"),
    ],
)
def test_what_is_not_usable_is_refused(
    double: kuiperinfer.Model, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        double(value)
    assert str(caught.value).startswith("input 'x'")


def test_floats_are_not_cut_to_integers_and_integers_must_fit() -> None:
    model = model_of(
        ("pnnx.Input", "i", "", "0", {}, {}, (2,)),
        ("pnnx.Expression", "e", "0", "1", {"expr": "add(@0,1)"}),
        ("pnnx.Output", "y", "1", ""),
    )
    info = kuiperinfer.ValueInfo("i", (2,), kuiperinfer.dtypes.i32)
    object.__setattr__(model, "inputs", (info,))
    with pytest.raises(DTypeError, match="expected i32, found f32"):
        model(np.zeros(2, np.float32))
    with pytest.raises(InputError, match="do not fit i32"):
        model(np.array([2**40, 0]))
    np.testing.assert_array_equal(model(np.array([2**30, 0])), [2**30 + 1, 1])


def test_names_and_counts_of_inputs(double: kuiperinfer.Model) -> None:
    with pytest.raises(InputError, match="input 'x' is missing"):
        double()
    with pytest.raises(InputError, match="takes 1 inputs, 2 were given"):
        double(BASE, BASE)
    with pytest.raises(InputError, match="no input 'z'"):
        double.run({"z": BASE})
    with pytest.raises(InputError, match="given twice"):
        double(BASE, x=BASE)
    np.testing.assert_array_equal(double(x=BASE), BASE * 2)
    np.testing.assert_array_equal(double.run({"x": BASE})["y"], BASE * 2)


def test_inputs_and_outputs_are_described(double: kuiperinfer.Model) -> None:
    assert [(info.name, info.shape, info.dtype) for info in double.inputs] == [("x", (3, 4), f32)]
    assert [(info.name, info.shape, info.dtype) for info in double.outputs] == [("y", (3, 4), f32)]
    assert repr(double) == "<kuiperinfer.Model (x: (3,4)f32) -> (y: (3,4)f32)>"


NESTED = (
    ("pnnx.Input", "x", "", "0", {}, {}, (2, 3)),
    ("nn.ReLU", "relu", "0", "1"),
    ("prim::TupleConstruct", "inner", "1 0", "2"),
    ("pnnx.Expression", "key", "", "3", {"expr": "a"}),
    ("prim::DictConstruct", "dict", "3 1", "4"),
    ("prim::TupleConstruct", "outer", "2 4 0", "5"),
    ("pnnx.Output", "y", "5", ""),
)


def test_nested_results_are_flattened_depth_first() -> None:
    model = model_of(*NESTED)
    x = np.array([[1, -1, 0], [2, -2, 3]], np.float32)
    results = model(x)
    assert isinstance(results, tuple) and len(results) == 4
    for found, expected in zip(results, (x.clip(0), x, x.clip(0), x), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert [info.name for info in model.outputs] == ["y.0", "y.1", "y.2", "y.3"]
    assert list(model.run({"x": x})) == ["y.0", "y.1", "y.2", "y.3"]


def test_outputs_share_memory_with_nothing() -> None:
    model = model_of(*NESTED)
    x = np.ones((2, 3), np.float32)
    first = model(x)
    for index, array in enumerate(first):
        assert not np.shares_memory(array, x)
        assert not any(np.shares_memory(array, other) for other in first[:index])
    first[0][:] = 99
    np.testing.assert_array_equal(model(x)[0], x)
    np.testing.assert_array_equal(x, 1)


def test_weights_returned_directly_are_copies() -> None:
    weight = np.array([1, 2], np.float32)
    model = model_of(
        ("pnnx.Attribute", "w", "", "0", {}, {"data": weight}),
        ("pnnx.Output", "y", "0", ""),
    )
    model()[:] = 7
    np.testing.assert_array_equal(model(), [1, 2])


def test_other_shapes_than_the_annotated_one(double: kuiperinfer.Model) -> None:
    for shape in ((0, 4), (1, 1), (7, 129)):
        x = np.ones(shape, np.float32)
        np.testing.assert_array_equal(double(x), x * 2)
    assert double.infer((5, 6))["1"] == TensorSpec((5, 6), f32)


def test_python_numbers_come_out_as_arrays() -> None:
    model = model_of(
        ("pnnx.Input", "x", "", "0", {}, {}, (3, 4)),
        ("pnnx.Expression", "n", "0", "1", {"expr": "size(@0,1)"}),
        ("pnnx.Output", "y", "1", ""),
    )
    assert model(BASE).dtype == np.int64 and model(BASE) == 4
    assert model.outputs[0].dtype is i64 and model.outputs[0].shape == ()


def test_bfloat16_comes_out_in_its_own_dtype() -> None:
    model = model_of(
        (
            "pnnx.Attribute",
            "w",
            "",
            "0",
            {},
            {"data": kuiperinfer.dtypes.narrow(np.array([1.0, 3.0], np.float32), bf16)},
        ),
        ("pnnx.Output", "y", "0", ""),
    )
    assert model().dtype == BFLOAT16_STORAGE
    np.testing.assert_array_equal(kuiperinfer.dtypes.widen(model()), [1, 3])


@pytest.mark.parametrize("clone", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_models_are_copied_and_pickled(clone: Callable[[Any], Any]) -> None:
    model = model_of(*NESTED)
    x = np.ones((2, 3), np.float32)
    for found, expected in zip(clone(model)(x), model(x), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("clone", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_compiled_models_are_copied_and_pickled(
    double: kuiperinfer.Model, clone: Callable[[CompiledModel], CompiledModel]
) -> None:
    compiled = double.compile((4, 3), threads=1, precision="exact")
    found, x = clone(compiled), np.arange(12, dtype=np.float32).reshape(4, 3)
    assert found is not compiled and repr(found) == repr(compiled)
    assert found.plan.lowering.exact
    np.testing.assert_array_equal(found(x), compiled(x))


def test_memory_is_limited_before_it_is_taken(double: kuiperinfer.Model) -> None:
    expand = model_of(
        ("pnnx.Input", "x", "", "0", {}, {}, (1,)),
        ("Tensor.expand", "e", "0", "1", {"sizes": (1 << 15, 1 << 15)}),
        ("pnnx.Expression", "a", "1", "2", {"expr": "add(@0,1)"}),
        ("pnnx.Output", "y", "2", ""),
    )
    with kuiperinfer.settings(max_memory=1 << 20), pytest.raises(ResourceLimitError, match=r"settings\.max_memory"):
        expand(np.ones(1, np.float32))


def test_many_threads_get_the_same_bits(double: kuiperinfer.Model) -> None:
    model = model_of(*NESTED)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    expected = [array.tobytes() for array in model(x)]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(50):
            if [array.tobytes() for array in model(x)] != expected:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_compiled_runs_while_another_shape_is_compiled(
    double: kuiperinfer.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, wide = np.ones((4, 3), np.float32), np.ones((4, 3000), np.float32)
    expected = double(x)
    begun, go_on, results = threading.Event(), threading.Event(), []
    make_plan = model_module.make_plan

    def slow(*arguments: Any, **named: Any) -> Any:
        begun.set()
        assert go_on.wait(timeout=60)
        return make_plan(*arguments, **named)

    monkeypatch.setattr(model_module, "make_plan", slow)
    threads = [threading.Thread(target=lambda: results.append(double(wide))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(timeout=60)
    np.testing.assert_array_equal(double(x), expected)
    go_on.set()
    for thread in threads:
        thread.join(timeout=60)
    assert len(results) == 2 and len(double._plans) == 2


def test_both_engines_give_the_same(double: kuiperinfer.Model) -> None:
    with kuiperinfer.settings(engine="reference"):
        np.testing.assert_array_equal(double(BASE), BASE * 2)
    with kuiperinfer.settings(engine="compiled"):
        np.testing.assert_array_equal(double(BASE), BASE * 2)
    with (
        pytest.raises(InputError, match="'compiled' or 'reference', found 'steam'"),
        kuiperinfer.settings(engine="steam"),
    ):
        double(BASE)


def test_compiled_models_are_for_their_shape_alone(double: kuiperinfer.Model) -> None:
    fast = double.compile((2, 5), threads=1)
    assert fast is double.compile((2, 5), threads=1) and fast is not double.compile((2, 6), threads=1)
    np.testing.assert_array_equal(fast(np.ones((2, 5))), np.full((2, 5), 2))
    with pytest.raises(ShapeError, match=r"compiled for \(2,5\)f32, found \(3,4\)f32"):
        fast(BASE)
    assert [step.kernel for step in fast.profile()] == ["Map"] and not fast.fallbacks


def test_what_cannot_be_compiled_runs_by_the_reference(
    double: kuiperinfer.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **named: Any) -> Any:
        raise IndexError("oh")

    monkeypatch.setattr("kuiperinfer.runtime.plan.optimise", broken)
    with pytest.raises(kuiperinfer.CompileError, match=r"unforeseen way \(IndexError: oh\)"):
        double.compile()
    with pytest.warns(RuntimeWarning, match="the reference runs instead"):
        np.testing.assert_array_equal(double(BASE), BASE * 2)


def test_code_for_another_machine_is_not_run(double: kuiperinfer.Model) -> None:
    foreign = "aarch64" if "x86" in current_target().name else "x86-64-v2"
    with kuiperinfer.settings(target=foreign), pytest.raises(kuiperinfer.InputError, match="cannot run code for"):
        double.compile()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "x86-64-v9"}, "unknown target 'x86-64-v9'.*did you mean"),
        (
            {"passes_off": "fold_constants, fuse_epilog"},
            "no pass 'fuse_epilog', only all, .*did you mean 'fuse_epilogue'",
        ),
    ],
)
def test_misspelt_settings_are_errors(double: kuiperinfer.Model, change: dict[str, Any], message: str) -> None:
    with kuiperinfer.settings(**change), pytest.raises(kuiperinfer.InputError, match=message):
        double(BASE)
    with kuiperinfer.settings(passes_off="fuse_epilogue,all,fuse_depth_first"):
        np.testing.assert_array_equal(double(BASE), BASE * 2)
