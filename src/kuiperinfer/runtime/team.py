"""The thread team: one a process, sized by what the process may use, made when it is first needed and again after a fork.

A Python thread enters native code once per run, and all members walk the same table of steps. A step's tasks are dealt out:
each member claims those of its own range first, which mostly are the neighbours of what it did in the step before and so lie
in its cache, and then helps others with theirs. A step ends when all of its tasks are done, not when all members have
come by: a member that the system has put aside holds up nobody unless it was in the middle of a task. Between runs the
members wait inside native code, first spinning, then on a futex, because waking a Python thread is slow; after
`IDLE_SECONDS` they leave, and are made anew when they are needed.

Results do not depend on the number of threads: a task's work does not change with who does it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
import threading
import time

import numpy as np

from ..codegen.cache import load_kernels
from ..codegen.processors import allowed_cpus as allowed_cpus
from ..codegen.spec import KernelSpec, TextSpec, kernel_name
from ..codegen.target import target_named
from ..dtypes import Array
from ..memory import align, aligned_empty
from ..settings import settings

IDLE_SECONDS = 20

# A slot, one a member, each a cache line: i32 state, then the member's job, which is written before its state says RUNNING:
# i64 table, first, last, scratch, progress; i32 members.
_SLOT, _STATE, _JOB = 64, 0, 8
_WAITING, _SLEEPING, _CLAIMED, _RUNNING, _LEFT, _QUIT = 1, 2, 3, 4, 5, 6
# Progress, for each step of the job: a cache line with the number of tasks done, one a member with those claimed of its range.
_LINE = 64
_HELPED = 3  # how many other members' ranges a member looks through
_LOOKS = 4096  # how often native code looks whether a member has come back from the run before, about 0.1 ms
_PATIENCE = 0.25  # of the time that the run before took: how long a run waits for such a member before it does without
_MOST_MEMBERS = 256

_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98}

_SOURCE = """
target triple = "{triple}"
declare i32 @sched_yield()
declare i64 @syscall(i64, ...)
declare i32 @usleep(i32)
declare void @llvm.x86.sse2.pause()
declare void @llvm.aarch64.hint(i32)

; The steps [first, last) of a table by one thread alone.
define void @run_alone(ptr %table, i64 %first, i64 %last, ptr %scratch) {{
entry:
  br label %step
step:
  %s = phi i64 [%first, %entry], [%s.next, %step.end]
  %row = mul i64 %s, 24
  %fn.at = getelementptr i8, ptr %table, i64 %row
  %fn = load ptr, ptr %fn.at
  %n.at = getelementptr i8, ptr %fn.at, i64 8
  %n = load i64, ptr %n.at
  %args.at = getelementptr i8, ptr %fn.at, i64 16
  %args = load ptr, ptr %args.at
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %task, label %step.end
task:
  %t = phi i64 [0, %step], [%t.next, %task]
  call void %fn(ptr %args, i64 %t, ptr %scratch)
  %t.next = add i64 %t, 1
  %more = icmp slt i64 %t.next, %n
  br i1 %more, label %task, label %step.end
step.end:
  %s.next = add i64 %s, 1
  %again = icmp slt i64 %s.next, %last
  br i1 %again, label %step, label %exit
exit:
  ret void
}}

