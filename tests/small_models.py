"""Small models, written as files, for tests that need any model at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kuiperinfer import pnnx
from kuiperinfer.dtypes import Array, dtype_of

LINEAR = """7767517
4 3
pnnx.Input  pnnx_input_0  0 1 0 #0=(2,4)f32
nn.Linear   fc            1 1 0 1 bias=True in_features=4 out_features=3 @bias=(3)f32 @weight=(3,4)f32 #0=(2,4)f32 #1=(2,3)f32
F.relu      relu          1 1 1 2 #1=(2,3)f32 #2=(2,3)f32
pnnx.Output pnnx_output_0 1 0 2 #2=(2,3)f32
"""

CONVOLUTION = """7767517
4 3
pnnx.Input  pnnx_input_0  0 1 0 #0=(1,3,?,?)f32
nn.Conv2d   conv          1 1 0 1 bias=False dilation=(1,1) groups=1 in_channels=3 kernel_size=(3,3) out_channels=8 padding=(1,1) padding_mode=zeros stride=(2,2) @weight=(8,3,3,3)f32 #0=(1,3,?,?)f32 #1=(1,8,?,?)f32
nn.ReLU     relu          1 1 1 2 #1=(1,8,?,?)f32 #2=(1,8,?,?)f32
pnnx.Output pnnx_output_0 1 0 2 #2=(1,8,?,?)f32
"""  # noqa: E501

TWO_WAYS = """7767517
6 5
pnnx.Input             left          0 1 0 #0=(3)f32
pnnx.Input             right         0 1 1 #1=(3)f32
pnnx.Expression        total         2 1 0 1 2 expr=add(@0,@1) #0=(3)f32 #1=(3)f32 #2=(3)f32
pnnx.Expression        product       2 1 0 1 3 expr=mul(@0,@1) #0=(3)f32 #1=(3)f32 #3=(3)f32
prim::TupleConstruct   both          2 1 2 3 4 #2=(3)f32 #3=(3)f32
pnnx.Output            pnnx_output_0 1 0 4
"""

UNKNOWN = """7767517
5 4
pnnx.Input      pnnx_input_0  0 1 0 #0=(3)f32
nn.Relu         a             1 1 0 1 #0=(3)f32 #1=(3)f32
nn.Relu         b             1 1 1 2 #1=(3)f32 #2=(3)f32
my.Thing        c             1 1 2 3 #2=(3)f32 #3=(3)f32
pnnx.Output     pnnx_output_0 1 0 3 #3=(3)f32
"""


def weights_of(text: str, seed: int = 0) -> dict[str, Array]:
    """Random weights for a model's text: entry name (`fc.weight`) -> array."""
    generator = np.random.default_rng(seed)
    graph = pnnx.read(text.encode(), weights=False)
    return {
        f"{operator.name}.{name}": generator.standard_normal(attribute.shape).astype(np.float32)
        for operator in graph.operators
        for name, attribute in operator.attributes.items()
    }


def write_model(folder: Path, text: str, weights: dict[str, Array] | None = None, name: str = "model") -> Path:
    """Writes NAME.pnnx.param and NAME.pnnx.bin and returns the path of the first."""
    given = weights_of(text) if weights is None else weights
    graph = pnnx.read(text.encode(), weights=False)
    for operator in graph.operators:
        for key in operator.attributes:
            data = given[f"{operator.name}.{key}"]
            operator.attributes[key] = pnnx.Attribute(dtype_of(data), data.shape, data)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.pnnx.param"
    pnnx.write(graph, path)
    return path
