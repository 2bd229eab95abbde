"""The queue: which requests are run together, which are refused, and that none is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from kuiperinfer.errors import InputError
from kuiperinfer.serve.refusals import Refusal, too_late
from kuiperinfer.serve.scheduler import Lane, Scheduler


class Recorder:
    """Doubles its input, and notes how many rows each run had. While `gate` is closed, runs wait."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        self.rows.append(len(inputs[0]))
        self.entered.release()
        assert self.gate.wait(20)
        return [inputs[0] * 2]


def rows(count: int, value: float = 1.0) -> list[Any]:
    return [np.full((count, 2), value, np.float32)]


@pytest.fixture
def scheduler() -> Iterator[Callable[..., Scheduler]]:
    made: list[Scheduler] = []

    def make(workers: int = 1, waiting: int = 100, threads: int = 1) -> Scheduler:
        made.append(Scheduler(workers, threads, waiting))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def together(*awaitables: Awaitable[Any]) -> list[Any]:
    async def gather() -> list[Any]:
        return await asyncio.gather(*awaitables, return_exceptions=True)

    return asyncio.run(gather())


def test_what_waits_is_run_together_and_each_gets_its_own(scheduler: Callable[..., Scheduler]) -> None:
    one, run = scheduler(), Recorder()
    lane = Lane(run, most_rows=4)

    async def ask() -> list[Any]:
        run.gate.clear()
        first = asyncio.ensure_future(one.run(lane, rows(1, 0), 20))
        await asyncio.to_thread(run.entered.acquire)
        rest = [asyncio.ensure_future(one.run(lane, rows(n, n), 20)) for n in (2, 1, 3, 1, 5)]
        await asyncio.sleep(0.01)
        assert one.waiting == 5
        run.gate.set()
        return await asyncio.gather(first, *rest)

    answers = asyncio.run(ask())
    assert run.rows == [1, 3, 4, 5]  # in order of arrival, at most four rows unless a request alone has more
    for (outputs, _), (count, value) in zip(answers, [(1, 0), (2, 2), (1, 1), (3, 3), (1, 1), (5, 5)], strict=True):
        np.testing.assert_array_equal(outputs[0], np.full((count, 2), 2 * value, np.float32))
    assert [timing.first for _, timing in answers] == [True, True, False, True, False, True]
    assert one.waiting == 0


def test_a_run_waits_for_its_batch_to_fill(scheduler: Callable[..., Scheduler]) -> None:
    one, run = scheduler(), Recorder()
    lane = Lane(run, most_rows=3, delay=10.0)  # far longer than the test takes: a full batch goes at once
    together(*(one.run(lane, rows(1), 20) for _ in range(3)))
    assert run.rows == [3]


def test_the_wait_ends(scheduler: Callable[..., Scheduler]) -> None:
    one, run = scheduler(), Recorder()
    ((_, timing),) = together(one.run(Lane(run, most_rows=3, delay=0.05), rows(1), 20))
    assert run.rows == [1]
    assert timing.queue >= 0.05


def test_other_shapes_go_past_a_batch_that_fills(scheduler: Callable[..., Scheduler]) -> None:
    one, slow, quick = scheduler(), Recorder(), Recorder()
    filling = Lane(slow, most_rows=2, delay=15.0)

    async def ask() -> None:
        waiting = asyncio.ensure_future(one.run(filling, rows(1), 20))
        await asyncio.sleep(0.02)
        await one.run(Lane(quick), rows(1), 20)
        assert not slow.rows
        await one.run(filling, rows(1), 20)
        await waiting

    asyncio.run(ask())
    assert (slow.rows, quick.rows) == ([2], [1])


