"""Parts of networks, under PyTorch's names, with its parameters, defaults and first weights. `functional` has the functions."""

from .. import functional as functional
from .activation import (
    ELU,
    GELU,
    Hardsigmoid,
    Hardswish,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from .clip import clip_grad_norm_, clip_grad_value_
from .containers import ModuleList, Sequential
from .convolution import Conv2d
from .dropout import Dropout
from .linear import Embedding, Flatten, Identity, Linear
from .loss import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, NLLLoss
from .module import IncompatibleKeys, Module
from .normalization import BatchNorm1d, BatchNorm2d, LayerNorm
from .parameter import Parameter
from .pooling import AdaptiveAvgPool2d, AvgPool2d, MaxPool2d
from .weights import load_tensors, load_weights, save_tensors, save_weights

__all__ = [
    "Module",
    "IncompatibleKeys",
    "Parameter",
    "Sequential",
    "ModuleList",
    "Linear",
    "Embedding",
    "Flatten",
    "Identity",
    "Conv2d",
    "MaxPool2d",
    "AvgPool2d",
    "AdaptiveAvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "LayerNorm",
    "ReLU",
    "ReLU6",
    "Sigmoid",
    "Tanh",
    "SiLU",
    "Hardswish",
    "Hardsigmoid",
    "LeakyReLU",
    "ELU",
    "GELU",
    "Softplus",
    "Softmax",
    "LogSoftmax",
    "Dropout",
    "CrossEntropyLoss",
    "NLLLoss",
    "MSELoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "clip_grad_norm_",
    "clip_grad_value_",
    "save_weights",
    "load_weights",
    "save_tensors",
    "load_tensors",
]
