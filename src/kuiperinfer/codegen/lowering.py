"""From a graph with known shapes to steps: kernels with their operands, buffers with their layouts.

Rules, one a layer class, stand in the files named as those of `layers/`. A rule asks for its inputs in the layout that its
kernel reads (`image`, `rows`), for memory for its output (`new_image`, `new_rows`), and adds a step. Where no rule applies,
the step runs the layer's NumPy `forward` on the same memory.

A *home* is a place where an operand's value lies; an operand may have two, one a layout. Reshaped, permuted and sliced operands
are *views* of another one, and are copied only where a kernel asks for them as rows.
"""

from __future__ import annotations

import functools
import importlib.util
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from ..dtypes import Array, TensorSpec, f32
from ..graph import UNKNOWN, RuntimeOperand, RuntimeOperator
from ..layers import Layer
from ..layers.binding import FromAttribute, FromInput
from ..layers.shape import Flatten, Reshape, Squeeze, Unflatten, Unsqueeze
from ..passes.fused import Fused
from ..records import dataclass
from .constants import Constants
from .homes import Buffer as Buffer
from .homes import Home as Home
from .homes import Image as Image
from .homes import Place as Place
from .homes import Ref as Ref
from .homes import Strided as Strided
from .homes import View as View
from .homes import is_row_major, project, row_major
from .kernels.copies import FillHaloSpec, ReorderSpec, pack_image
from .kernels.strided_copy import plan_copy
from .layout import NO_HALO, Halo, ImageLayout, blocked, planar, strided_planar
from .spec import KernelSpec
from .target import Target


