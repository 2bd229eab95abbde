"""Makes a model small enough to be bundled: the same graph with its float32 weights in half precision.

    python scripts/bundle_model.py mobilenet_v2/model.pnnx.param src/kuiperinfer/assets/mobilenet_v2.pnnx.param

Convolutions and linear layers widen such weights before they calculate, so inputs and outputs stay float32.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kuiperinfer import dtypes, pnnx
from kuiperinfer.pnnx import Attribute, Graph

# Operators that take half-precision weights beside float32 inputs; weights of others stay as they are.
NARROWED = ("nn.Conv2d", "nn.Linear")


def halve_weights(graph: Graph) -> int:
    """Rounds the float32 weights of convolutions and linear layers to half precision, in place; returns how many numbers.

    Raises `ValueError` where a weight is too large for half precision.
    """
    narrowed = 0
    for operator in graph.operators_of_type(*NARROWED):
        for name, attribute in operator.attributes.items():
            if attribute.dtype is not dtypes.f32 or attribute.data is None:
                continue
            if abs(attribute.data).max(initial=0.0) > 65504:
                raise ValueError(f"{operator.name}.{name} has weights that half precision cannot hold")
            data = dtypes.narrow(attribute.data, dtypes.f16)
            operator.attributes[name] = Attribute(dtypes.f16, attribute.shape, data)
            narrowed += data.size
    return narrowed


def main() -> None:
    """Reads the first path, writes to the second."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    source, target = sys.argv[1:]
    graph = pnnx.read(source)
    narrowed = halve_weights(graph)
    pnnx.write(graph, target)
    size = Path(target).with_suffix(".bin").stat().st_size
    print(f"{target}: {narrowed:,} numbers in half precision, {size:,} bytes of weights")


if __name__ == "__main__":
    main()
