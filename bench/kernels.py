"""What each kernel makes of the machine: its rates at shapes that models have, against the measured peak.

    python bench/kernels.py [--target x86-64-v3] [--threads 1] [--only 'winograd*'] [--repeat 50] [--json FILE]

Each case is a model of one operator, compiled as any model is; copies between layouts at its ends are left out. GFLOP/s count
what the operator is defined to calculate, so that Winograd's algorithm may exceed the peak.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from kuiperinfer import Model, RuntimeGraph, pnnx, settings
from kuiperinfer.codegen.target import current_target
from kuiperinfer.pnnx.random_weights import fill_random_weights
from kuiperinfer.runtime.peak import Peak, measure_peak

COPIES = ("FillHalo", "Reorder", "StridedCopy")  # what stands at the ends of a model of one operator


@dataclass(frozen=True)
class Case:
    """An operator with its parameters and weights, as a line of a .pnnx.param file has them, and the shapes of its inputs."""

    name: str
    operator: str
    details: str
    inputs: tuple[tuple[int, ...], ...]
    exact: bool = False

    @property
    def text(self) -> str:
        """The model as the text of a file."""
        shapes = [f"({','.join(map(str, shape))})f32" for shape in self.inputs]
        count = len(shapes)
        lines = [f"pnnx.Input in{i} 0 1 {i} #{i}={shape}" for i, shape in enumerate(shapes)]
        operands = " ".join(str(i) for i in range(count))
        lines.append(f"{self.operator} it {count} 1 {operands} {count} {self.details}")
        lines.append(f"pnnx.Output out 1 0 {count}")
        return "\n".join(["7767517", f"{count + 2} {count + 1}", *lines]) + "\n"


def convolution(
    kind: str,
    inputs: int,
    outputs: int,
    size: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    exact: bool = False,
) -> Case:
    """A 2-d convolution that keeps the size, but for its stride."""
    pad = kernel // 2
    details = (
        f"bias=True dilation=(1,1) groups={groups} in_channels={inputs} kernel_size=({kernel},{kernel}) "
        f"out_channels={outputs} padding=({pad},{pad}) padding_mode=zeros stride=({stride},{stride}) "
        f"@bias=({outputs})f32 @weight=({outputs},{inputs // groups},{kernel},{kernel})f32"
    )
    name = f"{kind} {inputs}->{outputs} @{size}" + (f" {kernel}x{kernel}" if kind in ("direct", "depthwise") else "")
    name += f" /{stride}" if stride > 1 else ""
    return Case(name, "nn.Conv2d", details, ((1, inputs, size, size),), exact)


def transposed(inputs: int, outputs: int, size: int) -> Case:
    """A transposed convolution that doubles height and width, as decoders have it."""
    details = (
        f"bias=True dilation=(1,1) groups=1 in_channels={inputs} kernel_size=(2,2) out_channels={outputs} "
        f"output_padding=(0,0) padding=(0,0) stride=(2,2) @bias=({outputs})f32 @weight=({inputs},{outputs},2,2)f32"
    )
    return Case(
        f"transposed {inputs}->{outputs} @{size} 2x2 /2", "nn.ConvTranspose2d", details, ((1, inputs, size, size),)
    )


def linear(rows: int, inputs: int, outputs: int) -> Case:
    """A matrix product with constant weights."""
    details = (
        f"bias=True in_features={inputs} out_features={outputs} @bias=({outputs})f32 @weight=({outputs},{inputs})f32"
    )
    return Case(f"linear {rows} x {inputs} -> {outputs}", "nn.Linear", details, ((rows, inputs),))


def pool(kind: str, channels: int, size: int, kernel: int, stride: int) -> Case:
    """A pooling; of an image in rows, so that its copies count as if they were not there."""
    pad = kernel // 2
    shared = f"ceil_mode=False kernel_size=({kernel},{kernel}) padding=({pad},{pad}) stride=({stride},{stride})"
    details = {
        "MaxPool2d": f"{shared} dilation=(1,1) return_indices=False",
        "AvgPool2d": f"{shared} count_include_pad=True divisor_override=None",
    }[kind]
    return Case(
        f"{kind} {channels} @{size} {kernel}x{kernel} /{stride}", f"nn.{kind}", details, ((1, channels, size, size),)
    )


IMAGE = (1, 64, 56, 56)
TOKENS = (1, 197, 768)

CASES: tuple[Case, ...] = (
    *(convolution("direct", c, c, s, 3, exact=True) for c, s in ((64, 56), (128, 28), (256, 14), (512, 7))),
    *(convolution("winograd", c, c, s, 3) for c, s in ((64, 56), (128, 28), (256, 14), (512, 7))),
    convolution("direct", 64, 128, 56, 3, stride=2),
    convolution("direct", 3, 64, 224, 7, stride=2),
    convolution("direct", 3, 32, 640, 6, stride=2),
    convolution("pointwise", 256, 64, 56, 1),
    convolution("pointwise", 64, 256, 56, 1),
    convolution("pointwise", 512, 2048, 7, 1),
    convolution("depthwise", 96, 96, 112, 3, stride=2, groups=96),
    convolution("depthwise", 144, 144, 56, 3, groups=144),
    convolution("depthwise", 240, 240, 28, 5, groups=240),
    transposed(128, 64, 64),
    linear(1, 2048, 1000),
    linear(8, 2048, 1000),
    linear(197, 768, 768),
    linear(197, 768, 3072),
    Case("matmul 12 x 197 x 64 x 197", "torch.matmul", "", ((1, 12, 197, 64), (1, 12, 64, 197))),
    Case("bmm 12 x 197 x 197 x 64", "torch.bmm", "", ((12, 197, 197), (12, 197, 64))),
    Case(
        "attention 12 heads, 197 tokens of 64",
        "F.scaled_dot_product_attention",
        "attn_mask=None dropout_p=0.0 is_causal=False",
        ((1, 12, 197, 64),) * 3,
    ),
    pool("MaxPool2d", 64, 112, 3, 2),
    pool("MaxPool2d", 256, 20, 5, 1),
    pool("AvgPool2d", 64, 56, 3, 2),
    Case("global average 512 @7", "F.adaptive_avg_pool2d", "output_size=(1,1)", ((1, 512, 7, 7),)),
    Case("map relu", "F.relu", "", (IMAGE,)),
    Case("map silu", "F.silu", "", (IMAGE,)),
    Case("map gelu", "F.gelu", "approximate=none", (TOKENS,)),
    Case("map add(mul(@0,@1),@0)", "pnnx.Expression", "expr=add(mul(@0,@1),@0)", (IMAGE, IMAGE)),
    Case("softmax", "F.softmax", "dim=-1", ((1, 12, 197, 197),)),
    Case(
        "layer norm",
        "nn.LayerNorm",
        "elementwise_affine=True eps=1.000000e-05 normalized_shape=(768) @bias=(768)f32 @weight=(768)f32",
        (TOKENS,),
    ),
    Case("mean over the last dimension", "torch.mean", "dim=(-1) keepdim=False", (TOKENS,)),
    Case("upsample nearest x2", "F.interpolate", "mode=nearest scale_factor=(2.0,2.0) size=None", ((1, 128, 40, 40),)),
    Case("permute", "torch.permute", "dims=(0,2,1)", (TOKENS,)),
    Case("cat", "torch.cat", "dim=1", (IMAGE, IMAGE)),
)


def measure(case: Case, threads: int, repeat: int) -> dict[str, Any]:
    """The time of a case's own steps, in seconds, and what they do."""
    graph = fill_random_weights(pnnx.read(case.text.encode(), weights=False))
    with settings(precision="exact" if case.exact else "fast"):
        compiled = Model(RuntimeGraph.from_pnnx(graph)).compile(threads=threads)
        steps = compiled.profile(repeat=repeat)
    own = [step for step in steps if step.kernel not in COPIES] or steps
    return {
        "case": case.name,
        "kernels": list(dict.fromkeys(step.kernel or "reference" for step in own)),
        "seconds": sum(step.seconds for step in own),
        "flops": sum(step.flops for step in own),
        "bytes": sum(step.traffic for step in own),
    }


