"""Networks as they are published, where torchvision and ultralytics are installed beside torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDS = {"resnet18": "torchvision", "mobilenet_v3_small": "torchvision", "yolov8n": "ultralytics"}


@pytest.mark.parametrize("name", NEEDS)
def test_a_published_network_is_equal_to_torch(name: str) -> None:
    pytest.importorskip(NEEDS[name])
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "scripts" / "convert_zoo.py"), name]
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].startswith(name)
    assert "skipped" not in result.stdout
