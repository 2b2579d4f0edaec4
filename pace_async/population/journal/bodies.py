"""A fact as a row of the journal, and a row of the journal as the fact. Pure.

A body is JSON of a typed struct that is made of the fact's own class, field by field: only a long text is replaced by
what refers to it, and an advisor's call by its stored form (`stored`). A field that has its default value is left out,
so a field that is added later, with a default, reads in older bodies. A change that a default cannot express gets a new
kind, and the old one keeps its reader here.

Texts are made sound, as the tables make them (`columns`). A number that is not finite is null in a body, as in the
tables, and is read as NaN.
"""

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from pace_async.events import (
    AdvisorCall,
    CascadeStageEnded,
    Claimed,
    Evaluated,
    Fact,
    ImplementerCalled,
    ImplementerTry,
    Practised,
    ProgramGiven,
    RunHeader,
)
from pace_async.population.columns import clean_json
from pace_async.population.journal.stored import Blobs, CallBody, Lookup, Ref, call_of, text_of

LONG: dict[type, tuple[str, ...]] = {
    CascadeStageEnded: ("program",),
    Claimed: ("program",),
    Evaluated: ("program",),
    ImplementerTry: ("program", "answer"),
    Practised: ("printed",),
    ProgramGiven: ("program",),
}
"""The fields that hold long texts. So do the advisor's calls."""
REPLACED: tuple[type, ...] = (Claimed, ImplementerCalled, Practised, ProgramGiven)
"""Facts whose rows may be replaced or removed later, or do not hold them, so that their long texts are blobs. Of
ImplementerCalled this is the row of the advisor's answer."""

T = TypeVar("T")
NOTHING: Mapping[str, Any] = {}

Recorded = Fact | RunHeader
"""What has a row in the journal. The header is the first."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the journal without its number. `at` is the fact's time, and `lease` its lease, None without one.
    `blobs` are those that `body` refers to, by digest."""

    kind: str
    at: float
    lease: int | None
    body: str
    blobs: Mapping[str, bytes]


def entry_of(fact: Recorded, at: float | None = None) -> Entry:
    """The row of a fact. `at` is the time of a header, which has none itself."""
    blobs = Blobs()
    codec = _codec(type(fact))
    body = _text(codec.stored(fact, blobs))
    known: Any = fact
    when = known.at if at is None else at
    return Entry(type(fact).__name__, when, getattr(fact, "lease", None), body, blobs)


def fact_of(kind: str, body: str, content: Lookup | None, instead: Mapping[str, Any] = NOTHING) -> Recorded:
    """The fact of a row. `content` gives what a digest stands for. Without it long texts are empty and calls have no
    tokens. `instead` has values of fields in place of those of the body. Raises ValueError, in words, for a body that
    no version of pace wrote, and for content that is missing."""
    known = _KINDS.get(kind)
    if known is None:
        raise ValueError(f"no fact is called {kind!r}")
    codec = _codec(known)
    try:
        return cast("Recorded", codec.given(codec.decode(body), content, instead))
    except msgspec.MsgspecError as error:
        raise ValueError(f"the body of a {kind} does not read: {error}") from None
    except KeyError as error:
        raise ValueError(f"a {kind} refers to a text or tokens that stand in no row (digest {error.args[0]})") from None


def body_of(value: object) -> str:
    """A fact, or a value that facts hold, as in a body of the journal. Its long texts stand where those of its fact
    stand."""
    return _text(_codec(type(value)).stored(value, Blobs()))


def value_of(cls: type[T], body: str, content: Lookup | None, instead: Mapping[str, Any] = NOTHING) -> T:
    """The value that `body_of` was given. Raises ValueError and KeyError as `fact_of` does in words."""
    codec = _codec(cls)
    return codec.given(codec.decode(body), content, instead)


_Part = Callable[[Any, Any], Any]
"""From a value and the blobs, or what looks them up, to the value's other form."""


