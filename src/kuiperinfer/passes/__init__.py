"""From a graph to a smaller one that means the same: one idea a file, in the order of `PASSES`.

Every pass can be switched off (`settings.passes_off`, names separated by commas), and the graph stays one that the reference
can run after each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..dtypes import TensorSpec
from ..errors import InputError, did_you_mean
from ..graph import RuntimeGraph, RuntimeOperator, infer_shapes
from ..settings import debug_print, settings
from .as_images import view_as_images
from .clean import drop_copies, drop_dead
from .elementwise import merge_expressions, unify_elementwise
from .fold_batch_norm import fold_batch_norm, unify_batch_norm
from .fold_constants import fold_constants
from .fuse_epilogue import fuse_epilogue
from .part_padding import part_padding
from .prelu import unify_prelu
from .rewriting import Specs, copy_graph
from .select_early import select_early
from .verify import verify

Pass: TypeAlias = Callable[[list[RuntimeOperator], Specs], list[RuntimeOperator]]

PASSES: tuple[Pass, ...] = (
    drop_copies,
    fold_constants,
    part_padding,
    fold_batch_norm,
    unify_batch_norm,
    unify_prelu,
    unify_elementwise,
    merge_expressions,
    select_early,
    fuse_epilogue,
    view_as_images,
    drop_dead,
)


# What is done with steps, behind these passes, and can be switched off like them.
OF_STEPS = ("fuse_depth_first",)


def optimise(graph: RuntimeGraph, inputs: Mapping[str, TensorSpec]) -> tuple[list[RuntimeOperator], Specs]:
    """The graph after all passes, at given input shapes: operators in execution order, and what is known of their operands.

    Raises `InputError` where `settings.passes_off` names a pass that does not exist.
    """
    known = ["all", *(one.__name__ for one in PASSES), *OF_STEPS]
    if unknown := sorted(_off() - {"", *known}):
        raise InputError(
            f"settings.passes_off: there is no pass '{unknown[0]}', only {', '.join(known)}{did_you_mean(unknown[0], known)}"
        )
    operators, specs = copy_graph(graph.topo_operators, infer_shapes(graph.topo_operators, inputs))
    for one in PASSES:
        if is_off(one.__name__):
            continue
        before = len(operators)
        operators = one(operators, specs)
        if settings.verify:
            verify(operators, specs, inputs, one.__name__)
        debug_print(3, f"{one.__name__}: {before} -> {len(operators)} operators")
    return operators, specs


def is_off(name: str) -> bool:
    """Whether a pass is switched off."""
    return bool({name, "all"} & _off())


def _off() -> set[str]:
    return {one.strip() for one in settings.passes_off.split(",")}
