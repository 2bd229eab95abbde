"""The machine that code is made for: vector width, registers, caches.

Nothing in a kernel says "16": it says `target.lanes`. The host is the default; `KUIPER_TARGET=x86-64-v2|x86-64-v3|x86-64-v4`
takes less than the host has, so that all of these are tested on one machine. `aarch64` emits assembly that is checked, not run.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm

from ..errors import CompileError, did_you_mean
from ..settings import settings

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()


@dataclass(frozen=True)
class Target:
    """`lanes` float32 values fill a vector, `registers` vectors fit the register file; caches in bytes, a core's share."""

    name: str
    triple: str
    cpu: str
    features: str
    lanes: int
    registers: int
    fma: bool
    l1: int
    l2: int

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector register."""
        return self.lanes * 4

    def machine(self) -> llvm.TargetMachine:
        """LLVM's target machine: full optimisation in the code generator, no pass pipeline before it."""
        made = llvm.Target.from_triple(self.triple)
        return made.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel="default")


def _cache_bytes(level: int, default: int) -> int:
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind = (index / "type").read_text().strip()
            if int((index / "level").read_text()) == level and kind in ("Data", "Unified"):
                return int((index / "size").read_text().strip().rstrip("K")) * 1024
        except (OSError, ValueError):
            continue
    return default


# name: (triple, cpu, features, lanes, registers, fma); wide vectors are what these kernels are made for
_LEVELS = {
    "x86-64-v2": ("x86_64-unknown-linux-gnu", "x86-64-v2", "", 4, 16, False),
    "x86-64-v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", "", 8, 16, True),
    "x86-64-v4": ("x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit", 16, 32, True),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", "+neon", 4, 32, True),
}


_X86 = tuple(name for name in _LEVELS if name.startswith("x86"))


@functools.cache
def target_named(name: str) -> Target:
    """The target of a name: a level of x86-64, `aarch64`, or `host`. `CompileError` for another."""
    if name == "host":
        return _host()
    if name not in _LEVELS:
        known = ["host", *_LEVELS]
        raise CompileError(f"unknown target '{name}'; known are {', '.join(known)}{did_you_mean(name, known)}")
    triple, cpu, features, lanes, registers, fma = _LEVELS[name]
    return Target(
        name, triple, cpu, features, lanes, registers, fma, _cache_bytes(1, 32 << 10), _cache_bytes(2, 512 << 10)
    )


def _host() -> Target:
    """The processor at hand, as the operating system lets it be used."""
    features = llvm.get_host_cpu_features()
    triple = llvm.get_default_triple()
    if triple.startswith("aarch64"):
        level = "aarch64"
    elif all(features.get(name) for name in ("avx512f", "avx512bw", "avx512dq", "avx512vl")):
        level = "x86-64-v4"
    elif features.get("avx2") and features.get("fma"):
        level = "x86-64-v3"
    else:
        level = "x86-64-v2"
    base = target_named(level)
    return Target(
        f"host-{level}",
        triple,
        llvm.get_host_cpu_name(),
        ",".join(part for part in (features.flatten(), "-prefer-256-bit") if part)
        if "v4" in level
        else features.flatten(),
        base.lanes,
        base.registers,
        base.fma,
        base.l1,
        base.l2,
    )


def current_target() -> Target:
    """The target that `settings.target` names."""
    return target_named(settings.target)


def runs_here(target: Target) -> bool:
    """Whether this machine can run code that is made for a target: a level of x86-64 no higher than its own."""
    level, host = (one.name.removeprefix("host-") for one in (target, target_named("host")))
    levels = list(_LEVELS)
    return level == host or (level in _X86 and host in _X86 and levels.index(level) < levels.index(host))
