"""Load on `kuiper serve` over loopback: throughput, latency, right answers, and memory that does not grow.

    python bench/serve.py load                  64 clients for 60 s, with dynamic batching and without, in turns
    python bench/serve.py memory                20 000 requests, and the server's memory meanwhile
    python bench/serve.py stop                  SIGTERM under load: what becomes of each request
    python bench/serve.py curve -o docs/serve_curve.svg

The clients are one process that waits in one `select` for all of them. Each request has an identifier and an input of its own,
and its answer has to be, bit for bit, what `model(x)` gives for that input.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import kuiperinfer
from kuiperinfer.vision import bundled

INPUTS = 16  # different ones
MODEL = bundled.MODEL_NAME
CURVE_CLIENTS = (1, 2, 4, 8, 16, 32, 64)
CURVE_TURNS = 5  # of each way, of which the best counts


@dataclass
class Outcome:
    """What became of the requests of one load: seconds of those answered rightly, and how many ended in which other way."""

    seconds: list[float] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    duration: float = 0.0

    @property
    def throughput(self) -> float:
        """Right answers a second."""
        return len(self.seconds) / self.duration

    def percentile(self, percent: float) -> float:
        """Milliseconds."""
        return float(np.percentile(self.seconds, percent)) * 1e3 if self.seconds else float("nan")

    def __str__(self) -> str:
        others = ", ".join(f"{count} {name}" for name, count in sorted(self.others.items())) or "nothing else"
        figures = ", ".join(f"P{percent:g} {self.percentile(percent):.1f} ms" for percent in (50, 95, 99))
        return f"{len(self.seconds)} right answers, {self.throughput:.1f} a second, {figures}; {others}"


class Workload:
    """Inputs, and the answers that the model itself gives for them."""

    def __init__(self) -> None:
        model = kuiperinfer.load(bundled.MODEL)
        generator = np.random.default_rng(0)
        info = model.inputs[0]
        arrays = [generator.standard_normal((1, 3, 224, 224)).astype(np.float32) for _ in range(INPUTS)]
        self.bodies = [array.tobytes() for array in arrays]
        self.answers = [np.asarray(model(array)).tobytes() for array in arrays]
        self.tensor = {
            "name": info.name,
            "datatype": "FP32",
            "shape": [1, 3, 224, 224],
            "parameters": {"binary_data_size": len(self.bodies[0])},
        }

    def request(self, number: int) -> list[memoryview]:
        """Request `number`, in two parts that are not copied."""
        body = self.bodies[number % INPUTS]
        content = json.dumps(
            {"id": str(number), "inputs": [self.tensor], "parameters": {"binary_data_output": True}}
        ).encode()
        head = (
            f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content) + len(body)}\r\n"
            f"Inference-Header-Content-Length: {len(content)}\r\n\r\n"
        )
        return [memoryview(head.encode() + content), memoryview(body)]

    def judge(self, number: int, status: int, json_length: int, body: bytes, tolerance: float) -> str:
        """ "right", or what is wrong with the answer to request `number`."""
        if status != 200:
            return f"status {status}"
        if json.loads(body[:json_length])["id"] != str(number):
            return "answer to another request"
        expected = self.answers[number % INPUTS]
        if body[json_length:] == expected:
            return "right"
        found, wanted = (np.frombuffer(data, np.float32) for data in (body[json_length:], expected))
        near = found.shape == wanted.shape and np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()
        return "right" if near else "wrong answer"


class Client:
    """A connection with one request under way at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.number = -1
        self.parts: list[memoryview] = []
        self.received = bytearray()
        self.start = 0.0

    def begin(self, number: int, parts: list[memoryview]) -> None:
        self.number, self.parts, self.start = number, parts, time.perf_counter()
        self.received.clear()

    def send(self) -> bool:
        """Sends what the connection takes; whether that was all."""
        try:
            sent = self.socket.sendmsg(self.parts)
        except BlockingIOError:
            return False
        while self.parts and sent >= len(self.parts[0]):
            sent -= len(self.parts.pop(0))
        if self.parts:
            self.parts[0] = self.parts[0][sent:]
        return not self.parts

    def receive(self) -> tuple[int, int, bytes, bool] | None:
        """(status, length of the JSON, body, whether the connection stays) once all is there. Raises `ConnectionError`."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self.received += data
        head, separator, body = bytes(self.received).partition(b"\r\n\r\n")
        if not separator:
            return None
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.decode().split("\r\n"))
        }
        if len(body) < int(fields["content-length"]):
            return None
        json_length = int(fields.get("inference-header-content-length", len(body)))
        return int(head.split(b" ", 2)[1]), json_length, body, fields.get("connection") != "close"


def load(
    port: int,
    work: Workload,
    clients: int,
    seconds: float,
    most: int = 1 << 60,
    tolerance: float = 0.0,
    stop: Any = None,
) -> Outcome:
    """`clients` that ask again as soon as they have an answer, for some seconds or `most` requests; the last are awaited.

    `stop(outcome)` is called often; once it returns True, no client asks again.
    """
    outcome, number, start = Outcome(), 0, time.perf_counter()
    selector = selectors.DefaultSelector()

    def ask(client: Client) -> None:
        nonlocal number
        client.begin(number, work.request(number))
        number += 1
        selector.modify(client.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, client)

    for _ in range(clients):
        client = Client(port)
        selector.register(client.socket, selectors.EVENT_READ, client)
        ask(client)
    while selector.get_map() and time.perf_counter() - start < seconds + 60:
        ended = time.perf_counter() - start >= seconds or number >= most or (stop is not None and stop(outcome))
        for key, events in selector.select(1.0):
            client = key.data
            try:
                if events & selectors.EVENT_WRITE and client.send():
                    selector.modify(client.socket, selectors.EVENT_READ, client)
                answer = client.receive() if events & selectors.EVENT_READ else None
            except ConnectionError:
                outcome.others["connection closed"] += 1
                selector.unregister(client.socket)
                client.socket.close()
                continue
            if answer is None:
                continue
            status, json_length, body, stays = answer
            verdict = work.judge(client.number, status, json_length, body, tolerance)
            if verdict == "right":
                outcome.seconds.append(time.perf_counter() - client.start)
            else:
                outcome.others[verdict] += 1
            if ended or not stays:
                selector.unregister(client.socket)
                client.socket.close()
            else:
                ask(client)
    outcome.others["lost"] += len(selector.get_map())
    outcome.others += Counter()  # drops what is zero
    outcome.duration = time.perf_counter() - start
    return outcome


@contextmanager
def server(*options: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A server of the bundled classifier that is ready: its port and its process."""
    command = [sys.executable, "-m", "kuiperinfer", "serve", str(bundled.MODEL), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found, "the server did not start"
        port = int(found[1])
        for _ in range(600):
            if _status(port) == 200:
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the server did not become ready")
        yield port, process
    finally:
        process.terminate()
        process.wait(60)


def _status(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port)) as asked:
        asked.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return int(asked.recv(4096).split(b" ", 2)[1])


