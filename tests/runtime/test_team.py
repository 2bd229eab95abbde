"""The thread team: every task runs once, whatever the number of threads, after idling, after a fork, and at exit."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir

from kuiperinfer.codegen import processors
from kuiperinfer.codegen.builder import F32, Code
from kuiperinfer.codegen.objects import Library, compile_module
from kuiperinfer.codegen.target import target_named
from kuiperinfer.runtime import team as team_module
from kuiperinfer.runtime.team import Team, allowed_cpus, team
from tests.waiting import wait_until

SOURCE = str(Path(__file__).resolve().parents[2] / "src")
STEPS, TASKS = 20, 257


@pytest.fixture(scope="module")
def increment() -> Library:
    """A kernel that adds 1 to the float of its task's number."""
    target = target_named("host")
    code = Code("increment", target)
    (pointer,) = code.pointers(1)
    place = code.at(pointer, code.task)
    code.store(code.builder.fadd(code.load_float(place), ir.Constant(F32, 1.0)), place)
    return Library([compile_module(code.finish(), target)], ["increment"], target)


class Work:
    """A table of steps, each of which counts its tasks."""

    def __init__(self, library: Library) -> None:
        self.counts = np.zeros(TASKS, np.float32)
        self.arguments = np.array([self.counts.ctypes.data], np.int64)
        row = [library.addresses["increment"], TASKS, self.arguments.ctypes.data]
        self.table = np.array([row] * STEPS, np.int64)

    def run(self, on: Team, threads: int) -> None:
        self.counts[:] = 0
        on.run(self.table, 0, STEPS, 100, threads)
        np.testing.assert_array_equal(self.counts, STEPS)


def test_every_task_runs_once_for_any_number_of_threads(increment: Library) -> None:
    work = Work(increment)
    for threads in (1, 2, 3, 1, 4, 2, 8, 2):
        for _ in range(20):
            work.run(team(), threads)


@pytest.fixture
def own() -> Iterator[Team]:
    made = Team()
    yield made
    made.stop()


def test_what_a_late_member_may_look_at_is_kept(increment: Library, own: Team) -> None:
    work, states = Work(increment), own._states

    def run(threads: int) -> None:
        work.run(own, threads)
        wait_until(lambda: team_module._RUNNING not in states)  # all are back, however busy the machine is

    run(3)
    progress = own._progress
    own._states = np.full_like(states, team_module._RUNNING)  # so that member 2 seems to be in that run still
    run(2)
    assert own._progress is not progress and own._late[0][1] is progress
    after = own._progress
    run(2)
    assert own._progress is after and len(own._late) == 1  # member 2 has never seen this one
    own._states = states
    run(2)
    assert not own._late


def test_a_team_that_nobody_keeps_lives_as_long_as_its_members(increment: Library) -> None:
    own = Team()
    Work(increment).run(own, 3)
    kept = weakref.ref(own)
    del own
    gc.collect()
    left = kept()
    assert left is not None
    left.stop()
    del left
    wait_until(lambda: gc.collect() is not None and kept() is None)


def test_a_part_of_the_steps(increment: Library) -> None:
    work = Work(increment)
    team().run(work.table, 3, 5, 0, 2)
    np.testing.assert_array_equal(work.counts, 2)


def test_steps_without_tasks(increment: Library) -> None:
    work = Work(increment)
    work.table[:, 1] = 0
    for threads in (1, 2):
        team().run(work.table, 0, STEPS, 0, threads)
    np.testing.assert_array_equal(work.counts, 0)


def test_many_callers_at_once(increment: Library) -> None:
    failures: list[BaseException] = []

    def call() -> None:
        try:
            work = Work(increment)
            for _ in range(50):
                work.run(team(), 2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="members leave only where there is a futex")
