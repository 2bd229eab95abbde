"""Reverse-mode gradients: graphs, views, writes in place, and what is refused; numbers by hand, from torch and differences."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kuiperinfer import memory
from kuiperinfer import tensor as kt
from kuiperinfer.dtypes import f64
from kuiperinfer.errors import DTypeError, GradientError, InputError, ShapeError
from kuiperinfer.tensor import functional as F
from kuiperinfer.tensor.autograd import is_grad_enabled

D = np.arange(1.0, 13.0)
E = np.arange(11.0, 122.0, 10.0)


def leaf(values: Any, *shape: int) -> kt.Tensor:
    tensor = kt.tensor(np.asarray(values, np.float64).reshape(shape or np.shape(values)))
    tensor.requires_grad = True
    return tensor


def gradient(tensor: kt.Tensor) -> Any:
    assert tensor.grad is not None
    return tensor.grad.tolist()


def total(tensor: kt.Tensor) -> None:
    """Seeds ones on the whole result."""
    tensor.backward(kt.ones(*tensor.shape, dtype=tensor.dtype))


# ------------------------------------------------------------------------------------------- worked by hand


def test_matrix_products() -> None:
    a, b = leaf(D, 2, 6), leaf(E, 2, 6)
    assert (a @ b.T).T.tolist() == [[931, 2227], [2191, 5647]]
    total((a @ b.T).T)
    batched = a.view(3, 2, 2) @ b.view(3, 2, 2)
    assert batched.transpose(1, 2).tolist() == [
        [[73, 157], [103, 227]],
        [[681, 925], [791, 1075]],
        [[1929, 2333], [2119, 2563]],
    ]
    total(batched)
    assert gradient(a) == [[114, 174, 154, 214, 274, 334], [194, 254, 314, 374, 354, 414]]
    assert gradient(b) == [[12, 14, 18, 20, 28, 30], [22, 24, 32, 34, 38, 40]]


def test_views() -> None:
    x = leaf(D, 3, 4)
    total(x.view(2, 2, 3)[:, :, 1:3][:, 1])
    assert gradient(x) == [[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]]
    total(x.view(3, 2, 2).transpose(0, 1)[0:1].permute(1, 2, 0))
    assert gradient(x) == [[1, 1, 0, 0], [2, 2, 0, 0], [1, 1, 1, 1]]


def test_a_value_used_twice() -> None:
    x, y = leaf(D, 3, 4), leaf(D, 3, 4)
    s = x + y
    total(x * (-s) - s)
    assert gradient(x) == np.arange(-4.0, -38.0, -3).reshape(3, 4).tolist()
    assert gradient(y) == np.arange(-2.0, -14.0, -1).reshape(3, 4).tolist()


def test_broadcasting() -> None:
    x, y = leaf(D, 1, 3, 4), leaf(D, 3, 1, 4)
    total((x + y) * x - y)
    assert gradient(x) == [[[21, 30, 39, 48], [45, 54, 63, 72], [69, 78, 87, 96]]]
    assert gradient(y) == [[[12, 15, 18, 21]]] * 3


def test_log_softmax_and_likelihoods() -> None:
    x = leaf(
        [
            [0.585639, 0.612628, 0.241485, 0.097616],
            [0.035854, 0.723054, 0.131163, 0.884268],
            [0.193597, 0.694748, 0.650687, 0.738797],
        ]
    )
    logs = F.log_softmax(x, 1)
    expected = [
        [-1.208965, -1.181976, -1.553119, -1.696988],
        [-1.860054, -1.172853, -1.764744, -1.011639],
        [-1.784239, -1.283088, -1.327148, -1.239038],
    ]
    np.testing.assert_allclose(logs.tolist(), expected, atol=2e-6)
    total(F.nll_loss(logs, kt.tensor([2, 0, 3]), reduction="none"))
    slopes = [[0.2985, 0.3067, -0.7884, 0.1832], [-0.8443, 0.3095, 0.1712, 0.3636], [0.1679, 0.2772, 0.2652, -0.7103]]
    np.testing.assert_allclose(gradient(x), slopes, atol=1e-4)


def test_sigmoid_relu_mean_and_max() -> None:
    z = leaf(
        [
            [[0.096237, -0.037, 0.028076], [0.328307, 0.122271, -0.017293]],
            [[0.150791, 0.421008, 0.322066], [-0.321352, 0.319534, -0.424081]],
        ]
    )
    largest, _ = z.relu().sigmoid().mean(1).max(1)
    total(largest)
    expected = [[[0.1247, 0, 0], [0.1217, 0, 0]], [[0, 0.1196, 0], [0, 0.1219, 0]]]
    np.testing.assert_allclose(gradient(z), expected, atol=1e-4)


def test_windows_as_rows() -> None:
    x = leaf(np.arange(24.0), 1, 1, 6, 4)
    total(F.img2col(x, (5, 3)))
    total(F.img2col(x, 3, stride=1, padding=1))
    assert gradient(x) == [[[[5, 8, 8, 5], *[[8, 13, 13, 8]] * 4, [5, 8, 8, 5]]]]
    assert F.img2col(x, 4, 2, 1).shape == (6, 16)
    assert F.img2col(kt.zeros(2, 3, 6, 4), (2, 3), (1, 2), (2, 1)).shape == (36, 18)
    assert F.max_pool2d(x, 2, 1, 1).shape == (1, 1, 7, 5)
    assert F.max_pool2d(x, (3, 4), (2, 3), (0, 1)).shape == (1, 1, 2, 1)


def test_rows_of_windows_make_a_convolution() -> None:
    x, weight = kt.randn(2, 3, 6, 5, dtype=f64), kt.randn(4, 3, 2, 3, dtype=f64)
    rows = F.img2col(x, (2, 3), (2, 1), (1, 0)) @ weight.view(4, 18).T
    expected = F.conv2d(x, weight, stride=(2, 1), padding=(1, 0))
    height, width = expected.shape[2:]
    np.testing.assert_allclose(rows.view(height, width, 2, 4).permute(2, 3, 0, 1).array, expected.array, rtol=1e-12)


# ------------------------------------------------------------------------------------------- graphs


def test_gradients_add_up() -> None:
    x = leaf([1.0, 2.0])
    for _ in range(3):
        (x * x).sum().backward()
    assert gradient(x) == [6, 12]
    x.grad = None
    (x * 3).sum().backward()
    assert gradient(x) == [3, 3]


def test_leaves_share_no_gradient() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    seed = kt.ones(2, dtype=f64)
    (x + y).backward(seed)
    assert x.grad is not None and y.grad is not None
    x.grad += 5
    assert gradient(y) == [1, 1] and seed.tolist() == [1, 1]


@pytest.mark.parametrize("depth", [10_000])
def test_deep_graphs(depth: int) -> None:
    x = leaf([1.0, 2.0])
    y, z = x, x
    for _ in range(depth):
        y = y + x  # a gradient at every step
        z = z.view(2)  # and views of views
    (y + z).sum().backward()
    assert gradient(x) == [depth + 2, depth + 2]


def test_wide_and_doubling_graphs() -> None:
    x = leaf([1.0])
    y = x
    for _ in range(50):
        y = (y + y) * 0.5 + y.sin() * 0  # every value is used three times
    y.backward()
    assert gradient(x) == [1]
    x.grad = None
    sum((x * number for number in range(200)), x).backward()
    assert gradient(x) == [1 + 199 * 100]


def test_only_what_is_asked_for() -> None:
    x, y = leaf([1.0]), leaf([2.0])
    z = x * y
    z.backward(retain_graph=True, inputs=[x])
    assert gradient(x) == [2] and y.grad is None
    assert kt.grad(z, [x, y], retain_graph=True)[1].tolist() == [1]  # type: ignore[union-attr]
    assert y.grad is None
    unused = leaf([1.0])
    with pytest.raises(GradientError, match="do not depend on input 0"):
        kt.grad(z, unused, retain_graph=True)
    assert kt.grad(z, unused, allow_unused=True) == (None,)


def test_gradients_of_values_in_between() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [6, 12] and gradient(x) == [18, 36]
    middle = x * 2
    (found,) = kt.grad((middle * middle).sum(), middle)
    assert found is not None and found.tolist() == [4, 8]
    assert not middle.is_leaf and x.is_leaf and middle.requires_grad
    with pytest.raises(GradientError, match="retain_grad"):
        kt.ones(2).retain_grad()


def test_a_gradient_of_any_shape_has_to_be_given() -> None:
    y = leaf([1.0, 2.0]) * 2
    with pytest.raises(GradientError, match=r"shape \(2,\) needs a gradient of this shape"):
        y.backward()
    with pytest.raises(ShapeError, match=r"has shape \(3,\); expected \(2,\)"):
        y.backward(kt.ones(3, dtype=f64))
    with pytest.raises(GradientError, match="does not require a gradient"):
        kt.ones(1).backward()
    y.backward(np.array([1.0, 10.0]))


def test_a_graph_is_freed_once_it_was_used() -> None:
    x = leaf([2.0])
    y = x * x
    y.backward()
    with pytest.raises(GradientError, match=r"'mul' needs was freed.*retain_graph=True"):
        y.backward()
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert gradient(x) == [12]


def test_memory_comes_back_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        before = memory.statistics().live_blocks
        x = leaf(np.ones((50, 50)))
        for _ in range(3):
            y = (x @ x).sigmoid()
            z = F.softmax(y * y.exp(), 1).sum()
            z.backward()
            x.grad = None
        del x, y, z
        assert memory.statistics().live_blocks == before
    finally:
        gc.enable()


# ------------------------------------------------------------------------------------------- recording


def test_switches() -> None:
    x = leaf([1.0])
    with kt.no_grad():
        assert not is_grad_enabled() and not (x * 2).requires_grad
        with kt.enable_grad():
            assert (x * 2).requires_grad

    @kt.no_grad()
    def double(tensor: kt.Tensor) -> kt.Tensor:
        return tensor * 2

    assert not double(x).requires_grad and (x * 2).requires_grad
    seen: list[bool] = []
    with kt.no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]  # each thread has a switch of its own


def test_a_generator_cannot_be_decorated() -> None:
    """Whoever walks through it would calculate within the switch too, or the generator without it."""
    with pytest.raises(GradientError, match="'numbers' is a generator"):

        @kt.no_grad()
        def numbers() -> Any:
            yield 1


def test_detached_and_integer_results_have_no_history() -> None:
    x = leaf([1.0, 2.0])
    y = (x * 2).detach()
    assert not y.requires_grad and y.grad_fn is None
    assert not (x > 1).requires_grad and not x.argmax().requires_grad
    (x.where(x > 1, 0.0) + y).sum().backward()
    assert gradient(x) == [0, 1]
    with pytest.raises(DTypeError, match="only floats"):
        kt.tensor([1, 2]).requires_grad_()
    with pytest.raises(InputError, match="detach"):
        x.numpy()


# ------------------------------------------------------------------------------------------- writes in place


def test_a_saved_tensor_that_was_modified_is_noticed() -> None:
    x, y = leaf([1.0, 2.0]), kt.tensor([3.0, 4.0], dtype=f64)
    z = (x * y).sum()
    y.tolist()
    y[0].item()  # reading does not count
    z.backward(retain_graph=True)
    y += 1
    message = r"shape \(2,\) and dtype f64 is needed for the gradient of 'mul'.*version 1, and was at 0"
    with pytest.raises(GradientError, match=message):
        z.backward()
    s = x.sigmoid()
    t = s.sum()
    s *= 2
    with pytest.raises(GradientError, match="'sigmoid'"):
        t.backward()
    s = x.exp()
    t = (s + 1).sum()  # needs s for nothing
    w = t + s.sum()
    w.backward()


def test_a_leaf_is_not_modified_while_operations_are_recorded() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(GradientError, match=r"a leaf of shape \(2,\).*no_grad"):
        x += 1
    with pytest.raises(GradientError, match="a leaf"):
        x[0] = 5
    assert x.tolist() == [1, 2]
    with kt.no_grad():
        x += 1
        x[0] = 7
    assert x.tolist() == [7, 3]


def test_in_place_arithmetic_has_gradients() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    y += x
    y *= 3
    y.sum().backward()
    assert gradient(x) == [6, 6]


@pytest.mark.parametrize("operator", ["*=", "/=", "-=", "%="])
def test_in_place_arithmetic_keeps_the_elements_that_gradients_need(operator: str) -> None:
    code = f"y[1:] {operator} x[:2]\nz {operator} x\nz += y\nz **= 2\nz -= 1"
    theirs: Any = torch.tensor([1.5, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    ours = leaf([1.5, 2.0, 3.0])
    for x in (ours, theirs):
        y, z = x * 2, x.detach() * 0 + 5
        exec(code, {"x": x, "y": y, "z": z})
        z.sum().backward()
    np.testing.assert_allclose(gradient(ours), theirs.grad)
    y = leaf([1.0]) * 2
    y *= y
    with pytest.raises(GradientError, match="'mul'"):  # as in torch: the second operand is what was written
        y.sum().backward()


def test_results_that_no_gradient_needs_may_be_modified() -> None:
    x = leaf([1.0, 2.0, 4.0])
    for y in (1 / x, x.clamp(1, 3)):
        y += 1
        total(y)
    assert gradient(x) == [0, 0.75, -1 / 16]


@pytest.mark.parametrize("p", [2, 3, 1])
def test_roots_of_zero_have_the_gradient_zero(p: float) -> None:
    x = leaf([[0.0, 0.0], [0.0, 3.0]])
    total(x.norm(p, 1))
    np.testing.assert_allclose(gradient(x), [[0, 0], [0, 1]])
    assert x.norm(0, 1).tolist() == [0, 1]
    constant = leaf([2.0, 2.0, 2.0])
    constant.std().backward()
    assert gradient(constant) == [0, 0, 0]


def test_writes_into_parts_have_gradients() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = kt.zeros(2, 3, dtype=f64)
    y[0] = x * 2
    y[1, 1:] = x[:2]
    y[:, 0] = 5
    assert y.requires_grad
    total(y * kt.tensor([[1.0, 10.0, 100.0], [1000.0, 1e4, 1e5]], dtype=f64))
    assert gradient(x) == [1e4, 20 + 1e5, 200]


def test_views_follow_what_they_look_at() -> None:
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = x * 1
    first, second = y[:2], y.view(2, 2)
    y *= 10  # both views see it, and get their history from it
    total(first)
    assert gradient(x) == [10, 10, 0, 0]
    x.grad = None
    y = x * 1
    row = y.view(2, 2)[1]
    row *= 5  # a view of a view changes the base
    total(y)
    assert gradient(x) == [1, 1, 5, 5]
    assert second.requires_grad


@pytest.mark.parametrize("index", [np.array([0, 2, 2]), np.array([True, False, True]), [1, 0]])
def test_gathered_and_scattered_elements(index: Any) -> None:
    values, source = leaf(D, 3, 4), leaf([10.0])
    expected: Any = torch.tensor(D.reshape(3, 4), requires_grad=True)
    total(values[index] * values[index])
    (expected[torch.from_numpy(np.asarray(index))] ** 2).sum().backward()
    assert gradient(values) == expected.grad.tolist()
    theirs: Any = torch.tensor([10.0], dtype=torch.float64, requires_grad=True)
    sides: Any = ((values * 1, source), (expected * 1, theirs))
    for y, part in sides:
        y[torch.from_numpy(np.asarray(index)) if part is theirs else index] = part
        (y * y).sum().backward()
    assert gradient(source) == theirs.grad.tolist()
    assert gradient(values) == expected.grad.tolist()


def test_places_taken_several_times_in_bf16() -> None:
    x = kt.tensor([1.0, 2.0, 3.0], "bf16", requires_grad=True)
    total(x[[0, 0, 2]] * 2)
    total(x.unfold(0, 2, 1))
    assert gradient(x) == [5, 2, 3]


def test_windows_of_one_gradient() -> None:
    """Ten thousand views of one tensor: their gradients are added in place, and not each in a tensor of its own."""
    x = leaf(np.ones(1000))
    parts = [x[i : i + 1] for i in range(1000)]
    before = memory.statistics().peak_bytes
    sum(parts, kt.zeros(1, dtype=f64)).backward()
    assert gradient(x) == [1] * 1000
    assert memory.statistics().peak_bytes - before < 2_000_000  # a gradient for each part would be 8 MB


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:, ::2],
        lambda x: x[:, ::-1],
        lambda x: x[0],
        lambda x: x[None, :, 1],
        lambda x: x.T,
        lambda x: x.permute(1, 0),
        lambda x: x.flip(0, 1),
        lambda x: x.view(4, 3),
        lambda x: x.T.reshape(12),
        lambda x: x.unsqueeze(1).squeeze(),
        lambda x: x[:1].expand(5, 4),
        lambda x: x[:, :1].expand(2, 3, 4),
        lambda x: x.diagonal(1),
        lambda x: x.unfold(1, 3, 1),
        lambda x: x.unfold(1, 2, 2),
        lambda x: x.narrow(1, 1, 2),
        lambda x: x.select(1, -1),
        lambda x: x.movedim(0, 1),
        lambda x: x.clone(),
        lambda x: x.contiguous(),
        lambda x: kt.stack(x.unbind(1), 1),
        lambda x: kt.cat(x.split(3, 1), 1),
        lambda x: x.chunk(2)[1],
        # views of what shows an element several times: each of its places has a gradient of its own
        lambda x: x[:1].expand(5, 4)[1:3],
        lambda x: x[:, :1].expand(3, 4).unbind(1)[2],
        lambda x: x[:1].expand(2, 3, 4).diagonal(),
        lambda x: x[:1].expand(5, 4)[[0, 0, 3]],
        lambda x: x[:1].expand(5, 4)[::-2].unfold(1, 3, 1).T,
        lambda x: x.unfold(1, 3, 1)[:, 1:],
    ],
)
def test_every_view_against_finite_differences(view: Any) -> None:
    kt.gradcheck(lambda x: view(x * 2).sin() * view(x), [leaf(D / 10, 3, 4)])
    kt.gradcheck(lambda x: view(x.T.contiguous()).exp(), [leaf(D[::-1] / 20, 4, 3)])


@settings(max_examples=60)
@given(st.data())
def test_random_graphs_have_the_gradients_of_torch(data: st.DataObject) -> None:
    """Random arithmetic, views and writes in place, in both libraries."""
    start = [np.linspace(0.5, 1.5, 6).reshape(2, 3), np.linspace(-1, 1, 6).reshape(2, 3)]
    leaves: Any = [[leaf(values) for values in start], [torch.tensor(values, requires_grad=True) for values in start]]
    values: Any = [[one * 1 for one in side] for side in leaves]
    actions = ["mul", "sub", "sin", "tanh", "part", "flat", "+=", "*=", "write", "row", "matmul", "sum"]
    for _ in range(data.draw(st.integers(1, 10), "steps")):
        i, j = (data.draw(st.integers(0, len(values[0]) - 1)) for _ in range(2))
        action = data.draw(st.sampled_from(actions))
        for side in values:
            a, b = side[i], side[j]
            if action == "mul":
                side.append(a * b)
            elif action == "sub":
                side.append(a - b * 0.5)
            elif action == "sin":
                side.append(a.sin())
            elif action == "tanh":
                side.append(a.tanh())
            elif action == "part":
                side.append(a * 1 + a[:, 1:2])
            elif action == "flat":
                side.append(a.reshape(3, 2).transpose(0, 1))
            elif action == "+=":
                a += b + 1
            elif action == "*=":
                a *= 0.5
            elif action == "write":
                a[:, :2] = b[:, 1:] + 0
            elif action == "row":
                row = a[1]
                row += b[0] * 2
            elif action == "matmul":
                side.append(a @ b.transpose(0, 1) @ b * 0.1)
            else:
                side.append(a.sum(0, keepdim=True) * 0.1 + b)
    results = [sum((one.sum() for one in side), side[0].sum()) for side in values]
    try:
        results[1].backward()
    except RuntimeError:  # something that is needed was modified in place
        with pytest.raises(GradientError, match="modified in place"):
            results[0].backward()
        return
    results[0].backward()
    np.testing.assert_allclose(results[0].item(), results[1].item(), rtol=1e-9, atol=1e-12)
    for ours, theirs in zip(*leaves, strict=True):
        expected = np.zeros((2, 3)) if theirs.grad is None else theirs.grad.numpy()
        np.testing.assert_allclose(
            np.zeros((2, 3)) if ours.grad is None else ours.grad.array, expected, rtol=1e-9, atol=1e-11
        )


def test_complex_numbers_have_no_gradients() -> None:
    with pytest.raises(DTypeError):
        kt.tensor([1j]).requires_grad_()


def test_nodes_do_not_keep_their_result() -> None:
    x = leaf([1.0])
    y = x.sigmoid()
    watched = weakref.ref(y)
    del y
    assert watched() is None


def test_gradcheck_finds_mistakes() -> None:
    def wrong(x: kt.Tensor) -> kt.Tensor:
        return x.detach() * x  # half of the gradient is missing

    with pytest.raises(GradientError, match=r"the gradient of input 0 at \(\d,\) is .*; finite differences give"):
        kt.gradcheck(wrong, [leaf([1.0, 2.0])])
    with pytest.raises(GradientError, match="expected at least one input"):
        kt.gradcheck(lambda x: x, [kt.ones(2)])


@pytest.mark.parametrize(
    "overwrite", [lambda y: y.zero_(), lambda y: y.fill_(3), lambda y: y.copy_(kt.tensor([1.0, 5.0]))]
)
def test_overwritten_by_what_has_no_gradient(overwrite: Callable[[Any], Any]) -> None:
    """The tensor requires a gradient as before; what it was made of gets zeros."""
    x = kt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    overwrite(y)
    assert y.requires_grad and not y.is_leaf
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 0]


def test_deep_copies_have_gradients_of_their_own() -> None:
    x = kt.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    again = copy.deepcopy([x, x])
    assert again[0] is again[1] and again[0].requires_grad
    assert x.grad is not None and again[0].grad is not None and again[0].grad.tolist() == [2, 4]
    assert not again[0].grad.shares_memory_with(x.grad)
    assert copy.deepcopy(kt.ones(2)).grad is None
