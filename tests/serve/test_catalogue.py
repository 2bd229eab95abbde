"""Which files of a folder are models, and what they are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kuiperinfer.errors import InputError
from kuiperinfer.serve.catalogue import find_models, model_name
from tests.serve import models
from tests.serve.conftest import Running
from tests.small_models import write_model


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def test_layouts(tmp_path: Path) -> None:
    flat = touch(tmp_path / "flat.pnnx.param")
    folder = touch(tmp_path / "folder" / "anything.pnnx.param")
    first, tenth = (
        touch(tmp_path / "versions" / "1" / "a.pnnx.param"),
        touch(tmp_path / "versions" / "10" / "b.pnnx.param"),
    )
    touch(tmp_path / "versions" / "v2" / "c.pnnx.param")
    touch(tmp_path / "versions" / "02" / "c.pnnx.param")
    touch(tmp_path / "two" / "a.pnnx.param")
    touch(tmp_path / "two" / "b.pnnx.param")
    touch(tmp_path / "none" / "a.txt")
    touch(tmp_path / "a name with blanks.pnnx.param")
    touch(tmp_path / ".hidden.pnnx.param")
    touch(tmp_path / "notes.txt")
    assert find_models(tmp_path) == {
        "flat": {"1": flat},
        "folder": {"1": folder},
        "versions": {"1": first, "10": tenth},
    }


def test_a_repository_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read as a folder of models"):
        find_models(tmp_path / "nothing")


def test_folders_that_cannot_be_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = touch(tmp_path / "good.pnnx.param")
    touch(tmp_path / "secret" / "a.pnnx.param")
    list_really = Path.glob

    def refuse(self: Path, pattern: str) -> object:
        if self.name == "secret":
            raise PermissionError(13, "Permission denied")
        return list_really(self, pattern)

    monkeypatch.setattr(Path, "glob", refuse)
    assert find_models(tmp_path) == {"good": {"1": file}}


def test_names() -> None:
    assert model_name(Path("/a/b/net-1.5_x.pnnx.param")) == "net-1.5_x"
    for name in ("my net", "ä", "-x", "x" * 200):
        with pytest.raises(InputError, match="is no name for a model"):
            model_name(Path(f"/a/{name}.pnnx.param"))


def test_a_repository_beside_given_models(start: Callable[..., Running], tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    write_model(folder, models.ROWS.replace("2.0", "7.0"), name="rows")
    write_model(folder, models.CENTRED, name="centred")
    running = start({"rows": models.ROWS}, folder)
    assert running.ask("GET", "/v2/models")[2] == {"models": ["centred", "rows"]}
    asked = {"inputs": [models.tensor("x", [1, 2, 3], [1, 3])]}
    assert running.ask("POST", "/v2/models/rows/infer", asked)[2]["outputs"][0]["data"] == [3, 5, 7]  # the given one


def test_a_model_that_goes_while_others_wait_for_it(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS}, max_batch=2, max_delay=0.3)
    with running.connect() as waiting:
        waiting.send("POST", "/v2/models/rows/infer", {"inputs": [models.tensor("x", [1, 2, 3], [1, 3])]})
        while not running.service.scheduler.waiting:
            pass
        assert running.ask("POST", "/v2/repository/models/rows/unload")[0] == 200
        assert running.ask("POST", "/v2/models/rows/infer", {})[0] == 404
        status, _, content = waiting.answer()
        assert (status, content["outputs"][0]["data"]) == (200, [3, 5, 7])
    assert running.ask("POST", "/v2/repository/models/rows/unload")[0] == 404
    assert running.ask("POST", "/v2/repository/index", {"ready": True})[2] == []


def test_shapes_that_are_compiled_when_they_are_seen(start: Callable[..., Running]) -> None:
    running = start({"free": models.FREE})
    for columns in (1, 4, 1):
        asked = {"inputs": [models.tensor("x", [1] * columns, [1, columns])]}
        status, _, content = running.ask("POST", "/v2/models/free/infer", asked)
        assert (status, content["outputs"][0]["data"]) == (200, [2] * columns)
        assert content["outputs"][0]["shape"] == [1, columns]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [(ZeroDivisionError("secret"), 500, "internal error"), (MemoryError(), 503, "not enough memory")],
    ids=["mistake", "memory"],
)
def test_errors_of_our_own_while_loading(
    start: Callable[..., Running],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    reason: str,
) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    running = start({}, folder)
    write_model(folder, models.ROWS, name="rows")

    def fail(_: Path) -> None:
        raise error

    monkeypatch.setattr("kuiperinfer.serve.catalogue.load", fail)
    found, _, content = running.ask("POST", "/v2/repository/models/rows/load")
    assert found == status
    assert content["error"].startswith(f"model 'rows' cannot be loaded: {reason}")
    assert running.ask("POST", "/v2/repository/index")[2][0]["reason"].startswith(reason)
    assert running.ask("GET", "/v2/health/ready")[0] == 200
