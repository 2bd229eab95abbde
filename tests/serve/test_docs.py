"""docs/serve.md is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kuiperinfer.cli.serve import command
from tests.serve import models
from tests.serve.conftest import Running

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text("utf-8")


def test_the_example_of_a_request(start: Callable[..., Running]) -> None:
    found = re.search(r"^\$ curl -s http://127\.0\.0\.1:8000(\S+) -d '(.*)'\n(.*)$", TEXT, re.MULTILINE)
    assert found
    path, body, answer = found.groups()
    with start({"net": models.ROWS}).connect() as connection:
        connection.send("POST", path, body.encode())
        status, headers, _ = connection.answer()
        assert status == 200
        assert int(headers["content-length"]) == len(answer)


def test_options_and_addresses(start: Callable[..., Running]) -> None:
    known = {option for parameter in command.params for option in parameter.opts}
    named = set(re.findall(r"`(--[a-z-]+)", TEXT))
    assert len(named) > 5
    assert named <= known
    running = start({"NAME": models.ROWS})
    rows: list[tuple[str, str]] = re.findall(r"^\| `(GET|POST) ([^`]*)`", TEXT, re.MULTILINE)
    assert len(rows) > 7
    for method, path in rows:
        body: Any = {"inputs": [models.tensor("x", [1, 2, 3], [1, 3])]} if path.endswith("/infer") else b""
        for address in (path.replace("[/versions/V]", ""), path.replace("[/versions/V]", "/versions/1")):
            assert running.ask(method, address, body)[0] == 200, address
