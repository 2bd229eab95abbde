"""Requests that are wrong, by mistake or by intent: each gets an answer that says why, and harms nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kuiperinfer.serve import Limits, Options, Service
from kuiperinfer.serve.app import make_app
from tests.serve import models
from tests.serve.conftest import Running
from tests.serve.connection import binary_request
from tests.small_models import write_model
from tests.waiting import wait_until

Start = Callable[..., Running]

INFER = "/v2/models/rows/infer"
GOOD = {"inputs": [models.tensor("x", [1, 2, 3], [1, 3])]}


def is_well(running: Running) -> None:
    """The server still answers, and rightly."""
    status, _, content = running.ask("POST", INFER, GOOD)
    assert (status, content["outputs"][0]["data"]) == (200, [3, 5, 7])


# ------------------------------------------------------------------------------------------- one by one


def changed(**changes: Any) -> dict[str, Any]:
    """The good request with other fields in its tensor; None takes a field away."""
    tensor = {**GOOD["inputs"][0], **changes}
    return {"inputs": [{key: value for key, value in tensor.items() if value is not None}]}


BAD: list[tuple[str, Any, int, str]] = [
    ("empty", b"", 400, "not JSON"),
    ("truncated", json.dumps(GOOD).encode()[:-3], 400, "not JSON"),
    ("NaN", b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[NaN,1,2]}]}', 400, "not JSON"),
    ("Infinity", b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1e999,1,2]}]}', 400, ""),
    ("not UTF-8", b'{"inputs":"\xff"}', 400, "not JSON"),
    ("deep", b"[" * 100_000, 400, "not JSON"),
    ("deep and closed", b"[" * 5000 + b"]" * 5000, 400, "not JSON"),
    ("a list", [], 400, "the body: expected a JSON object"),
    ("no inputs", {}, 400, "inputs: expected a list"),
    ("inputs are none", {"inputs": None}, 400, "inputs: expected a list"),
    ("no tensor", {"inputs": []}, 400, "input 'x' is missing; the inputs are x"),
    ("a number for a tensor", {"inputs": [5]}, 400, "inputs: expected a JSON object"),
    ("twice", {"inputs": GOOD["inputs"] * 2}, 400, "input 'x' is given twice"),
    ("no name", changed(name=None), 400, "inputs: each needs a name"),
    ("a long name", changed(name="x" * 5000), 400, "there is no input 'xxx"),
    ("no shape", changed(shape=None), 400, "shape: expected a list"),
    (
        "negative",
        changed(shape=[-1, 3]),
        400,
        "input 'x': shape: expected a list of whole numbers that are not negative",
    ),
    ("fractions", changed(shape=[1.0, 3]), 400, "shape: expected a list of whole numbers"),
    ("truth", changed(shape=[True, 3]), 400, "shape: expected a list of whole numbers"),
    ("huge", changed(shape=[2**40, 3]), 413, "more than 16,777,216 elements"),
    ("huger", changed(shape=[2**63, 3]), 400, "shape: expected a list of whole numbers"),
    ("hugest", changed(shape=[10**30, 3]), 400, "shape: expected a list of whole numbers"),
    ("overflow", changed(shape=[2**32, 2**32]), 413, "elements"),
    ("rank", changed(shape=[1] * 50), 400, "shape: expected at most 8 dimensions, found 50"),
    ("no data", changed(data=None), 400, "input 'x': there is neither data nor a binary_data_size"),
    ("few data", changed(data=[1, 2]), 400, r"expected 3 elements for shape [1, 3], found [2]"),
    ("words", changed(data=["1", "2", "3"]), 400, "expected numbers for FP32"),
    ("a boolean", changed(data=[1, 2.5, True]), 400, "input 'x': data[2]: expected numbers for FP32, found a boolean"),
    ("a boolean within", changed(data=[[False, 1, 2]]), 400, "data[0][0]: expected numbers for FP32, found a boolean"),
    ("BYTES", changed(datatype="BYTES", data=["1", "2", "3"]), 400, "datatype BYTES is not supported"),
    ("no datatype", changed(datatype=None), 400, "datatype: expected one of BOOL"),
    ("size without bytes", changed(data=None, parameters={"binary_data_size": 12}), 400, "only 0 bytes are left"),
    ("wrong size", changed(data=None, parameters={"binary_data_size": 13}), 400, "binary_data_size: expected 12"),
    ("size is text", changed(data=None, parameters={"binary_data_size": "12"}), 400, "binary_data_size: expected 12"),
    ("both", changed(parameters={"binary_data_size": 12}), 400, "expected data or a binary_data_size, found both"),
    ("shared memory", changed(parameters={"shared_memory_region": "r"}), 400, "shared memory is not supported"),
    ("parameters", {**GOOD, "parameters": []}, 400, "parameters: expected a JSON object"),
    ("flag", {**GOOD, "parameters": {"binary_data_output": 1}}, 400, "binary_data_output: expected true or false"),
    ("timeout", {**GOOD, "parameters": {"timeout": -1}}, 400, "timeout: expected a number of microseconds"),
    ("id", {**GOOD, "id": 5}, 400, "id: expected a text"),
    ("outputs", {**GOOD, "outputs": 5}, 400, "outputs: expected a list"),
    ("output", {**GOOD, "outputs": [{"name": "yy"}]}, 400, "the outputs are y"),
    ("output's name", {**GOOD, "outputs": [{"name": 5}]}, 400, "the outputs are y"),
]


def test_what_is_wrong_is_said(start: Start) -> None:
    running = start({"rows": models.ROWS})
    with running.connect() as connection:  # one connection for all: an error does not end it
        for name, body, status, message in BAD:
            found, _, content = connection.ask("POST", INFER, body)
            assert found == status, name
            assert message in content["error"], name
            assert list(content) == ["error"]
    is_well(running)


def test_the_binary_part(start: Start) -> None:
    running = start({"rows": models.ROWS})
    body, length = binary_request("x", np.ones((1, 3), np.float32), "FP32")
    cases = [
        (body, str(int(length) - 1), "not JSON"),
        (body, str(len(body) + 1), f"expected a number of bytes up to {len(body)}"),
        (body, "-1", "expected a number of bytes"),
        (body, "1e3", "expected a number of bytes"),
        (body, "9" * 5000, "expected a number of bytes"),
        (body, "²", "expected a number of bytes"),
        (body, "0", "not JSON"),
        (body + b"more", length, "4 bytes are left behind the last binary tensor"),
        (body[:-1], length, "only 11 bytes are left"),
    ]
    with running.connect() as connection:
        for data, header, message in cases:
            status, _, content = connection.ask("POST", INFER, data, Inference_Header_Content_Length=header)
            assert status == 400
            assert message in content["error"]
        assert connection.ask("POST", INFER, body, Inference_Header_Content_Length=length)[0] == 200


def test_addresses_and_methods(start: Start) -> None:
    running = start({"rows": models.ROWS})
    with running.connect() as connection:
        for path in (
            "/v1",
            "/v2/",
            "/v2/models/rows/",
            "/v2/models/rows/versions/x/infer/y",
            "//",
            "/%00",
            "/page/../x",
        ):
            status, _, content = connection.ask("GET", path)
            assert (status, list(content)) == (404, ["error"]), path
        assert connection.ask("GET", INFER)[0] == 405
        assert connection.ask("POST", "/v2/health/live")[0] == 405
        assert connection.ask("POST", "/v2/models/rows/versions/-1/infer")[0] == 404
        status, _, content = connection.ask("POST", "/v2/repository/index", {"ready": "no"})
        assert (status, content["error"]) == (400, "ready: expected true or false")
    is_well(running)


def test_a_value_out_of_the_model_s_range(start: Start) -> None:
    running = start({"table": models.LOOK_UP, "rows": models.ROWS})
    for index in (5, -1, 2**62):
        asked = {"inputs": [models.tensor("x", [0, index], [1, 2], "INT64")]}
        status, _, content = running.ask("POST", "/v2/models/table/infer", asked)
        assert status == 400
        assert "5" in content["error"]
    is_well(running)


def test_bodies_that_are_too_large(start: Start) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(body_bytes=10_000, json_bytes=2000))
    with running.connect() as connection:
        connection.send("POST", INFER, b"{", Content_Length="10001")
        status, _, content = connection.answer()
        assert (status, content["error"]) == (413, "the body exceeds the limit of 10,000 bytes")
    with running.connect() as connection:  # a body of unknown length
        connection.socket.sendall(
            f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        connection.socket.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
        connection.socket.sendall(b"2000\r\n" + b" " * 8192 + b"\r\n")
        assert connection.answer()[0] == 413
    status, _, content = running.ask("POST", INFER, b" " * 3000)
    assert status == 413
    assert "send large tensors in the binary form" in content["error"]
    is_well(running)


def test_what_all_bodies_together_may_take(start: Start) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(body_bytes=1000, bytes_in_flight=1500))
    with running.connect() as slow:
        slow.send("POST", INFER, b" " * 950, Content_Length="1000")
        wait_until(lambda: running.ask("POST", INFER, b" " * 600)[0] == 503)
        is_well(running)  # small ones still fit
    wait_until(lambda: running.ask("POST", INFER, b" " * 600)[0] == 400)  # the slow one has gone, and its claim with it


def test_what_is_only_announced_takes_no_room(start: Start) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(body_bytes=1000, bytes_in_flight=1500))
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(running.connect()).send("POST", INFER, b"{", Content_Length="1000")
        assert running.ask("POST", INFER, b" " * 900)[0] == 400  # read, and found to be no JSON


# ------------------------------------------------------------------------------------------- very many

REQUESTS = int(os.environ.get("KUIPER_FUZZ_REQUESTS", "3000"))
_WORDS = [
    "x",
    "y",
    "inputs",
    "outputs",
    "name",
    "shape",
    "datatype",
    "data",
    "parameters",
    "id",
    "binary_data_size",
    "FP32",
    "FP16",
]
_WORDS += [
    "BOOL",
    "INT64",
    "BYTES",
    "binary_data",
    "timeout",
    "sequence_id",
    "binary_data_output",
    "classification",
    "",
]


def random_value(dice: random.Random, depth: int = 0) -> Any:
    """Any JSON value, mostly of words and numbers that mean something to the server."""
    kinds: list[Callable[[], Any]] = [
        lambda: dice.choice(_WORDS),
        lambda: dice.choice([0, 1, 3, -1, 2**31, 2**63, 2**64, 10**25, 1.5, -0.0, 1e300, True, False, None]),
        lambda: dice.randrange(-5, 20),
        lambda: "".join(dice.choices(string.printable, k=dice.randrange(8))),
    ]
    if depth < 4:
        kinds += [
            lambda: [random_value(dice, depth + 1) for _ in range(dice.randrange(5))],
            lambda: {dice.choice(_WORDS): random_value(dice, depth + 1) for _ in range(dice.randrange(5))},
        ]
    return dice.choice(kinds)()


def random_body(dice: random.Random) -> bytes:
    """Noise, a good request with some bytes changed, or one with some values changed."""
    way = dice.randrange(3)
    if way == 0:
        return dice.randbytes(dice.randrange(200))
    request: dict[str, Any] = json.loads(json.dumps({**GOOD, "id": "5", "outputs": [{"name": "y"}], "parameters": {}}))
    if way == 1:
        data = bytearray(json.dumps(request).encode())
        for _ in range(dice.randrange(1, 4)):
            place = dice.randrange(len(data))
            data[place : place + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        return bytes(data)
    for _ in range(dice.randrange(1, 3)):
        where = dice.choice([request, request["inputs"][0] if isinstance(request.get("inputs"), list) else request])
        if isinstance(where, dict):
            where[dice.choice([*where, *_WORDS[:10]])] = random_value(dice)
        if not (isinstance(request.get("inputs"), list) and request["inputs"]):
            break
    return json.dumps(request).encode() + dice.choice([b"", b"", dice.randbytes(12)])


async def answer_of(app: Any, path: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    """The answer of the application itself, with no connection in between."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "server": None, "client": None,
        "headers": [(b"host", b"localhost"), (b"content-length", str(len(body)).encode()), *headers],
    }  # fmt: skip
    asked = iter([{"type": "http.request", "body": body, "more_body": False}])
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        message = next(asked, None)
        return message if message is not None else await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def test_random_bodies(tmp_path: Path) -> None:
    """None of very many is answered with a 5xx, but for 503; set KUIPER_FUZZ_REQUESTS for more."""
    dice = random.Random(20)
    service = Service({"rows": write_model(tmp_path, models.ROWS)}, options=Options(threads=1, workers=1))
    app = make_app(service)
    statuses: dict[int, int] = {}

    async def ask_all() -> None:
        async with app.router.lifespan_context(app):
            while not service.ready:
                await asyncio.sleep(0.01)
            for _ in range(REQUESTS):
                body = random_body(dice)
                path = dice.choice([INFER, INFER, INFER, "/v2/repository/index", "/v2/models/rows/versions/1/infer"])
                length = dice.choice(
                    [None, None, str(dice.randrange(300)), str(len(body) - 12), "".join(map(chr, dice.randbytes(3)))]
                )
                headers = [] if length is None else [(b"inference-header-content-length", length.encode("latin-1"))]
                status, content = await answer_of(app, path, body, headers)
                statuses[status] = statuses.get(status, 0) + 1
                assert status < 500 or status == 503, (status, path, headers, body, content)
                assert status == 200 or list(json.loads(content)) == ["error"]

    asyncio.run(ask_all())
    assert statuses[400] > REQUESTS / 3
    assert statuses[200] > REQUESTS / 50  # some of the changes change nothing