; One member's share of the steps [first, last) of a table.
define void @run_member(ptr %table, i64 %first, i64 %last, ptr %scratch, ptr %progress, i64 %member, i64 %members) {{
entry:
  %lines = add i64 %members, 1
  %stride = mul i64 %lines, {line}
  %most = add i64 {helped}, 1
  %fewer = icmp slt i64 %members, %most
  %looked = select i1 %fewer, i64 %members, i64 %most
  %round = sub i64 %members, 1
  br label %step
step:
  %s = phi i64 [%first, %entry], [%s.next, %step.end]
  %done.at = phi ptr [%progress, %entry], [%done.next, %step.end]
  %row = mul i64 %s, 24
  %fn.at = getelementptr i8, ptr %table, i64 %row
  %fn = load ptr, ptr %fn.at
  %n.at = getelementptr i8, ptr %fn.at, i64 8
  %n = load i64, ptr %n.at
  %args.at = getelementptr i8, ptr %fn.at, i64 16
  %args = load ptr, ptr %args.at
  br label %range
range:
  %r = phi i64 [0, %step], [%r.next, %range.end]
  %did = phi i64 [0, %step], [%did.now, %range.end]
  %whose.on = add i64 %member, %r
  %whose.over = sub i64 %whose.on, %members
  %wraps = icmp sge i64 %whose.over, 0
  %whose = select i1 %wraps, i64 %whose.over, i64 %whose.on
  %low.n = mul i64 %whose, %n
  %low.up = add i64 %low.n, %round
  %low = udiv i64 %low.up, %members
  %high.up = add i64 %low.up, %n
  %high = udiv i64 %high.up, %members
  %line = add i64 %whose, 1
  %line.at = mul i64 %line, {line}
  %claimed.at = getelementptr i8, ptr %done.at, i64 %line.at
  %seen = load atomic i64, ptr %claimed.at monotonic, align 8
  %seen.task = add i64 %low, %seen
  %some = icmp slt i64 %seen.task, %high
  br i1 %some, label %claim, label %range.end
claim:
  %did.so.far = phi i64 [%did, %range], [%did.more, %task]
  %claimed = atomicrmw add ptr %claimed.at, i64 1 monotonic
  %t = add i64 %low, %claimed
  %mine = icmp slt i64 %t, %high
  br i1 %mine, label %task, label %range.end
task:
  call void %fn(ptr %args, i64 %t, ptr %scratch)
  %did.more = add i64 %did.so.far, 1
  br label %claim
range.end:
  %did.now = phi i64 [%did, %range], [%did.so.far, %claim]
  %r.next = add i64 %r, 1
  %others = icmp slt i64 %r.next, %looked
  br i1 %others, label %range, label %report
report:
  %any = icmp sgt i64 %did.now, 0
  br i1 %any, label %add, label %spin
add:
  %before = atomicrmw add ptr %done.at, i64 %did.now acq_rel
  br label %spin
spin:
  %k = phi i32 [0, %report], [0, %add], [%k.next, %again]
  %done = load atomic i64, ptr %done.at acquire, align 8
  %over = icmp eq i64 %done, %n
  br i1 %over, label %step.end, label %wait
wait:
  {pause}
  %k.next = add i32 %k, 1
  %long = icmp ugt i32 %k.next, 3000
  br i1 %long, label %yield, label %again
yield:
  %ignored = call i32 @sched_yield()
  br label %again
again:
  br label %spin
step.end:
  %s.next = add i64 %s, 1
  %done.next = getelementptr i8, ptr %done.at, i64 %stride
  %more = icmp slt i64 %s.next, %last
  br i1 %more, label %step, label %exit
exit:
  ret void
}}

; What a member's thread does until it is told to quit or has been idle for long: wait for its slot to say RUNNING, and
; do its share.
define void @serve(ptr %slot.at, i64 %member) {{
entry:
  %limit = alloca [2 x i64], align 8
  store i64 {idle}, ptr %limit
  %limit.rest = getelementptr i8, ptr %limit, i64 8
  store i64 0, ptr %limit.rest
  br label %wait
wait:
  br label %spin
spin:
  %k = phi i32 [0, %wait], [%k.next, %spin.more]
  %state = load atomic i32, ptr %slot.at acquire, align 4
  switch i32 %state, label %spin.more [ i32 {running}, label %work
                                        i32 {quit}, label %exit ]
spin.more:
  {pause}
  %k.next = add i32 %k, 1
  %long = icmp ugt i32 %k.next, 1500
  br i1 %long, label %tired, label %spin
tired:
  %slept.pair = cmpxchg ptr %slot.at, i32 {waiting}, i32 {sleeping} acq_rel acquire
  %may.sleep = extractvalue {{ i32, i1 }} %slept.pair, 1
  br i1 %may.sleep, label %sleep, label %wait
sleep:
  {sleep}
  %state1 = load atomic i32, ptr %slot.at acquire, align 4
  %still = icmp eq i32 %state1, {sleeping}
  br i1 %still, label %idle, label %wait
idle:
  %late = icmp eq i64 %slept, {timeout}
  br i1 %late, label %leave, label %sleep
leave:
  %pair = cmpxchg ptr %slot.at, i32 {sleeping}, i32 {left} acq_rel acquire
  %gone = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %gone, label %exit, label %wait
work:
  %job.at = getelementptr i8, ptr %slot.at, i64 {job}
  %table = load ptr, ptr %job.at
  %first.at = getelementptr i8, ptr %job.at, i64 8
  %first = load i64, ptr %first.at
  %last.at = getelementptr i8, ptr %job.at, i64 16
  %last = load i64, ptr %last.at
  %scratch.at = getelementptr i8, ptr %job.at, i64 24
  %scratch = load ptr, ptr %scratch.at
  %progress.at = getelementptr i8, ptr %job.at, i64 32
  %progress = load ptr, ptr %progress.at
  %members.at = getelementptr i8, ptr %job.at, i64 40
  %members = load i64, ptr %members.at
  call void @run_member(ptr %table, i64 %first, i64 %last, ptr %scratch, ptr %progress, i64 %member, i64 %members)
  store atomic i32 {waiting}, ptr %slot.at release, align 4
  br label %wait
exit:
  ret void
}}

