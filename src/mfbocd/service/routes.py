"""Streams over HTTP: make, ask, tell, read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from . import events, manage, trace
from . import schemas as bodies
from .auth import CLIENT
from .engine import Answer, Ask, Observe
from .errors import DamagedError, OwnedElsewhere, RequestError, absent
from .forward import by_owner, results_of
from .records import StreamRow, encoded, text
from .responses import REFUSALS, answer, service_of, written
from .service import Service

router = APIRouter(responses=REFUSALS)

After = Annotated[int, Query(ge=-1, lt=2**53, description="Only what is later than this.")]
Offset = Annotated[int, Query(ge=0, lt=2**53)]
Search = Annotated[str, Query(max_length=200, pattern=bodies.PLAIN, description="Part of a name or an id.")]


@router.post("/streams", status_code=201, response_model=bodies.FullStream)
async def new_stream(request: Request, body: bodies.NewStream) -> Response:
    """Make a stream."""
    service = service_of(request)
    settings = service.settings
    config = body.config if body.config is not None or body.group is not None else settings.config
    if config is not None:
        await _rehearsed(service, config)
    made = await service.alone(
        partial(
            manage.add_stream,
            service.engine,
            stream=body.id,
            name=body.name or body.id or "stream",
            config=config,
            group=body.group,
            observers=body.observers,
            known=settings.observers,
            most=settings.limits.streams,
        )
    )
    return answer(made, 201, {"Location": f"/streams/{made['id']}"})


async def _rehearsed(service: Service, config: dict[str, Any]) -> None:
    """Refuse a config that costs too much or does not work; its kernels are ready then, and no other waited."""
    manage.affordable(config, service.settings.limits)
    await service.warm(config)
    await asyncio.to_thread(manage.rehearsed, config)


@router.get("/streams", response_model=bodies.Streams)
async def all_streams(
    request: Request,
    search: Search = "",
    sort: Literal["alarm", "name", "updated", "spent", "created"] = "created",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Offset = 0,
    group: bodies.Id | None = None,
) -> Response:
    """Some streams; sorted by `alarm`, those with the latest alarms come first."""
    service = service_of(request)
    rows, total = await service.read(service.store.streams, search, sort, limit, offset, group)
    return answer({"streams": [row.summary() for row in rows], "total": total})


@router.get("/streams/{stream}", response_model=bodies.FullStream)
async def one_stream(request: Request, stream: bodies.Id) -> Response:
    """A stream with its config."""
    row = await _stored(service_of(request), stream)
    return answer(row.full())


async def _stored(service: Service, stream: str) -> StreamRow:
    row = await service.read(service.store.stream, stream)
    if row is None:
        raise absent("stream", stream)
    return row


@router.delete("/streams/{stream}", status_code=204)
async def no_stream(request: Request, stream: bodies.Id) -> Response:
    """Delete a stream and its steps."""
    service = service_of(request)
    await service.alone(partial(manage.remove_stream, service.engine, stream))
    return Response(status_code=204)


@router.post("/streams/{stream}/choose", response_model=bodies.Choice)
async def choose(request: Request, stream: bodies.Id) -> Response:
    """What to read at the coming tick. Asking changes nothing: the answer stays the same until it is observed."""
    return written(await service_of(request).one(Ask(stream)))


@router.post("/streams/{stream}/observe", response_model=bodies.Step)
async def observe(request: Request, stream: bodies.Id, body: bodies.Observation) -> Response:
    """Tell what was read. Telling the same again is harmless: the answer is the same step."""
    return written(await service_of(request).one(Observe(stream, body.tick, body.fidelity, body.x)))


@router.post("/streams/{stream}/step", response_model=bodies.Step, responses={502: {"model": bodies.Failure}})
async def step(request: Request, stream: bodies.Id, body: bodies.Raw) -> Response:
    """Choose, and have the operator's observer of that fidelity read `raw`; with `tick` a repeat is harmless."""
    service = service_of(request)
    row = await _stored(service, stream)
    choice = json.loads(await service.one(Ask(stream)))
    tick, fidelity = choice["tick"], choice["fidelity"]
    if body.tick is not None and body.tick != tick:
        found = await service.read(service.store.event, stream, body.tick) if body.tick < tick else None
        if found is None:
            expected = {"tick": tick, "fidelity": fidelity}
            raise RequestError(409, f"tick {body.tick} is not the coming one, which is {tick}", expected)
        return written(found.step)
    x = await asyncio.to_thread(
        _observed, service, json.loads(row.observers), json.loads(row.config), fidelity, body.raw
    )
    return written(await service.one(Observe(stream, tick, fidelity, x)))


