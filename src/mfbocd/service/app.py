"""The whole of it over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse

from .. import __version__
from . import metrics, routes
from .auth import Gate, scope_of
from .errors import RequestError, UnavailableError, absent
from .limits import BodyLimit
from .responses import REFUSALS, answer, answer_errors, service_of
from .service import Service
from .settings import Settings
from .store.base import Store
from .warming import Warmer

PAGE = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

FIRST = 5.0
"""Seconds to wait for the first look at the store before requests are taken."""

parts = APIRouter()


@parts.get("/healthz", responses={503: REFUSALS[503]})
async def health(request: Request) -> Response:
    """Whether the store answers, has room, and can be written, if the last write failed; and what runs beside."""
    service = service_of(request)
    if trouble := await service.trouble():
        raise UnavailableError(trouble)
    beside = {name: wrong or "ok" for name, wrong in service.parts.items()}
    status = "degraded" if any(service.parts.values()) else "ok"
    return answer({"status": status, "version": __version__, **beside})


@parts.get("/readyz", responses={503: REFUSALS[503]})
async def ready(request: Request) -> Response:
    """Whether the kernels of all stored configurations are loaded: until then the first requests may take long."""
    waiting = service_of(request).warmer.waiting
    if waiting:
        raise RequestError(503, waiting)
    return answer({"status": "ready"})


@parts.get("/metrics", response_class=PlainTextResponse)
async def all_metrics(request: Request) -> Response:
    """Counts for Prometheus."""
    service = service_of(request)
    found = metrics.written(service, await service.read(service.store.totals))
    return PlainTextResponse(found, media_type="text/plain; version=0.0.4")


@parts.get("/", include_in_schema=False)
def page() -> Response:
    """The live page."""
    return _file(PAGE / "index.html")


@parts.get("/static/plotly.min.js", include_in_schema=False)
def plotly() -> Response:
    """The plotting library, from the installed package."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise RequestError(404, "plotly is not installed: pip install 'mfbocd[serve]'")
    # megabytes that change only with the package: a phone need not fetch them at every visit
    return _file(Path(found.origin).parent / "package_data" / "plotly.min.js", "private, max-age=86400")


@parts.get("/static/{name}", include_in_schema=False)
def static(name: str) -> Response:
    """A part of the page."""
    return _file(PAGE / name)


def _file(path: Path, cache: str = "no-cache") -> Response:
    # a name with a slash is no part of a route, so that it can only be in the folder itself
    if path.suffix not in KINDS or not path.is_file():
        raise absent("file", path.name)
    return FileResponse(path, media_type=KINDS[path.suffix], headers={"Cache-Control": cache})


def create_app(
    store: Callable[[], Store],
    settings: Settings | None = None,
    *,
    tokens: bool = False,
    beside: Callable[[Service], Any] | None = None,
    warmer: Warmer | None = None,
) -> Any:
    """The application; `tokens` are required where others than this machine can reach it.

    `store` is called when the service begins; `beside` gives what else runs as long as it does, an async context.
    """
    settings = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = Service(await asyncio.to_thread(store), settings, warmer)
        app.state.service = service
        try:
            # requests that need a token are refused with 503 until tokens are known
            await asyncio.to_thread(service.pulse.looked.wait, FIRST)
            if beside is None:
                yield
            else:
                async with beside(service):
                    yield
        finally:
            await service.end()

    app = FastAPI(
        title="mfbocd",
        version=__version__,
        description="Which sensor is worth reading next, and did something change? Many streams, one budget.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.limits = settings.limits
    app.include_router(routes.router)
    app.include_router(parts)
    answer_errors(app)
    app.add_middleware(BodyLimit, limits=settings.limits)
    needs = partial(scope_of, [*routes.router.routes, *parts.routes], routes.READING)
    app.add_middleware(Gate, limits=settings.limits, required=tokens, needs=needs)
    return app
