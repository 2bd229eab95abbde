"""Small models for the server's tests."""

from __future__ import annotations

from collections.abc import Sequence

DATATYPES = {
    "bool": "BOOL",
    "u8": "UINT8",
    "i8": "INT8",
    "i16": "INT16",
    "i32": "INT32",
    "i64": "INT64",
    "f16": "FP16",
    "f32": "FP32",
    "f64": "FP64",
    "bf16": "BF16",
}


def flip(dtype: str, shape: str = "1,4") -> str:
    """A model that takes any element type and turns its rows round."""
    return f"""7767517
3 2
pnnx.Input  x     0 1 0 #0=({shape}){dtype}
torch.flip  flip  1 1 0 1 dims=(-1) #0=({shape}){dtype} #1=({shape}){dtype}
pnnx.Output y     1 0 1 #1=({shape}){dtype}
"""


# Rows are calculated one by one, and are the same bit for bit in any batch.
ROWS = """7767517
4 3
pnnx.Input      x       0 1 0 #0=(1,3)f32
pnnx.Expression double  1 1 0 1 expr=mul(@0,2.0) #0=(1,3)f32 #1=(1,3)f32
pnnx.Expression one     1 1 1 2 expr=add(@0,1.0) #1=(1,3)f32 #2=(1,3)f32
pnnx.Output     y       1 0 2 #2=(1,3)f32
"""

# Rows look at each other: the mean over the first dimension is taken off.
CENTRED = """7767517
4 3
pnnx.Input      x       0 1 0 #0=(1,3)f32
torch.mean      mean    1 1 0 1 dim=(0) keepdim=True #0=(1,3)f32 #1=(1,3)f32
pnnx.Expression centre  2 1 0 1 2 expr=sub(@0,@1) #0=(1,3)f32 #1=(1,3)f32 #2=(1,3)f32
pnnx.Output     y       1 0 2 #2=(1,3)f32
"""

# The number of rows is written into the file.
FIXED = """7767517
3 2
pnnx.Input     x       0 1 0 #0=(1,4)f32
Tensor.reshape reshape 1 1 0 1 shape=(1,2,2) #0=(1,4)f32 #1=(1,2,2)f32
pnnx.Output    y       1 0 1 #1=(1,2,2)f32
"""

# Two inputs, two outputs.
PAIR = """7767517
6 5
pnnx.Input             left    0 1 0 #0=(1,3)f32
pnnx.Input             right   0 1 1 #1=(1,3)f32
pnnx.Expression        total   2 1 0 1 2 expr=add(@0,@1) #0=(1,3)f32 #1=(1,3)f32 #2=(1,3)f32
pnnx.Expression        product 2 1 0 1 3 expr=mul(@0,@1) #0=(1,3)f32 #1=(1,3)f32 #3=(1,3)f32
prim::TupleConstruct   both    2 1 2 3 4 #2=(1,3)f32 #3=(1,3)f32
pnnx.Output            y       1 0 4
"""

# Two inputs that have nothing to do with each other, each with any number of rows.
SEPARATE = """7767517
5 4
pnnx.Input           left  0 1 0 #0=(?,3)f32
pnnx.Input           right 0 1 1 #1=(?,2)f32
pnnx.Expression      one   1 1 0 2 expr=add(@0,1.0) #0=(?,3)f32 #2=(?,3)f32
prim::TupleConstruct both  2 1 2 1 3 #2=(?,3)f32 #1=(?,2)f32
pnnx.Output          y     1 0 3
"""

# Rows look at each other, which only inputs that differ can show.
CENTRED_DIFFERENCE = """7767517
6 5
pnnx.Input      left   0 1 0 #0=(1,3)f32
pnnx.Input      right  0 1 1 #1=(1,3)f32
pnnx.Expression gap    2 1 0 1 2 expr=sub(@0,@1) #0=(1,3)f32 #1=(1,3)f32 #2=(1,3)f32
torch.mean      mean   1 1 2 3 dim=(0) keepdim=True #2=(1,3)f32 #3=(1,3)f32
pnnx.Expression centre 2 1 0 3 4 expr=sub(@0,@1) #0=(1,3)f32 #3=(1,3)f32 #4=(1,3)f32
pnnx.Output     y      1 0 4 #4=(1,3)f32
"""

# Any number of columns: compiled for each when it is asked for.
FREE = """7767517
3 2
pnnx.Input      x   0 1 0 #0=(?,?)f32
pnnx.Expression one 1 1 0 1 expr=add(@0,1.0) #0=(?,?)f32 #1=(?,?)f32
pnnx.Output     y   1 0 1 #1=(?,?)f32
"""

# Rows of a table of five, by number.
LOOK_UP = """7767517
3 2
pnnx.Input   x     0 1 0 #0=(1,2)i64
nn.Embedding table 1 1 0 1 embedding_dim=3 num_embeddings=5 sparse=False @weight=(5,3)f32 #0=(1,2)i64 #1=(1,2,3)f32
pnnx.Output  y     1 0 1 #1=(1,2,3)f32
"""

COMPLEX = flip("c64")


def tensor(name: str, data: Sequence[float], shape: Sequence[int], datatype: str = "FP32") -> dict[str, object]:
    """A tensor of a request, in JSON."""
    return {"name": name, "shape": list(shape), "datatype": datatype, "data": list(data)}
