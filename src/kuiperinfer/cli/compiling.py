"""What the commands that compile a model share: their options, the model with whatever weights there are, and its inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .models import input_shapes, model_argument, model_file, shape_option

if TYPE_CHECKING:
    from .. import pnnx
    from ..dtypes import Array
    from ..runtime import Model
    from ..runtime.compiled import CompiledModel

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class CompileOptions:
    """What `compile_options` brings; None where nothing was given."""

    shapes: tuple[str, ...] = ()
    batch: int | None = None
    threads: int | None = None
    target: str | None = None
    exact: bool = False

    @contextmanager
    def applied(self, **more: Any) -> Iterator[None]:
        """The settings that the options stand for, and `more` of them."""
        from ..settings import settings

        changes: dict[str, Any] = {"threads": self.threads, "target": self.target}
        changes = {name: value for name, value in changes.items() if value is not None}
        if self.exact:
            changes["precision"] = "exact"
        with settings(**changes, **more):
            yield

    def shapes_of(self, model: Model) -> dict[str, tuple[int, ...]]:
        """Input name -> shape: as the options say, else as the model declares, with --batch as first dimension of all."""
        infos = model.inputs
        if self.batch is not None:
            infos = tuple(
                replace(info, shape=(self.batch, *info.shape[1:])) if info.shape else info for info in model.inputs
            )
        return input_shapes(self.shapes, infos)

    def compile(self, model: Model) -> CompiledModel:
        """The model compiled for these options; within `applied`."""
        from ..dtypes import TensorSpec, f32

        shapes = self.shapes_of(model)
        return model.compile(*(TensorSpec(shapes[info.name], info.dtype or f32) for info in model.inputs))

    def random_arrays(self, model: Model) -> list[Array]:
        """Random inputs in file order, the same ones each time."""
        from .run import random_by_name

        return list(random_by_name(model, self.shapes_of(model), seed=0).values())


def compile_options(command: Command) -> Command:
    """The argument MODEL and the options --shape, --batch, --threads, --target and --exact; they arrive as `model_path`
    and `options`."""

    @functools.wraps(command)
    def run(
        *,
        shapes: tuple[str, ...],
        batch: int | None,
        threads: int | None,
        target: str | None,
        exact: bool,
        **others: Any,
    ) -> Any:
        return command(options=CompileOptions(shapes, batch, threads, target, exact), **others)

    decorated: Any = run
    for decorate in (
        click.option("--exact", is_flag=True, help="Without Winograd's algorithm, whose rounding is coarser."),
        target_option,
        click.option("--threads", type=click.IntRange(1, 256), help="[default: as many as the process may use]"),
        click.option("--batch", type=click.IntRange(min=1), help="First dimension of all inputs."),
        shape_option,
        model_argument,
    ):
        decorated = decorate(decorated)
    made: Command = decorated
    return made


def target_option(command: Command) -> Command:
    """The option --target."""
    return click.option(
        "--target",
        metavar="NAME",
        callback=_checked_target,
        help="x86-64-v2, x86-64-v3 or x86-64-v4: code for less than this CPU has.",
    )(command)


def _checked_target(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """The name of a target, which is looked up as soon as one is given."""
    if name is not None:
        from ..codegen.target import runs_here, target_named
        from ..errors import InputError

        try:
            if not runs_here(target_named(name)):
                raise click.BadParameter(f"this machine cannot run code for {name}", context, option)
        except InputError as error:
            raise click.BadParameter(str(error), context, option) from error
    return name


def read_model(path: Path) -> tuple[pnnx.Graph, bool]:
    """The graph of a MODEL argument, and whether it needs random weights because the archive is not there."""
    from .. import pnnx
    from ..pnnx.paths import bin_path

    param = model_file(path)
    beside = bin_path(str(param))
    if beside is not None and Path(beside).exists():
        return pnnx.read(param), False
    graph = pnnx.read(param, weights=False)
    return graph, any(operator.attributes for operator in graph.operators)


def load_any(path: Path) -> tuple[Model, bool]:
    """The model of a MODEL argument, ready to run, and whether its weights are random."""
    from ..graph import RuntimeGraph
    from ..pnnx.random_weights import fill_random_weights
    from ..runtime import Model

    graph, random = read_model(path)
    return Model(RuntimeGraph.from_pnnx(fill_random_weights(graph))), random


def fallback_text(types: Sequence[str]) -> str:
    """``2 steps run the reference: nn.LSTM, torch.topk``, or that none does."""
    if not types:
        return "every step is compiled"
    steps = "1 step runs" if len(types) == 1 else f"{len(types)} steps run"
    return f"{steps} the reference: {', '.join(dict.fromkeys(types))}"


def title(model_path: Path, compiled: CompiledModel, random_weights: bool) -> str:
    """Model, input shapes, threads and target in one line."""
    from .console import printable

    shapes = ", ".join(map(str, compiled.plan.input_specs))
    weights = ", random weights" if random_weights else ""
    target = compiled.plan.target.name
    return printable(f"{model_path}  {shapes}  threads={compiled.threads}  target={target}{weights}")
