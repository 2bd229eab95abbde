"""What several commands take: a model by its path, shapes, and options of the same name and meaning."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import InputError, did_you_mean

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


class Number(click.FloatRange):
    """A number within bounds; NaN, which is within all bounds to click, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail("expected a number, found 'nan'", param, ctx)
        return number


def json_option(command: Command) -> Command:
    """The flag --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")(command)


def mistake(what: str | None, message: str) -> click.UsageError:
    """What to raise for a mistake in the option or argument `what`: it is shown with the usage, and the exit code is 2."""
    context = click.get_current_context(silent=True)
    return click.BadParameter(message, context, param_hint=what) if what else click.UsageError(message, context)


def model_file(path: Path) -> Path:
    """The .pnnx.param file of a MODEL argument: the file itself, or the only one in a folder."""
    from ..pnnx.paths import param_path

    return Path(param_path(path))


def load_model(path: Path) -> Model:
    """The model of a MODEL argument, ready to run."""
    from ..runtime import load

    return load(model_file(path))


def input_shapes(texts: Sequence[str], inputs: Sequence[ValueInfo]) -> dict[str, tuple[int, ...]]:
    """Input name -> shape for all inputs: from --shape options, else as the model declares.

    An option that fits no input is a mistake in the arguments, as an input without a complete shape is.
    """
    names = [info.name for info in inputs]
    given: dict[str, tuple[int, ...]] = {}
    in_order = iter(names)
    for text in texts:
        name, equals, dims = text.rpartition("=")
        if not equals:
            name = next((n for n in in_order if n not in given), "")
            if not name:
                count = "1 input" if len(names) == 1 else f"{len(names)} inputs"
                raise mistake("--shape", f"{text}: the model has only {count}")
        elif name not in names:
            raise mistake(
                "--shape", f"{text}: there is no input '{name}', only {', '.join(names)}{did_you_mean(name, names)}"
            )
        elif name in given:
            raise mistake("--shape", f"{text}: input '{name}' has a shape already")
        given[name] = parse_dims(dims)
    for info in inputs:
        if info.name not in given:
            if info.shape is None or None in info.shape:
                raise mistake(None, f"the shape of input {info} is not complete in the file: give it with --shape")
            given[info.name] = tuple(dim for dim in info.shape if dim is not None)
        elif info.shape is not None and len(info.shape) != len(given[info.name]):
            raise mistake("--shape", f"input '{info.name}' has {len(info.shape)} dimensions, {info}")
    return {name: given[name] for name in names}


def parse_dims(text: str, option: str = "--shape") -> tuple[int, ...]:
    """``1,3,224,224`` (or ``1x3x224x224``) as a tuple; the empty text is a scalar."""
    parts = [part.strip() for part in text.strip("()[] ").replace("x", ",").split(",")] if text.strip("()[] ") else []
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise mistake(option, f"'{text}': expected whole numbers with commas between them, such as 1,3,224,224")
    return tuple(int(part) for part in parts)


def parse_numbers(text: str, option: str) -> tuple[float, ...]:
    """``0.5,0.5,0.5`` as a tuple."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        raise mistake(option, f"'{text}': expected numbers with commas between them, such as 0.5,0.5,0.5")
    return numbers


def write_text(path: Path, text: str) -> None:
    """Writes a text file; `InputError` where that cannot be."""
    try:
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error
