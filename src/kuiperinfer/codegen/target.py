"""The machine that code is made for: vector width, registers, caches.

Nothing in a kernel says "16": it says `target.lanes`. The host is the default; `KUIPER_TARGET=x86-64-v2|x86-64-v3|x86-64-v4`
takes less than the host has, so that all of these are tested on one machine. `aarch64` emits assembly that is checked, not run.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import InputError, did_you_mean
from ..records import dataclass
from ..settings import settings


@functools.cache
def llvm() -> Any:
    """LLVM, ready to make code. It is loaded when it is needed: a process that finds all its code in the cache never does."""
    import llvmlite.binding as binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


@dataclass(frozen=True)
class Target:
    """`lanes` float32 values fill a vector, `registers` vectors fit the register file; caches in bytes, a core's share.

    LLVM itself knows what the host is: its `features` are a digest that tells this processor from others.
    """

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

    def machine(self) -> Any:
        """LLVM's target machine: full optimisation in the code generator, no pass pipeline before it."""
        cpu, features = self.cpu, self.features
        if self.name.startswith("host"):
            host = llvm().get_host_cpu_features()
            wide = "-prefer-256-bit" if self.name.endswith("v4") else ""
            cpu, features = llvm().get_host_cpu_name(), ",".join(part for part in (host.flatten(), wide) if part)
        made = llvm().Target.from_triple(self.triple)
        return made.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default")


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
    """The target of a name: a level of x86-64, `aarch64`, or `host`. `InputError` for another."""
    if name == "host":
        return _host()
    if name not in _LEVELS:
        known = ["host", *_LEVELS]
        raise InputError(f"unknown target '{name}'; known are {', '.join(known)}{did_you_mean(name, known)}")
    triple, cpu, features, lanes, registers, fma = _LEVELS[name]
    return Target(
        name, triple, cpu, features, lanes, registers, fma, _cache_bytes(1, 32 << 10), _cache_bytes(2, 512 << 10)
    )


def _host() -> Target:
    """The processor at hand, as the operating system lets it be used."""
    features = _host_features()
    if platform.machine() in ("aarch64", "arm64"):
        level = "aarch64"
    elif {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= features:
        level = "x86-64-v4"
    elif {"avx2", "fma"} <= features:
        level = "x86-64-v3"
    else:
        level = "x86-64-v2"
    on_linux = sys.platform.startswith("linux")
    base, identity = target_named(level), hashlib.sha256(" ".join(sorted(features)).encode()).hexdigest()
    triple = base.triple if on_linux else llvm().get_default_triple()
    return replace(base, name=f"host-{level}", triple=triple, cpu="host", features=identity)


def _host_features() -> frozenset[str]:
    """What the processor is and can do, in the words of the operating system, or else of LLVM."""
    words: set[str] = set()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if not key.strip():  # the next processor begins
                    break
                if key.strip() in _IDENTITY:
                    words.add(line.strip())
                if key.strip() in ("flags", "Features"):
                    words.update(value.split())
    except OSError:
        words.update(name for name, there in llvm().get_host_cpu_features().items() if there)
        words.add(llvm().get_host_cpu_name())
    return frozenset(words)


# Of a processor in /proc/cpuinfo, on x86-64 and on AArch64: what LLVM takes its name from.
_IDENTITY = (
    "vendor_id",
    "cpu family",
    "model",
    "CPU implementer",
    "CPU architecture",
    "CPU variant",
    "CPU part",
)


def current_target() -> Target:
    """The target that `settings.target` names."""
    return target_named(settings.target)


def runs_here(target: Target) -> bool:
    """Whether this machine can run code that is made for a target: a level of x86-64 no higher than its own."""
    level, host = (one.name.removeprefix("host-") for one in (target, target_named("host")))
    levels = list(_LEVELS)
    return level == host or (level in _X86 and host in _X86 and levels.index(level) < levels.index(host))