def _observed(service: Service, named: dict[str, str], config: dict[str, Any], fidelity: str, raw: Any) -> Any:
    name = named.get(fidelity)
    if name is None:
        if any(f["name"] == fidelity and f["zeta"] == 0 for f in config.get("fidelity", [])):
            return None
        raise RequestError(
            422, f"fidelity {fidelity!r} has no observer: use choose and observe", {"observers": named}
        )
    observer = service.settings.observers.get(name)
    if observer is None:
        raise RequestError(503, f"the operator has no observer {name!r} any more")
    try:
        x = observer(raw)
    except Exception as error:
        raise RequestError(502, f"observer {name!r} failed: {type(error).__name__}") from error
    return x.tolist() if hasattr(x, "tolist") else x


@router.post("/choose", response_model=bodies.Results)
async def choose_many(request: Request, body: bodies.Choices) -> Response:
    """What to read next, of many streams."""
    service = service_of(request)
    _small(service, len(body.streams))
    answers = await service.run([Ask(stream) for stream in body.streams])
    asked = {"streams": body.streams}
    return await _results(request, body.streams, answers, asked)


@router.post("/observe", response_model=bodies.Results)
async def observe_many(request: Request, body: bodies.Observations) -> Response:
    """Tell what was read of many streams: one transaction; what is refused does not keep the others back."""
    service = service_of(request)
    _small(service, len(body.observations))
    told = [Observe(o.stream, o.tick, o.fidelity, o.x) for o in body.observations]
    answers = await service.run(told)
    asked = {"observations": [o._asdict() for o in told]}
    return await _results(request, [o.stream for o in told], answers, asked)


def _small(service: Service, count: int) -> None:
    most = service.settings.limits.batch
    if count > most:
        raise RequestError(413, f"a batch of {count}; {most} is the most", {"batch": most})


async def _results(
    request: Request, streams: Sequence[str], answers: Sequence[Answer], asked: dict[str, Any]
) -> Response:
    """One object each, in order; an id is made of characters that JSON takes as they are.

    What was `asked` of streams that another worker has is asked there.
    """
    each = [
        _refusal(s, a) if isinstance(a, RequestError) else f'{{"stream":"{s}","status":200,{a[1:]}'
        for s, a in zip(streams, answers, strict=True)
    ]
    can = service_of(request).forwarder.can
    away = [
        (place, a.worker)
        for place, a in enumerate(answers)
        if isinstance(a, OwnedElsewhere) and can(a.worker, request.headers)
    ]
    if away:
        ((key, commands),) = asked.items()

        async def there(owner: str, places: list[int]) -> None:
            for place, result in zip(
                places, await _asked(request, owner, key, [commands[place] for place in places]), strict=True
            ):
                each[place] = text({"stream": streams[place]} | result)

        await asyncio.gather(*(there(owner, places) for owner, places in by_owner(away).items()))
    return written(f'{{"results":[{",".join(each)}]}}')


async def _asked(request: Request, owner: str, key: str, commands: list[Any]) -> list[dict[str, Any]]:
    """What another worker answers to a part of a batch; why it does not is said of each command."""
    try:
        status, _, body = await service_of(request).forwarder.send(
            owner, "POST", request.url.path, request.headers, encoded({key: commands})
        )
        if status == 200:
            return results_of(body, len(commands))
        refused = RequestError(status, f"worker {owner} refused: {body[:300].decode('utf-8', 'replace')}")
    except RequestError as error:
        refused = error
    except (ValueError, KeyError, TypeError):
        refused = RequestError(502, f"worker {owner} answered what is no answer")
    return [{"status": refused.status, **refused.body()} for _ in commands]