def resident_bytes(process: subprocess.Popen[str]) -> int:
    """The memory of a process, from Linux."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """The time that a process has spent on all CPUs, from Linux."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


# ------------------------------------------------------------------------------------------- what is measured


def measure_load(arguments: argparse.Namespace, work: Workload) -> None:
    """Dynamic batching against none, in turns."""
    ways = {
        f"batches of up to {arguments.max_batch}": ("--max-batch", str(arguments.max_batch)),
        "one by one": ("--max-batch", "1"),
    }
    figures: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(arguments.turns):
        for name, options in ways.items():
            with server(*options, *arguments.server) as (port, process):
                load(port, work, arguments.clients, 2.0, tolerance=arguments.tolerance)
                seconds, before = arguments.seconds / arguments.turns, (cpu_seconds(process), time.process_time())
                outcome = load(port, work, arguments.clients, seconds, tolerance=arguments.tolerance)
                after, answers = (cpu_seconds(process), time.process_time()), max(1, len(outcome.seconds))
            figures[name].append(outcome.throughput)
            server_ms, clients_ms = ((end - begin) / answers * 1e3 for begin, end in zip(before, after, strict=True))
            cost = f"{server_ms:.2f} ms of CPU an answer, and {clients_ms:.2f} of the clients"
            print(f"turn {turn + 1}, {name}: {outcome}; {cost}", flush=True)
    ratios = [batched / single for batched, single in zip(*figures.values(), strict=True)]
    print(
        f"batched / one by one: {np.median(ratios):.2f}, the median of {', '.join(f'{ratio:.2f}' for ratio in ratios)}"
    )


