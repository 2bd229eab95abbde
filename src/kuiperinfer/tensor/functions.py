"""The methods of tensors as functions of the package, as PyTorch has them: `exp(x)` is `x.exp()`."""

from __future__ import annotations

import functools
from typing import Any

from ..errors import DTypeError
from .tensor import Tensor


def _function(name: str) -> Any:
    method = getattr(Tensor, name)

    @functools.wraps(method)
    def function(input: Tensor, *arguments: Any, **named: Any) -> Any:
        if not isinstance(input, Tensor):
            raise DTypeError(f"{name}: expected a tensor, found {input!r}")
        return method(input, *arguments, **named)

    return function


NAMES = """
    abs acos acosh asin asinh atan atan2 atanh ceil clamp cos cosh erf exp expm1 floor fmod log log10 log1p logaddexp neg
    pow reciprocal relu remainder round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc
    add sub mul div floor_divide eq ne lt le gt ge maximum minimum lerp isnan isinf isfinite allclose masked_fill
    sum mean std var prod amax amin max min argmax argmin all any norm logsumexp softmax log_softmax cumsum sort argsort topk
    index_select squeeze unsqueeze transpose swapaxes permute movedim reshape flatten ravel flip unbind split chunk narrow
    diagonal clone broadcast_to numel
""".split()

FUNCTIONS: dict[str, Any] = {name: _function(name) for name in NAMES}
