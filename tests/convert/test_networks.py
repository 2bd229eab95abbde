"""The networks that people convert: from torch, by the converter, equal to torch by both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import kuiperinfer
from kuiperinfer.convert.other_engines import arrays_of

from . import networks

NETWORKS: dict[str, tuple[Any, dict[str, Any]]] = {
    "resnet18": (networks.resnet18, {}),
    "mobilenet_v3_small": (networks.mobilenet_v3_small, {}),
    "unet": (networks.UNet, {}),
    "yolov5 decoded": (networks.yolov5, {}),
    "yolov5 raw heads": (lambda: networks.yolov5(raw=True), {}),
    "yolov5 Detect operator": (networks.yolov5, {"module_operators": ["models.yolo.Detect"]}),
    "yolov8": (networks.yolov8, {}),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_equal_to_torch_by_both_engines(name: str) -> None:
    build, options = NETWORKS[name]
    torch.manual_seed(0)
    net = networks.with_random_statistics(build())
    x = torch.rand(1, 3, 64, 64)
    model = kuiperinfer.from_torch(net, x, **options)
    with torch.no_grad():
        expected = arrays_of(net(x))
    for engine in ("reference", "compiled"):
        with kuiperinfer.settings(engine=engine):
            found = model(x)
        found = found if isinstance(found, tuple) else (found,)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * np.abs(other).max())
    assert ("models.yolo.Detect" in {operator.type for operator in model.graph.operators}) == bool(options)


@pytest.mark.parametrize("build", [networks.resnet18, networks.UNet], ids=["resnet18", "unet"])
def test_a_second_shape_keeps_dimensions_free(build: Any) -> None:
    torch.manual_seed(0)
    net = networks.with_random_statistics(build())
    model = kuiperinfer.from_torch(net, torch.rand(1, 3, 64, 64), torch.rand(2, 3, 96, 32))
    assert model.inputs[0].shape == (None, 3, None, None)
    x = torch.rand(3, 3, 32, 48)
    with torch.no_grad():
        expected = net(x).numpy()
    with kuiperinfer.settings(engine="reference"):
        np.testing.assert_allclose(model(x), expected, rtol=0, atol=1e-4 * np.abs(expected).max())
