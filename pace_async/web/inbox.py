"""The page of what people put into a run, with a form for each action where the server was told to take some. Pure.

Invariant: nothing is written here. An action only inserts into the inbox, as the command of the same name does.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from pace_async.configure import flat
from pace_async.errors import UsageError
from pace_async.population.reading.inbox import InboxItem, UntriedIdea, latest_untried, put_in
from pace_async.population.reading.load import GOES_ON, state_of_run
from pace_async.population.reading.reader import Reader
from pace_async.report.markup import Content, Markup, join, tag, typed_text
from pace_async.report.parts import scrolling, table
from pace_async.web.candidates import moment
from pace_async.web.shell import address, document

PAGE = "inbox"
SHOWN = 200
"""Entries that are shown, the newest."""
UNTRIED = 30
"""Untried ideas of the advisor that are shown, the newest."""
SAID = {"pin": "pinned", "veto": "ruled out", "ban": "banned", "": "the word taken back"}
"""What a word about something is called."""


@dataclass(frozen=True, slots=True)
class Field:
    """One input: a line, a text where it has `rows`, or one of `choices` (what is sent, and what is shown)."""

    label: str
    rows: int = 0
    choices: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """What a person may do. `do` gets the run as commands name it and the value of each field, and raises PaceError."""

    heading: str
    hint: str
    button: str
    fields: Mapping[str, Field]
    do: Callable[[str, Mapping[str, str]], object]

    def checked(self, typed: Mapping[str, str]) -> Mapping[str, str]:
        """What was typed. Raises UsageError for an empty field, and for what is no choice."""
        for name, definition in self.fields.items():
            if not (
                typed[name] in definition.choices if definition.choices else definition.optional or typed[name].strip()
            ):
                raise UsageError(f"{definition.label}: this is empty.")
        return typed


@dataclass(frozen=True, slots=True)
class Writing:
    """What `pace web --write` lets in: the actions by name, for the bearer of `token`. `runs` names each run as
    commands do."""

    token: str = field(repr=False)
    actions: Mapping[str, Action]
    runs: Mapping[str, str]

    @property
    def form(self) -> str:
        """What each form carries, so that no other page can make one. It does not tell the token."""
        return hmac.new(self.token.encode(), b"form", hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class RefusedAction:
    """An action that was not done: what was typed, and the sentence that says why."""

    action: str
    typed: Mapping[str, str]
    sentence: str


@dataclass(frozen=True, slots=True)
class Inbox:
    """What the page shows. `when` says when the run takes in what waits."""

    when: str
    entries: Sequence[InboxItem]
    untried: Sequence[UntriedIdea]


def inbox_of(reader: Reader) -> Inbox:
    """What was put into the run, the newest first, and what a person may say something about."""
    goes_on = reader.ask(state_of_run)[0] in GOES_ON
    words = flat(reader.header().config).get("search.memory") in ("run", "island")
    when = "with its next candidate" if goes_on and words else "when it is resumed"
    no_words = "" if words else " Its advisor reads no words, so it takes programs, and words about candidates, only."
    return Inbox(
        f"The run takes in what waits {when}.{no_words}",
        reader.ask(put_in, SHOWN),
        reader.ask(latest_untried, UNTRIED) if words else (),
    )


def inbox_page(
    name: str, inbox: Inbox, writing: Writing | None, *, done: bool = False, refused: RefusedAction | None = None
) -> str:
    """`writing` is None for somebody who may only read. The page always has the same number of parts, so that the forms
    stay where they are when the rest is renewed."""
    notice = tag("p", "It is in the inbox, as the first row below.", role="status", tabindex="-1", autofocus="")
    title = "Not taken" if refused else "Taken" if done else "inbox"
    return document(
        f"{name}: {title}",
        tag("h1", "Inbox"),
        tag("div", notice if done else None, tag("p", inbox.when, class_="sub")),
        tag("div", *([_form(name, key, writing, refused) for key in writing.actions] if writing else [])),
        tag("h2", "What people put in"),
        scrolling("Inbox", table([_entry(name, entry) for entry in inbox.entries], "Nobody has put anything in.")),
        tag("div", *_untried(name, inbox.untried)),
        run=name,
        page=PAGE,
    )


def _form(name: str, key: str, writing: Writing, refused: RefusedAction | None) -> Markup:
    action = writing.actions[key]
    mine = refused if refused is not None and refused.action == key else None
    inputs = [_input(f"{key}-{field}", field, definition, mine) for field, definition in action.fields.items()]
    return tag(
        "form",
        tag("h2", action.heading, id=key),
        tag("p", action.hint, class_="sub"),
        tag("p", mine.sentence, role="alert", class_="alert", tabindex="-1", autofocus="") if mine else None,
        tag("input", type="hidden", name="form", value=writing.form),
        tag("input", type="hidden", name="action", value=key),
        *inputs,
        tag("button", action.button, type="submit"),
        method="post",
        action=address(name, PAGE),
        aria_labelledby=key,
    )


def _input(place: str, name: str, definition: Field, refused: RefusedAction | None) -> Markup:
    typed = refused.typed.get(name, "") if refused else ""
    attributes = {"id": place, "name": name}
    if definition.choices:
        options = [
            tag("option", label, value=sent, selected="" if sent == typed else None)
            for sent, label in definition.choices.items()
        ]
        written = tag("select", *options, **attributes)
    else:
        required = None if definition.optional else ""
        text = tag("textarea", typed_text(typed), rows=definition.rows, required=required, **attributes)
        written = text if definition.rows else tag("input", type="text", value=typed, required=required, **attributes)
    return join([tag("label", definition.label, for_=place), written])


def _entry(name: str, entry: InboxItem) -> Mapping[str, Content]:
    status: Content = "waits"
    if entry.lease is not None:
        status = _candidate(name, entry.lease)
    elif entry.after is not None:
        status = f"from candidate {entry.after + 1} on"
    words = SAID.get(entry.text, entry.text) if entry.says else entry.text
    return {
        "entry": entry.entry,
        "what": entry.what,
        "words": words,
        "put in (UTC)": moment(entry.at),
        "taken in": status,
    }


def _untried(name: str, ideas: Sequence[UntriedIdea]) -> list[Markup]:
    if not ideas:
        return []
    rows = [{"idea": idea.number, "words": idea.text, "of": _candidate(name, idea.lease)} for idea in ideas]
    heading = tag("h2", "Latest ideas of the advisor that no candidate has tried")
    return [heading, scrolling("Untried ideas", table(rows, ""))]


def _candidate(name: str, number: int) -> Markup:
    return tag("a", f"candidate {number}", href=address(name, candidate=number))
