"""The server's addresses. Each answers from the rows of one run. Only the forms of the inbox write, and only where the
server was told to take them.

A browser asks `/run/NAME/events` and is told the number of the run's newest fact after every commit, as data and as the
id of the event. Its script then asks the same address again and puts the new content in place. Without script every
page is whole, as of the moment at which it was asked for.
"""

import hmac
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from pace_async.errors import PaceError, UsageError
from pace_async.population.reading.browse import Page
from pace_async.population.reading.news import first_of
from pace_async.population.reading.reader import Reader
from pace_async.report.comparison import by_of as compared_by
from pace_async.report.progress_axis import by_of
from pace_async.web import candidate, candidates, comparison, lineage, machines, overview
from pace_async.web.candidates import View
from pace_async.web.guard import HEADERS, MAY_WRITE, NOT_WRITTEN, Guard
from pace_async.web.inbox import RefusedAction, Writing, inbox_of, inbox_page
from pace_async.web.runs import LOOKED_S, OpenRun
from pace_async.web.shell import address, problem

CSV_MOST = 100_000
"""Rows of one CSV."""
RETRY_MS = 1_000
"""Milliseconds after which a browser that lost its connection tries again."""
AGAIN = "X-Pace-Again"
"""Header: the seconds after which a newer answer can be had, of one that is not the newest."""
MOST_BYTES = 4 << 20
"""Of a form: a program of 262,144 characters of any kind, encoded."""
Asker = Callable[[str, int], Sequence[tuple[str, str]]]
"""Gives the prompts and answers of a candidate of a run, each text with its heading. Raises UsageError."""
Reads = Callable[[Reader], tuple[Any, ...]]
_DRAWN: Mapping[str, tuple[Reads, Callable[..., str]]] = {
    "": (overview.facts_of, overview.run_page),
    "/tree": (overview.facts_of, lineage.tree_page),
    "/islands": (overview.with_actions, overview.islands_page),
    "/metrics": (overview.with_measured, overview.metrics_page),
    "/machines": (overview.with_attempts, machines.machines_page),
    "/spend": (overview.spending_of, overview.spend_page),
}
"""The pages of a run by the end of their address: what is read for them, and who draws it."""
_ASSETS = {"style.css": "text/css", "live.js": "text/javascript", "tree.js": "text/javascript"}


