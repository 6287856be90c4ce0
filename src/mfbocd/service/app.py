"""The web application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, PlainTextResponse

from .. import __version__
from . import routes
from .auth import PUBLIC, AccessControl, required_scope
from .errors import RequestError, UnavailableError, not_found
from .limits import BodyLimit
from .responses import ERROR_RESPONSES, add_error_handlers, respond, service_of
from .service import Service
from .settings import Settings
from .store.base import Store
from .telemetry import Telemetry
from .ticks import TickRequests
from .tracing import Tracing
from .warming import Warmer
from .webhook import Webhook

PAGE = Path(__file__).parent / "page"
MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

FIRST_CHECK = 5.0
"""Seconds to wait for the first check of the store before requests are accepted."""

router = APIRouter()


@router.head("/healthz", include_in_schema=False)  # some uptime monitors send HEAD
@router.get("/healthz", responses={503: ERROR_RESPONSES[503]})
async def health(request: Request) -> Response:
    """Whether the store can be used, and the state of components such as the MQTT bridge."""
    service = service_of(request)
    if problem := await service.problem():
        raise UnavailableError(problem)
    components = {name: problem or "ok" for name, problem in service.components.items()}
    status = "degraded" if any(service.components.values()) else "ok"
    return respond({"status": status, "version": __version__, **components})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", responses={503: ERROR_RESPONSES[503]})
async def ready(request: Request) -> Response:
    """Whether requests should be sent here: kernels are loaded, the store has answered, and it is not stopping."""
    if not_ready := service_of(request).not_ready():
        raise RequestError(503, not_ready)
    return respond({"status": "ready"})


@router.head("/livez", include_in_schema=False)
@router.get("/livez", responses={503: ERROR_RESPONSES[503]})
async def live(request: Request) -> Response:
    """Whether the process works, whatever the store does. If not, only a restart helps."""
    if not service_of(request).writer.is_alive():
        raise RequestError(503, "a thread of the service has ended")
    return respond({"status": "alive"})


@router.get("/metrics", response_class=PlainTextResponse)
async def all_metrics(request: Request) -> Response:
    """Metrics for Prometheus. Without the store, those of this worker."""
    return PlainTextResponse(await service_of(request).metrics_text(), media_type="text/plain; version=0.0.4")


@router.head("/", include_in_schema=False)
@router.get("/", include_in_schema=False)
def page() -> Response:
    """The live page."""
    return _file(PAGE / "index.html")


@router.get("/static/plotly.min.js", include_in_schema=False)
def plotly() -> Response:
    """The plotting library, from the installed package."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise RequestError(404, "plotly is not installed: pip install 'mfbocd[serve]'")
    # several megabytes that only change with the package: browsers may cache them
    return _file(Path(found.origin).parent / "package_data" / "plotly.min.js", "private, max-age=86400")


@router.get("/static/{name}", include_in_schema=False)
def static(name: str) -> Response:
    """A file of the page."""
    return _file(PAGE / name)


def _file(path: Path, cache: str = "no-cache") -> Response:
    # the route does not match names with a slash, so that the file can only be in the folder itself
    if path.suffix not in MEDIA_TYPES or not path.is_file():
        raise not_found("file", path.name)
    return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers={"Cache-Control": cache})


def create_app(
    store: Callable[[], Store],
    settings: Settings | None = None,
    *,
    tokens: bool = False,
    component: Callable[[Service], Any] | None = None,
    warmer: Warmer | None = None,
    webhook: Webhook | None = None,
    tracing: Tracing | None = None,
) -> Any:
    """Create the application.

    Parameters
    ----------
    store : callable
        Opens the store when the application starts.
    settings : Settings, optional
    tokens : bool
        Whether clients need a token; required where other machines can reach the service.
    component : callable, optional
        Takes the service and returns an asynchronous context manager that is active while the service runs, such as
        the MQTT bridge.
    warmer : Warmer, optional
        For tests.
    webhook : Webhook, optional
        Receives alarms.
    tracing : Tracing, optional
        Traces requests; closed with the application.
    """
    settings = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = Service(await asyncio.to_thread(store), settings, warmer, webhook, tracing)
        app.state.service = service
        try:
            # until tokens are known, requests that need one are refused with 503
            await asyncio.to_thread(service.monitor.checked.wait, FIRST_CHECK)
            if component is None:
                yield
            else:
                async with component(service):
                    yield
        finally:
            await service.shut_down()

    app = FastAPI(
        title="mfbocd",
        version=__version__,
        description="Which sensor is worth reading next, and did something change? Many streams, one budget.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.limits = settings.limits
    app.openapi = partial(_openapi, app, tokens)  # type: ignore[method-assign]
    app.include_router(routes.router)
    app.include_router(router)
    add_error_handlers(app)
    app.add_middleware(TickRequests)
    app.add_middleware(BodyLimit, limits=settings.limits)
    needs = partial(required_scope, [*routes.router.routes, *router.routes], routes.READ_ONLY)
    app.add_middleware(AccessControl, limits=settings.limits, required=tokens, needs=needs)
    app.add_middleware(Telemetry, tracing=tracing)
    return app


def _openapi(app: FastAPI, tokens: bool) -> dict[str, Any]:
    """The description of the API, with the tokens that its requests need."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        scheme = {"type": "http", "scheme": "bearer", "description": "A token of `mfbocd token add`."}
        schema["components"]["securitySchemes"] = {"token": scheme}
        if tokens:
            schema["security"] = [{"token": []}]
            for path in PUBLIC & schema["paths"].keys():
                schema["paths"][path]["get"]["security"] = []
        app.openapi_schema = schema
    return app.openapi_schema