def _refusal(stream: str, refused: RequestError) -> str:
    if refused.status == 503 and not isinstance(refused, OwnedElsewhere):
        raise refused
    return text({"stream": stream, "status": refused.status, **refused.body()})


@router.get("/streams/{stream}/trace")
async def stream_trace(
    request: Request,
    stream: bodies.Id,
    format: Literal["jsonl", "csv", "parquet"] = "jsonl",
    after: After = -1,
    limit: Annotated[int, Query(ge=1, le=100_000)] = 1000,
) -> Response:
    """Steps in order. `X-Next-After`, if there are more, is the `after` of the next page."""
    service = service_of(request)
    await _stored(service, stream)
    limit = min(limit, service.settings.limits.page)
    found = await service.read(service.store.events, stream, after, limit + 1)
    page = found[:limit]
    headers = {"X-Next-After": str(page[-1].tick)} if len(found) > limit else {}
    try:
        body = await asyncio.to_thread(trace.written, page, format)
    except ImportError as error:
        raise RequestError(422, str(error), {"format": ["jsonl", "csv"]}) from None
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError("stream", stream, error) from None
    return Response(body, headers=headers, media_type=trace.MEDIA[format])


LastEventId = Annotated[str | None, Header()]


@router.get("/streams/{stream}/events", response_class=StreamingResponse)
async def stream_events(
    request: Request, stream: bodies.Id, last_event_id: LastEventId = None, after: After | None = None
) -> Response:
    """Server-sent steps of a stream: all after `Last-Event-ID` or `after`, or from now on."""
    service = service_of(request)
    row = await _stored(service, stream)
    start = row.tick - 1 if after is None else after
    return events.Watched(service, stream, events.place_of(last_event_id, start), request.scope[CLIENT])


@router.get("/events", response_class=StreamingResponse)
async def all_events(request: Request, last_event_id: LastEventId = None, after: After | None = None) -> Response:
    """Server-sent steps of all streams, with their `stream`: after `Last-Event-ID` or `after`, or from now on."""
    service = service_of(request)
    start = await service.read(service.store.end) if after is None else after
    return events.Watched(service, None, events.place_of(last_event_id, start), request.scope[CLIENT])


@router.post("/groups", status_code=201, response_model=bodies.Group)
async def new_group(request: Request, body: bodies.NewGroup) -> Response:
    """Make a group: streams of one config under one budget."""
    service = service_of(request)
    await _rehearsed(service, body.config)
    made = await service.alone(
        partial(
            manage.add_group, service.engine, group=body.id, name=body.name or body.id or "group", config=body.config
        )
    )
    return answer(made, 201, {"Location": f"/groups/{made['id']}"})


@router.get("/groups", response_model=bodies.Groups)
async def all_groups(request: Request) -> Response:
    """All groups."""
    service = service_of(request)
    rows = await service.read(service.store.groups)
    await service.warm(*{row.config for row in rows if not service.warmer.is_ready(row.config)})
    return answer({"groups": await service.read(manage.group_records, service.store, rows)})


@router.get("/groups/{group}", response_model=bodies.Group)
async def one_group(request: Request, group: bodies.Id) -> Response:
    """A group."""
    service = service_of(request)
    row = await service.read(service.store.group, group)
    if row is None:
        raise absent("group", group)
    if not service.warmer.is_ready(row.config):
        await service.warm(row.config)
    members = await service.read(service.store.members, group)
    return answer(await asyncio.to_thread(manage.shown_group, row, members))


@router.delete("/groups/{group}", status_code=204)
async def no_group(request: Request, group: bodies.Id) -> Response:
    """Delete a group that has no streams."""
    service = service_of(request)
    await service.alone(partial(manage.remove_group, service.engine, group))
    return Response(status_code=204)


READING = (choose, choose_many)
"""What is posted to and changes nothing: a token that may only read may ask it."""
