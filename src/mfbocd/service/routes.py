"""The HTTP endpoints of streams and groups."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from . import changes, events, manage, notes, schemas, trace
from .auth import CLIENT, Client
from .engine import ChooseCommand, ObserveCommand, Result
from .errors import DamagedError, OwnedElsewhere, RequestError, not_found
from .forward import Forwarder, batch_results, by_owner
from .records import Event, StreamRow, json_bytes, json_text
from .responses import ERROR_RESPONSES, respond, respond_json, service_of
from .service import Service
from .store.base import Store
from .store.notes import last_change, notes_of

router = APIRouter(responses=ERROR_RESPONSES)

After = Annotated[int, Query(ge=-1, lt=2**53, description="Only steps after this.")]
Offset = Annotated[int, Query(ge=0, lt=2**53)]
Search = Annotated[str, Query(max_length=200, pattern=schemas.PLAIN, description="Part of a name or an id.")]


@router.post("/streams", status_code=201, response_model=schemas.FullStream)
async def new_stream(request: Request, body: schemas.NewStream) -> Response:
    """Create a stream."""
    service = service_of(request)
    settings = service.settings
    config = body.config if body.config is not None or body.group is not None else settings.config
    if config is not None:
        await _check_config(request, config)
    created = await service.run_exclusive(
        partial(
            manage.add_stream,
            service.engine,
            stream=body.id,
            name=body.name or body.id or "stream",
            config=config,
            group=body.group,
            observers=body.observers,
            available=settings.observers,
            max_streams=settings.limits.streams,
        )
    )
    return respond(created, 201, {"Location": f"/streams/{created['id']}"})


async def _check_config(request: Request, config: dict[str, Any]) -> None:
    """Refuse a configuration that costs too much or does not work, and load its kernels.

    Nothing is computed from it here before it is accepted. If the client leaves, it is not checked any further.
    """
    service = service_of(request)
    accepted = service.check(config, request.scope[CLIENT].name)
    left = asyncio.ensure_future(_wait_until_left(request))
    try:
        await asyncio.wait((accepted, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
        accepted.cancel()
    if accepted.cancelled():
        raise RequestError(499, "the client has left")
    accepted.result()
    await service.warm(config)


async def _wait_until_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.get("/streams", response_model=schemas.Streams)
async def all_streams(
    request: Request,
    search: Search = "",
    sort: Literal["alarm", "name", "updated", "spent", "created", "tick", "mean", "state"] = "created",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Offset = 0,
    group: schemas.Id | None = None,
    reverse: bool = False,
) -> Response:
    """A page of streams; with `sort=state` those in alarm come first, with `sort=alarm` those with the latest alarms.

    `alarm`, `updated`, `spent`, `tick` and `mean` are descending, the others ascending, unless `reverse` is set.
    """

    def page(store: Store) -> bytes:
        rows, total = store.streams(search, sort, limit, offset, group, reverse=reverse)
        streams = notes.summaries(store, rows)
        return json_bytes({"streams": streams, "total": total, "noted": last_change(store)})

    service = service_of(request)
    return respond_json(await service.read_bulk(_client(request), page, service.store))


@router.get("/totals", response_model=schemas.Totals)
async def current_totals(request: Request) -> Response:
    """Sums over all streams as they are now."""
    service = service_of(request)
    return respond(await service.read_bulk(_client(request), manage.current_totals, service.store))


def _client(request: Request) -> str:
    """Who asks, for `Service.read_bulk`."""
    client: Client = request.scope[CLIENT]
    return client.name


@router.get("/recent", response_model=schemas.Recent)
async def recent_means(
    request: Request,
    stream: Annotated[list[schemas.Id], Query(min_length=1, max_length=100)],
    limit: Annotated[int, Query(ge=1, le=200)] = 60,
) -> Response:
    """The predicted means after the last steps of some streams."""
    service = service_of(request)
    return respond({"streams": await service.read_bulk(_client(request), notes.recent, service.store, stream, limit)})


@router.get("/streams/{stream}", response_model=schemas.FullStream)
async def one_stream(request: Request, stream: schemas.Id) -> Response:
    """A stream with its config."""
    service = service_of(request)
    row = await _stored_stream(service, stream)
    return respond(await service.read(notes.full_record, service.store, row))


async def _stored_stream(service: Service, stream: str) -> StreamRow:
    row = await service.read(service.store.stream, stream)
    if row is None:
        raise not_found("stream", stream)
    return row


@router.delete("/streams/{stream}", status_code=204)
async def delete_stream(request: Request, stream: schemas.Id) -> Response:
    """Delete a stream and its steps."""
    service = service_of(request)
    await service.run_exclusive(partial(manage.remove_stream, service.engine, stream))
    return Response(status_code=204)


@router.post("/streams/{stream}/choose", response_model=schemas.Choice)
async def choose(request: Request, stream: schemas.Id) -> Response:
    """The fidelity to read at the next tick. The response stays the same until the tick is observed."""
    return respond_json(await service_of(request).run_one(ChooseCommand(stream)))


@router.post("/streams/{stream}/observe", response_model=schemas.Step)
async def observe(request: Request, stream: schemas.Id, body: schemas.Observation) -> Response:
    """Report a reading. Reporting it again is harmless and returns the same step."""
    return respond_json(await service_of(request).run_one(ObserveCommand(stream, body.tick, body.fidelity, body.x)))


@router.post("/streams/{stream}/step", response_model=schemas.Step, responses={502: {"model": schemas.Failure}})
async def step(request: Request, stream: schemas.Id, body: schemas.Raw) -> Response:
    """Choose a fidelity, pass `raw` to the operator's observer of it, and observe the result.

    With `tick`, a repeated request is harmless.
    """
    service = service_of(request)
    row = await _stored_stream(service, stream)
    choice = json.loads(await service.run_one(ChooseCommand(stream)))
    tick, fidelity = choice["tick"], choice["fidelity"]
    if body.tick is not None and body.tick != tick:
        found = await service.read(service.store.event, stream, body.tick) if body.tick < tick else None
        if found is None:
            expected = {"tick": tick, "fidelity": fidelity}
            raise RequestError(409, f"tick {body.tick} is not the next tick, which is {tick}", expected)
        return respond_json(found.step)
    x = await asyncio.to_thread(
        _call_observer, service, json.loads(row.observers), json.loads(row.config), fidelity, body.raw
    )
    return respond_json(await service.run_one(ObserveCommand(stream, tick, fidelity, x)))


def _call_observer(service: Service, names: dict[str, str], config: dict[str, Any], fidelity: str, raw: Any) -> Any:
    """The reading of the operator's observer for a fidelity; None if the fidelity carries no information."""
    name = names.get(fidelity)
    if name is None:
        if any(f["name"] == fidelity and f["zeta"] == 0 for f in config.get("fidelity", [])):
            return None
        raise RequestError(
            422, f"fidelity {fidelity!r} has no observer: use choose and observe", {"observers": names}
        )
    observer = service.settings.observers.get(name)
    if observer is None:
        raise RequestError(503, f"the operator no longer has an observer {name!r}")
    try:
        x = observer(raw)
    except Exception as error:
        raise RequestError(502, f"observer {name!r} failed: {type(error).__name__}") from error
    return x.tolist() if hasattr(x, "tolist") else x