class Pages:
    """The answers about `runs`, by the names that addresses have. `stopping` ends the streams of events, `asker` gives
    the prompts of a candidate, and without `writing` no form is drawn or taken."""

    def __init__(
        self, runs: Mapping[str, OpenRun], stopping: anyio.Event, asker: Asker, writing: Writing | None = None
    ) -> None:
        self._runs = runs
        self._asker = asker
        self._stopping = stopping
        self._writing = writing

    def routes(self) -> list[Route]:
        """Every address."""
        return [
            Route("/", self.index),
            Route("/compare", self.compare),
            Route("/events", self.all_events),
            Route("/assets/{name}", asset),
            *[Route(f"/run/{{run}}{path}", self._page_of(read, draw)) for path, (read, draw) in _DRAWN.items()],
            Route("/run/{run}/learner", self.learner),
            Route("/run/{run}/tree.json", self.tree),
            Route("/run/{run}/candidates", self.candidates),
            Route("/run/{run}/candidates.csv", self.candidates_csv),
            Route("/run/{run}/candidate/{number:int}", self.candidate),
            Route("/run/{run}/candidate/{number:int}/prompts", self.prompts),
            Route("/run/{run}/inbox", self.inbox),
            *([Route("/run/{run}/inbox", partial(self.put, self._writing), methods=["POST"])] if self._writing else []),
            Route("/run/{run}/events", self.events),
        ]

    def index(self, _request: Request) -> Response:
        """The list of all runs."""
        return HTMLResponse(overview.runs_page(self._runs))

    def compare(self, request: Request) -> Response:
        """Runs side by side."""
        names, by = request.query_params.getlist("run"), compared_by(request.query_params.get("by"))
        return HTMLResponse(comparison.comparison_page(self._runs, names, by))

    def tree(self, request: Request) -> Response:
        """The tree's nodes as JSON."""
        level = lineage.level_of(request.query_params)
        answer = self._run(request).drawn(level, overview.facts_of, lambda read: _json(lineage.tree_of(read[0], level)))
        return Response(answer.value, media_type="application/json", headers=_again(answer.again))

    def learner(self, request: Request) -> Response:
        """What the learner did, over the axis that the address names."""
        run, name = self._run(request), request.path_params["run"]
        by = by_of(request.query_params.get("by", ""))
        answer = run.drawn(("learner", by), overview.learning_of, lambda read: overview.learner_page(name, read[0], by))
        return HTMLResponse(answer.value, headers=_again(answer.again))

    def candidates(self, request: Request) -> Response:
        """A page of the table."""
        view = candidates.view_of(request.query_params)
        page, refused = self._browsed(request, view, view.first, candidates.ON_A_PAGE)
        name = request.path_params["run"]
        return HTMLResponse(candidates.candidates_page(name, view, page, refused), 400 if refused else 200)

    def candidates_csv(self, request: Request) -> Response:
        """The table's rows, CSV_MOST at most."""
        view = candidates.view_of(request.query_params)
        page, refused = self._browsed(request, view, 0, CSV_MOST)
        if refused:
            return HTMLResponse(problem(candidates.refusal(refused)), 400)
        name = {"Content-Disposition": 'attachment; filename="candidates.csv"'}
        return Response(candidates.as_csv(view, page), media_type="text/csv", headers=name)

    def candidate(self, request: Request) -> Response:
        """One candidate."""
        run, name = self._run(request), request.path_params["run"]
        with run.reader.at_one_moment() as reader:
            row = reader.show(request.path_params["number"])
            parent = None if row["parent"] is None else reader.show(row["parent"])
            best = _best(reader)
        return HTMLResponse(candidate.candidate_page(name, row, parent, best))

    def prompts(self, request: Request) -> Response:
        """What the models were asked for one candidate."""
        self._run(request)
        name, number = request.path_params["run"], request.path_params["number"]
        return HTMLResponse(candidate.prompts_page(name, number, self._asker(name, number)))

    def inbox(self, request: Request, refused: RefusedAction | None = None) -> Response:
        """What people put into a run, with the forms for those who may."""
        name, writing = request.path_params["run"], self._writing if request.scope[MAY_WRITE] else None
        with self._run(request).reader.at_one_moment() as reader:
            read = inbox_of(reader)
        page = inbox_page(name, read, writing, done="done" in request.query_params, refused=refused)
        # With a stricter policy a browser would not say of a form which page it is from.
        policy = {"Referrer-Policy": "same-origin"} if writing else {}
        return HTMLResponse(page, 400 if refused else 200, policy)

    async def put(self, writing: Writing, request: Request) -> Response:
        """Do what a form says, once, and lead to the page, or show the form again with the reason why it was not done.
        Every action blocks: it is done in a thread."""
        self._run(request)
        name, form = request.path_params["run"], await _form_of(request)
        if form is None:
            message = f"A form may have {MOST_BYTES >> 20} MiB. `pace candidate add` takes larger programs."
            return HTMLResponse(problem(message), 413)
        action = writing.actions.get(form.get("action", ""))
        if action is None or not hmac.compare_digest(form.get("form", "").encode(), writing.form.encode()):
            return HTMLResponse(problem(NOT_WRITTEN), 403)

        def done() -> Response:
            typed = {key: form.get(key, "") for key in action.fields}
            try:
                action.do(writing.runs[name], action.checked(typed))
            except PaceError as error:
                return self.inbox(request, RefusedAction(form["action"], typed, str(error)))
            return RedirectResponse(f"{address(name, 'inbox')}?done", 303)

        return await anyio.to_thread.run_sync(done)

    async def events(self, request: Request) -> Response:
        """The run's newest fact, after every commit."""
        return self._event_stream(request, [self._run(request)])

    async def all_events(self, request: Request) -> Response:
        """The newest fact of every run, after a commit of any."""
        return self._event_stream(request, list(self._runs.values()))

    def _event_stream(self, request: Request, runs: Sequence[OpenRun]) -> Response:
        """A stream of moments, until the browser goes or the server ends. It begins with the present one, unless the
        browser was told of that before it lost its connection."""

        async def told() -> AsyncGenerator[str]:
            last = request.headers.get("Last-Event-ID")
            yield f"retry: {RETRY_MS}\n\n"
            while not self._stopping.is_set():
                marks = await anyio.to_thread.run_sync(lambda: [run.reader.mark() for run in runs])
                await anyio.sleep(LOOKED_S)  # no moment is then older than the marks
                moment = await anyio.to_thread.run_sync(lambda: " ".join(run.moment() for run in runs))
                if moment != last:
                    yield f"id: {moment}\ndata: {moment}\n\n"
                last = moment
                news = [partial(run.reader.news, mark) for run, mark in zip(runs, marks, strict=True)]
                await first_of(self._stopping.wait, *news)

        return StreamingResponse(told(), media_type="text/event-stream")

    def _page_of(self, read: Reads, draw: Callable[..., str]) -> Callable[[Request], Response]:
        def page(request: Request) -> Response:
            run, name = self._run(request), request.path_params["run"]
            answer = run.drawn(draw, read, lambda value: draw(name, *value))
            return HTMLResponse(answer.value, headers=_again(answer.again))

        return page

    def _browsed(self, request: Request, view: View, first: int, most: int) -> tuple[Page, str]:
        reader = self._run(request).reader
        try:
            return reader.browse(view.chosen, first, most), ""
        except UsageError as error:
            return Page((), 0), str(error)

    def _run(self, request: Request) -> OpenRun:
        name = request.path_params["run"]
        if name not in self._runs:
            raise UsageError(f"This server shows no run {name!r}.")
        return self._runs[name]