def measure_memory(arguments: argparse.Namespace, work: Workload) -> None:
    """The server's memory over many requests."""
    with server("--max-batch", str(arguments.max_batch), *arguments.server) as (port, process):
        total, part = 0, max(1, arguments.requests // 10)
        while total < arguments.requests:
            outcome = load(port, work, arguments.clients, 600, part, arguments.tolerance)
            total += len(outcome.seconds) + sum(outcome.others.values())
            print(f"{total} requests: {resident_bytes(process) / (1 << 20):.1f} MiB; {outcome}", flush=True)


def measure_stop(arguments: argparse.Namespace, work: Workload) -> None:
    """SIGTERM under load. Whoever had sent a request by then gets its answer; who comes later is refused."""
    with server("--max-batch", str(arguments.max_batch), *arguments.server) as (port, process):
        start = time.perf_counter()

        def stop(outcome: Outcome) -> bool:
            if time.perf_counter() - start > 3 and process.poll() is None and not stop.sent:  # type: ignore[attr-defined]
                process.send_signal(signal.SIGTERM)
                stop.sent = True  # type: ignore[attr-defined]
            return False

        stop.sent = False  # type: ignore[attr-defined]
        outcome = load(port, work, arguments.clients, 10, tolerance=arguments.tolerance, stop=stop)
        print(f"{outcome}; exit code {process.wait(60)}")


def measure_curve(arguments: argparse.Namespace, work: Workload) -> None:
    """Throughput and latency by number of clients, drawn."""
    ways = {
        f"batches of up to {arguments.max_batch}": ("--max-batch", str(arguments.max_batch)),
        "one by one": ("--max-batch", "1"),
        "one by one, a worker a CPU": ("--max-batch", "1", "--threads", "1"),
    }
    outcomes: dict[tuple[str, int], list[Outcome]] = {(name, clients): [] for name in ways for clients in CURVE_CLIENTS}
    seconds = arguments.seconds / (len(CURVE_CLIENTS) * CURVE_TURNS)
    with ExitStack() as stack:
        ports = {name: stack.enter_context(server(*options, *arguments.server))[0] for name, options in ways.items()}
        for turn in range(CURVE_TURNS):  # what else goes on happens to all points alike
            for clients, (name, port) in itertools.product(CURVE_CLIENTS, ports.items()):
                outcome = load(port, work, clients, seconds, tolerance=arguments.tolerance)
                outcomes[name, clients].append(outcome)
                print(f"turn {turn + 1}, {name}, {clients} clients: {outcome}", flush=True)
    curves: dict[str, list[tuple[int, float, float, float]]] = {name: [] for name in ways}
    for (name, clients), turns in outcomes.items():
        best = max(turns, key=lambda outcome: outcome.throughput)
        curves[name].append((clients, best.throughput, best.percentile(50), best.percentile(99)))
        print(f"{name}, {clients} clients: {best}")
    draw(curves, arguments.output)


def draw(curves: dict[str, Sequence[tuple[int, float, float, float]]], path: Path) -> None:
    """Latency over throughput, one line a way, its points labelled with the number of clients."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "kuiper"}  # the same file for the same figures
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, rows in curves.items():
        clients, throughput, median, tail = zip(*rows, strict=True)
        (line,) = axes.plot(throughput, median, marker="o", label=f"{name}, median")
        axes.plot(throughput, tail, marker=".", linestyle="--", color=line.get_color(), label=f"{name}, P99")
        for count, x, y in zip(clients, throughput, median, strict=True):
            axes.annotate(str(count), (x, y), textcoords="offset points", xytext=(5, -10), fontsize=8)
    axes.set(xlabel="answers a second", ylabel="milliseconds", yscale="log", title="kuiper serve, MobileNetV2 at 224²")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})


MEASUREMENTS = {"load": measure_load, "memory": measure_memory, "stop": measure_stop, "curve": measure_curve}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=MEASUREMENTS)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--turns", type=int, default=1, help="of load: how often the two ways take turns")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--max-batch", type=int, default=8)
    parser.add_argument("--tolerance", type=float, default=0.0, help="of answers; for servers with --batching close")
    parser.add_argument("-o", "--output", type=Path, default=Path("serve_curve.svg"))
    parser.add_argument("--server", type=str.split, default=[], help="further options of `kuiper serve`, in one text")
    arguments = parser.parse_args()
    MEASUREMENTS[arguments.what](arguments, Workload())


if __name__ == "__main__":
    main()
