"""What several commands take: a model by its path, shapes, and options of the same name and meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import InputError, ShapeError, did_you_mean

if TYPE_CHECKING:
    from ..runtime import Model, ValueInfo

Command = TypeVar("Command", bound=Callable[..., Any])


def model_argument(command: Command) -> Command:
    """The argument MODEL, a path that `model_file` resolves."""
    return click.argument("model_path", metavar="MODEL", type=click.Path(path_type=Path))(command)


def shape_option(command: Command) -> Command:
    """The option --shape, once an input."""
    return click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="[NAME=]DIMS",
        help="Shape of an input, such as 1,3,224,224; once an input, in order or by name.",
    )(command)


def json_option(command: Command) -> Command:
    """The flag --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")(command)


def model_file(path: Path) -> Path:
    """The .pnnx.param file of a MODEL argument: the file itself, or the only one in a folder."""
    if not path.exists():
        with_suffix = path.with_name(path.name + ".pnnx.param")
        if with_suffix.is_file():
            return with_suffix
        near = did_you_mean(path.name, [file.name for file in path.parent.glob("*.pnnx.param")])
        raise InputError(f"{path}: no such file or folder{near}")
    if not path.is_dir():
        if path.suffix == ".bin" and path.with_suffix(".param").is_file():
            raise InputError(f"{path}: these are a model's weights; give {path.with_suffix('.param')}")
        return path
    found = sorted(path.glob("*.pnnx.param"))
    if len(found) != 1:
        seen = "none" if not found else f"{len(found)}: {', '.join(file.name for file in found)}"
        raise InputError(f"{path}: expected one .pnnx.param file in this folder, found {seen}")
    return found[0]


def load_model(path: Path) -> Model:
    """The model of a MODEL argument, ready to run."""
    from ..runtime import load

    return load(model_file(path))


def input_shapes(texts: Sequence[str], inputs: Sequence[ValueInfo]) -> dict[str, tuple[int, ...]]:
    """Input name -> shape for all inputs: from --shape options, else as the model declares.

    Raises `InputError` where an option is none of an input, and where an input has no complete shape.
    """
    names = [info.name for info in inputs]
    given: dict[str, tuple[int, ...]] = {}
    in_order = iter(names)
    for text in texts:
        name, equals, dims = text.rpartition("=")
        if not equals:
            name = next((n for n in in_order if n not in given), "")
            if not name:
                raise InputError(f"--shape {text}: the model has only {len(names)} inputs")
        elif name not in names:
            raise InputError(
                f"--shape {text}: there is no input '{name}', only {', '.join(names)}{did_you_mean(name, names)}"
            )
        given[name] = parse_dims(dims)
    for info in inputs:
        if info.name not in given:
            if info.shape is None or None in info.shape:
                raise InputError(f"the shape of input {info} is not complete in the file: give it with --shape")
            given[info.name] = tuple(dim for dim in info.shape if dim is not None)
        elif info.shape is not None and len(info.shape) != len(given[info.name]):
            raise ShapeError(f"--shape: input '{info.name}' has {len(info.shape)} dimensions, {info}")
    return {name: given[name] for name in names}


def parse_dims(text: str) -> tuple[int, ...]:
    """``1,3,224,224`` (or ``1x3x224x224``) as a tuple; the empty text is a scalar."""
    parts = [part.strip() for part in text.strip("()[] ").replace("x", ",").split(",")] if text.strip("()[] ") else []
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise InputError(f"--shape {text}: expected whole numbers with commas between them, such as 1,3,224,224")
    return tuple(int(part) for part in parts)


def parse_numbers(text: str, option: str) -> tuple[float, ...]:
    """``0.5,0.5,0.5`` as a tuple."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text}: expected numbers with commas between them, such as 0.5,0.5,0.5") from None


def write_text(path: Path, text: str) -> None:
    """Writes a text file; `InputError` where that cannot be."""
    try:
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error
