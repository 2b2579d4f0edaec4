"""Failures of a provider's call, classified by the remedy.

    permanent    a bad key, an unknown model, no permission: no retry helps, a person must act
    transient    429, 5xx, a timeout, a refused connection, a cut stream: try again
    the candidate's   the provider refuses this prompt (policy, too long): CandidateFault, not CallFailed

`charged` is False if the provider cannot have charged for the call, and None if that is unknown.
"""

import email.utils
import re
import time
from collections.abc import Iterator, Mapping

from pace_async.errors import CandidateFault, InfrastructureFault, StageFault
from pace_async.providers.redact import redact

LONGEST_RETRY_AFTER = 3600.0
_REFUSED = {"ConnectError", "ClientConnectorError", "ConnectionRefusedError", "gaierror", "ClientConnectorDNSError"}
_WIRE = {"httpx", "httpcore", "aiohttp"}
_KINDS = {
    400: "bad_request",
    401: "bad_key",
    402: "no_credit",
    403: "no_permission",
    404: "unknown_model",
    408: "timeout",
    422: "bad_request",
    429: "rate_limit",
}
_PERMANENT = ("bad_key", "no_permission", "unknown_model", "bad_request", "no_credit", "missing_key", "not_installed")


class CallFailed(InfrastructureFault):
    """One call brought no answer. `of_this_prompt`: another prompt may well get one, and the same prompt may not. An
    agent that takes too long is such a case."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        charged: bool | None = False,
        retry_after: float | None = None,
        of_this_prompt: bool = False,
    ) -> None:
        super().__init__(kind, detail)
        self.charged = charged
        self.retry_after = retry_after
        self.of_this_prompt = of_this_prompt or kind == "bad_request"

    @property
    def permanent(self) -> bool:
        """Whether a retry cannot help."""
        return self.kind in _PERMANENT


def failure_of(error: Exception) -> StageFault:
    """Translates an exception of litellm into CallFailed, or into CandidateFault if the prompt itself was refused.

    The kind depends on the whole chain of causes, because litellm has one name for a refused connection, a cut stream
    and a 500."""
    name = type(error).__name__
    detail = redact(re.sub(r"^(litellm\.\w+: |\w+Error: )+", "", str(error).partition("Traceback (most")[0]))
    if name == "ContentPolicyViolationError":
        return CandidateFault("refusal", detail)
    if name == "ContextWindowExceededError":
        return CandidateFault("prompt_too_long", detail)
    chain = list(_chain(error))
    names = {type(link).__name__ for link in chain}
    if names & _REFUSED:
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
    kind = _KINDS.get(status, "server_error") if isinstance(status, int) else "server_error"
    return CallFailed(kind, detail, retry_after=_retry_after(headers))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
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
