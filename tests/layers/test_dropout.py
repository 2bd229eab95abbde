"""Dropout is the identity at inference."""

import pytest
import torch
import torch.nn.functional as F

from kuiperinfer.errors import InputError
from tests.layers.harness import Case, check, random, run

FUNCTIONS = {
    "F.dropout": F.dropout,
    "F.dropout1d": F.dropout1d,
    "F.dropout2d": F.dropout2d,
    "F.dropout3d": F.dropout3d,
    "F.alpha_dropout": F.alpha_dropout,
    "F.feature_alpha_dropout": F.feature_alpha_dropout,
}
MODULES = {"Dropout": 1, "Dropout1d": 3, "Dropout2d": 4, "Dropout3d": 5, "AlphaDropout": 2, "FeatureAlphaDropout": 3}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_functions(name, dtype):
    x = random(2, 3, 4, 5, dtype=dtype)[0 if name == "F.dropout1d" else slice(None)]
    params = {"p": 0.3, "training": False, "inplace": False}
    check(Case(name, lambda x: FUNCTIONS[name](x, 0.3, training=False), [x], params, names=["input"]))


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    module = getattr(torch.nn, name)(0.2).eval()
    check(Case(f"nn.{name}", module, [random(*range(2, 2 + MODULES[name]))], {"p": 0.2}))


def test_training_is_refused():
    with pytest.raises(InputError, match="training"):
        run(Case("F.dropout", None, [random(3)], {"training": True}))