; Moves a slot to a state, once its member has done its last share; wakes the member; returns the state before. Where the member
; is not back after looking `patience` times, nothing changes; 0 waits for ever.
define i32 @move(ptr %slot.at, i32 %to, i32 %patience) {{
entry:
  br label %try
try:
  %k = phi i32 [1, %entry], [%k.next, %pause], [%k, %change]
  %state = load atomic i32, ptr %slot.at acquire, align 4
  %busy = icmp eq i32 %state, {running}
  br i1 %busy, label %look, label %change
look:
  %k.next = add i32 %k, 1
  %enough = icmp eq i32 %k, %patience
  br i1 %enough, label %exit, label %pause
pause:
  {pause}
  br label %try
change:
  %pair = cmpxchg ptr %slot.at, i32 %state, i32 %to acq_rel acquire
  %done = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %done, label %changed, label %try
changed:
  %asleep = icmp eq i32 %state, {sleeping}
  br i1 %asleep, label %wake, label %exit
wake:
  {wake}
  br label %exit
exit:
  ret i32 %state
}}
"""


def native_spec() -> dict[str, KernelSpec]:
    """The functions above for the host, by the name of their module."""
    target = target_named("host")
    machine = platform.machine()
    futex = _FUTEX_NUMBER.get(machine) if sys.platform.startswith("linux") else None
    pause = {
        "x86_64": "call void @llvm.x86.sse2.pause()",
        "aarch64": "call void @llvm.aarch64.hint(i32 1)",
    }.get(machine, "")
    if futex is None:  # no futex: short naps, which never end in "idle for long"
        sleep = "%nap = call i32 @usleep(i32 200)\n  %slept = sext i32 %nap to i64"
        wake, timeout = "", 1 << 40
    else:  # FUTEX_WAIT_PRIVATE with a time limit, and FUTEX_WAKE_PRIVATE; a signal counts as the limit, which does no harm
        call = f"call i64 (i64, ...) @syscall(i64 {futex}, ptr %slot.at"
        sleep = f"%slept = {call}, i64 128, i32 {_SLEEPING}, ptr %limit, ptr null, i32 0)"
        wake, timeout = f"%woken = {call}, i64 129, i32 1, ptr null, ptr null, i32 0)", -1
    source = _SOURCE.format(
        triple=target.triple, job=_JOB, line=_LINE, helped=_HELPED, idle=IDLE_SECONDS,
        waiting=_WAITING, sleeping=_SLEEPING, running=_RUNNING, left=_LEFT, quit=_QUIT,
        pause=pause, sleep=sleep, wake=wake, timeout=timeout,
    )  # fmt: skip
    spec = TextSpec("ThreadTeam", source, ("run_alone", "run_member", "serve", "move"))
    return {kernel_name(spec, target): spec}


class Team:
    """The members beside the calling thread. Use `team()`: one exists a process."""

    def __init__(self) -> None:
        self._library = load_kernels(native_spec(), target_named("host"))
        address = self._library.addresses
        word, pointer = ctypes.c_int64, ctypes.c_void_p
        self._run_alone = ctypes.CFUNCTYPE(None, pointer, word, word, pointer)(address["run_alone"])
        self._run_member = ctypes.CFUNCTYPE(None, pointer, word, word, pointer, pointer, word, word)(
            address["run_member"]
        )
        self._serve = ctypes.CFUNCTYPE(None, pointer, word)(address["serve"])
        self._move = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, ctypes.c_int32, ctypes.c_int32)(address["move"])
        self._lock = threading.Lock()
        self._local = threading.local()
        self._threads: dict[int, threading.Thread] = {}
        self._slots = aligned_empty((_MOST_MEMBERS, _SLOT), np.uint8, lasting=True)
        self._slots[:] = 0
        self._states = self._slots[:, _STATE : _STATE + 4].view(np.int32)
        self._jobs = self._slots[:, _JOB : _JOB + 48].view(np.int64)
        self._progress = aligned_empty((0,), np.uint8, lasting=True)
        self._last_job: tuple[Array, Array] | None = None
        self._last_seconds = 0.0
        self._participants = 0  # in the run that used `_progress` last
        self._late: list[tuple[Array, Array]] = []  # what members that are not back from their last run may look at

    def run(self, table: Array, first: int, last: int, scratch_floats: int, threads: int = 1) -> None:
        """Runs the steps [first, last) of a session's table with up to `threads` threads, the calling one included.

        While another thread runs on the team, the calling thread works alone.
        """
        threads = min(threads, _MOST_MEMBERS)
        share = align(scratch_floats * 4)
        scratch = self._scratch(share * max(threads, 1))
        if threads <= 1 or not self._lock.acquire(blocking=False):
            self._run_alone(table.ctypes.data, first, last, scratch.ctypes.data)
            return
        try:
            members = self._enlist(threads)
            nbytes = (last - first) * (members + 1) * _LINE
            if self._progress.nbytes < nbytes:
                self._progress = aligned_empty((nbytes,), np.uint8, lasting=True)
            self._progress[:nbytes] = 0
            self._last_job = (table, self._progress)
            job = (table.ctypes.data, first, last, scratch.ctypes.data, self._progress.ctypes.data, members)
            for member in range(1, members):
                self._jobs[member] = job
                self._jobs[member, 3] += share * member
                self._move(self._slot(member), _RUNNING, 0)
            start = time.perf_counter()
            self._run_member(*job[:5], 0, members)
            self._last_seconds = time.perf_counter() - start
        finally:
            self._lock.release()

    def _slot(self, member: int) -> int:
        return int(self._slots.ctypes.data) + _SLOT * member

    def _enlist(self, threads: int) -> int:
        """Claims members, so that none of them leaves any more; returns how many there are, the calling thread included.

        One that the system has put aside during an earlier run does not take part; what it may still look at is kept for it.
        """
        members, until = threads, 0.0
        for member in range(1, threads):
            state = self._move(self._slot(member), _CLAIMED, _LOOKS)
            while state == _RUNNING and time.perf_counter() < (until := until or self._deadline()):
                time.sleep(0)
                state = self._move(self._slot(member), _CLAIMED, _LOOKS)
            if state in (_WAITING, _SLEEPING, _CLAIMED):
                continue
            if state == _RUNNING or not self._start(member):
                members = member
                break
        late = [member for member in self._threads if member >= members and self._states[member, 0] == _RUNNING]
        if not late:
            self._late.clear()
        elif min(late) < self._participants:  # it may be looking at the progress of the last run
            assert self._last_job is not None
            self._late.append(self._last_job)
            self._progress = aligned_empty((0,), np.uint8, lasting=True)
        self._participants = members
        return members

    def _start(self, member: int) -> bool:
        """Starts a member's thread; False where the system has no more of them."""
        thread = threading.Thread(target=self._be, args=(member,), name=f"kuiperinfer-{member}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._move(self._slot(member), _LEFT, 0)
            return False
        self._threads[member] = thread
        return True

    def _be(self, member: int) -> None:
        """A member's thread, which holds the team, and so the slot that it looks at, as long as it runs."""
        self._serve(self._slot(member), member)

    def _deadline(self) -> float:
        return time.perf_counter() + _PATIENCE * self._last_seconds

    def _scratch(self, nbytes: int) -> Array:
        """Scratch memory for all members, kept by the calling thread."""
        kept: Array | None = getattr(self._local, "scratch", None)
        if kept is None or kept.nbytes < nbytes:
            kept = self._local.scratch = aligned_empty((max(nbytes, 64),), np.uint8, lasting=True)
        return kept

    def stop(self) -> None:
        """Sends all members home and waits for them."""
        with self._lock:
            for member in self._threads:
                self._move(self._slot(member), _QUIT, 0)
            for thread in self._threads.values():
                thread.join(timeout=1)
            self._threads.clear()


_teams: list[Team] = []  # the process's only one, once it is needed
_team_lock = threading.Lock()


def team() -> Team:
    """The process's team."""
    if not _teams:
        with _team_lock:
            if not _teams:
                _teams.append(Team())
    return _teams[0]


def default_threads() -> int:
    """Threads of a run: `settings.threads`, or what the process may use."""
    return settings.threads or allowed_cpus()


def _forget() -> None:
    """After a fork the members are gone, and the lock may be held by a thread that is: the child makes its own."""
    global _team_lock  # noqa: PLW0603
    _team_lock = threading.Lock()
    _teams.clear()


def _stop() -> None:
    for one in _teams:
        one.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(_stop)
