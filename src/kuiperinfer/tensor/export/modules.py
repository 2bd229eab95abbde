"""Modules that are operators of their own: which parameters and weights the converter writes for each.

A module that is not here, or of a class of one's own, is walked through: what its `forward` does becomes operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...dtypes import Array
from ...errors import InputError
from .. import nn
from ..nn.convolution import pair


@dataclass(frozen=True)
class ModuleRule:
    """How a module is written: `params` and `weights` from the module itself; nothing at all where it `vanishes`."""

    type: str = ""
    params: Callable[[Any], dict[str, Any]] = lambda module: {}
    weights: Callable[[Any], dict[str, Array]] = lambda module: {}
    input_names: tuple[str | None, ...] = ()
    vanishes: bool = False


def _own(*names: str) -> Callable[[nn.Module], dict[str, Array]]:
    """The parameters and buffers of these names, where the module has them."""

    def weights(module: nn.Module) -> dict[str, Array]:
        return {name: getattr(module, name).array for name in names if getattr(module, name) is not None}

    return weights


def _conv2d(module: nn.Conv2d) -> dict[str, Any]:
    return {
        "bias": module.bias is not None,
        "dilation": module.dilation,
        "groups": module.groups,
        "in_channels": module.in_channels,
        "kernel_size": module.kernel_size,
        "out_channels": module.out_channels,
        "padding": module.padding,
        "padding_mode": module.padding_mode,
        "stride": module.stride,
    }


def _max_pool2d(module: nn.MaxPool2d) -> dict[str, Any]:
    sizes = {name: pair(getattr(module, name)) for name in ("dilation", "kernel_size", "padding", "stride")}
    return {"ceil_mode": module.ceil_mode, "return_indices": False, **sizes}


def _avg_pool2d(module: nn.AvgPool2d) -> dict[str, Any]:
    sizes = {name: pair(getattr(module, name)) for name in ("kernel_size", "padding", "stride")}
    flags = {name: getattr(module, name) for name in ("ceil_mode", "count_include_pad", "divisor_override")}
    return {**flags, **sizes}


def _adaptive(module: nn.AdaptiveAvgPool2d) -> dict[str, Any]:
    size = module.output_size
    sizes = (size, size) if isinstance(size, int) else size
    return {"output_size": tuple(0 if one is None else one for one in sizes)}


def _batch_norm(module: nn.BatchNorm2d) -> dict[str, Any]:
    if module.running_mean is None:
        raise InputError("batch norm without running statistics depends on the batch, and cannot be exported")
    return {"affine": module.affine, "eps": float(module.eps), "num_features": module.num_features}


def _layer_norm(module: nn.LayerNorm) -> dict[str, Any]:
    affine = module.elementwise_affine
    return {"elementwise_affine": affine, "eps": float(module.eps), "normalized_shape": module.normalized_shape}


def _normalization_weights(module: nn.BatchNorm2d | nn.LayerNorm) -> dict[str, Array]:
    names = ("weight", "bias", "running_mean", "running_var")
    weights = _own(*names[: 2 if isinstance(module, nn.LayerNorm) else 4])(module)
    if module.weight is not None and module.bias is None:  # the format has both or none
        weights["bias"] = np.zeros_like(module.weight.array)
    return weights


def _embedding(module: nn.Embedding) -> dict[str, Any]:
    sizes = {"embedding_dim": module.embedding_dim, "num_embeddings": module.num_embeddings}
    return {**sizes, "sparse": False}


MODULES: dict[type[nn.Module], ModuleRule] = {
    nn.Identity: ModuleRule(vanishes=True),
    nn.Dropout: ModuleRule(vanishes=True),
    nn.Linear: ModuleRule(
        "nn.Linear",
        lambda m: {"bias": m.bias is not None, "in_features": m.in_features, "out_features": m.out_features},
        _own("bias", "weight"),
    ),
    nn.Conv2d: ModuleRule("nn.Conv2d", _conv2d, _own("bias", "weight")),
    nn.BatchNorm1d: ModuleRule("nn.BatchNorm1d", _batch_norm, _normalization_weights),
    nn.BatchNorm2d: ModuleRule("nn.BatchNorm2d", _batch_norm, _normalization_weights),
    nn.LayerNorm: ModuleRule("nn.LayerNorm", _layer_norm, _normalization_weights),
    nn.Embedding: ModuleRule("nn.Embedding", _embedding, _own("weight")),
    nn.Flatten: ModuleRule(
        "torch.flatten", lambda m: {"end_dim": m.end_dim, "start_dim": m.start_dim}, input_names=("input",)
    ),
    nn.MaxPool2d: ModuleRule("nn.MaxPool2d", _max_pool2d),
    nn.AvgPool2d: ModuleRule("nn.AvgPool2d", _avg_pool2d),
    nn.AdaptiveAvgPool2d: ModuleRule("nn.AdaptiveAvgPool2d", _adaptive),
    nn.ReLU: ModuleRule("nn.ReLU"),
    nn.ReLU6: ModuleRule("nn.ReLU6"),
    nn.Sigmoid: ModuleRule("nn.Sigmoid"),
    nn.Tanh: ModuleRule("nn.Tanh"),
    nn.SiLU: ModuleRule("nn.SiLU"),
    nn.Hardswish: ModuleRule("nn.Hardswish"),
    nn.Hardsigmoid: ModuleRule("nn.Hardsigmoid"),
    nn.LeakyReLU: ModuleRule("nn.LeakyReLU", lambda m: {"negative_slope": float(m.negative_slope)}),
    nn.ELU: ModuleRule("nn.ELU", lambda m: {"alpha": float(m.alpha)}),
    nn.GELU: ModuleRule("nn.GELU", lambda m: {} if m.approximate == "none" else {"approximate": m.approximate}),
    nn.Softplus: ModuleRule("nn.Softplus", lambda m: {"beta": float(m.beta), "threshold": float(m.threshold)}),
    nn.Softmax: ModuleRule("nn.Softmax", lambda m: {"dim": m.dim}),
    nn.LogSoftmax: ModuleRule("nn.LogSoftmax", lambda m: {"dim": m.dim}),
}
