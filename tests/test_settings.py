"""Settings: read, changed for a while, taken from the environment, and never misspelt in silence."""

from __future__ import annotations

import contextvars
import threading

import pytest

from kuiperinfer import InputError, settings
from kuiperinfer.settings import Settings, SettingValues


def test_a_change_lasts_as_long_as_its_block() -> None:
    before = settings.debug
    with settings(debug=before + 2, max_rank=3):
        assert (settings.debug, settings.max_rank) == (before + 2, 3)
        with settings(debug=0):
            assert (settings.debug, settings.max_rank) == (0, 3)
        assert settings.debug == before + 2
    assert settings.debug == before
    with pytest.raises(ZeroDivisionError), settings(debug=9):
        raise ZeroDivisionError
    assert settings.debug == before


def test_a_change_is_the_threads_own() -> None:
    seen = []
    with settings(debug=5):
        thread = threading.Thread(target=lambda: seen.append(settings.debug))
        thread.start()
        thread.join()
        context = contextvars.copy_context()
    assert seen == [0] and context.run(lambda: settings.debug) == 5


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="did you mean 'debug'"), settings(debgu=1):
        pass
    with pytest.raises(AttributeError, match="did you mean 'max_memory'"):
        settings.max_memry  # noqa: B018


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("KUIPER_DEBUG", "3", "debug", 3),
        ("KUIPER_VERIFY", "1", "verify", True),
        ("KUIPER_VERIFY", "False", "verify", False),
        ("KUIPER_TARGET", "x86-64-v2", "target", "x86-64-v2"),
        ("KUIPER_MAX_MEMORY", "1000", "max_memory", 1000),
    ],
)
def test_the_environment(monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, value: object) -> None:
    monkeypatch.setenv(variable, text)
    assert getattr(Settings(), name) == value


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("KUIPER_DEBUG", "much", "a whole number from 0 on"),
        ("KUIPER_THREADS", "-1", "a whole number from 0 on"),
        ("KUIPER_MAX_MEMORY", "4G", "a whole number from 0 on"),
        ("KUIPER_MAX_MEMORY", "1" * 5000, "a whole number from 0 on"),
        ("KUIPER_VERIFY", "perhaps", "1 or 0"),
        ("KUIPER_ENGINE", "turbo", "'compiled' or 'reference'"),
        ("KUIPER_PRECISION", "half", "'fast' or 'exact'"),
    ],
)
def test_an_unreadable_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, expected: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(InputError, match=rf"^environment variable {variable}: expected {expected}, found '{text}'$"):
        Settings().debug  # noqa: B018


def test_a_folder_for_the_cache_has_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUIPER_CACHE", "/var/cache")
    with pytest.raises(InputError, match=r"KUIPER_CACHE: expected 1 or 0, found '/var/cache'; .* KUIPER_CACHE_DIR$"):
        Settings().debug  # noqa: B018


@pytest.mark.parametrize("name", ["CACHE", "THREADS", "ENGINE", "CACHE_DIR"])
def test_an_empty_variable_is_as_if_it_were_not_there(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"KUIPER_{name}", "")
    assert getattr(Settings(), name.lower()) == getattr(SettingValues(), name.lower())


def test_misspelt_variables_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUIPER_OF_SOMEBODY_ELSE", "1")
    assert Settings().debug == SettingValues().debug
    monkeypatch.setenv("KUIPER_TREADS", "1")
    with pytest.warns(RuntimeWarning, match="KUIPER_TREADS is no setting of kuiperinfer; did you mean KUIPER_THREADS?"):
        Settings().debug  # noqa: B018


@pytest.mark.parametrize(
    "change", [{"threads": -1}, {"threads": "2"}, {"cache": "/tmp"}, {"engine": "turbo"}, {"target": 3}]
)
def test_values_are_checked(change: dict[str, object]) -> None:
    (name,) = change
    with pytest.raises(InputError, match=rf"^settings.{name}: expected .*, found '{change[name]}'"), settings(**change):
        pass
