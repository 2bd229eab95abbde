"""The names that users may rely on. Changing this list is a decision, not an accident: say so in CHANGELOG.md."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import kuiperinfer

PUBLIC = {
    # models
    "load",
    "from_torch",
    "from_onnx",
    "Model",
    "ValueInfo",
    "settings",
    # layers of one's own
    "Layer",
    "register",
    "unregister",
    "DType",
    "TensorSpec",
    # tensors, and what learns
    "Tensor",
    "nn",
    "optim",
    "init",
    "data",
    "export",
    # modules
    "dtypes",
    "memory",
    "pnnx",
    "tensor",
    # the graph, under the names of the course
    "RuntimeGraph",
    "RuntimeOperator",
    "RuntimeOperand",
    "RuntimeParameter",
    "RuntimeAttribute",
    "LayerRegisterer",
    # errors
    "KuiperError",
    "ModelFileError",
    "ExpressionError",
    "UnsupportedOperatorError",
    "ShapeError",
    "DTypeError",
    "InputError",
    "GradientError",
    "CompileError",
    "ConversionError",
    "ResourceLimitError",
    "__version__",
}


def test_the_public_names_are_these() -> None:
    assert set(kuiperinfer.__all__) == PUBLIC
    assert len(kuiperinfer.__all__) == len(PUBLIC)
    assert dir(kuiperinfer) == sorted(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(kuiperinfer, name)
    assert isinstance(value, str) or value.__doc__
    assert getattr(kuiperinfer, name) is value
    if name not in ("settings", "__version__"):
        places = (f"kuiperinfer.{name}", f"kuiperinfer.tensor.{name}")
        assert not isinstance(value, ModuleType) or value.__name__ in places


def test_star_import_gives_the_public_names() -> None:
    found: dict[str, object] = {}
    exec("from kuiperinfer import *", found)
    assert found.keys() >= PUBLIC


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'kuiperinfer' has no attribute 'laod'"):
        kuiperinfer.laod  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import kuiperinfer", ("numpy", "llvmlite", "click", "rich", "PIL")),
        ("import kuiperinfer.cli.commands", ("numpy", "llvmlite", "rich", "PIL")),
        ("import kuiperinfer; kuiperinfer.load", ("click", "rich", "PIL", "torch")),
    ],
)
def test_nothing_is_imported_before_it_is_needed(statement: str, absent: tuple[str, ...]) -> None:
    source = kuiperinfer.__path__[0]
    check = f"import sys; sys.path.insert(0, {source!r} + '/..'); {statement}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert not set(absent) & set(result.stdout.split())


def test_settings_stay_the_object_when_the_module_is_imported() -> None:
    import kuiperinfer.settings

    with kuiperinfer.settings(debug=0):
        assert kuiperinfer.settings.debug == 0
