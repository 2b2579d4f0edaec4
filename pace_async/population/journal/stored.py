"""Long texts and tokens, which a body names by their digest and which stand once.

They are nearly all that a run writes. Where the fact's own row holds them and nothing ever replaces that row, they
stand only there: programs, answers, and the prompts and tokens of a decided rollout. Other long texts are blobs: a byte
that names its form, and the content as it is or deflated. The digest is of the content, so the form can change without
changing what refers to it. A program of several files stands everywhere as its manifest, and each of its files is a
blob.
"""

import hashlib
import zlib
from collections.abc import Callable, Mapping

import msgspec

from pace_async.events import AdvisorCall
from pace_async.outside import sound
from pace_async.population.blobs import (
    pack_ids,
    pack_logprobs,
    pack_spans,
    unpack_ids,
    unpack_logprobs,
    unpack_spans,
)
from pace_async.programs.fileset import Program, from_manifest, is_fileset, is_manifest

LONGEST_INLINE = 200
"""Characters of a text that stands in the body itself."""
_PLAIN, _DEFLATED = b"\x00", b"\x01"
_WORTH_DEFLATING = 256
_FASTEST = 1


class Ref(msgspec.Struct, frozen=True):
    """A text with this digest."""

    digest: str


class CallBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `AdvisorCall`. `tokens` is the digest of its ids, log-probabilities (float32) and spans as the row has them,
    one after the other. `lengths` are their sizes in bytes, and `counts` the numbers of prompt and completion ids. All
    are None for an advisor that is asked over the network."""

    purpose: str
    text: str | Ref
    seconds: float
    prompt: str | Ref | None = None
    words: Mapping[str, str] | None = None
    tokens: str | None = None
    lengths: tuple[int, int, int, int] | None = None
    counts: tuple[int, int] | None = None


class Blobs(dict[str, bytes]):
    """What the facts of one transaction refer to, by digest."""

    def text(self, text: str, *, keep: bool) -> str | Ref:
        """The text, or what refers to it if it is long. With `keep` it becomes a blob, made sound as in the tables.
        Without, the fact's own row has it."""
        if is_fileset(text):
            for file in Program.of(sound(text)).files.values():
                self._blob(file.encode())
        if len(stored := as_stored(text)) <= LONGEST_INLINE:
            return stored
        content = sound(stored).encode()
        if keep:
            self._blob(content)
        return Ref(digest_of(content))

    def _blob(self, content: bytes) -> None:
        digest = digest_of(content)
        if digest not in self:
            self[digest] = _shortest(content)

    def call(self, call: AdvisorCall, *, keep: bool) -> CallBody:
        """The call. With `keep` its long texts become blobs."""
        parts = (
            pack_ids(call.prompt_ids),
            pack_ids(call.completion_ids),
            pack_logprobs(call.logprobs),
            pack_spans(call.spans),
        )
        has_tokens = any(parts)
        return CallBody(
            purpose=call.purpose,
            text=self.text(call.text, keep=keep),
            seconds=call.seconds,
            prompt=None if call.prompt is None else self.text(call.prompt, keep=keep),
            words=dict(call.words) or None,
            tokens=digest_of(b"".join(parts)) if has_tokens else None,
            lengths=(len(parts[0]), len(parts[1]), len(parts[2]), len(parts[3])) if has_tokens else None,
            counts=(len(call.prompt_ids), len(call.completion_ids)) if has_tokens else None,
        )


def as_stored(text: str) -> str:
    """A text as its row has it: the manifest of a program of several files."""
    return Program.of(sound(text)).manifest if is_fileset(text) else text


def digest_of(content: bytes) -> str:
    """The first half of its SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:32]


def content_of(blob: bytes) -> bytes:
    """What a blob holds. Raises ValueError for a blob of no known form."""
    form, content = blob[:1], blob[1:]
    if form == _PLAIN:
        return content
    if form != _DEFLATED:
        raise ValueError("the blob has no known form")
    try:
        return zlib.decompress(content)
    except zlib.error as error:
        raise ValueError(f"the blob cannot be inflated: {error}") from None


Lookup = Callable[[str], bytes]
"""The text or the tokens with a digest, as bytes. Raises KeyError."""


def text_of(stored: str | Ref, content: Lookup | None) -> str:
    """The text that a body holds or refers to. Without `content` a long one is empty."""
    if content is None:
        return stored if isinstance(stored, str) else ""
    text = stored if isinstance(stored, str) else content(stored.digest).decode()
    return from_manifest(text, lambda digest: content(digest).decode()) if is_manifest(text) else text


def call_of(body: CallBody, content: Lookup | None) -> AdvisorCall:
    """The call that was kept. Without `content` it has no tokens. Raises ValueError for tokens of another length."""
    prompt, completion, logprobs, spans = b"", b"", b"", b""
    prompt_ids, completion_ids = (0, 0) if content is None else body.counts or (0, 0)
    if content is not None and body.tokens is not None and body.lengths is not None:
        packed = content(body.tokens)
        if len(packed) != sum(body.lengths):
            raise ValueError(f"the tokens have {len(packed)} bytes, and {sum(body.lengths)} belong to them")
        ends = [sum(body.lengths[: place + 1]) for place in range(4)]
        prompt, completion, logprobs, spans = (
            packed[end - length : end] for end, length in zip(ends, body.lengths, strict=True)
        )
    return AdvisorCall(
        purpose=body.purpose,  # pyright: ignore[reportArgumentType]  the fact's own Purpose
        prompt_ids=unpack_ids(prompt, prompt_ids),
        completion_ids=unpack_ids(completion, completion_ids),
        logprobs=unpack_logprobs(logprobs),
        spans=unpack_spans(spans),
        text=text_of(body.text, content),
        seconds=body.seconds,
        prompt=None if body.prompt is None else text_of(body.prompt, content),
        words=dict(body.words or {}),
    )


def _shortest(content: bytes) -> bytes:
    if len(content) >= _WORTH_DEFLATING:
        deflated = zlib.compress(content, _FASTEST)
        if len(deflated) < len(content):
            return _DEFLATED + deflated
    return _PLAIN + content
