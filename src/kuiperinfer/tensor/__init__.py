"""The eager world: strided tensors over shared memory, views, arithmetic and gradients.

from kuiperinfer import tensor as kt
x = kt.tensor([[1.0, 2.0], [3.0, 4.0]])
x.T[0], x.view(4), x.numpy()
"""

from __future__ import annotations

from .tensor import Tensor as Tensor  # isort: skip  (the function `tensor` takes the place of the module's name)
from .creation import empty as empty
from .creation import from_numpy as from_numpy
from .creation import full as full
from .creation import ones as ones
from .creation import tensor as tensor
from .creation import zeros as zeros
