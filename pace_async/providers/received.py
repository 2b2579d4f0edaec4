"""Reads what came back from a provider: the text, how it ended, and its tokens. Pure.

litellm gives each provider's answer one form, and in it calls many of their reasons for ending `stop`, errors among
them. So the reason is read from the provider's own body, and the rest from litellm's form, or from the body where
litellm cannot read it.

    whole        the model ended its answer
    length       the answer was cut at its longest length, or at the end of the context
    refused      the provider filtered the answer, or the model refused
    unfinished   anything else, such as an error of the server in the middle of an answer: a failure of the service

Invariant: an answer counts as whole only if its provider calls it so, or gives no reason.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WHOLE = _words(
    "stop end_turn stop_sequence stop_token stop_str stop_criteria_met end end_of_text endoftext eos eos_token "
    "eos_token_id eot complete completed finish finished done success succeeded normal none null "
    "tool_calls tool_call tool_use function_call"
)
_LENGTH = _words(
    "length max_length model_length max_tokens max_tokens_reached max_new_tokens max_output_tokens "
    "max_completion_tokens max_token token_limit token_limit_reached error_limit context_limit context_window_exceeded "
    "context_length_exceeded model_context_window_exceeded compaction"
)
_REFUSED = _words(
    "filter filtered safety recitation refusal refused blocklist blocked prohibited spii language sensitive guardrail "
    "toxic policy moderation violation"
)
"""Words of reasons. The other two are whole reasons, in small letters."""
_REASONS = ("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason", "completionReason")
_LISTS = ("choices", "candidates", "results", "outputs", "generations", "completions")
_NOT_THE_ANSWER = re.compile("think|reason|tool|function|search|citation", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProviderReply:
    """What came back. `finish` is stop, length, content_filter or a word for a tool's call. `unfinished` says why the
    service failed in the middle, and is empty otherwise. `counted` says whether both numbers of tokens are known, and
    `added` whether more tokens are output than the provider calls so."""

    text: str
    finish: str
    refused: bool
    unfinished: str
    prompt_tokens: int
    completion_tokens: int
    counted: bool
    added: bool


def received(body: object, response: object = None) -> ProviderReply | None:
    """What a provider's `body` says, with litellm's `response` to it, None if litellm could not read it. None if
    neither holds a choice. Without an answer that can be read, it is `unfinished`."""
    source = response if response is not None else body
    choice = _first(_field(source, "choices"))
    if choice is None:
        return None
    message = _field(choice, "message")
    content = _field(message, "content")
    text = _text_of(content)
    reason = _reason_in(body) or _reason_in({"choices": [choice]})
    ending = _ending(reason)
    unfinished = _error_in(_first(_field(body, "choices"))) or (f"it ended with {reason}" if ending == "failed" else "")
    if not unfinished and (message is None or text is None):
        unfinished = "it holds no message"
    usage = _field(source, "usage")
    prompt, completion, counted, added = _tokens(usage, bool(text or _field(message, "reasoning_content")))
    own = str(_field(choice, "finish_reason") or "stop")
    return ProviderReply(
        text=text or "",
        finish=own if ending == "whole" else {"refused": "content_filter", "failed": "error"}.get(ending, ending),
        refused=ending == "refused" or _refuses(message, content),
        unfinished=unfinished,
        prompt_tokens=prompt,
        completion_tokens=completion,
        counted=counted,
        added=added,
    )


def says_error(body: object) -> bool:
    """Whether a body is the report of an error and no answer."""
    return bool(_field(body, "error")) or _field(body, "type") == "error"


def _ending(reason: str | None) -> str:
    if reason is None:
        return "whole"
    words = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", reason).lower()).strip("_")
    plain = words.removeprefix("finish_reason_")
    if plain in _WHOLE:
        return "whole"
    if plain in _LENGTH:
        return "length"
    return "refused" if _REFUSED & set(plain.split("_")) else "failed"


def _reason_in(body: object) -> str | None:
    """Why an answer ended, as its provider says it, None if it does not."""
    if _field(body, "object") == "response":  # OpenAI's responses
        return _text(_field(_field(body, "incomplete_details"), "reason")) or _text(_field(body, "status"))
    holders = [body, _first(body), *(_first(_field(body, name)) for name in _LISTS)]
    for holder in holders:
        own = _text(_field(_field(holder, "provider_specific_fields"), "native_finish_reason"))
        for reason in (own, *(_text(_field(holder, name)) for name in _REASONS)):
            if reason is not None:
                return reason
    return "done: false" if _field(body, "done") is False else None


def _error_in(choice: object) -> str:
    error = _field(choice, "error")
    if not error:
        return ""
    return str(_field(error, "message") or error)


def _refuses(message: object, content: object) -> bool:
    extra = _field(message, "provider_specific_fields")
    parts = cast("Sequence[object]", content) if isinstance(content, list) else ()
    return bool(
        _field(extra, "refusal") or _field(message, "refusal") or any(_field(part, "refusal") for part in parts)
    )


def _text_of(content: object) -> str | None:
    """The text of an answer's content: a text, or a list of parts, of which thinking is none. None if it is neither."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Mapping):
        return _part(cast("object", content))
    if not isinstance(content, list):
        return None
    return "".join(map(_part, cast("list[object]", content)))


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if _NOT_THE_ANSWER.search(str(_field(part, "type") or "")):
        return ""
    text = _field(part, "text")
    return str(_text(text) or _text(_field(text, "value")) or "")


def _tokens(usage: object, wrote: bool) -> tuple[int, int, bool, bool]:
    """Tokens of the prompt and of the output, whether they are known, and whether the output is more than the provider
    calls so. Whatever is beyond the prompt is output, because some count reasoning beside the answer."""
    prompt, completion, total = (
        _number(usage, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    reasoning = _number(_field(usage, "completion_tokens_details"), "reasoning_tokens")
    if min(prompt, completion, total, reasoning) < 0:
        return 0, 0, False, False
    output = max(completion, total - prompt, completion + reasoning if reasoning > completion else 0)
    return prompt, output, prompt > 0 and (output > 0 or not wrote), output > completion


def _number(usage: object, name: str) -> int:
    value = _field(usage, name)
    try:
        return int(cast("float", value)) if isinstance(value, int | float) else 0
    except (ValueError, OverflowError):  # NaN, infinity
        return -1


def _field(holder: object, name: str) -> Any:
    if isinstance(holder, Mapping):
        return cast("Mapping[str, Any]", holder).get(name)
    return None if isinstance(holder, str | list | None) else getattr(holder, name, None)


def _first(items: object) -> object:
    return cast("list[object]", items)[0] if isinstance(items, list) and items else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
