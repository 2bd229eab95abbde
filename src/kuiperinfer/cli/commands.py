"""The group of commands, and what happens to their errors."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence

import click

from ..errors import KuiperError, did_you_mean
from ..settings import settings
from ..version import __version__

COMMANDS = tuple(
    (
        "convert classify detect segment upscale run info check graph bench profile compare memory serve cache conformance "
        "batch doctor"
    ).split()
)


class Commands(click.Group):
    """Commands that stand in modules of their own names, imported when they are asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f".{name}", __package__).command
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
            context.fail(f"there is no command '{arguments[0]}'{did_you_mean(arguments[0], COMMANDS)}")
        return super().resolve_command(context, arguments)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="kuiper", message="%(prog)s %(version)s")
def kuiper() -> None:
    """KuiperInfer runs PyTorch models, converted to PNNX, on a CPU.

    A MODEL is a .pnnx.param file with its .pnnx.bin beside it, or a folder with one such model.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code; every error that a user can cause is one message without traceback."""
    with open(os.devnull, "w") as nowhere:
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere  # None if whoever started us closed them
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a character that cannot be shown is no reason to fail
    try:
        code = kuiper.main(None if arguments is None else list(arguments), "kuiper", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KuiperError as error:
        _complain("error", str(error))
        return 1
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted", "")
        return 130
    except BrokenPipeError:  # whoever read our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left would fail again at the end of the process
            _complain("error", f"the results cannot be written ({error.strerror})")
            return 1
        if settings.debug:
            traceback.print_exc()
        _complain("internal error", f"{type(error).__name__}: {error}")
        click.echo("This is a mistake of kuiper's: please report it. KUIPER_DEBUG=1 shows where it happened.", err=True)
        return 70


def _complain(kind: str, message: str) -> None:
    from .console import printable

    click.echo(click.style(kind, fg="red", bold=True) + (f": {printable(message)}" if message else ""), err=True)