def test_idle_members_leave_and_come_back(increment: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_module, "IDLE_SECONDS", 1)
    own, work = Team(), Work(increment)
    work.run(own, 2)
    (first,) = own._threads.values()
    first.join(timeout=10)
    assert not first.is_alive()
    work.run(own, 2)
    (second,) = own._threads.values()
    assert second is not first
    own.stop()
    assert not second.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_team_of_its_own(increment: Library) -> None:
    work = Work(increment)
    work.run(team(), 2)
    child = os.fork()
    if child == 0:
        try:
            work.run(team(), 2)
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    work.run(team(), 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_runs_what_was_in_use_when_it_was_forked(tmp_path: Path) -> None:
    body = """
        import os
        y, held = fast(x), threading.Event()
        def hold():
            with model._lock, model._compiling, fast._lock:
                held.set()
                time.sleep(60)
        threading.Thread(target=hold, daemon=True).start()
        held.wait()
        child = os.fork()
        if child == 0:
            same = np.array_equal(model(x), y) and np.array_equal(fast(x), y)
            os._exit(7 if same else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os._exit(0)
    """
    done = run_script(body, tmp_path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"/sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        ({"/sys/fs/cgroup/cpu.max": "50000"}, None),
        ({"/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, None),
        ({"/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 4.0),
        ({}, None),
    ],
)
def test_quotas_of_both_kinds_of_control_groups(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: float | None
) -> None:
    def read(path: str) -> list[str]:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path].split()

    monkeypatch.setattr(processors, "_read_words", read)
    processors._cgroup_quota.cache_clear()
    try:
        assert processors._cgroup_quota() == expected
    finally:
        processors._cgroup_quota.cache_clear()


def test_the_process_counts_the_cpus_that_it_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    monkeypatch.setattr(processors, "_cgroup_quota", lambda: None)
    assert allowed_cpus() == available
    for quota, expected in ((0.5, 1), (1.0, 1), (1000.0, available)):
        monkeypatch.setattr(processors, "_cgroup_quota", lambda quota=quota: quota)
        assert allowed_cpus() == expected


MODEL = """
    import sys, threading, time
    import numpy as np
    import kuiperinfer
    from kuiperinfer import pnnx
    from kuiperinfer.dtypes import f32

    graph = pnnx.Graph()
    def operator(kind, name, inputs, outputs, **params):
        made = pnnx.Operator(kind, name)
        for key in inputs:
            made.inputs.append(graph.operands[key]); graph.operands[key].consumers.append(made)
            made.input_names.append(None)
        for key in outputs:
            graph.operands[key] = pnnx.Operand(key, made, shape=(1, 64, 64, 64), dtype=f32)
            made.outputs.append(graph.operands[key])
        made.params = {k: pnnx.Parameter(v, str(v)) for k, v in params.items()}
        graph.operators.append(made)
        return made
    operator("pnnx.Input", "x", (), ("0",))
    conv = operator("nn.Conv2d", "conv", ("0",), ("1",), in_channels=64, out_channels=64, kernel_size=(3, 3), stride=(1, 1),
                    padding=(1, 1), dilation=(1, 1), groups=1, bias=False, padding_mode="zeros")
    weight = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)
    conv.attributes["weight"] = pnnx.Attribute.of(weight)
    operator("pnnx.Output", "y", ("1",), ())
    model = kuiperinfer.Model(kuiperinfer.RuntimeGraph.from_pnnx(graph))
    x = np.ones((1, 64, 64, 64), np.float32)
    fast = model.compile(threads=2)
"""


def run_script(body: str, *prefix: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A script after `MODEL`, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": SOURCE, "KUIPER_CACHE_DIR": str(tmp_path)}
    script = textwrap.dedent(MODEL) + textwrap.dedent(body)
    return subprocess.run(
        [*prefix, sys.executable, "-X", "faulthandler", "-c", script],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_interpreter_exits_with_members_at_work(tmp_path: Path) -> None:
    body = """
        def forever():
            while True:
                fast(x)
        for _ in range(3):
            threading.Thread(target=forever, daemon=True).start()
        fast(x)
        time.sleep(0.2)
        print("done")
    """
    done = run_script(body, tmp_path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.skipif(not os.path.exists("/usr/bin/taskset"), reason="no taskset here")
def test_one_cpu_is_enough(tmp_path: Path) -> None:
    body = """
        from kuiperinfer.runtime.team import allowed_cpus
        y = fast(x)
        assert all(np.array_equal(fast(x), y) for _ in range(20))
        print(allowed_cpus(), model.compile().threads)
    """
    done = run_script(body, "/usr/bin/taskset", "-c", "0", tmp_path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "1 1\n"), done.stderr


def test_an_interrupt_in_the_middle_of_runs(tmp_path: Path) -> None:
    body = """
        import os, signal
        y = fast(x)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                fast(x)
        except KeyboardInterrupt:
            pass
        assert all(np.array_equal(fast(x), y) for _ in range(20))
        print("fine")
    """
    done = run_script(body, tmp_path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_eight_threads_get_the_same_bits(tmp_path: Path) -> None:
    body = """
        inputs = [np.random.default_rng(seed).standard_normal(x.shape).astype(np.float32) for seed in range(8)]
        expected = [fast(one).tobytes() for one in inputs]
        wrong = []
        def call(number):
            for _ in range(25):
                if fast(inputs[number]).tobytes() != expected[number]:
                    wrong.append(number)
        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        one = model.compile(threads=1)
        wrong += [n for n in range(8) if one(inputs[n]).tobytes() != expected[n]]
        print(wrong)
    """
    done = run_script(body, tmp_path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_memory_stays_flat_over_many_runs_and_many_shapes(tmp_path: Path) -> None:
    body = """
        import resource
        with kuiperinfer.settings(engine="compiled", max_plans=4):
            def sizes(seed, count):
                generator = np.random.default_rng(seed)
                for _ in range(count):
                    height, width = generator.integers(3, 20, 2)
                    model(np.zeros((1, 64, height, width), np.float32))
            sizes(0, 8)
            for _ in range(200):
                fast(x)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            sizes(1, 8)
            for _ in range(600):
                fast(x)
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000, len(model._plans))
    """
    done = run_script(body, tmp_path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "True 4\n"), done.stderr


def test_signals_reach_python_while_members_sleep(increment: Library) -> None:
    received: list[int] = []
    previous = signal.signal(signal.SIGALRM, lambda number, frame: received.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        work = Work(increment)
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            work.run(team(), 2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert received
