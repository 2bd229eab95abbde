"""From a graph with known shapes to steps: kernels with their operands, buffers with their layouts.

Rules, one a layer class, stand in the files named as those of `layers/`. A rule asks for its inputs in the layout that its
kernel reads (`image`, `rows`), for memory for its output (`new_image`, `new_rows`), and adds a step. Where no rule applies,
the step runs the layer's NumPy `forward` on the same memory.

A *home* is a place where an operand's value lies; an operand may have two, one a layout.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..dtypes import Array, TensorSpec, f32
from ..graph import UNKNOWN, RuntimeOperand, RuntimeOperator
from ..layers import Layer
from ..layers.binding import FromAttribute, FromInput
from ..memory.aligned import aligned_empty
from ..passes.fused import Fused
from .kernels.copies import FillHaloSpec, ReorderSpec
from .layout import NO_HALO, Halo, ImageLayout, blocked, planar
from .spec import KernelSpec
from .target import Target


class Place(enum.Enum):
    """What kind of memory a buffer is."""

    ARENA = "arena"
    CONSTANT = "constant"
    INPUT = "input"
    OUTPUT = "output"


@dataclass(eq=False)
class Buffer:
    """A stretch of memory; `data` is there for constants, `number` for the model's inputs and outputs."""

    place: Place
    nbytes: int
    data: Array | None = None
    number: int = -1


@dataclass(frozen=True)
class Ref:
    """An address: a buffer and an offset in bytes."""

    buffer: Buffer
    offset: int = 0


@dataclass(frozen=True)
class Image:
    """An operand in an image layout; the layout's origin counts from `ref`."""

    ref: Ref
    layout: ImageLayout


@dataclass
class Home:
    """Where an operand lies. `parts` is set for a list, `value` for what is known when code is made."""

    rows: Ref | None = None
    image: Image | None = None
    parts: list[Any] | None = None
    value: Any = None
    is_object: bool = False  # known only to the session, as a Python object


@dataclass
class KernelStep:
    """Native code: a kernel and its operands, in the order of the kernel's arguments."""

    operator: RuntimeOperator
    spec: KernelSpec
    refs: tuple[Ref, ...]
    writes: int  # which of the refs is written


@dataclass
class ReferenceStep:
    """A layer's NumPy `forward`: the operands it reads and those it makes."""

    operator: RuntimeOperator
    inputs: tuple[RuntimeOperand, ...]
    outputs: tuple[RuntimeOperand, ...]
    refs: tuple[Ref, ...] = ()


Step: TypeAlias = "KernelStep | ReferenceStep"


@dataclass(frozen=True)
class Rule:
    """How a layer class is lowered.

    `lower` adds steps and returns True, or returns False to decline. `layout` says whether the output will be an image (by
    default where the first input is one), `halo` how much padding the rule wants around an input image.
    """

    lower: Callable[[Lowering, RuntimeOperator], bool]
    layout: Callable[[Lowering, RuntimeOperator], bool] | None = None
    halo: Callable[[Lowering, RuntimeOperator, int], Halo] | None = None
    reads_image: bool = False


_RULES: dict[type[Layer], Rule] = {}


def lowers(
    *layers: type[Layer],
    layout: Callable[[Lowering, RuntimeOperator], bool] | None = None,
    halo: Callable[[Lowering, RuntimeOperator, int], Halo] | None = None,
    reads_image: bool = False,
) -> Callable[[Callable[[Lowering, RuntimeOperator], bool]], Callable[[Lowering, RuntimeOperator], bool]]:
    """Decorator: makes a function the lowering rule of layer classes."""

    def decorate(lower: Callable[[Lowering, RuntimeOperator], bool]) -> Callable[[Lowering, RuntimeOperator], bool]:
        for layer in layers:
            _RULES[layer] = Rule(lower, layout, halo, reads_image)
        return lower

    return decorate


def rule_of(layer: Layer | None) -> Rule | None:
    """The rule of a layer, or of the nearest class that it inherits from."""
    if isinstance(layer, Fused):
        layer = layer.base
    for kind in type(layer).__mro__:
        if kind in _RULES:
            return _RULES[kind]
    return None


