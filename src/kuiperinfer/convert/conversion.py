"""The doors: a module, a TorchScript file or an ONNX file in, a model that was checked out."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import warnings as python_warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..dtypes import Array, TensorSpec, dtype_of
from ..errors import ConversionError, InputError, KuiperError, UnsupportedOperatorError
from ..graph import annotation_mismatches
from ..runtime import Model, load
from ..runtime.inputs import random_arrays
from .converter import Converted, Request, run_converter
from .input_shape import ShapeLike, as_input_shapes, from_converter_text
from .messages import losses, shapes_in_log
from .model_file import Kind, has_modes, kind_of, was_training
from .other_engines import arrays_of, imported, run_onnx, run_torchscript
from .tracing import (
    TRAINING_MODE,
    as_examples,
    check_module,
    evaluation_mode,
    flat,
    map_nested,
    run_module,
    save_trace,
)
from .verification import Verified, check_outputs, verify

TIME_LIMIT = 600.0  # seconds
FREE_DIMENSIONS = (
    "where dimensions are free, the converter leaves operators of ONNX as they are: give the shapes of the inputs"
)
ENGINES: dict[Kind, tuple[str, Callable[[Path, Sequence[Array]], list[Array]]]] = {
    Kind.TORCHSCRIPT: ("torch", run_torchscript),
    Kind.ONNX: ("onnxruntime", run_onnx),
}


@dataclass(frozen=True)
class Conversion:
    """A converted `model`, the files it was saved to (or None), what there is to say about it, and what was verified."""

    model: Model
    files: tuple[Path, Path] | None
    warnings: tuple[str, ...]
    verified: tuple[Verified, ...]


def from_torch(
    module: Any,
    example_inputs: Any,
    example_inputs2: Any = None,
    *,
    save: str | os.PathLike[str] | None = None,
    verify: bool = False,
    module_operators: Sequence[str] = (),
    optimization_level: int = 2,
    time_limit: float = TIME_LIMIT,
) -> Model:
    """A `torch.nn.Module` as a model: traced with example inputs, converted, loaded, and checked against the module.

    `example_inputs` is a tensor or a tuple of them, as the module takes them; `example_inputs2`, of other sizes, tells which
    dimensions shall stay free. `save` is where to write the files: ``"nets/resnet18"`` makes resnet18.pnnx.param and .bin
    there, once all checks have passed.
    `verify` compares the values too, on random numbers. `module_operators` are classes, by dotted names, to keep whole.
    Number, shapes and dtypes of the outputs are always compared with what the module gives.

    Raises `InputError` for what cannot be traced, `ConversionError` where the converter fails or loses something, and
    `UnsupportedOperatorError` where the result has operators that nobody registered.
    """
    check_module(module)
    sets = [as_examples(example_inputs)]
    if example_inputs2 is not None:
        sets.append(as_examples(example_inputs2))
    module = getattr(module, "_orig_mod", module)  # what torch.compile wraps
    name = type(module).__name__
    with tempfile.TemporaryDirectory(prefix="kuiperinfer-") as folder, evaluation_mode(module) as training:
        expected = [run_module(module, examples) for examples in sets]
        source = Path(folder, f"{name}.pt")
        save_trace(module, sets[0], source)
        shapes = [[_spec_of(tensor) for tensor in flat(examples)] for examples in sets]
        known = all(spec.shape for spec in shapes[0])  # the converter cannot be told of scalars, the trace tells it
        if len(shapes) > 1 and not (known and all(spec.shape for spec in shapes[1])):
            raise InputError(
                "example_inputs2: the converter takes no second shapes for a network with inputs of no dimensions"
            )
        request = Request(
            name,
            source,
            Kind.TORCHSCRIPT,
            shapes[0] if known else (),
            shapes[1] if len(shapes) > 1 else (),
            module_operators,
            optimization_level,
            time_limit,
        )
        with _converted(request, save) as (model, said, _):
            for specs, outputs in zip(shapes, expected, strict=True):
                check_outputs(model, specs, outputs, name)
            if verify:
                for examples in sets:
                    _verify_module(model, module, examples)
        if training and has_modes(source):
            said.append(TRAINING_MODE)
    for warning in said:
        python_warnings.warn(f"{name}: {warning}", RuntimeWarning, stacklevel=2)
    return model


def _spec_of(tensor: Any) -> TensorSpec:
    array = arrays_of(tensor)[0]
    return TensorSpec(array.shape, dtype_of(array))


def _verify_module(model: Model, module: Any, examples: tuple[Any, ...]) -> None:
    """Compares on random numbers; integers and bools stay those of the examples, which are in the range they have to be in."""
    torch = imported("torch")

    generator = torch.Generator().manual_seed(0)

    def fresh(tensor: Any) -> Any:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        return torch.randn(tensor.shape, generator=generator).to(tensor.dtype)

    inputs = map_nested(fresh, examples)
    found = verify(model, arrays_of(flat(inputs)), run_module(module, inputs), "torch")
    if not found.ok:
        raise ConversionError(f"{type(module).__name__}: the converted model differs from {found}")


def from_onnx(
    path: str | os.PathLike[str],
    shapes: ShapeLike | Sequence[ShapeLike] = (),
    shapes2: ShapeLike | Sequence[ShapeLike] = (),
    *,
    save: str | os.PathLike[str] | None = None,
    verify: bool = False,
    optimization_level: int = 2,
    time_limit: float = TIME_LIMIT,
) -> Model:
    """An ONNX file as a model; see `convert_file`. `verify` needs onnxruntime, which then runs the file."""
    return _from_file(
        Kind.ONNX,
        path,
        shapes,
        shapes2,
        save=save,
        verify=verify,
        optimization_level=optimization_level,
        time_limit=time_limit,
    )


def from_torchscript(
    path: str | os.PathLike[str],
    shapes: ShapeLike | Sequence[ShapeLike] = (),
    shapes2: ShapeLike | Sequence[ShapeLike] = (),
    *,
    save: str | os.PathLike[str] | None = None,
    verify: bool = False,
    module_operators: Sequence[str] = (),
    optimization_level: int = 2,
    time_limit: float = TIME_LIMIT,
) -> Model:
    """A TorchScript file as a model; see `convert_file`. `verify` needs torch, which then runs the file."""
    return _from_file(
        Kind.TORCHSCRIPT,
        path,
        shapes,
        shapes2,
        save=save,
        verify=verify,
        module_operators=module_operators,
        optimization_level=optimization_level,
        time_limit=time_limit,
    )


def _from_file(
    kind: Kind, path: str | os.PathLike[str], *shapes: ShapeLike | Sequence[ShapeLike], **options: Any
) -> Model:
    found = kind_of(Path(path))
    if found is not kind:
        raise InputError(f"{path}: expected {kind.value}, found {found.value}")
    conversion = convert_file(path, *shapes, **options)
    for warning in conversion.warnings:
        python_warnings.warn(f"{path}: {warning}", RuntimeWarning, stacklevel=3)
    for verified in conversion.verified:
        if not verified.ok:
            raise ConversionError(f"{path}: the converted model differs from {verified}")
    return conversion.model


def convert_file(
    path: str | os.PathLike[str],
    shapes: ShapeLike | Sequence[ShapeLike] = (),
    shapes2: ShapeLike | Sequence[ShapeLike] = (),
    *,
    save: str | os.PathLike[str] | None = None,
    verify: bool = False,
    module_operators: Sequence[str] = (),
    optimization_level: int = 2,
    time_limit: float = TIME_LIMIT,
) -> Conversion:
    """Converts a TorchScript or ONNX file, and tells what there is to say about the result.

    `shapes` are those of all inputs, in order: ``"1x3x224x224"``, ``"1x128i64"``, or dimensions alone for float32; one alone
    is that of the only input. A traced network and an ONNX file know their own. `shapes2`, as many, are other sizes, and tell
    which dimensions stay free.
    `save` and the other options are as in `from_torch`. Nothing is raised for values that differ: see `Conversion.verified`.
    """
    source = Path(path)
    kind = kind_of(source)
    if module_operators and kind is Kind.ONNX:
        raise InputError("module operators: ONNX files have no modules, only TorchScript has")
    request = Request(
        str(path),
        source,
        kind,
        as_input_shapes(shapes),
        as_input_shapes(shapes2),
        module_operators,
        optimization_level,
        time_limit,
    )
    with _converted(request, save) as (model, said, log):
        # Of a file with free dimensions the converter also prints a second shape that it would try, even where it was told one.
        used = [from_converter_text(text) for text in shapes_in_log(log)]
        first, second = (request.shapes, request.shapes2) if request.shapes else used
        said += _what_is_unknown(model, first)
        if kind is Kind.TORCHSCRIPT and was_training(source) and has_modes(source):
            said.append(TRAINING_MODE)
        verified = [_verify_file(model, source, kind, specs) for specs in (first, second) if specs] if verify else []
    return Conversion(model, _files(save), tuple(said), tuple(verified))


def _what_is_unknown(model: Model, first: Sequence[TensorSpec]) -> list[str]:
    if first or all(info.shape is not None for info in model.inputs):
        return []
    return ["the file does not tell the shapes of its inputs, so nothing could be simplified or checked: give them"]


def _verify_file(model: Model, source: Path, kind: Kind, specs: Sequence[TensorSpec]) -> Verified:
    engine, run = ENGINES[kind]
    arrays = random_arrays(specs, seed=0)
    expected = run(source, arrays)
    check_outputs(model, specs, expected, str(source))
    return verify(model, arrays, expected, engine)


@contextlib.contextmanager
def _converted(request: Request, save: str | os.PathLike[str] | None) -> Iterator[tuple[Model, list[str], str]]:
    """The model, what there is to say about it, and what the converter printed.

    The files are saved at the end, unless something is raised meanwhile; and where operators are not supported, for whoever
    registers layers of their own.
    """
    files = _files(save)
    with tempfile.TemporaryDirectory(prefix="kuiperinfer-") as folder:
        converted = run_converter(request, Path(folder))
        try:
            model = load(converted.param, converted.bin)
        except KuiperError as error:
            if isinstance(error, UnsupportedOperatorError):
                _save(converted, files)
                if _leaves_operators(request):
                    error.message = f"{error.message}\n{FREE_DIMENSIONS}"
            raise error.at(request.what) from error
        said = [
            f"the converter could not write something down ({line}): verify the result"
            for line in losses(converted.log)
        ]
        said += [f"shapes differ, {line}: verify the result" for line in annotation_mismatches(model.graph)]
        yield model, said, converted.log
        _save(converted, files)


def _leaves_operators(request: Request) -> bool:
    """Whether the converter may have left operators of ONNX as they are because it knew no shapes."""
    return request.kind is Kind.ONNX and not request.shapes


def _files(save: str | os.PathLike[str] | None) -> tuple[Path, Path] | None:
    if save is None:
        return None
    base = Path(save)
    name = base.name.removesuffix(".param").removesuffix(".bin").removesuffix(".pnnx")
    if not name:
        raise InputError(f"save={os.fspath(save)!r}: expected the name of a file, such as nets/resnet18")
    return base.with_name(f"{name}.pnnx.param"), base.with_name(f"{name}.pnnx.bin")


def _save(converted: Converted, files: tuple[Path, Path] | None) -> None:
    """Writes both files, if they are wanted; under other names first, so that nobody finds half of one or an unequal pair."""
    if files is None:
        return
    param, archive = files
    made = [
        (source, target.with_name(f".{target.name}.{os.getpid()}"), target)
        for source, target in ((converted.bin, archive), (converted.param, param))
    ]
    try:
        param.parent.mkdir(parents=True, exist_ok=True)
        for source, temporary, _ in made:
            shutil.copyfile(source, temporary)
        for _, temporary, target in made:
            os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"{param.parent}: cannot be written ({error.strerror or error})") from error
    finally:
        for _, temporary, _ in made:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
