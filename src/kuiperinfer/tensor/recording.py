"""Who wants to know what is calculated: `with recording(recorder):` tells it every operation."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

# (name of the operation, its inputs, its parameters, its result: a tensor, or a tuple of tensors)
Recorder: TypeAlias = Callable[[str, Sequence[Any], Mapping[str, Any], Any], None]

_recorder: contextvars.ContextVar[Recorder | None] = contextvars.ContextVar("kuiperinfer.tensor.recorder", default=None)
current_recorder = _recorder.get


@contextlib.contextmanager
def recording(recorder: Recorder | None) -> Iterator[None]:
    """Within the block, `recorder(name, inputs, parameters, result)` is called for every operation; None for none.

    What operations are made of is not told by itself. Views come under their names, with `arguments` as a parameter.
    """
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def note(name: str, inputs: Sequence[Any], parameters: Mapping[str, Any], result: Any) -> None:
    """Tells the recorder, where there is one."""
    recorder = _recorder.get()
    if recorder is not None:
        recorder(name, inputs, parameters, result)
