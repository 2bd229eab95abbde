"""The homework of the KuiperInfer course, lesson by lesson, with what it says itself to check the results by.

python examples/homework.py
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import kuiperinfer
from kuiperinfer import Layer, RuntimeGraph, RuntimeOperator, Tensor, TensorSpec, nn, register
from kuiperinfer.expression import Call, Expression, Operand, Token, evaluate, parse, tokenize
from kuiperinfer.tensor import arange, functional, ones, rand, tensor

# ------------------------------------------------------------------------------------------- 1: tensors


def axby(w: Tensor, x: Tensor, b: Tensor) -> Tensor:
    """y = W X + b"""
    return w @ x + b


def e_power_minus(x: Tensor) -> Tensor:
    """y = e^-x"""
    return (-x).exp()


def axpy(a: float, x: Tensor, y: Tensor) -> Tensor:
    """a x + y"""
    return a * x + y


def lesson_1() -> None:
    """Matrices: products, and expressions that are evaluated element by element."""
    matrix = arange(1.0, 10.0).reshape(3, 3)
    assert (matrix @ matrix).tolist() == [[30, 36, 42], [66, 81, 96], [102, 126, 150]]
    y = axby(matrix, matrix, tensor([[1.0, 1, 1], [2, 2, 2], [3, 3, 3]]))
    assert y.tolist() == [[31, 37, 43], [68, 83, 98], [105, 129, 153]]
    x = rand(224, 224)
    assert np.allclose(e_power_minus(x).numpy(), np.exp(-x.numpy()), rtol=0, atol=1e-5)
    assert np.allclose(axpy(3, x, ones(224, 224) * 4).numpy(), 3 * x.numpy() + 4, rtol=0, atol=1e-5)
    print("1  y = W X + b\n", y)


# ------------------------------------------------------------------------------------------- 2: shapes


def lesson_2() -> None:
    """Flattening and padding."""
    assert ones(2, 3, 4).flatten().shape == (24,)
    assert ones(12, 24).flatten().shape == (288,)
    matrix = tensor([[0.0, 1], [2, 3]])
    assert matrix.flatten(row_major=True).tolist() == [0, 1, 2, 3]
    assert matrix.flatten(row_major=False).tolist() == [0, 2, 1, 3]
    padded = ones(3, 4, 5).padding((1, 2, 3, 4), 0)  # up, down, left, right
    assert padded.shape == (3, 7, 12)
    assert padded[:, 1:5, 3:8].sum().item() == padded.sum().item() == 60
    framed = ones(3, 4, 5).padding((2, 2, 2, 2), 3.14)
    assert framed.shape == (3, 8, 9)
    assert framed[:, 2:6, 2:7].sum().item() == 60
    print("2  padded by 1, 2, 3 and 4\n", padded[0])


# ------------------------------------------------------------------------------------------- 3: the graph in the file


class Linear(nn.Module):
    """Input (1, 32) -> nn.Linear(32, 128) -> F.sigmoid"""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 128)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).sigmoid()


def lesson_3(folder: Path) -> None:
    """What a graph knows of an operator once it has been read: parameters and weights."""
    path = folder / "test_linear.pnnx.param"
    kuiperinfer.export(Linear(), path, (1, 32))
    graph = RuntimeGraph(str(path))
    graph.init()
    (linear,) = (operator for operator in graph.operators if operator.type == "nn.Linear")
    parameters = {name: parameter.value for name, parameter in linear.params.items()}
    assert parameters == {"bias": True, "in_features": 32, "out_features": 128}
    shapes = {name: tuple(attribute.shape) for name, attribute in linear.attribute.items()}
    assert shapes == {"bias": (128,), "weight": (128, 32)}
    print("3  nn.Linear has", parameters, "and", shapes)


# ------------------------------------------------------------------------------------------- 4: order


class SimpleOps(nn.Module):
    """Two layers in a row, two beside each other, and their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.op1, self.op3, self.op4, self.op5 = nn.Tanh(), nn.SiLU(), nn.ReLU(), nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        middle = self.op3(self.op1(x))
        return self.op4(middle) + self.op5(middle)