def test_several_rows_have_a_thread_each_and_a_lone_one_has_all(scheduler: Callable[..., Scheduler]) -> None:
    one, run, alone, blocker = scheduler(threads=2), Recorder(), Recorder(), Recorder()
    lane = Lane(run, alone=alone)

    async def ask() -> None:
        await one.run(lane, rows(1), 20)
        assert (run.rows, alone.rows) == ([1], [])
        blocker.gate.clear()
        alone.gate.clear()
        tasks = [asyncio.ensure_future(one.run(Lane(blocker), rows(1), 20))]
        await asyncio.to_thread(blocker.entered.acquire)
        tasks += [asyncio.ensure_future(one.run(lane, rows(1, value), 20)) for value in range(5)]
        await asyncio.sleep(0.02)
        assert alone.rows == []  # all threads are taken
        blocker.gate.set()
        for _ in range(2):
            await asyncio.to_thread(alone.entered.acquire)
        await asyncio.sleep(0.02)
        assert len(alone.rows) == 2  # two at a time, no more
        alone.gate.set()
        for value, (outputs, _) in enumerate((await asyncio.gather(*tasks))[1:]):
            np.testing.assert_array_equal(outputs[0], rows(1, 2 * value)[0])
        await one.run(lane, rows(3), 20)  # several rows of one request are one run

    asyncio.run(ask())
    assert run.rows[-1] == 3
    assert len(run.rows) + len(alone.rows) == 7


def test_a_run_with_all_threads_waits_for_them(scheduler: Callable[..., Scheduler]) -> None:
    one, run, alone, whole = scheduler(threads=3), Recorder(), Recorder(), Recorder()
    lane = Lane(run, alone=alone)

    async def ask() -> None:
        alone.gate.clear()
        tasks = [asyncio.ensure_future(one.run(lane, rows(1), 20)) for _ in range(2)]
        for _ in range(2):
            await asyncio.to_thread(alone.entered.acquire)
        tasks.append(asyncio.ensure_future(one.run(Lane(whole), rows(1), 20)))
        await asyncio.sleep(0.02)
        tasks.append(asyncio.ensure_future(one.run(lane, rows(1), 20)))  # later: does not go past it
        await asyncio.sleep(0.02)
        assert (whole.rows, len(alone.rows)) == ([], 2)
        alone.gate.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert whole.rows == [1]


def test_what_came_first_goes_first(scheduler: Callable[..., Scheduler]) -> None:
    one, order = scheduler(), []
    blocker = Recorder()

    def lane(name: str) -> Lane:
        return Lane(lambda inputs: order.append(name) or list(inputs))  # type: ignore[func-returns-value]

    async def ask() -> None:
        blocker.gate.clear()
        tasks = [asyncio.ensure_future(one.run(Lane(blocker), rows(1), 20))]
        await asyncio.to_thread(blocker.entered.acquire)
        for name in "cab":
            tasks.append(asyncio.ensure_future(one.run(lane(name), rows(1), 20)))
            await asyncio.sleep(0.002)
        blocker.gate.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert order == ["c", "a", "b"]


def test_a_full_queue(scheduler: Callable[..., Scheduler]) -> None:
    one, run = scheduler(waiting=3), Recorder()
    lane = Lane(run)

    async def ask() -> list[Any]:
        run.gate.clear()
        first = asyncio.ensure_future(one.run(lane, rows(1), 20))
        await asyncio.to_thread(run.entered.acquire)
        rest = [asyncio.ensure_future(one.run(lane, rows(1), 20)) for _ in range(5)]
        await asyncio.sleep(0.01)
        run.gate.set()
        return await asyncio.gather(first, *rest, return_exceptions=True)

    answers = asyncio.run(ask())
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert [refusal.status for refusal in refused] == [429, 429]
    assert all(refusal.retry_after is not None and refusal.retry_after >= 1 for refusal in refused)
    assert "the queue is full: 3 requests wait" in str(refused[0])
    assert len(run.rows) == 4


@pytest.mark.parametrize(
    ("seconds", "words"), [(30.0, "30 s"), (1.0, "1 s"), (0.25, "250 ms"), (1e-6, "1 µs"), (1e-3, "1 ms")]
)
def test_the_time_in_words(seconds: float, words: str) -> None:
    assert str(too_late(seconds)) == f"no answer within {words}"


def test_what_was_spent_before_counts(scheduler: Callable[..., Scheduler]) -> None:
    (refusal,) = together(scheduler().run(Lane(Recorder(), most_rows=2, delay=60.0), rows(1), 20, spent=20.0))
    assert str(refusal) == "no answer within 20 s"