def rates(row: dict[str, Any], peak: Peak) -> dict[str, float]:
    """What a row's case does in a second, and which part of the peak that is."""
    flops, moved = row["flops"] / row["seconds"], row["bytes"] / row["seconds"]
    shares = {"of_peak_flops": flops / peak.flops, "of_peak_bandwidth": moved / peak.bandwidth}
    return {"flops_per_second": flops, "bytes_per_second": moved} | shares


def report(rows: Sequence[dict[str, Any]], print_line: Callable[[str], None] = print) -> None:
    """The rows as a Markdown table, and Winograd's algorithm against the direct one where both were measured."""
    print_line("| case | kernel | ms | GFLOP/s | of peak | GB/s | of peak |")
    print_line("|---|---|--:|--:|--:|--:|--:|")
    for row in rows:
        cells = [row["case"], " + ".join(row["kernels"]), f"{row['seconds'] * 1e3:.3f}"]
        for rate, share in (("flops_per_second", "of_peak_flops"), ("bytes_per_second", "of_peak_bandwidth")):
            cells += [f"{row[rate] / 1e9:.1f}", f"{row[share]:.0%}"] if row[rate] else ["", ""]
        print_line("| " + " | ".join(cells) + " |")
    direct = {
        row["case"].removeprefix("direct ").removesuffix(" 3x3"): row
        for row in rows
        if "DirectConvolution" in row["kernels"]
    }
    for row in rows:
        shape = row["case"].removeprefix("winograd ")
        if "Winograd" in row["kernels"] and shape in direct:
            print_line(f"\nWinograd {shape}: {direct[shape]['seconds'] / row['seconds']:.2f} times direct")


def main(texts: Sequence[str] | None = None) -> int:
    """Measures the cases that the arguments ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", default="host", help="host, x86-64-v2, x86-64-v3 or x86-64-v4")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=50, help="the least time of so many runs counts")
    parser.add_argument("--only", default="*", help="cases whose name matches, for instance 'winograd*'")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(texts)
    cases = [case for case in CASES if fnmatchcase(case.name, arguments.only)]
    if not cases:
        parser.error(f"--only {arguments.only}: no case has such a name")
    rows, peaks = [], []
    with settings(target=arguments.target):
        target = current_target()
        for case in cases:
            peaks.append(measure_peak(target, arguments.threads))  # again and again: the clock's rate changes
            rows.append(measure(case, arguments.threads, arguments.repeat))
    peak = Peak(max(one.flops for one in peaks), max(one.bandwidth for one in peaks), arguments.threads)
    rows = [row | rates(row, peak) for row in rows]
    rate = f"{peak.flops / 1e9:.1f} GFLOP/s, {peak.bandwidth / 1e9:.1f} GB/s"
    print(f"{target.name}, threads={arguments.threads}: peak {rate}\n")
    report(rows)
    if arguments.json:
        facts = {"target": target.name, "threads": arguments.threads, "peak_flops_per_second": peak.flops}
        facts["peak_bytes_per_second"] = peak.bandwidth
        arguments.json.write_text(json.dumps(facts | {"cases": rows}, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