@router.post("/choose", response_model=schemas.Results)
async def choose_many(request: Request, body: schemas.Choices) -> Response:
    """The fidelities that many streams read next."""
    service = service_of(request)
    _check_batch(service, len(body.streams))
    results = await service.run([ChooseCommand(stream) for stream in body.streams])
    return await _batch_response(request, body.streams, results, {"streams": body.streams})


@router.post("/observe", response_model=schemas.Results)
async def observe_many(request: Request, body: schemas.Observations) -> Response:
    """Report readings of many streams, in one transaction. A refused reading does not affect the others."""
    service = service_of(request)
    _check_batch(service, len(body.observations))
    commands = [ObserveCommand(o.stream, o.tick, o.fidelity, o.x) for o in body.observations]
    results = await service.run(commands)
    content = {"observations": [command._asdict() for command in commands]}
    return await _batch_response(request, [command.stream for command in commands], results, content)


def _check_batch(service: Service, count: int) -> None:
    most = service.settings.limits.batch
    if count > most:
        raise RequestError(413, f"a batch of {count} commands; the limit is {most}", {"batch": most})


async def _batch_response(
    request: Request, streams: Sequence[str], results: Sequence[Result], content: dict[str, Any]
) -> Response:
    """One result per command, in order. Commands for streams of other workers are forwarded to these.

    Parameters
    ----------
    request : Request
    streams : sequence of str
        The stream of each command. An id needs no escaping in JSON.
    results : sequence of Result
    content : dict
        The body of the request: one key with the list of commands.
    """
    forwarder = service_of(request).forwarder
    encoded = [
        _error_result(stream, result, forwarder)
        if isinstance(result, RequestError)
        else f'{{"stream":"{stream}","status":200,{result[1:]}'
        for stream, result in zip(streams, results, strict=True)
    ]
    elsewhere = [
        (position, result.worker)
        for position, result in enumerate(results)
        if isinstance(result, OwnedElsewhere) and forwarder.can_forward(result.worker, request.headers)
    ]
    if elsewhere:
        ((key, commands),) = content.items()

        async def forward(owner: str, positions: list[int]) -> None:
            found = await _forwarded(request, owner, key, [commands[position] for position in positions])
            for position, result in zip(positions, found, strict=True):
                encoded[position] = json_text({"stream": streams[position]} | result)

        await asyncio.gather(*(forward(owner, positions) for owner, positions in by_owner(elsewhere).items()))
    return respond_json(f'{{"results":[{",".join(encoded)}]}}')