def test_too_late(scheduler: Callable[..., Scheduler]) -> None:
    one, run = scheduler(), Recorder()
    lane = Lane(run)

    async def ask() -> list[Any]:
        run.gate.clear()
        running = asyncio.ensure_future(one.run(lane, rows(1), 0.05))
        await asyncio.to_thread(run.entered.acquire)
        waiting = asyncio.ensure_future(one.run(lane, rows(2), 0.05))
        answers = await asyncio.gather(running, waiting, return_exceptions=True)
        run.gate.set()
        return [*answers, await one.run(lane, rows(3), 20)]

    running, waiting, (outputs, _) = asyncio.run(ask())
    for late in (running, waiting):
        assert isinstance(late, Refusal)
        assert late.status == 503
        assert "no answer within 50 ms" in str(late)
    assert len(outputs[0]) == 3
    assert run.rows == [1, 3]  # what nobody waits for any more is not run


def test_who_goes_leaves_the_queue(scheduler: Callable[..., Scheduler]) -> None:
    one, run = scheduler(), Recorder()
    lane = Lane(run)

    async def ask() -> None:
        run.gate.clear()
        first = asyncio.ensure_future(one.run(lane, rows(1), 20))
        await asyncio.to_thread(run.entered.acquire)
        gone = asyncio.ensure_future(one.run(lane, rows(2), 20))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.sleep(0.01)
        run.gate.set()
        await first
        await one.run(lane, rows(3), 20)

    asyncio.run(ask())
    assert run.rows == [1, 3]


def test_one_bad_request_does_not_spoil_its_batch(scheduler: Callable[..., Scheduler]) -> None:
    one = scheduler()

    def picky(inputs: Sequence[Any]) -> list[Any]:
        if (inputs[0] < 0).any():
            raise InputError("negative")
        return [inputs[0] * 2]

    lane = Lane(picky, most_rows=3, delay=10.0)
    good, bad, also_good = together(*(one.run(lane, rows(1, value), 20) for value in (1, -1, 3)))
    assert str(bad) == "negative"
    assert isinstance(bad, InputError)
    assert good[0][0].tolist() == [[2, 2]]
    assert also_good[0][0].tolist() == [[6, 6]]


@pytest.mark.parametrize(
    ("error", "status"), [(MemoryError(), 503), (ZeroDivisionError("secret"), 500)], ids=["memory", "mistake"]
)
def test_other_errors_end_neither_worker_nor_say_much(
    scheduler: Callable[..., Scheduler], error: Exception, status: int
) -> None:
    one, run = scheduler(), Recorder()

    def fail(_: Sequence[Any]) -> list[Any]:
        raise error

    (refusal,) = together(one.run(Lane(fail), rows(1), 20))
    assert refusal.status == status
    assert "secret" not in str(refusal)
    together(one.run(Lane(run), rows(1), 20))
    assert run.rows == [1]


def test_stop_serves_what_waits_and_takes_nothing_more(scheduler: Callable[..., Scheduler]) -> None:
    one, run = scheduler(), Recorder()
    lane = Lane(run, most_rows=2, delay=15.0)

    async def ask() -> list[Any]:
        waiting = asyncio.ensure_future(one.run(lane, rows(1), 20))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(one.stop)
        return await asyncio.gather(waiting, one.run(lane, rows(1), 20), return_exceptions=True)

    answered, refused = asyncio.run(ask())
    assert len(answered[0][0]) == 1
    assert (refused.status, str(refused)) == (503, "the server is shutting down")


def test_in_a_hurry_no_run_waits_for_more(scheduler: Callable[..., Scheduler]) -> None:
    one, run = scheduler(), Recorder()
    lane = Lane(run, most_rows=2, delay=15.0)

    async def ask() -> None:
        waiting = asyncio.ensure_future(one.run(lane, rows(1), 20))
        await asyncio.sleep(0.01)
        one.hurry()
        await waiting
        await one.run(lane, rows(1), 20)

    asyncio.run(ask())
    assert run.rows == [1, 1]


def test_many_requests_on_several_workers(scheduler: Callable[..., Scheduler]) -> None:
    one = scheduler(workers=4, waiting=1000)
    lanes = [Lane(lambda inputs: [inputs[0] * 2], most_rows=5, delay=0.001) for _ in range(3)]
    values = [(number % 3, 1 + number % 4, number) for number in range(400)]
    answers = together(*(one.run(lanes[lane], rows(count, value), 20) for lane, count, value in values))
    for (outputs, _), (_, count, value) in zip(answers, values, strict=True):
        np.testing.assert_array_equal(outputs[0], np.full((count, 2), 2 * value, np.float32))
