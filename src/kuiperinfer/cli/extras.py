"""The optional parts of the package, and what each needs."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import InputError

# Extra -> the modules it brings, by the name under which they are imported.
EXTRAS = {
    "cli": ("click", "rich"),
    "image": ("PIL",),
    "batch": ("pyarrow",),
    "ray": ("pyarrow", "ray"),
    "convert": ("pnnx",),
    "train": ("matplotlib", "rich", "safetensors", "sklearn"),
    "serve": ("starlette", "uvicorn", "httptools", "prometheus_client", "orjson"),
}


def missing_modules(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


def require_extra(extra: str, purpose: str) -> None:
    """`InputError` with the command that installs the extra, unless it is there."""
    if missing := missing_modules(extra):
        raise InputError(f"{purpose} needs {' and '.join(missing)}: pip install 'kuiperinfer[{extra}]'")