def topological_order(operators: Sequence[RuntimeOperator]) -> list[RuntimeOperator]:
    """Kahn's algorithm: again and again the first operator that waits for nothing."""
    waiting_for = {operator.name: len(operator.input_operands) for operator in operators}
    ready = deque(operator for operator in operators if not waiting_for[operator.name])
    order = []
    while ready:
        order.append(ready.popleft())
        for consumer in order[-1].output_operators.values():
            waiting_for[consumer.name] -= 1
            if not waiting_for[consumer.name]:
                ready.append(consumer)
    if len(order) < len(operators):
        raise RuntimeError("Graph has a cycle")
    return order


def lesson_4(folder: Path) -> None:
    """An order in which every operator comes after those whose results it takes."""
    path = folder / "simple_ops.pnnx.param"
    kuiperinfer.export(SimpleOps(), path, (1, 3, 16, 16))
    graph = RuntimeGraph(str(path))
    states = [int(graph.state)]
    graph.init()
    states.append(int(graph.state))
    graph.build()
    states.append(int(graph.state))
    assert states == [-2, -1, 0]
    names = [operator.name for operator in topological_order(graph.operators)]
    assert names == ["pnnx_input_0", "op1", "op3", "op4", "op5", "pnnx_expr_0", "pnnx_output_0"]
    print("4 ", " -> ".join(names))


# ------------------------------------------------------------------------------------------- 5: a layer


def lesson_5() -> None:
    """A layer of one's own, registered under the name of an operator."""

    @register("homework.Sigmoid")
    @dataclass(frozen=True, kw_only=True)
    class Sigmoid(Layer):
        """1 / (1 + e^-x). (*) -> (*)"""

        def infer(self, input: TensorSpec) -> TensorSpec:
            return input.like()

        def forward(self, input: np.ndarray) -> np.ndarray:
            return 1 / (1 + np.exp(-input))

    try:
        x = np.linspace(-4, 4, 9, dtype=np.float32)
        y = kuiperinfer.layers.registered()["homework.Sigmoid"].layer().forward(x)
        assert np.allclose(y, nn.Sigmoid()(Tensor(x)).numpy(), atol=1e-7)
        print("5  sigmoid", y.round(3))
    finally:
        kuiperinfer.unregister("homework.Sigmoid")


# ------------------------------------------------------------------------------------------- 6: convolution and pooling


def lesson_6() -> None:
    """Convolution in groups, and the largest element of each window."""
    image = arange(1.0, 17.0).reshape(4, 4).expand(1, 2, 4, 4)
    kernel = tensor([[1.0, 2, 3], [3, 2, 1], [1, 2, 3]])
    grouped = functional.conv2d(image, kernel.expand(2, 1, 3, 3), groups=2)
    assert grouped.tolist() == [[[[110, 128], [182, 200]]] * 2]
    whole = functional.conv2d(image, kernel.expand(2, 2, 3, 3))
    assert whole.tolist() == [[[[220, 256], [364, 400]]] * 2]
    steps = tensor([[1.0, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6], [4, 5, 6, 7]])
    assert functional.max_pool2d(steps.reshape(1, 1, 4, 4), 2).tolist() == [[[[3, 5], [5, 7]]]]
    print("6  convolution in two groups\n", grouped[0, 0])


# ------------------------------------------------------------------------------------------- 7: expressions


def lesson_7() -> tuple[list[Token], Expression]:
    """An expression's tokens, its tree, and its value."""
    tokens = tokenize("add(sin(@0),@1)")
    assert [token.text for token in tokens] == ["add", "(", "sin", "(", "@0", ")", ",", "@1", ")"]
    tree = parse("add(sin(@0),@1)")
    assert tree == Call("add", (Call("sin", (Operand(0),)), Operand(1)))
    value = evaluate(parse("mul(@1,sin(@0))"), [np.float32(2), np.float32(3)])
    assert abs(float(value) - 2.72789) < 1e-3
    print("7  3 sin 2 =", float(value))
    return tokens, tree


def main() -> None:
    """All lessons that have homework."""
    with tempfile.TemporaryDirectory() as folder:
        lesson_1()
        lesson_2()
        lesson_3(Path(folder))
        lesson_4(Path(folder))
        lesson_5()
        lesson_6()
        lesson_7()


if __name__ == "__main__":
    main()