async def _forwarded(request: Request, owner: str, key: str, commands: list[Any]) -> list[dict[str, Any]]:
    """The results of another worker for a part of a batch; if it fails, its error for each command."""
    try:
        status, _, body = await service_of(request).forwarder.send(
            owner, "POST", request.url.path, request.headers, json_bytes({key: commands})
        )
        if status == 200:
            return batch_results(body, len(commands))
        error = RequestError(status, f"worker {owner} refused: {body[:300].decode('utf-8', 'replace')}")
    except RequestError as refused:
        error = refused
    except (ValueError, KeyError, TypeError):
        error = RequestError(502, f"worker {owner} sent an invalid response")
    return [{"status": error.status, **error.body()} for _ in commands]


def _error_result(stream: str, error: RequestError, forwarder: Forwarder) -> str:
    """The entry of a failed command. If the store is not available, the whole batch fails."""
    if isinstance(error, OwnedElsewhere):
        error = forwarder.refusal(error)
    elif error.status == 503:
        raise error
    return json_text({"stream": stream, "status": error.status, **error.body()})


@router.get(
    "/streams/{stream}/trace",
    response_class=Response,
    responses={200: {"content": {media: {"schema": {"type": "string"}} for media in trace.MEDIA.values()}}},
)
async def stream_trace(
    request: Request,
    stream: schemas.Id,
    format: Literal["jsonl", "csv", "parquet"] = "jsonl",
    after: After = -1,
    limit: Annotated[int, Query(ge=1, le=100_000)] = 1000,
) -> Response:
    """Steps in order. If there are more, the header `X-Next-After` is the `after` of the next page."""
    service = service_of(request)
    await _stored_stream(service, stream)
    limit = min(limit, service.settings.limits.page)
    found = await _events(request, stream, after, limit + 1)
    page = found[:limit]
    headers = {"X-Next-After": str(page[-1].tick)} if len(found) > limit else {}
    try:
        body = await service.read_bulk(_client(request), trace.format_steps, page, format)
    except ImportError as error:
        raise RequestError(422, str(error), {"format": ["jsonl", "csv"]}) from None
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError("stream", stream, error) from None
    return Response(body, headers=headers, media_type=trace.MEDIA[format])


async def _events(request: Request, stream: str, after: int, limit: int) -> list[Event]:
    """Events of a stream after a tick, read in parts: other readers get their turn in between."""
    service, found = service_of(request), list[Event]()
    while len(found) < limit:
        count = min(events.PAGE, limit - len(found))
        part = await service.read_bulk(_client(request), service.store.events, stream, after, count)
        found += part
        if len(part) < count:
            break
        after = part[-1].tick
    return found


