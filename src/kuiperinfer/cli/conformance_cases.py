"""Cases of known answers: a model, its inputs, and what PyTorch made of them, in a folder.

    NAME/model.pnnx.param, model.pnnx.bin
    NAME/inputs.npz    in0, in1, …   in the order of the pnnx.Input lines
    NAME/outputs.npz   out0, …       in the order of the model's outputs
    NAME/inputs2.npz, outputs2.npz   where there: other shapes for the same loaded model
    NAME/meta.json     where there: dtypes, `rtol_of_max` (another tolerance), `outputs_random`

bf16 and c32 arrays stand in the archives as bit patterns (see `array_files`), and meta.json says what they are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .. import dtypes
from ..dtypes import Array
from ..errors import InputError, KuiperError
from ..runtime.comparison import TOLERANCES, Comparison, compare
from .array_files import from_stored, numbered, read_archive

PARAM_NAME = "model.pnnx.param"

# Operators that copy and nothing more: cases that consist of these have to be exact.
COPIES = frozenset(
    """
    pnnx.Attribute pnnx.Input pnnx.Output prim::DictConstruct prim::ListConstruct prim::ListUnpack prim::TupleConstruct
    prim::TupleUnpack nn.ChannelShuffle nn.ConstantPad1d nn.ConstantPad2d nn.ConstantPad3d nn.Dropout nn.Dropout2d nn.Dropout3d
    nn.Identity nn.PixelShuffle nn.PixelUnshuffle nn.ReflectionPad1d nn.ReflectionPad2d nn.ReplicationPad1d
    nn.ReplicationPad2d nn.ReplicationPad3d nn.Unfold nn.ZeroPad2d F.alpha_dropout F.dropout F.dropout2d F.dropout3d F.pad
    F.pixel_shuffle F.pixel_unshuffle F.unfold Tensor.expand Tensor.expand_as Tensor.permute Tensor.repeat Tensor.reshape
    Tensor.select Tensor.slice Tensor.slice_copy Tensor.unflatten Tensor.view torch.cat torch.chunk torch.clone torch.diag
    torch.flatten torch.flip torch.gather torch.index_select torch.narrow torch.permute torch.repeat_interleave torch.roll
    torch.slice_scatter torch.split torch.squeeze torch.stack torch.t torch.tensor_split torch.tile torch.transpose torch.unbind
    torch.unsqueeze torch.where
    """.split()
)

Run: TypeAlias = Callable[..., Any]  # arrays in, an array or a tuple of arrays out
LeastTolerance: TypeAlias = Callable[[Run, Sequence[Array]], float]


@dataclass(frozen=True)
class OutputResult:
    """One output of one run: `out0` of the first run, `out0 (2)` of the second."""

    name: str
    comparison: Comparison


@dataclass(frozen=True)
class CaseResult:
    """What became of one case; `problem` says in one line why it failed, and is None where it passed."""

    name: str
    outputs: tuple[OutputResult, ...]
    seconds: float
    problem: str | None

    @property
    def ok(self) -> bool:
        """Whether the case passed."""
        return self.problem is None

    @property
    def worst(self) -> OutputResult | None:
        """The output that used up most of its tolerance; None where no values were compared."""
        compared = [output for output in self.outputs if output.comparison.error is not None]
        return max(compared, key=_use_of_tolerance, default=None)


def _use_of_tolerance(output: OutputResult) -> float:
    error, tolerance = output.comparison.error or 0.0, output.comparison.tolerance
    if error == 0.0:
        return 0.0
    return error / tolerance if tolerance else float("inf")


def find_cases(directory: Path) -> list[Path]:
    """The case folders under a directory (or the directory itself), sorted by name. Raises `InputError` where there is none."""
    if not directory.is_dir():
        raise InputError(f"{directory}: no such folder")
    folders = sorted(file.parent for file in directory.rglob(PARAM_NAME))
    if not folders:
        raise InputError(f"{directory}: no conformance case here; expected folders with a file {PARAM_NAME}")
    return folders


def matching(folders: Sequence[Path], directory: Path, patterns: Sequence[str]) -> list[Path]:
    """The cases whose name matches one of the patterns (`nn_*`)."""
    return [folder for folder in folders if any(fnmatchcase(case_name(folder, directory), p) for p in patterns)]


def case_name(folder: Path, directory: Path) -> str:
    """The name of a case: its path below the directory, or the folder's own name where it is the directory."""
    name = folder.relative_to(directory).as_posix()
    return folder.resolve().name if name == "." else name


