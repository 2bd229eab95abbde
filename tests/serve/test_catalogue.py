"""Which files of a folder are models, and what they are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kuiperinfer.errors import InputError
from kuiperinfer.serve.repository import find_models, model_name
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
    touch(tmp_path / "versions" / "3" / "c.txt")
    touch(tmp_path / "versions" / "assets" / "c.txt")
    touch(tmp_path / "versions" / "flat.pnnx.bin")
    touch(tmp_path / "twice.pnnx.param")
    touch(tmp_path / "twice" / "1" / "a.pnnx.param")
    touch(tmp_path / "my folder" / "a.pnnx.param")
    found = find_models(tmp_path)
    assert found.models == {
        "flat": {"1": flat},
        "folder": {"1": folder},
        "versions": {"1": first, "10": tenth},
        "twice": {"1": tmp_path / "twice" / "1" / "a.pnnx.param"},
    }
    left_out = {str(path.relative_to(tmp_path)): reason for path, reason in found.left_out.items()}
    not_one = "expected one file *.pnnx.param in the folder, found"
    rename = (
        "it is to be renamed: a name has letters, digits, '.', '_' and '-', and begins with one of the first two or '_'"
    )
    version = "a version's folder is to be called by a whole number, the first one 1"
    assert left_out == {
        "versions/v2": version,
        "versions/02": version,
        "versions/3": f"{not_one} none",
        "two": f"{not_one} a.pnnx.param, b.pnnx.param",
        "none": f"{not_one} none",
        "a name with blanks.pnnx.param": rename,
        "my folder": rename,
        "twice.pnnx.param": f"version 1 of 'twice' is {tmp_path}/twice/1/a.pnnx.param already; take one of them away",
    }


def test_what_is_left_out_is_logged_once(
    start: Callable[..., Running], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "repository"
    bad = touch(folder / "my net.pnnx.param")
    write_model(folder, models.ROWS, name="rows")
    running = start({"rows": models.ROWS}, folder)

    def logged() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "kuiperinfer.serve.catalogue"]

    assert len(logged()) == 2
    assert any(line.startswith(f"{bad} is left out: it is to be renamed") for line in logged())
    assert f"{folder}/rows.pnnx.param is left out: the server was started with another model 'rows'" in logged()
    for _ in range(2):
        assert running.ask("POST", "/v2/repository/index")[0] == 200
    assert len(logged()) == 2
    bad.unlink()
    assert running.ask("POST", "/v2/repository/index")[0] == 200
    touch(bad)
    assert running.ask("POST", "/v2/repository/index")[0] == 200
    assert len(logged()) == 3


def test_a_repository_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read as a folder of models"):
        find_models(tmp_path / "nothing")


def test_folders_that_cannot_be_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = touch(tmp_path / "good.pnnx.param")
    touch(tmp_path / "secret" / "a.pnnx.param")
    list_really = Path.iterdir

    def refuse(self: Path) -> object:
        if self.name == "secret":
            raise PermissionError(13, "Permission denied")
        return list_really(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    found = find_models(tmp_path)
    assert found.models == {"good": {"1": file}}
    assert found.left_out == {tmp_path / "secret": "Permission denied"}


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


def test_versions_of_which_one_is_bad(start: Callable[..., Running], tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "rows"
    for version in ("2", "10", "11"):
        write_model(folder / version, models.ROWS.replace("2.0", f"{version}.0"))
    good = (folder / "11" / "model.pnnx.param").read_text()
    bad = touch(folder / "11" / "model.pnnx.param")
    running = start({}, folder.parent)
    asked = {"inputs": [models.tensor("x", [1, 0, 0], [1, 3])]}

    def answers() -> list[float]:
        paths = ("/v2/models/rows/infer", "/v2/models/rows/versions/2/infer")
        return [running.ask("POST", path, asked)[2]["outputs"][0]["data"][0] for path in paths]

    def states() -> dict[str, str]:
        return {row["version"]: row["state"] for row in running.ask("POST", "/v2/repository/index")[2]}

    # at the start, those that are good are served
    assert answers() == [11, 3]
    assert states() == {"2": "READY", "10": "READY", "11": "UNAVAILABLE"}
    status, _, content = running.ask("POST", "/v2/models/rows/versions/11/infer", asked)
    assert status == 404
    assert content["error"].startswith("version 11 of model 'rows' is not loaded: model.pnnx.param: the file is empty")
    status, _, content = running.ask("POST", "/v2/models/rows/versions/3/infer", asked)
    assert (status, content["error"]) == (404, "model 'rows' has no version '3', only 2, 10")
    # a request to load all of them that fails changes nothing
    write_model(folder / "2", models.ROWS.replace("2.0", "7.0"))
    status, _, content = running.ask("POST", "/v2/repository/models/rows/load")
    assert status == 400
    assert content["error"].startswith(
        "version 11 of model 'rows' cannot be loaded: model.pnnx.param: the file is empty"
    )
    assert answers() == [11, 3]
    bad.write_text(good)
    assert running.ask("POST", "/v2/repository/models/rows/load")[0] == 200
    assert answers() == [12, 8]
    # and once they are unloaded, none of them is there
    assert running.ask("POST", "/v2/repository/models/rows/unload")[0] == 200
    touch(bad)
    assert running.ask("POST", "/v2/repository/models/rows/load")[0] == 400
    reasons = {row["version"]: row["reason"] for row in running.ask("POST", "/v2/repository/index")[2]}
    assert reasons["10"].startswith("not loaded, since version 11 of model 'rows' cannot be loaded: ")


def test_why_a_model_is_not_there(start: Callable[..., Running], tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    write_model(folder, models.ROWS, name="rows")
    touch(folder / "broken.pnnx.param")
    running = start({}, folder)
    write_model(folder, models.ROWS, name="later")
    assert running.ask("POST", "/v2/repository/models/rows/unload")[0] == 200
    assert running.ask("POST", "/v2/repository/index")[0] == 200
    reasons = {
        "rows": "unloaded",
        "broken": "broken.pnnx.param: the file is empty",
        "later": "it came after the server's start",
    }
    for name, reason in reasons.items():
        for path in (f"/v2/models/{name}/infer", f"/v2/repository/models/{name}/unload"):
            status, _, content = running.ask("POST", path, {})
            assert status == 404
            assert content["error"].startswith(f"version 1 of model '{name}' is not loaded: {reason}")
