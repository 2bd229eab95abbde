"""The registry of layers: families are imported when they are needed, and what they register is what the index says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

START = "import sys; from kuiperinfer.layers import Layer, register, registered, unregister\n"
IS_THERE = "print('kuiperinfer.layers.spectral' in sys.modules)\n"


def run(script: str) -> list[str]:
    """What a script prints, in a process that has imported no family yet."""
    command = [sys.executable, "-c", START + script]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONPATH": ":".join(sys.path)}
    ).stdout.split()


def test_the_index_says_what_the_families_register() -> None:
    spec = importlib.util.spec_from_file_location("index_layers", ROOT / "scripts" / "index_layers.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = (ROOT / "src" / "kuiperinfer" / "layers" / "index.py").read_text("utf-8")
    assert script.index_text() == written, "run scripts/index_layers.py"


def test_a_family_is_imported_when_one_of_its_types_is_asked_for() -> None:
    script = (
        f"assert 'torch.fft.fft' in registered() and len(list(registered())) == len(registered()) > 700\n{IS_THERE}"
    )
    script += f"registered()['torch.cat']\n{IS_THERE}registered()['torch.fft.fft']\n{IS_THERE}"
    assert run(script) == ["False", "False", "True"]


@pytest.mark.parametrize("replace", [False, True])
def test_a_type_of_a_family_that_is_not_imported_yet_is_taken(replace: bool) -> None:
    script = (
        "class Mine(Layer): pass\n"
        f"try: register('torch.fft.fft', replace={replace})(Mine)\n"
        "except Exception as error: print(type(error).__name__)\n"
        "registered()['torch.fft.ifft']\n"
        "print(registered()['torch.fft.fft'].layer.__module__)\n"
    )
    assert run(script) == (["__main__"] if replace else ["InputError", "kuiperinfer.layers.spectral"])


def test_what_is_unregistered_stays_so_when_its_family_is_imported() -> None:
    script = "unregister('torch.fft.fft'); registered()['torch.fft.ifft']; print('torch.fft.fft' in registered())\n"
    assert run(script) == ["False"]
