"""Failures of a provider's call, classified by the remedy.

    permanent    a bad key, an unknown model, no permission, a request in a form that the provider does not take: no
                 retry helps, a person must act
    transient    429, 5xx, a timeout, a refused connection, a cut stream, an answer that its service calls unfinished:
                 try again
    the candidate's   the provider refuses this prompt (policy, too long): CandidateFault, not CallFailed

A context that has no room for the longest answer is no fault of a prompt: a setting must change.

`charged` is False if the provider cannot have charged for the call, and None if that is unknown. It is unknown as soon
as the request was sent and nobody but a gateway answered it.
"""

import email.utils
import re
import time
from collections.abc import Iterator, Mapping

from pace_async.errors import CandidateFault, InfrastructureFault, StageFault
from pace_async.providers.base import Caller, ChatAnswer
from pace_async.providers.redact import redact

LONGEST_RETRY_AFTER = 3600.0
_NOT_CONNECTED = {"ClientConnectorError", "ConnectionRefusedError", "gaierror"}
"""Errors before a request is sent. httpx's ConnectError is none of them: litellm gives a reset connection that name."""
_GATEWAY = {408, 499, 502, 504, 520, 522, 524, 598, 599}
"""Statuses of a gateway that has passed the request on and no longer waits. The provider may work on, and bill."""
_WIRE = {"httpx", "httpcore", "aiohttp"}
_KINDS = {
    400: "bad_request",
    401: "bad_key",
    402: "no_credit",
    403: "no_permission",
    404: "unknown_model",
    408: "timeout",
    429: "rate_limit",
    **dict.fromkeys((405, 406, 410, 411, 413, 414, 415, 422, 426, 431, 501), "bad_request"),
}
_PERMANENT = (
    "bad_key",
    "no_permission",
    "unknown_model",
    "bad_request",
    "unsupported_option",
    "no_credit",
    "missing_key",
    "not_installed",
)
_OF_ANSWER = re.compile(r"max_?\w*tokens|completion|output|generat", re.IGNORECASE)
_OF_PROMPT = re.compile(
    r"(\d+) (?:tokens )?(?:in|of|from) (?:the |your |text )*(?:messages|prompt|input)|resulted in (\d+)"
    r"|(\d+) [`']?(?:text |prompt )?(?:inputs?|prompt)[`']? tokens|(\d+) \+ \d+ >"
    r"|(?:prompt|input|messages)(?: contains| has| is| \(?length:?|:)? ?(?:at least )?(\d+)",
    re.IGNORECASE,
)
"""How a refusal speaks of the longest answer, and of the prompt with its number of tokens."""


