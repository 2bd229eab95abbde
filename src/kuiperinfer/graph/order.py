"""Orders in which a graph can run: two topological sorts, both deterministic in file order, and the search for a cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..errors import ModelFileError
from .parts import RuntimeOperator


def kahn_order(operators: Sequence[RuntimeOperator]) -> list[RuntimeOperator]:
    """Kahn's algorithm with a first-in-first-out queue, filled in file order. A cycle is a `ModelFileError` that names it."""
    waiting_for = {id(operator): len(operator.input_operands_seq) for operator in operators}
    ready = deque(operator for operator in operators if not waiting_for[id(operator)])
    order: list[RuntimeOperator] = []
    while ready:
        operator = ready.popleft()
        order.append(operator)
        for operand in operator.output_operands:
            for consumer in operand.consumers:
                waiting_for[id(consumer)] -= 1
                if not waiting_for[id(consumer)]:
                    ready.append(consumer)
    if len(order) < len(operators):
        raise _cycle(operators)
    return order


def reverse_dfs_order(operators: Sequence[RuntimeOperator]) -> list[RuntimeOperator]:
    """Depth first along the consumers, each operator noted when it is left, the notes reversed. Cycles as in `kahn_order`."""
    unvisited, open_, closed = 0, 1, 2
    state = {id(operator): unvisited for operator in operators}
    notes: list[RuntimeOperator] = []
    for root in operators:
        if state[id(root)] != unvisited:
            continue
        state[id(root)] = open_
        path = [(root, iter(list(root.output_operators.values())))]
        while path:
            operator, consumers = path[-1]
            consumer = next(consumers, None)
            if consumer is None:
                state[id(operator)] = closed
                notes.append(operator)
                path.pop()
            elif state[id(consumer)] == open_:
                raise _cycle(operators)
            elif state[id(consumer)] == unvisited:
                state[id(consumer)] = open_
                path.append((consumer, iter(list(consumer.output_operators.values()))))
    return notes[::-1]


def execution_order(operators: Sequence[RuntimeOperator]) -> list[RuntimeOperator]:
    """File order where it is a topological order, as it is in every file of the converter; else Kahn's."""
    made: set[int] = set()
    for operator in operators:
        if any(id(operand) not in made for operand in operator.input_operands_seq):
            return kahn_order(operators)
        made.update(id(operand) for operand in operator.output_operands)
    return list(operators)


def _cycle(operators: Sequence[RuntimeOperator]) -> ModelFileError:
    """The error that names one cycle; `operators` have at least one."""
    stuck = {id(operator): operator for operator in operators}
    waiting_for = {id(operator): len(operator.input_operands_seq) for operator in operators}
    ready = [operator for operator in operators if not waiting_for[id(operator)]]
    while ready:
        operator = ready.pop()
        del stuck[id(operator)]
        for operand in operator.output_operands:
            for consumer in operand.consumers:
                waiting_for[id(consumer)] -= 1
                if not waiting_for[id(consumer)]:
                    ready.append(consumer)
    path: list[RuntimeOperator] = []
    seen: dict[int, int] = {}
    current = next(iter(stuck.values()))
    while id(current) not in seen:  # backwards along producers that are stuck too
        seen[id(current)] = len(path)
        path.append(current)
        current = next(o.producer for o in current.input_operands_seq if id(o.producer) in stuck)
    names = [operator.name for operator in path[seen[id(current)] :]][::-1]
    shown = (
        " -> ".join([*names, names[0]])
        if len(names) <= 12
        else " -> ".join(names[:12]) + f" -> … ({len(names)} operators)"
    )
    return ModelFileError(f"the graph has a cycle: {shown}")
