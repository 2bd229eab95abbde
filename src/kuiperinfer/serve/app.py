"""The routes of the server: the Open Inference Protocol, its repository extension, metrics, and the page."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import KuiperError
from ..version import __version__
from .guard import SECURITY_HEADERS, Guard, refusal_answer
from .inference import HEADER_LENGTH, InferenceRequest, encode_answer, flag, parse_json, parse_request
from .metrics import CONTENT_TYPE
from .page import page_routes
from .refusals import Refusal, bad_request, status_of
from .scheduler import Outputs
from .served_model import ServedModel
from .service import Service

log = logging.getLogger(__name__)

_INLINE_BYTES = 64 << 10  # of JSON that is read in the event loop; what takes longer is read in a thread


def make_app(service: Service) -> Starlette:
    """The ASGI application: loads the models when it is started, and answers what waits when it ends."""
    protocol = Protocol(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loading = asyncio.ensure_future(service.start())
        try:
            yield
        finally:
            loading.cancel()
            service.close()

    app = Starlette(
        routes=[*protocol.routes(), *page_routes(service)],
        middleware=[Middleware(Guard, service=service)],
        exception_handlers={KuiperError: _on_error, HTTPException: _on_http_error, Exception: _on_mistake},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


def json_response(content: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(orjson.dumps(content), status, media_type="application/json")


async def _on_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, KuiperError)
    refusal = error if isinstance(error, Refusal) else Refusal(status_of(error), str(error))
    status, headers, body = refusal_answer(refusal)
    return Response(body, status, headers)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {404: "there is nothing at this address", 405: f"{request.method} is not for this address"}
    status, headers, body = refusal_answer(Refusal(error.status_code, message.get(error.status_code, error.detail)))
    return Response(body, status, {**headers, **(error.headers or {})})


async def _on_mistake(_: Request, error: Exception) -> Response:
    """An error of our own: the log has it, the client does not. It comes from outside of the guard."""
    status, headers, body = refusal_answer(Refusal(500, "internal error; the server's log says more"))
    return Response(body, status, {**SECURITY_HEADERS, **headers})


class Protocol:
    """The protocol's endpoints over a service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def routes(self) -> list[Route]:
        """All endpoints of the protocol, and /metrics."""

        def route(path: str, endpoint: Callable[..., Any], method: str = "GET") -> Route:
            return Route(path, endpoint, methods=[method])

        models = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
        return [  # in this order they are looked at: what is asked most comes first
            *(route(f"{model}/infer", self.infer, "POST") for model in models),
            *(route(f"{model}/ready", self.model_ready) for model in models),
            *(route(model, self.model_metadata) for model in models),
            route("/v2/health/live", self.live),
            route("/v2/health/ready", self.ready),
            route("/v2", self.server_metadata),
            route("/v2/models", self.models),
            route("/v2/repository/index", self.repository_index, "POST"),
            route("/v2/repository/models/{name}/load", self.load, "POST"),
            route("/v2/repository/models/{name}/unload", self.unload, "POST"),
            route("/metrics", self.metrics),
        ]

    # ------------------------------------------------------------------------------------------- the server

    async def live(self, _: Request) -> Response:
        """Whether the process answers; no model has a say in this."""
        return json_response({"live": True})

    async def ready(self, _: Request) -> Response:
        """Whether all models are loaded and warm, and the server is not about to end."""
        return json_response({"ready": self.service.ready}, 200 if self.service.ready else 503)

    async def server_metadata(self, _: Request) -> Response:
        """Name, version and extensions."""
        extensions = ["binary_tensor_data", "model_repository"]
        return json_response({"name": "kuiperinfer", "version": __version__, "extensions": extensions})

    async def models(self, _: Request) -> Response:
        """The names of the loaded models, as KServe has it."""
        return json_response({"models": self.service.catalogue.names()})

    async def metrics(self, _: Request) -> Response:
        """The metrics, for Prometheus."""
        return Response(self.service.metrics.text(), headers={"content-type": CONTENT_TYPE})

    # ------------------------------------------------------------------------------------------- one model

    def _model(self, request: Request) -> ServedModel:
        return self.service.catalogue.get(request.path_params["name"], request.path_params.get("version"))

    async def model_metadata(self, request: Request) -> Response:
        """Inputs and outputs."""
        model = self._model(request)
        return json_response(model.metadata(self.service.catalogue.versions(model.name)))

    async def model_ready(self, request: Request) -> Response:
        """Whether a model is loaded and warm: it is not here before."""
        model = self._model(request)
        return json_response({"name": model.name, "ready": True})

    async def infer(self, request: Request) -> Response:
        """Runs a model."""
        start = time.monotonic()
        model = self._model(request)
        status = 500
        try:
            async with self.service.bodies.read(request) as body:
                length = request.headers.get(HEADER_LENGTH)
                asked = await self._parse(body, length, model)
                outputs = await unless_gone(request, self.service.run(model, asked.inputs, asked.seconds))
                response = self._answer(asked, model, outputs)
            status = response.status_code
        except KuiperError as error:
            status = status_of(error)
            raise
        finally:
            self.service.metrics.request(model.name, model.version, status, time.monotonic() - start)
        return response

    async def _parse(self, body: bytes, length: str | None, model: ServedModel) -> InferenceRequest:
        json_bytes = int(length) if length and len(length) < 20 and length.isascii() and length.isdigit() else len(body)
        arguments = (body, length, model, self.service.options.limits)
        if json_bytes <= _INLINE_BYTES:
            return parse_request(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self.service.parser, parse_request, *arguments)

    def _answer(self, asked: InferenceRequest, model: ServedModel, outputs: Outputs) -> Response:
        body, json_bytes = encode_answer(asked, model, outputs, self.service.options.limits)
        if json_bytes is None:
            return Response(body, media_type="application/json")
        return Response(body, headers={HEADER_LENGTH: str(json_bytes), "content-type": "application/octet-stream"})

    # ------------------------------------------------------------------------------------------- the repository

    async def repository_index(self, request: Request) -> Response:
        """All models that are here or could be loaded."""
        content = await self._content(request, ("ready",))
        return json_response(await self.service.catalogue.index(only_ready=flag(content, "ready", False)))

    async def load(self, request: Request) -> Response:
        """Loads a model of those that are known, or loads it anew."""
        await self._content(request, ())
        await self.service.catalogue.load(request.path_params["name"])
        return json_response({})

    async def unload(self, request: Request) -> Response:
        """Takes a model away."""
        await self._content(request, ("unload_dependents",))
        name = request.path_params["name"]
        self.service.catalogue.get(name)
        await self.service.unload(name)
        return json_response({})

    async def _content(self, request: Request, known: tuple[str, ...]) -> dict[str, Any]:
        """The JSON object in a request's body, and its parameters; empty where there is no body."""
        async with self.service.bodies.read(request) as body:
            if len(body) > _INLINE_BYTES:
                raise Refusal(413, f"expected at most {_INLINE_BYTES:,} bytes")
            content = parse_json(memoryview(body)) if body else {}
        parameters = content.get("parameters", {})
        if not isinstance(parameters, dict):
            raise bad_request("parameters: expected a JSON object")
        if unknown := [key for key in parameters if key not in known]:
            raise bad_request(f"parameter '{unknown[0][:80]}' is not supported: models lie in the server's own folder")
        return content


async def unless_gone(request: Request, running: Any) -> Any:
    """Waits for a coroutine, and cancels it once the client has gone."""
    task, gone = asyncio.ensure_future(running), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Refusal(499, "the client has gone")
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


__all__ = ["make_app", "json_response"]