async def _form_of(request: Request) -> dict[str, str] | None:
    """The fields of a form, with line ends as in files. None if it is too long: then most of it is read all the same,
    because a browser shows no answer before it has sent all."""
    body, left = bytearray(), 16 * MOST_BYTES
    try:
        async for chunk in request.stream():
            left -= len(chunk)
            if left < 0:
                return None
            body += chunk[: max(0, MOST_BYTES + 1 - len(body))]
    except ClientDisconnect:
        return None
    if len(body) > MOST_BYTES:
        return None
    try:
        pairs = parse_qsl(body.decode(errors="replace"), keep_blank_values=True, errors="replace", max_num_fields=100)
    except ValueError:
        return {}
    return {key: value.replace("\r\n", "\n").replace("\r", "\n") for key, value in pairs}


def asset(request: Request) -> Response:
    """A file that belongs to the pages."""
    name = request.path_params["name"]
    if name not in _ASSETS:
        return HTMLResponse(problem("There is no such page."), 404)
    text = files("pace_async.web").joinpath(name).read_text(encoding="utf-8")
    if name == "style.css":
        text = files("pace_async.report").joinpath(name).read_text(encoding="utf-8") + text
    return Response(text, media_type=_ASSETS[name])


def without_prompts(_run: str, _candidate: int) -> Sequence[tuple[str, str]]:
    """An Asker for runs whose prompts cannot be read."""
    raise UsageError("The prompts of this run cannot be read here.")


def application(
    runs: Mapping[str, OpenRun],
    *,
    token: str | None,
    hosts: frozenset[str],
    stopping: anyio.Event,
    asker: Asker = without_prompts,
    writing: Writing | None = None,
) -> Starlette:
    """The server for these runs. See `Guard` for `token` and `hosts`."""
    guard = Middleware(Guard, token=token, hosts=hosts, writing=writing and writing.token)

    def refused(_request: Request, error: Exception) -> Response:
        return HTMLResponse(problem(str(error)), 404)

    def broken(_request: Request, error: Exception) -> Response:
        message = f"This page cannot be made of the run's rows ({type(error).__name__}). `pace db check` looks at them."
        return HTMLResponse(problem(message), 500, headers=HEADERS)  # no middleware sees this answer

    def unknown(_request: Request, _error: Exception) -> Response:
        return HTMLResponse(problem("There is no such page."), 404)

    return Starlette(
        routes=Pages(runs, stopping, asker, writing).routes(),
        middleware=[guard, Middleware(GZipMiddleware, compresslevel=1)],
        exception_handlers={UsageError: refused, 404: unknown, 500: broken},
    )


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _again(seconds: float | None) -> dict[str, str]:
    return {} if seconds is None else {AGAIN: f"{seconds:.2f}"}


def _best(reader: Reader) -> dict[str, Any] | None:
    try:
        return reader.best()
    except UsageError:
        return None
