"""The addresses of the page: its own files, the figures that it shows, and the pictures that it sends."""

from __future__ import annotations

import time
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...errors import KuiperError
from ...version import __version__
from ..refusals import Refusal, not_found, status_of
from ..served_model import ServedModel
from ..service import Service

if TYPE_CHECKING:
    from ..pictures import Pictures

_HERE = Path(__file__).resolve().parent
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
}


def page_routes(service: Service) -> list[Route]:
    """The routes of the page over a service."""
    files = {
        "/": _HERE / "index.html",
        **{f"/page/{name}": _HERE / name for name in ("page.css", "page.js", "icon.svg")},
    }
    if find_spec("PIL") is not None:
        from ..pictures import EXAMPLES

        files |= {f"/page/example/{job}": file for job, file in EXAMPLES.items()}
    page = _Page(service)
    return [
        *(_static_route(address, file.read_bytes(), _KINDS[file.suffix]) for address, file in files.items()),
        Route("/status", page.status, methods=["GET"]),
        Route("/pictures/{name}", page.picture, methods=["POST"]),
        Route("/pictures/{name}/versions/{version}", page.picture, methods=["POST"]),
    ]


def _static_route(address: str, content: bytes, kind: str) -> Route:
    async def answer(_: Request) -> Response:
        return Response(content, headers={"content-type": kind, "cache-control": "no-cache"})

    return Route(address, answer, methods=["GET"])


class _Page:
    def __init__(self, service: Service) -> None:
        self.service = service

    @cached_property
    def _pictures(self) -> Pictures:
        from ..pictures import Pictures

        return Pictures(self.service)

    async def status(self, _: Request) -> Response:
        """The loaded models, how fast they answered lately, and what they do with pictures."""
        models = [self._describe(model) for model in self.service.catalogue.loaded()]
        content = {
            "version": __version__,
            "ready": self.service.ready,
            "waiting": self.service.scheduler.waiting,
            "models": models,
        }
        return Response(orjson.dumps(content), media_type="application/json")

    def _describe(self, model: ServedModel) -> dict[str, object]:
        job = None
        if model.job is not None:
            from ..pictures import name_of

            job = name_of(model.job)
        latency = self.service.metrics.recent(model.name, model.version).figures()
        return {**model.metadata([model.version]), "version": model.version, "latency": latency, "job": job}

    async def picture(self, request: Request) -> Response:
        """What a model sees in the picture that is the request's body."""
        start = time.monotonic()
        model = self.service.catalogue.get(request.path_params["name"], request.path_params.get("version"))
        if model.job is None:
            raise not_found(f"model '{model.name}' is none for pictures, or Pillow is not installed here")
        status = 500
        try:
            async with self.service.bodies.read(request) as body:
                if not body:
                    raise Refusal(400, "the file is empty; expected a picture")
                found = await self._pictures.look(model.job, model, body)
            status = 200
        except KuiperError as error:
            status = status_of(error)
            raise
        finally:
            self.service.metrics.request(model.name, model.version, status, time.monotonic() - start)
        return Response(orjson.dumps(found), media_type="application/json")