class _Codec:
    """The stored form of one class of values, and the way there and back."""

    def __init__(self, cls: type) -> None:
        hints = get_type_hints(cls)
        self._cls = cls
        self._names = tuple(field.name for field in fields(cast("Any", cls)))
        keep = cls in REPLACED
        parts = {name: _part(hints[name], long=name in LONG.get(cls, ()), keep=keep) for name in self._names}
        self._there: dict[str, _Part] = {name: part.there for name, part in parts.items() if part.there is not None}
        backs = [(place, name, parts[name].back) for place, name in enumerate(self._names)]
        self._back = [(place, name, back) for place, name, back in backs if back is not None]
        definitions: list[Any] = []
        for field in fields(cast("Any", cls)):
            if field.default is not MISSING:
                default: Any = msgspec.field(default=field.default)
            elif field.default_factory is not MISSING:
                default = msgspec.field(default_factory=dict[str, Any])
            else:
                definitions.append((field.name, parts[field.name].type))
                continue
            definitions.append((field.name, parts[field.name].type, default))
        self.struct = msgspec.defstruct(cls.__name__, definitions, frozen=True, omit_defaults=True, kw_only=True)
        self._decoder = msgspec.json.Decoder(self.struct)

    def decode(self, body: str) -> Any:
        """The stored form that a body holds."""
        return self._decoder.decode(body)

    def stored(self, value: Any, blobs: Blobs) -> Any:
        """The stored form of a value. What it refers to is added to `blobs`."""
        values = {name: getattr(value, name) for name in self._names}
        for name, convert in self._there.items():
            values[name] = convert(values[name], blobs)
        return self.struct(**values)

    def given(self, stored: Any, content: Lookup | None, instead: Mapping[str, Any] = NOTHING) -> Any:
        """The value that was stored, but with the values of `instead`."""
        values = [getattr(stored, name) for name in self._names]
        for place, name, back in self._back:
            values[place] = instead[name] if name in instead else back(values[place], content)
        return self._cls(*values)


@dataclass(frozen=True, slots=True)
class _Field:
    """The type of a stored field, and the ways there and back where the value has another form."""

    type: Any
    there: _Part | None = None
    back: _Part | None = None


def _part(hint: Any, *, long: bool, keep: bool) -> _Field:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        inner = [argument for argument in arguments if argument is not type(None)]
        part = _part(inner[0], long=long, keep=keep) if len(inner) == 1 else _Field(hint)
        return _Field(part.type | None, _unless_none(part.there), _unless_none(part.back))
    if long:
        return _Field(str | Ref, lambda text, blobs: blobs.text(text, keep=keep), text_of)
    if hint is AdvisorCall:
        return _Field(CallBody, lambda call, blobs: blobs.call(call, keep=keep), call_of)
    if isinstance(hint, type) and is_dataclass(hint):
        codec = _codec(hint)
        return _Field(codec.struct, codec.stored, codec.given)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        part = _part(arguments[0], long=False, keep=keep)
        return _Field(tuple[part.type, ...], _each(part.there), _each(part.back))
    if origin is Mapping and arguments[1] is float:
        return _Field(Mapping[str, float | None], _as_dict, _numbers)
    if origin is Mapping:
        return _Field(hint, _as_dict)
    if hint is float:
        return _Field(float | None, None, _number)
    return _Field(hint)


def _unless_none(way: _Part | None) -> _Part | None:
    return None if way is None else lambda value, more: None if value is None else way(value, more)


def _each(way: _Part | None) -> _Part | None:
    return None if way is None else lambda values, more: tuple([way(value, more) for value in values])


def _as_dict(value: Mapping[str, Any], _: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else dict(value)


def _number(value: float | None, _: object) -> float:
    return math.nan if value is None else value


def _numbers(value: Mapping[str, float | None], _: object) -> dict[str, float]:
    return {name: _number(number, None) for name, number in value.items()}


def _text(stored: Any) -> str:
    """JSON that every database keeps: no NUL, no surrogate."""
    try:
        body = _ENCODER.encode(stored)
    except (UnicodeEncodeError, ValueError):
        body = b"\\u0000"
    if b"\\u0000" in body:
        body = _ENCODER.encode(clean_json(msgspec.to_builtins(stored)))
    return body.decode()


_ENCODER = msgspec.json.Encoder()
_CODECS: dict[type, _Codec] = {}


def _codec(cls: type) -> _Codec:
    codec = _CODECS.get(cls)
    if codec is None:
        codec = _CODECS[cls] = _Codec(cls)
    return codec


_KINDS: dict[str, type] = {cls.__name__: cls for cls in get_args(Recorded)}
