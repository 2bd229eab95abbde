"""The eager world: strided tensors over shared memory, views, arithmetic and gradients.

from kuiperinfer import tensor as kt
x = kt.tensor([[1.0, 2.0], [3.0, 4.0]])
x.T[0], x.view(4), x.numpy()
"""

from __future__ import annotations

from typing import Any

from .tensor import Tensor as Tensor  # isort: skip  (the function `tensor` takes the place of the module's name)
from . import functional as functional
from .autograd import enable_grad as enable_grad
from .autograd import grad as grad
from .autograd import no_grad as no_grad
from .creation import arange as arange
from .creation import as_tensor as as_tensor
from .creation import empty as empty
from .creation import empty_like as empty_like
from .creation import eye as eye
from .creation import full as full
from .creation import full_like as full_like
from .creation import linspace as linspace
from .creation import ones as ones
from .creation import ones_like as ones_like
from .creation import tensor as tensor
from .creation import zeros as zeros
from .creation import zeros_like as zeros_like
from .csv import load_csv as load_csv
from .functions import FUNCTIONS as _FUNCTIONS
from .gradcheck import gradcheck as gradcheck
from .interchange import from_dlpack as from_dlpack
from .interchange import from_numpy as from_numpy
from .operations.joining import cat as cat
from .operations.joining import gather as gather
from .operations.joining import stack as stack
from .operations.joining import where as where
from .operations.product import matmul as matmul
from .printing import set_printoptions as set_printoptions
from .random import Generator as Generator
from .random import default_generator as default_generator
from .random import initial_seed as initial_seed
from .random import manual_seed as manual_seed
from .random import normal as normal
from .random import rand as rand
from .random import rand_like as rand_like
from .random import randint as randint
from .random import randn as randn
from .random import randn_like as randn_like
from .random import randperm as randperm
from .view_methods import broadcast_tensors as broadcast_tensors

globals().update(_FUNCTIONS)  # exp(x) and all other methods that PyTorch has as functions too


def __getattr__(name: str) -> Any:  # lets checkers of types know that there are more names
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
