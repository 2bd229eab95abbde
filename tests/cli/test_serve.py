"""`kuiper serve`: what its arguments mean. The server itself is tested in tests/serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from kuiperinfer.errors import InputError
from tests.small_models import LINEAR, write_model

pytest.importorskip("starlette", reason="needs the extra 'serve'")

from kuiperinfer.cli.serve import TOKEN_VARIABLE, named_models, read_token


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The services that the command would have run."""
    found: list[Any] = []

    def note(service: Any, bound: Any) -> None:
        found.append(service)
        service.close()

    monkeypatch.setattr("kuiperinfer.serve.serve", note)
    return found


def test_defaults(kuiper: Any, served: list[Any]) -> None:
    code, out, _ = kuiper("serve", "--port", 0)
    assert code == 0
    assert out.startswith("http://127.0.0.1:")
    (service,) = served
    assert service.catalogue._given.keys() == {"mobilenet_v2", "tiny_face_detector", "unet_pupil"}
    options = service.options
    assert (options.max_batch, options.max_delay, options.exact, options.token) == (8, 0.0, True, "")
    assert options.worker_count * options.threads <= max(options.threads, options.worker_count)


def test_options(kuiper: Any, served: list[Any], tmp_path: Path) -> None:
    model = write_model(tmp_path, LINEAR)
    token = tmp_path / "token"
    token.write_text("secret\n")
    code, _, _ = kuiper(
        "serve", f"net={model}", "--port", 0, "--threads", 1, "--workers", 1, "--max-batch", 4, "--max-delay-ms", 2.5,
        "--batching", "close", "--queue", 7, "--timeout", 1.5, "--max-body-mib", 3, "--token-file", token, "--host", "::1",
    )  # fmt: skip
    assert code == 0
    (service,) = served
    options = service.options
    assert service.catalogue._given == {"net": {"1": model}}
    assert (options.threads, options.worker_count, options.max_batch, options.max_delay) == (1, 1, 4, 0.0025)
    assert (options.exact, options.token) == (False, "secret")
    assert (options.limits.waiting, options.limits.answer_seconds, options.limits.body_bytes) == (7, 1.5, 3 << 20)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--threads", 10_000], 1, "threads: expected 1 to"),
        (["--workers", 10_000], 1, "exceed the"),
        (["--port", 70000], 2, "--port"),
        (["--max-batch", 0], 2, "--max-batch"),
        (["nothing.pnnx.param"], 1, "nothing.pnnx.param: no such file or folder"),
        (["--token-file", "nothing"], 1, "nothing: cannot be read as a token"),
        (["--host", "192.0.2.1"], 1, "cannot listen on 192.0.2.1"),
    ],
)
def test_mistakes(kuiper: Any, served: list[Any], arguments: list[Any], code: int, message: str) -> None:
    found, _, err = kuiper("serve", "--port", 0, *arguments)
    assert found == code
    assert message in err
    assert not served


def test_a_port_that_is_taken(kuiper: Any, served: list[Any]) -> None:
    from kuiperinfer.serve import bind

    with bind("127.0.0.1", 0) as bound:
        code, _, err = kuiper("serve", "--port", bound.getsockname()[1])
    assert code == 1
    assert "cannot listen on 127.0.0.1 port" in err


def test_names_of_models(tmp_path: Path) -> None:
    one, two = write_model(tmp_path / "a", LINEAR, name="net"), write_model(tmp_path / "b", LINEAR, name="net")
    assert named_models((str(one), f"other={two.parent}")) == {"net": one, "other": two}
    with pytest.raises(click.UsageError, match="two models are called 'net'; give one another name"):
        named_models((str(one), str(two)))
    odd = write_model(tmp_path / "c=d", LINEAR, name="net")
    assert named_models((str(odd),)) == {"net": odd}


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, " from the environment ")
    assert read_token(None) == "from the environment"
    empty = tmp_path / "empty"
    empty.write_text(" \n")
    with pytest.raises(InputError, match="there is no token in it"):
        read_token(empty)


def test_without_the_extra(kuiper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing, message in {
        "uvicorn": "kuiper serve needs uvicorn: pip install 'kuiperinfer[serve]'",
        "PIL": "kuiper serve without a MODEL needs PIL: pip install 'kuiperinfer[image]'",
    }.items():
        monkeypatch.setattr(
            "kuiperinfer.cli.extras.find_spec", lambda name, missing=missing: None if name == missing else name
        )
        code, _, err = kuiper("serve")
        assert code == 1
        assert message in err