@router.get("/streams/{stream}/changes", response_model=schemas.Changes)
async def stream_changes(
    request: Request, stream: schemas.Id, limit: Annotated[int, Query(ge=1, le=100_000)] = 10_000
) -> Response:
    """Changes among the last `limit` steps, with the levels before and after, from all readings so far."""
    service = service_of(request)
    row = await _stored_stream(service, stream)
    limit = min(limit, service.settings.limits.page)
    found = await _events(request, stream, max(row.tick - 1 - limit, -1), limit)
    try:
        listed = await service.read_bulk(_client(request), changes.changes_of, row.config, found)
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError("stream", stream, error) from None
    return respond({"changes": await service.read(notes.with_notes, service.store, stream, listed)})


@router.get("/streams/{stream}/notes", response_model=schemas.Notes)
async def stream_notes(request: Request, stream: schemas.Id) -> Response:
    """Acknowledgements of alarms and comments on them."""
    service = service_of(request)
    await _stored_stream(service, stream)
    return respond({"notes": [one.record() for one in await service.read(notes_of, service.store, stream)]})


@router.put(
    "/streams/{stream}/notes/{note}",
    status_code=201,
    response_model=schemas.Note,
    responses={200: {"model": schemas.Note, "description": "It was there already."}},
)
async def write_note(request: Request, stream: schemas.Id, note: schemas.Id, body: schemas.NewNote) -> Response:
    """Acknowledge an alarm or comment on it. The client chooses the id; repeating the request is harmless."""
    service, token = service_of(request), request.scope[CLIENT].token
    record, created = await service.read(notes.add_note, service.store, stream, note, body, token)
    return respond(record, 201 if created else 200)


_EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
LastEventId = Annotated[str | None, Header()]


@router.get("/streams/{stream}/events", response_class=StreamingResponse, responses=_EVENTS)
async def stream_events(
    request: Request, stream: schemas.Id, last_event_id: LastEventId = None, after: After | None = None
) -> Response:
    """Server-sent steps of a stream: those after `Last-Event-ID` or `after`; new ones by default."""
    service = service_of(request)
    row = await _stored_stream(service, stream)
    start = row.tick - 1 if after is None else after
    return events.EventStreamResponse(
        service, stream, events.start_position(last_event_id, start), request.scope[CLIENT]
    )


@router.get("/events", response_class=StreamingResponse, responses=_EVENTS)
async def all_events(request: Request, last_event_id: LastEventId = None, after: After | None = None) -> Response:
    """Server-sent steps of all streams, with their `stream`; see `/streams/{stream}/events`."""
    service = service_of(request)
    start = await service.read(service.store.last_seq) if after is None else after
    return events.EventStreamResponse(
        service, None, events.start_position(last_event_id, start), request.scope[CLIENT]
    )


@router.post("/groups", status_code=201, response_model=schemas.Group)
async def new_group(request: Request, body: schemas.NewGroup) -> Response:
    """Create a group: streams of one configuration that share a budget."""
    service = service_of(request)
    await _check_config(request, body.config)
    created = await service.run_exclusive(
        partial(
            manage.add_group, service.engine, group=body.id, name=body.name or body.id or "group", config=body.config
        )
    )
    return respond(created, 201, {"Location": f"/groups/{created['id']}"})


@router.get("/groups", response_model=schemas.Groups)
async def all_groups(request: Request) -> Response:
    """All groups."""
    service = service_of(request)
    rows = await service.read(service.store.groups)
    await service.warm(*{row.config for row in rows if not service.warmer.is_ready(row.config)})
    return respond({"groups": await service.read_bulk(_client(request), manage.group_records, service.store, rows)})


@router.get("/groups/{group}", response_model=schemas.Group)
async def one_group(request: Request, group: schemas.Id) -> Response:
    """A group."""
    service = service_of(request)
    row = await service.read(service.store.group, group)
    if row is None:
        raise not_found("group", group)
    if not service.warmer.is_ready(row.config):
        await service.warm(row.config)
    members = await service.read(service.store.group_size, group)
    return respond(await asyncio.to_thread(manage.group_record, row, members))


@router.delete("/groups/{group}", status_code=204)
async def delete_group(request: Request, group: schemas.Id) -> Response:
    """Delete a group that has no streams."""
    service = service_of(request)
    await service.run_exclusive(partial(manage.remove_group, service.engine, group))
    return Response(status_code=204)


READ_ONLY = (choose, choose_many)
"""Endpoints that change nothing although their method is POST: a token with scope `read` suffices."""
