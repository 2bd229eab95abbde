"""Weights for a model of which only the text is at hand."""

from __future__ import annotations

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer import ResourceLimitError, pnnx
from kuiperinfer.dtypes import widen
from kuiperinfer.pnnx.random_weights import fill_random_weights

TEXT = """7767517
5 4
pnnx.Input     in  0 1 0 #0=(1,64,8,8)f32
nn.Conv2d      c   1 1 0 1 bias=True dilation=(1,1) groups=1 in_channels=64 kernel_size=(3,3) out_channels=32 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(32)f16 @weight=(32,64,3,3)f16
nn.BatchNorm2d b   1 1 1 2 affine=True eps=1.000000e-05 num_features=32 @bias=(32)f32 @running_mean=(32)f32 @running_var=(32)f32 @weight=(32)f32
pnnx.Attribute a   0 1 3 @data=(2,3)i64
pnnx.Output    out 1 0 2
"""  # noqa: E501


def read() -> pnnx.Graph:
    return fill_random_weights(pnnx.read(TEXT.encode(), weights=False))


def test_every_weight_has_data_of_its_shape_and_dtype() -> None:
    for operator in read().operators:
        for attribute in operator.attributes.values():
            assert attribute.data is not None and attribute.dtype is not None
            assert attribute.data.shape == attribute.shape
            assert attribute.data.dtype == attribute.dtype.storage
            assert not attribute.data.flags.writeable
            assert attribute.data.ctypes.data % 64 == 0


def test_magnitudes_are_sane() -> None:
    _, conv, norm, constant, _ = read().operators
    assert np.std(widen(conv.attributes["weight"].data)) == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.05)
    for positive in ("running_var", "weight"):
        assert norm.attributes[positive].data.min() >= 0.5
    assert not constant.attributes["data"].data.any()  # an index that is valid in anything


def test_the_same_seed_gives_the_same_weights() -> None:
    one, other = read(), read()
    another = fill_random_weights(pnnx.read(TEXT.encode(), weights=False), seed=1)
    weights = [graph.operators[1].attributes["weight"].data for graph in (one, other, another)]
    np.testing.assert_array_equal(weights[0], weights[1])
    assert (weights[0] != weights[2]).any()


def test_weights_that_are_there_stay() -> None:
    graph = read()
    before = graph.operators[1].attributes["weight"]
    assert fill_random_weights(graph, seed=5).operators[1].attributes["weight"] is before


def test_weights_beyond_the_limit_are_not_made() -> None:
    with kuiperinfer.settings(max_memory=30_000), pytest.raises(ResourceLimitError, match="max_memory"):
        read()