class CallFailed(InfrastructureFault):
    """One call brought no answer that can be used. `of_this_prompt`: another prompt may well get one, and the same
    prompt may not. An agent that takes too long is such a case. `answer` is what came back, if its tokens count."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        charged: bool | None = False,
        retry_after: float | None = None,
        of_this_prompt: bool = False,
        answer: ChatAnswer | None = None,
    ) -> None:
        super().__init__(kind, detail)
        self.charged = charged
        self.retry_after = retry_after
        self.of_this_prompt = of_this_prompt or kind == "bad_request"
        self.answer = answer

    @property
    def permanent(self) -> bool:
        """Whether a retry cannot help."""
        return self.kind in _PERMANENT

    def cost_usd(self, worst: float) -> float:
        """What the call counts. `worst` is its reservation, in USD."""
        if self.answer is not None:
            return worst if self.answer.cost_usd is None else self.answer.cost_usd
        return worst if self.charged is None else 0.0


def remedy_of(failure: CallFailed, caller: Caller) -> str:
    """What a person can do about a failure that no retry helps, empty for others."""
    role = caller.role
    remedies = {
        "bad_key": "put a valid key of this provider into the environment",
        "no_permission": "the key may not use this model: choose another, or ask for access",
        "no_credit": "the account has no credit left: top it up",
        "unknown_model": "see https://docs.litellm.ai/docs/providers for how models are named",
        "bad_request": f"see whether {role}.options and {role}.max_tokens suit this model",
        "unsupported_option": f"take it out of {role}.options, or put drop_params: true there, and what a model does "
        "not take is left out",
        "not_installed": "install the package that litellm names",
    }
    return remedies.get(failure.kind, "")


def failure_of(error: Exception, http_status: int | None = None, max_tokens: int | None = None) -> StageFault:
    """Translates an exception of litellm into CallFailed, or into CandidateFault if the prompt itself was refused.
    `http_status` is that of the provider's answer, if there was one. `max_tokens` is the longest answer asked for.

    The kind depends on the whole chain of causes, because litellm has one name for a refused connection, a cut stream
    and a 500."""
    name = type(error).__name__
    detail = redact(re.sub(r"^(litellm\.\w+: |\w+Error: )+", "", _own_words(error)))
    if name == "ContentPolicyViolationError":
        return CandidateFault("refusal", detail)
    if name == "ContextWindowExceededError":
        if is_answer_too_long(str(error), max_tokens):
            return CallFailed("bad_request", detail)
        return CandidateFault("prompt_too_long", detail)
    if name == "UnsupportedParamsError":
        return CallFailed("unsupported_option", detail)
    chain = list(_chain(error))
    names = {type(link).__name__ for link in chain}
    if {base.__name__ for link in chain for base in type(link).__mro__} & _NOT_CONNECTED or _by_httpx(chain):
        return CallFailed("refused_connection", detail)
    if names & {"ImportError", "ModuleNotFoundError"}:
        return CallFailed("not_installed", detail)
    headers = _headers(error)
    if headers is None and any("Timeout" in link for link in names):
        return CallFailed("timeout", detail, charged=None)
    if "JSONDecodeError" in names or "Empty or invalid response" in str(error):
        return CallFailed("invalid_answer", detail, charged=None)
    if headers is None and any(type(link).__module__.partition(".")[0] in _WIRE for link in chain):
        return CallFailed("cut_stream", detail, charged=None)
    if "insufficient_quota" in str(error):
        return CallFailed("no_credit", detail)
    if "rovider NOT provided" in str(error):
        return CallFailed("unknown_model", detail)
    status = getattr(error, "status_code", None)
    kind = next((_KINDS[known] for known in (status, http_status) if known in _KINDS), "server_error")
    charged = None if (status if http_status is None else http_status) in _GATEWAY else False
    return CallFailed(kind, detail, charged=charged, retry_after=_retry_after(headers))


def is_answer_too_long(refusal: str, max_tokens: int | None) -> bool:
    """Whether a refusal for the context's length is due to the longest answer, `max_tokens`, more than to the prompt.
    Servers put both numbers into it. That of the prompt may be missing."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", refusal)
    if max_tokens is None or not (_OF_ANSWER.search(text) and re.search(rf"\b{max_tokens}\b", text)):
        return False
    prompt = _OF_PROMPT.search(text)
    return prompt is None or int(next(filter(None, prompt.groups()))) <= max_tokens


def _own_words(error: Exception) -> str:
    """The provider's own words, without litellm's traceback and its advice to callers of its own."""
    return str(error).partition("Traceback (most")[0].partition("To drop these, set")[0]


def _by_httpx(chain: list[BaseException]) -> bool:
    """Whether httpx itself could not connect, where it is not used through aiohttp."""
    return any(type(link).__module__.startswith("httpcore") and type(link).__name__ == "ConnectError" for link in chain)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    ids: set[int] = set()
    while error is not None and id(error) not in ids:
        ids.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _headers(error: Exception) -> Mapping[str, str] | None:
    """The headers of the provider's answer. None if there was no answer."""
    headers = getattr(error, "litellm_response_headers", None)
    return {str(key).lower(): str(value) for key, value in dict(headers).items()} if headers is not None else None


def _retry_after(headers: Mapping[str, str] | None) -> float | None:
    """Seconds, from a number or a date. None if the header is missing or invalid."""
    text = (headers or {}).get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return None
    return min(seconds, LONGEST_RETRY_AFTER) if seconds >= 0 else None  # NaN compares false