@dataclass
class KernelStep:
    """Native code: a kernel and its operands, in the order of the kernel's arguments.

    `earlier` is the operator whose work, right before that of `operator`, is done by the way.
    """

    operator: RuntimeOperator
    spec: KernelSpec
    refs: tuple[Ref, ...]
    writes: int  # which of the refs is written
    earlier: RuntimeOperator | None = None


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
    default where the first input is one), `halo` how much padding the rule wants around an input image. `any_dtype` rules take
    tensors of all dtypes, others float32 alone.
    """

    lower: Callable[[Lowering, RuntimeOperator], bool]
    layout: Callable[[Lowering, RuntimeOperator], bool] | None = None
    halo: Callable[[Lowering, RuntimeOperator, int], Halo] | None = None
    reads_image: bool = False
    any_dtype: bool = False


_RULES: dict[type[Layer], Rule] = {}
_RESHAPES = (Flatten, Reshape, Squeeze, Unflatten, Unsqueeze)


def lowers(
    *layers: type[Layer],
    layout: Callable[[Lowering, RuntimeOperator], bool] | None = None,
    halo: Callable[[Lowering, RuntimeOperator, int], Halo] | None = None,
    reads_image: bool = False,
    any_dtype: bool = False,
) -> Callable[[Callable[[Lowering, RuntimeOperator], bool]], Callable[[Lowering, RuntimeOperator], bool]]:
    """Decorator: makes a function the lowering rule of layer classes."""

    def decorate(lower: Callable[[Lowering, RuntimeOperator], bool]) -> Callable[[Lowering, RuntimeOperator], bool]:
        for layer in layers:
            _RULES[layer] = Rule(lower, layout, halo, reads_image, any_dtype)
        return lower

    return decorate


# The rules for a family of layers stand in the file of its name, but for these.
RULE_FILES: Mapping[str, tuple[str, ...]] = {
    "adaptive_pooling": ("pooling",),
    "convolution": ("convolution", "transposed_convolution"),
    "distance": ("reduction",),
    "extremum": ("reduction",),
    "fused": ("elementwise",),
    "multihead_attention": ("attention",),
    "variance": ("reduction",),
    "vector": ("reduction",),
}


def rule_of(layer: Layer | None) -> Rule | None:
    """The rule of a layer, or of the nearest class that it inherits from."""
    if isinstance(layer, Fused):
        layer = layer.base
    for kind in type(layer).__mro__:
        _import_rules(kind.__module__)
        if kind in _RULES:
            return _RULES[kind]
    return None


@functools.cache
def _import_rules(module: str) -> None:
    """Imports the rules for the layers of a module, where it is one of this package."""
    room, _, family = module.rpartition(".")
    if room not in (Layer.__module__.rpartition(".")[0], Fused.__module__.rpartition(".")[0]):
        return
    for name in RULE_FILES.get(family, (family,)):
        if importlib.util.find_spec(f"{__package__}.{name}") is not None:
            importlib.import_module(f"{__package__}.{name}")


@dataclass
class Lowering:
    """One model at one set of input shapes, on its way to steps."""

    operators: Sequence[RuntimeOperator]
    specs: dict[RuntimeOperand, Any]
    target: Target
    exact: bool = False
    slice_planner: Callable[[Lowering], dict[RuntimeOperand, tuple[RuntimeOperand, int]]] | None = None
    constants: Constants = field(default_factory=Constants)
    homes: dict[RuntimeOperand, Home] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    is_image: dict[RuntimeOperand, bool] = field(default_factory=dict)
    halos: dict[RuntimeOperand, Halo] = field(default_factory=dict)
    slices: dict[RuntimeOperand, Image] = field(default_factory=dict)
    planned_slices: dict[RuntimeOperand, tuple[RuntimeOperand, int]] = field(default_factory=dict)
    output_numbers: dict[RuntimeOperand, int] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    operator: RuntimeOperator | None = None
    _packed: Counter[str] = field(default_factory=Counter)
    _cats: dict[RuntimeOperand, Image] = field(default_factory=dict)
    _cat_rows: dict[RuntimeOperand, Ref] = field(default_factory=dict)

    # ---------------------------------------------------------------------------------------- the walk

    def run(self) -> None:
        """Lowers all operators, in order, and brings the outputs to where they belong."""
        self._plan_layouts()
        self._number_outputs()
        self.planned_slices = self.slice_planner(self) if self.slice_planner is not None else {}
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
            if isinstance(self.specs[leaf], TensorSpec) and not self.homes[leaf].is_object:
                self.operator = leaf.producer
                self._bring_out(leaf)

    def _bring_out(self, leaf: RuntimeOperand) -> None:
        """Brings an output to memory that lasts: its own, an input's or a constant's."""
        rows = self.rows(leaf)
        if rows.buffer.place is Place.ARENA and self.spec(leaf).size:
            strides, memory = row_major(self.spec(leaf).shape), self._rows_memory(leaf)
            self._copy_rows(leaf, Strided(rows, strides), Strided(memory, strides))
            self.homes[leaf].rows = memory

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
        if rule is not None and self._can_take(rule, operator) and rule.lower(self, operator):
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

    def _can_take(self, rule: Rule, operator: RuntimeOperator) -> bool:
        """Whether all tensors of an operator have a known shape and a dtype that the rule takes."""
        operands = [*operator.input_operands_seq, *operator.output_operands]
        specs = [self.specs[operand] for operand in operands]
        if any(self.homes[operand].is_object for operand in operator.input_operands_seq):
            return False
        return all(
            spec is not UNKNOWN and (rule.any_dtype or not isinstance(spec, TensorSpec) or spec.dtype is f32)
            for spec in specs
        )

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
                if not isinstance(spec, TensorSpec) or spec.ndim not in (3, 4) or spec.dtype is not f32 or rule is None:
                    self.is_image[operand] = False
                elif rule.layout is not None:
                    self.is_image[operand] = rule.layout(self, operator)
                else:
                    images = [self.is_image.get(i, False) for i in operator.input_operands_seq]
                    self.is_image[operand] = spec.ndim == 4 and any(images)
        for operator in reversed(
            self.operators
        ):  # what is wanted around an output is known before its operator is asked
            rule = rule_of(operator.layer)
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
        for leaf, number in list(self.output_numbers.items()):
            # what is merely given another shape before it leaves is written where it has to be
            while isinstance(leaf.producer.layer, _RESHAPES):
                source, spec = leaf.producer.input_operands_seq[0], self.spec(leaf)
                same = isinstance(self.specs[source], TensorSpec) and self.specs[source] == spec.like(
                    self.specs[source].shape
                )
                if (
                    not same
                    or source in self.output_numbers
                    or source.producer.type in ("pnnx.Input", "pnnx.Attribute")
                ):
                    break
                self.output_numbers[source] = number
                leaf = source

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

    def image_shape(self, operand: RuntimeOperand) -> tuple[int, int, int, int]:
        """The shape that an operand has as an image: its own, or (N, C, 1, L) for (N, C, L)."""
        shape = self.spec(operand).shape
        batch, channels, *size = shape
        height, width = size if len(size) == 2 else (1, *size)
        return batch, channels, height, width

    def rows(self, operand: RuntimeOperand) -> Ref:
        """The operand in row-major order."""
        home = self.homes[operand]
        if home.rows is None:
            place = self._lies_at(operand) if self._may_lie_elsewhere(operand) else None
            if place is None:
                place = self._rows_memory(operand)
                self.copy(operand, Strided(place, row_major(self.spec(operand).shape)))
            home.rows = place
        return home.rows

    def strided(self, operand: RuntimeOperand) -> Strided:
        """The operand's elements wherever they lie: as rows, or within those of the operand of which it is a view."""
        view, spec = self.homes[operand].view, self.spec(operand)
        if view is None or self.homes[operand].rows is not None:
            return Strided(self.rows(operand), row_major(spec.shape))
        return Strided(self.rows(view.base).further(view.offset * spec.dtype.itemsize), view.strides)

    def in_memory_order(self, operand: RuntimeOperand) -> tuple[Ref, tuple[int, ...]]:
        """Where the operand's elements lie without gaps, and its dimensions in the order in which they do.

        That is as rows, or within another operand of which it is a view with other dimensions first.
        """
        shape, place = self.spec(operand).shape, self.strided(operand)
        order = tuple(sorted(range(len(shape)), key=lambda dim: (-place.strides[dim], dim)))
        if is_row_major([shape[dim] for dim in order], [place.strides[dim] for dim in order]):
            return place.ref, order
        return self.rows(operand), tuple(range(len(shape)))

    def new_in_order(self, operand: RuntimeOperand, order: Sequence[int]) -> Ref:
        """Memory for an output whose dimensions lie in the given order; it becomes a view where this is not its own."""
        if tuple(order) == tuple(range(len(order))):
            return self.new_rows(operand)
        spec = self.spec(operand)
        base = RuntimeOperand(f"{operand.name}.ordered", operand.producer)
        self.specs[base] = spec.like(spec.shape[dim] for dim in order)
        steps = row_major(self.spec(base).shape)
        strides = tuple(steps[list(order).index(dim)] for dim in range(len(order)))
        self.homes[operand] = Home(view=View(base, 0, strides))
        return self.new_rows(base)

    def _may_lie_elsewhere(self, operand: RuntimeOperand) -> bool:
        """Whether the operand need not have memory of its own: all but outputs, and outputs that are another one reshaped."""
        view, number = self.homes[operand].view, self.output_numbers.get(operand)
        return number is None or (view is not None and self.output_numbers.get(view.base) == number)

    def _lies_at(self, operand: RuntimeOperand) -> Ref | None:
        """Where the operand lies in row-major order already, as part of another, or as an image of one pixel."""
        home, spec = self.homes[operand], self.spec(operand)
        if home.view is not None and is_row_major(spec.shape, home.view.strides):
            return self.rows(home.view.base).further(home.view.offset * spec.dtype.itemsize)
        if home.image is not None:
            layout = home.image.layout
            whole = layout.blocks * layout.block == layout.channels
            one_pixel = (layout.height, layout.width) == (1, 1) and layout.block_stride == layout.block
            if whole and one_pixel and (layout.batch == 1 or layout.image == layout.channels):
                return home.image.ref.further(4 * layout.origin)
        return None

    def copy(self, operand: RuntimeOperand, to: Strided) -> None:
        """Copies the operand's elements to other memory, by way of as few steps as can be."""
        home, spec = self.homes[operand], self.spec(operand)
        if 0 in spec.shape:
            return
        if home.rows is None and home.view is None:
            assert home.image is not None
            layout = home.image.layout
            strides = to.strides if spec.ndim == 4 else (*to.strides[:2], 0, to.strides[2])
            self._copy_image(home.image, strided_planar(layout.shape, strides), to.ref)
            return
        if home.rows is None and home.view is not None:
            base = self.homes[home.view.base]
            if base.rows is None and base.image is not None:
                shape = base.image.layout.shape
                projected = project(shape, spec.shape, home.view, to.strides)
                if projected is not None:
                    self._copy_image(base.image, strided_planar(shape, projected), to.ref)
                    return
        self._copy_rows(operand, self.strided(operand), to)

    def _copy_rows(self, operand: RuntimeOperand, source: Strided, to: Strided) -> None:
        spec = self.spec(operand)
        copy = plan_copy(spec.shape, source.strides, to.strides, spec.dtype.itemsize, self.target.lanes)
        self.add(copy, source.ref, to.ref)

    def _copy_image(self, image: Image, layout: ImageLayout, to: Ref) -> None:
        """Brings an image to planar memory."""
        if layout.pixel == 1 or layout.block_stride == 1 or layout.width == 1:
            self.add(ReorderSpec(image.layout, layout), image.ref, to)
            return
        plain = planar(layout.shape)
        between = self.temporary(4 * plain.floats)
        self.add(ReorderSpec(image.layout, plain), image.ref, between)
        strides = (layout.image, layout.block_stride, layout.row, layout.pixel)
        spec = plan_copy(layout.shape, row_major(layout.shape), strides, 4, self.target.lanes)
        self.add(spec, between, to)

    def image(self, operand: RuntimeOperand, halo: Halo = NO_HALO) -> Image:
        """The operand as an image in blocked layout with at least the given halo."""
        home = self.homes[operand]
        if home.image is None and home.view is not None:
            home.image = self._image_of_view(operand, home.view)
        if home.image is not None and all(
            have >= want for have, want in zip(home.image.layout.halo, halo, strict=True)
        ):
            return home.image
        shape = self.image_shape(operand)
        full = _larger(self.halos.get(operand, NO_HALO), halo)
        layout = blocked(shape, self.target.lanes, full)
        if isinstance(home.value, np.ndarray):
            home.image = Image(self.constant(pack_image(home.value.reshape(shape), layout)), layout)
            return home.image
        source = home.image or self._planar(operand)
        made = self._image_memory(layout)
        self.add(ReorderSpec(source.layout, made.layout), source.ref, made.ref)
        home.image = made
        return made

    def _image_of_view(self, operand: RuntimeOperand, view: View) -> Image | None:
        """The image of another operand that this one merely has another shape of."""
        spec, base = self.spec(operand), self.homes[view.base].image
        same = view.offset == 0 and spec.size == self.spec(view.base).size and is_row_major(spec.shape, view.strides)
        return base if same and base is not None and base.layout.shape == self.image_shape(operand) else None

    def _planar(self, operand: RuntimeOperand) -> Image:
        """The operand's rows as a planar image; a view that a reorder can read is not copied before."""
        shape = self.image_shape(operand)
        place = self.strided(operand)
        strides = place.strides if len(place.strides) == 4 else (*place.strides[:2], 0, place.strides[2])
        layout = strided_planar(shape, strides)
        if layout.pixel == 1 or layout.block_stride == 1:
            return Image(place.ref, layout)
        return Image(self.rows(operand), planar(shape))

    def new_image(self, operand: RuntimeOperand) -> Image:
        """Memory for an output image, its halo filled with zeros: a slice of a concatenation, or a buffer of its own."""
        planned = self._slice(operand)
        if planned is None:
            shape = self.image_shape(operand)
            planned = self._image_memory(blocked(shape, self.target.lanes, self.halos.get(operand, NO_HALO)))
        self.homes[operand] = Home(image=planned)
        return planned

    def _slice(self, operand: RuntimeOperand) -> Image | None:
        """The place of an operand within the concatenation of images that it is planned to be written into."""
        output, start = self.planned_slices.get(operand, (operand, 0))
        if output is operand or not self.is_image[output]:
            return None
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
            shape = self.image_shape(output)
            self._cats[output] = nested or self._image_memory(blocked(shape, self.target.lanes, halo))
        return self._cats[output]

    def cat_rows(self, output: RuntimeOperand) -> Ref:
        """The memory of a concatenation of rows."""
        if output not in self._cat_rows:
            self._cat_rows[output] = self._rows_memory(output)
        return self._cat_rows[output]

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
        if data.ctypes.data % 64 or data.flags.owndata or not data.flags.c_contiguous:  # the like lie together
            return self.packed(data.shape, lambda packed: np.copyto(packed, data), data.dtype)
        return Ref(Buffer(Place.CONSTANT, data.nbytes, data=data))

    def packed(self, shape: tuple[int, ...], fill: Callable[[Array], None], dtype: Any = np.float32) -> Ref:
        """Constant memory that `fill` writes, such as weights in the order in which a kernel reads them."""
        name = self.operator.name if self.operator is not None else ""
        self._packed[name] += 1
        data = self.constants.pack(name, self._packed[name], shape, dtype, fill)
        return Ref(Buffer(Place.CONSTANT, data.nbytes, data=data))

    def temporary(self, nbytes: int) -> Ref:
        """Memory between the steps of one rule."""
        return Ref(Buffer(Place.ARENA, nbytes))

    def add(self, spec: KernelSpec, *refs: Ref, writes: int = -1) -> None:
        """Adds a step; `writes` is the index of the ref that is written, the last unless told otherwise."""
        assert self.operator is not None
        self.steps.append(KernelStep(self.operator, spec, refs, writes % len(refs)))

    def _rows_memory(self, operand: RuntimeOperand) -> Ref:
        """Memory for an operand in row-major order: an output's own, a part of a concatenation's, or a stretch of the arena."""
        spec = self.spec(operand)
        if operand in self.output_numbers:
            return Ref(Buffer(Place.OUTPUT, spec.nbytes, number=self.output_numbers[operand]))
        output, start = self.planned_slices.get(operand, (operand, 0))
        if output is not operand and not self.is_image[output]:
            return self.cat_rows(output).further(start * spec.dtype.itemsize)
        return Ref(Buffer(Place.ARENA, spec.nbytes))

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