@dataclass
class Lowering:
    """One model at one set of input shapes, on its way to steps."""

    operators: Sequence[RuntimeOperator]
    specs: Mapping[RuntimeOperand, Any]
    target: Target
    exact: bool = False
    slice_planner: Callable[[Lowering], dict[RuntimeOperand, tuple[RuntimeOperand, int]]] | None = None
    homes: dict[RuntimeOperand, Home] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    is_image: dict[RuntimeOperand, bool] = field(default_factory=dict)
    halos: dict[RuntimeOperand, Halo] = field(default_factory=dict)
    slices: dict[RuntimeOperand, Image] = field(default_factory=dict)
    planned_slices: dict[RuntimeOperand, tuple[RuntimeOperand, int]] = field(default_factory=dict)
    output_numbers: dict[RuntimeOperand, int] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    operator: RuntimeOperator | None = None
    _cats: dict[RuntimeOperand, Image] = field(default_factory=dict)

    # ---------------------------------------------------------------------------------------- the walk

    def run(self) -> None:
        """Lowers all operators, in order, and brings the outputs to where they belong."""
        self._plan_layouts()
        self.planned_slices = self.slice_planner(self) if self.slice_planner is not None else {}
        self._number_outputs()
        inputs = [operator for operator in self.operators if operator.type == "pnnx.Input"]
        for operator in self.operators:
            self.operator = operator
            if operator.type == "pnnx.Input":
                spec = self.specs[operator.output_operands[0]]
                buffer = Buffer(Place.INPUT, spec.nbytes, number=inputs.index(operator))
                self.homes[operator.output_operands[0]] = Home(rows=Ref(buffer))
            elif operator.type == "pnnx.Output":
                self.outputs += [part for operand in operator.input_operands_seq for part in self._leaves(operand)]
            else:
                self._lower(operator)
        for leaf in self.outputs:
            if isinstance(leaf, RuntimeOperand) and not self.homes[leaf].is_object:
                self.operator = leaf.producer
                self.rows(leaf)

    def _lower(self, operator: RuntimeOperator) -> None:
        if self._is_known(operator):
            return
        if operator.type in ("prim::TupleConstruct", "prim::ListConstruct"):
            parts = list(operator.input_operands_seq)
            self.homes[operator.output_operands[0]] = Home(parts=parts)
            return
        if operator.type == "prim::DictConstruct":
            self.homes[operator.output_operands[0]] = Home(parts=operator.input_operands_seq[1::2])
            return
        rule = rule_of(operator.layer)
        mark = len(self.steps)
        if rule is not None and self._is_float(operator) and rule.lower(self, operator):
            return
        assert len(self.steps) == mark, f"the rule of {operator.type} declined after it had added steps"
        self._fall_back(operator)

    def _is_known(self, operator: RuntimeOperator) -> bool:
        """Constants, and what the shapes tell: no step is needed."""
        if operator.type == "pnnx.Attribute":
            data = next(iter(operator.attributes.values())).data
            operand = operator.output_operands[0]
            assert data is not None
            self.homes[operand] = Home(rows=self.constant(data), value=data)
            return True
        specs = [self.specs[operand] for operand in operator.output_operands]
        if any(spec is UNKNOWN or _holds_tensor(spec) for spec in specs):
            return False
        for operand, spec in zip(operator.output_operands, specs, strict=True):
            self.homes[operand] = Home(value=spec)
        return True

    def _is_float(self, operator: RuntimeOperator) -> bool:
        """Whether all tensors of an operator are float32 of known shape: what kernels are for."""
        operands = [*operator.input_operands_seq, *operator.output_operands]
        specs = [self.specs[operand] for operand in operands]
        return all(spec is not UNKNOWN and (not isinstance(spec, TensorSpec) or spec.dtype is f32) for spec in specs)

    def _fall_back(self, operator: RuntimeOperator) -> None:
        refs: list[Ref] = []
        for operand in operator.input_operands_seq:
            refs += self._pin(operand)
        for operand in operator.output_operands:
            if isinstance(self.specs[operand], TensorSpec):
                refs.append(self.new_rows(operand))
            else:
                self.homes[operand] = Home(is_object=True)
        self.steps.append(
            ReferenceStep(operator, tuple(operator.input_operands_seq), tuple(operator.output_operands), tuple(refs))
        )

    def _pin(self, operand: RuntimeOperand) -> list[Ref]:
        """Brings an operand (or the parts of a list) to rows, and returns the memory that has to live."""
        home = self.homes[operand]
        if home.parts is not None:
            return [ref for part in home.parts if isinstance(part, RuntimeOperand) for ref in self._pin(part)]
        if home.is_object or not isinstance(self.specs[operand], TensorSpec):
            return []
        return [self.rows(operand)]

    # ---------------------------------------------------------------------------------------- plans made beforehand

    def _plan_layouts(self) -> None:
        """Which operands will be images, and the padding that their consumers want around them."""
        for operator in self.operators:
            rule = rule_of(operator.layer)
            for operand in operator.output_operands:
                spec = self.specs[operand]
                if not isinstance(spec, TensorSpec) or spec.ndim != 4 or spec.dtype is not f32 or rule is None:
                    self.is_image[operand] = False
                elif rule.layout is not None:
                    self.is_image[operand] = rule.layout(self, operator)
                else:
                    self.is_image[operand] = any(self.is_image.get(i, False) for i in operator.input_operands_seq)
            if rule is not None and rule.halo is not None:
                for index, operand in enumerate(operator.input_operands_seq):
                    wanted = rule.halo(self, operator, index)
                    self.halos[operand] = _larger(self.halos.get(operand, NO_HALO), wanted)

    def _number_outputs(self) -> None:
        number = 0
        for operator in self.operators:
            if operator.type != "pnnx.Output":
                continue
            for operand in operator.input_operands_seq:
                for leaf in _structure(operand):
                    if isinstance(self.specs[leaf], TensorSpec):
                        self.output_numbers.setdefault(leaf, number)
                    number += 1

    def _leaves(self, operand: RuntimeOperand) -> list[Any]:
        home = self.homes[operand]
        if home.parts is not None:
            return [leaf for part in home.parts for leaf in self._leaves(part)]
        return [operand]

    # ---------------------------------------------------------------------------------------- what rules ask for

    def spec(self, operand: RuntimeOperand) -> TensorSpec:
        """The spec of a tensor operand."""
        found = self.specs[operand]
        assert isinstance(found, TensorSpec)
        return found

    def argument(self, operator: RuntimeOperator, name: str) -> Any:
        """A named argument of an operator's layer: an operand, a constant array, or a Python value; None where absent."""
        assert operator.binding is not None
        source = operator.binding.named.get(name)
        if source is None:
            return None
        if isinstance(source, FromInput):
            operand = operator.input_operands_seq[source.index]
            value = self.homes[operand].value if operand in self.homes else None
            return operand if value is None else value
        if isinstance(source, FromAttribute):
            return operator.attributes[source.name].data
        return source.value

    def rows(self, operand: RuntimeOperand) -> Ref:
        """The operand in row-major order."""
        home = self.homes[operand]
        if home.rows is None:
            assert home.image is not None
            layout = home.image.layout
            image = home.image
            if (
                layout.blocks * layout.block == layout.channels
                and layout.is_dense
                and (layout.height, layout.width) == (1, 1)
            ):
                offset = image.ref.offset + 4 * layout.origin
                if operand not in self.output_numbers:
                    home.rows = Ref(image.ref.buffer, offset)
                    return home.rows
            to = planar(layout.shape)
            home.rows = self._rows_memory(operand)
            self.add(ReorderSpec(layout, to), image.ref, home.rows)
        return home.rows

    def image(self, operand: RuntimeOperand, halo: Halo = NO_HALO) -> Image:
        """The operand as an image in blocked layout with at least the given halo."""
        home = self.homes[operand]
        if home.image is not None and all(
            have >= want for have, want in zip(home.image.layout.halo, halo, strict=True)
        ):
            return home.image
        shape = self.spec(operand).shape
        wanted = self.halos.get(operand, NO_HALO)
        full = _larger(wanted, halo)
        source = home.image or Image(self.rows(operand), planar(shape))  # type: ignore[arg-type]
        made = self._image_memory(blocked(shape, self.target.lanes, full))  # type: ignore[arg-type]
        self.add(ReorderSpec(source.layout, made.layout), source.ref, made.ref)
        home.image = made
        return made

    def new_image(self, operand: RuntimeOperand) -> Image:
        """Memory for an output image, its halo filled with zeros: a slice of a concatenation, or a buffer of its own."""
        planned = self._slice(operand)
        if planned is None:
            shape = self.spec(operand).shape
            planned = self._image_memory(blocked(shape, self.target.lanes, self.halos.get(operand, NO_HALO)))  # type: ignore[arg-type]
        self.homes[operand] = Home(image=planned)
        return planned

    def _slice(self, operand: RuntimeOperand) -> Image | None:
        """The place of an operand within the concatenation that it is planned to be written into."""
        if operand not in self.planned_slices:
            return None
        output, start = self.planned_slices[operand]
        whole = self.cat_image(output)
        self.slices[operand] = Image(whole.ref, whole.layout.channel_slice(start, self.spec(operand).shape[1]))
        return self.slices[operand]

    def cat_image(self, output: RuntimeOperand) -> Image:
        """The buffer of a concatenation, made when its first part is written."""
        if output not in self._cats:
            halo = self.halos.get(output, NO_HALO)
            for part in output.producer.input_operands_seq:
                halo = _larger(halo, self.halos.get(part, NO_HALO))
            nested = self._slice(output)
            shape = self.spec(output).shape
            self._cats[output] = nested or self._image_memory(blocked(shape, self.target.lanes, halo))  # type: ignore[arg-type]
        return self._cats[output]

    def new_rows(self, operand: RuntimeOperand) -> Ref:
        """Memory for an output in row-major order."""
        ref = self._rows_memory(operand)
        self.homes[operand] = Home(rows=ref)
        return ref

    def planar_copy(self, source: Image, halo: Halo) -> Image:
        """A copy of a planar image with a halo of zeros."""
        made = self._image_memory(planar(source.layout.shape, halo))
        self.add(ReorderSpec(source.layout, made.layout), source.ref, made.ref)
        return made

    def alias(self, operand: RuntimeOperand, home: Home) -> None:
        """The operand is a view of memory that is there already."""
        self.homes[operand] = home

    def constant(self, data: Array) -> Ref:
        """Constant memory, such as packed weights; aligned for vector loads."""
        if data.ctypes.data % 64:
            aligned = aligned_empty(data.shape, data.dtype)
            aligned[...] = data
            data = aligned
        return Ref(Buffer(Place.CONSTANT, data.nbytes, data=data))

    def temporary(self, nbytes: int) -> Ref:
        """Memory between the steps of one rule."""
        return Ref(Buffer(Place.ARENA, nbytes))

    def add(self, spec: KernelSpec, *refs: Ref, writes: int = -1) -> None:
        """Adds a step; `writes` is the index of the ref that is written, the last unless told otherwise."""
        assert self.operator is not None
        self.steps.append(KernelStep(self.operator, spec, refs, writes % len(refs)))

    def _rows_memory(self, operand: RuntimeOperand) -> Ref:
        nbytes = self.spec(operand).nbytes
        if operand in self.output_numbers:
            return Ref(Buffer(Place.OUTPUT, nbytes, number=self.output_numbers[operand]))
        return Ref(Buffer(Place.ARENA, nbytes))

    def _image_memory(self, layout: ImageLayout) -> Image:
        made = Image(Ref(Buffer(Place.ARENA, 4 * layout.floats)), layout)
        if layout.halo != NO_HALO:
            self.add(FillHaloSpec(layout), made.ref)
        return made


def _larger(a: Halo, b: Halo) -> Halo:
    return (max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))


def _holds_tensor(spec: Any) -> bool:
    if isinstance(spec, (list, dict)):
        return any(_holds_tensor(item) for item in (spec.values() if isinstance(spec, dict) else spec))
    return isinstance(spec, TensorSpec)


def _structure(operand: RuntimeOperand) -> list[RuntimeOperand]:
    if operand.producer.type in ("prim::TupleConstruct", "prim::ListConstruct"):
        return [leaf for part in operand.producer.input_operands_seq for leaf in _structure(part)]
    if operand.producer.type == "prim::DictConstruct":
        return [leaf for part in operand.producer.input_operands_seq[1::2] for leaf in _structure(part)]
    return [operand]


def as_float32(value: Any) -> np.ndarray[Any, Any]:
    """A constant widened to float32, C-contiguous: f16 weights calculate in float32."""
    from ..dtypes import widen

    return np.ascontiguousarray(widen(np.asarray(value)), np.float32)
