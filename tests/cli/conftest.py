"""The command line as a user meets it."""

from __future__ import annotations

from typing import Any

import pytest

from kuiperinfer.cli import main


@pytest.fixture
def kuiper(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line in this process; returns exit code, standard output and standard error."""

    def run(*arguments: Any) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return run