def run_case(
    folder: Path, name: str, load: Callable[[Path], Run], least_tolerance: LeastTolerance | None = None
) -> CaseResult:
    """Loads a case's model with `load`, runs it on the case's inputs, and compares all outputs.

    `least_tolerance` tells, for a model and its inputs, what tolerance float32 needs at least. Never raises: whatever goes
    wrong, be it a mistake of the engine, makes the case a failed one.
    """
    start = time.perf_counter()
    outputs: list[OutputResult] = []
    problem: str | None = None
    try:
        meta = _read_meta(folder)
        run = load(folder / PARAM_NAME)
        for suffix in ("", "2"):
            if suffix and not (folder / f"inputs{suffix}.npz").exists():
                break
            outputs.extend(_run_once(folder, suffix, meta, run, least_tolerance))
    except KuiperError as error:
        problem = str(error)
    except Exception as error:  # an engine that fails in an unforeseen way has failed this case, and no other
        problem = f"{type(error).__name__}: {error}"
    if problem is None:
        wrong = [output for output in outputs if not output.comparison.ok]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        problem = f"{wrong[0].name}: {wrong[0].comparison.problem}{more}" if wrong else None
    if problem is not None:
        problem = " ".join(problem.split())
    return CaseResult(name, tuple(outputs), time.perf_counter() - start, problem)


def _run_once(
    folder: Path, suffix: str, meta: dict[str, Any], run: Run, least_tolerance: LeastTolerance | None
) -> Iterator[OutputResult]:
    inputs = _read_arrays(folder / f"inputs{suffix}.npz", "in", meta.get(f"inputs{suffix}"))
    expected = _read_arrays(folder / f"outputs{suffix}.npz", "out", meta.get(f"outputs{suffix}"))
    before = [array.tobytes() for array in inputs]
    result = run(*inputs)
    found = result if isinstance(result, tuple) else (result,)
    if len(found) != len(expected):
        raise InputError(f"found {len(found)} outputs, expected {len(expected)}")
    for index, (array, bytes_before) in enumerate(zip(inputs, before, strict=True)):
        if array.tobytes() != bytes_before:
            raise InputError(f"input in{index} was modified by the run")
    random = _random_outputs(meta, len(expected))
    tolerance = meta.get("rtol_of_max", 0.0 if meta.get("op_types") and COPIES.issuperset(meta["op_types"]) else None)
    least = 0.0 if least_tolerance is None else least_tolerance(run, inputs)
    for index, (array, answer) in enumerate(zip(found, expected, strict=True)):
        dtype = dtypes.dtype_of(answer)
        allowed = TOLERANCES.get(dtype, 0.0) if tolerance is None else tolerance
        if dtype is dtypes.f32:
            allowed = max(allowed, least)
        comparison = compare(np.asarray(array), answer, allowed, values=index not in random)
        yield OutputResult(f"out{index}" + (f" ({suffix})" if suffix else ""), comparison)


def _read_meta(folder: Path) -> dict[str, Any]:
    try:
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"meta.json: not JSON ({error})") from error
    if not isinstance(meta, dict):
        raise InputError(f"meta.json: expected an object, found {type(meta).__name__}")
    return meta


def _random_outputs(meta: dict[str, Any], count: int) -> set[int]:
    """Indices of the outputs that PyTorch draws at random: all of them, or those that `random_outputs` lists."""
    if not meta.get("outputs_random"):
        return set()
    listed = {int(str(output).removeprefix("out")) for output in meta.get("random_outputs", ())}
    return listed or set(range(count))


def _read_arrays(path: Path, prefix: str, described: Sequence[Any] | None) -> list[Array]:
    """The arrays `prefix0`, `prefix1`, … of an archive, in order, bit patterns as what they stand for."""
    in_order = numbered(read_archive(path), prefix, path)
    for index, description in enumerate(described or ()):
        if index < len(in_order) and isinstance(description, dict) and "dtype" in description:
            in_order[index] = from_stored(in_order[index], dtypes.dtype_from_name(description["dtype"]))
    return in_order
