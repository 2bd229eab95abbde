"""`kuiper serve`: models over HTTP."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from .extras import require_extra
from .models import Number, mistake, model_file

TOKEN_VARIABLE = "KUIPER_SERVE_TOKEN"


@click.command("serve")
@click.argument("models", nargs=-1, metavar="[[NAME=]MODEL]...")
@click.option("--repository", type=click.Path(path_type=Path), help="Folder with models: NAME[/VERSION]/….pnnx.param.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 for any that is free.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of a run. [default: all CPUs]")
@click.option("--workers", type=click.IntRange(min=1), help="Runs at a time. [default: CPUs / threads]")
@click.option(
    "--max-batch", default=8, show_default=True, type=click.IntRange(min=1), help="Rows of a run; 1 for no batches."
)
@click.option(
    "--max-delay-ms",
    default=0.0,
    show_default=True,
    type=Number(0, 10_000),
    help="How long a run waits for more rows.",
)
@click.option(
    "--batching",
    type=click.Choice(["exact", "close"]),
    default="exact",
    show_default=True,
    help="exact: batch where answers stay the same bit for bit; close: also where last bits differ.",
)
@click.option("--queue", "waiting", type=click.IntRange(min=1), help="Requests that may wait. [default: 256]")
@click.option("--timeout", "seconds", type=Number(min=0.001), help="Seconds for an answer. [default: 30]")
@click.option("--max-body-mib", type=click.IntRange(min=1), help="Size of a request. [default: 64]")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help=f"File with the token clients must show; else ${TOKEN_VARIABLE}.",
)
@click.option("--verbose", is_flag=True, help="Log what is loaded and how.")
def command(
    models: tuple[str, ...],
    repository: Path | None,
    host: str,
    port: int,
    threads: int | None,
    workers: int | None,
    max_batch: int,
    max_delay_ms: float,
    batching: str,
    waiting: int | None,
    seconds: float | None,
    max_body_mib: int | None,
    token_file: Path | None,
    verbose: bool,
) -> int:
    """Serve models over HTTP with the Open Inference Protocol, and a page at /.

    Without MODEL and --repository, the bundled models for pictures are served. The first Ctrl-C (or SIGTERM) lets the server
    answer what it has accepted, the second ends it at once.
    """
    require_extra("serve", "kuiper serve")
    from ..runtime.team import default_threads
    from ..serve import Limits, Options, Service, bind, serve

    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO if verbose else logging.WARNING)
    defaults = Limits()
    limits = Limits(
        waiting=waiting or defaults.waiting,
        answer_seconds=seconds or defaults.answer_seconds,
        body_bytes=(max_body_mib << 20) if max_body_mib else defaults.body_bytes,
        bytes_in_flight=max(defaults.bytes_in_flight, (max_body_mib or 0) << 20),
    )
    options = Options(
        threads=threads or default_threads(),
        workers=workers or 0,
        max_batch=max_batch,
        max_delay=max_delay_ms / 1e3,
        exact=batching == "exact",
        token=read_token(token_file),
        limits=limits,
    )
    files = named_models(models)
    if not files and repository is None:
        require_extra("image", "kuiper serve without a MODEL")
        from ..vision import bundled

        files = {bundled.MODELS[job]: bundled.MODEL_FILES[job] for job in ("classify", "detect", "segment")}
    with bind(host, port) as bound:
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"http://{shown}:{bound.getsockname()[1]}/  (Ctrl-C ends it)")
        serve(Service(files, repository, options), bound)
    return 0


def named_models(texts: tuple[str, ...]) -> dict[str, Path]:
    """Name -> file of MODEL arguments, of which each may have a name of its own in front."""
    from ..serve.repository import NAME, model_name

    found: dict[str, Path] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        named = bool(equals) and NAME.fullmatch(name) is not None and not Path(text).exists()
        file = model_file(Path(path if named else text))
        key = name if named else model_name(file)
        if key in found:
            raise mistake("MODEL", f"two models are called '{key}'; give one another name: NAME={text}")
        found[key] = file
    return found


def read_token(path: Path | None) -> str:
    """The token in a file, or in the environment; empty where there is none."""
    from ..errors import InputError

    if path is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a token ({error})") from error
    if not token:
        raise InputError(f"{path}: there is no token in it")
    return token
