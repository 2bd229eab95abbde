"""The real models that may lie beside the checkout, with pictures and known answers."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent.parent.parent / "shared" / "models"

needs_models = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"needs {FOLDER}")


def model(name: str) -> Path:
    """The .pnnx.param file of a model."""
    return FOLDER / name / "model.pnnx.param"
