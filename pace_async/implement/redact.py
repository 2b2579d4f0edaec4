"""Takes secrets out of texts that others wrote, before they reach a row, a log or a screen.

A secret is the value of any environment variable whose name speaks of a key, a token, a secret, a password or a
credential, and whatever looks like a bearer token or a provider's key. A short number under a name that speaks of keys
or tokens only (MAX_THINKING_TOKENS) is a count: no provider gives out such a key, and it stands in many a program. The
texts of exceptions are others' texts: a server may echo what it was sent.
"""

import os
import re
from collections.abc import Mapping
from functools import lru_cache

HIDDEN = "[hidden]"
LONGEST = 300
_NAMES = re.compile(
    r"KEY(?!BOARD)|TOKEN(?!IZ|IS)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH(?!OR(?!I[ZS]))", re.IGNORECASE
)
_CHOSEN = re.compile(r"SECRET|PASS|CREDENTIAL", re.IGNORECASE)
"""Names of what a person chooses, which may be a short number."""
_COUNT = re.compile(r"[+-]?[\d_.,]{1,12}(?:e[+-]?\d+)?", re.IGNORECASE)
_SHORTEST = 6
"""A shorter value, such as `1`, is no secret, and hiding it would hide everything."""
_LOOKS = re.compile(
    r"(?i:\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|glpat|AIza)[-_*]?[\w*-]{8,}"
    r"|(?i:(?<=[?&\s\"'])(?:api[_-]?key|key|access[_-]?token|token|password)[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,}]{6,}"
)


def secrets(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The secret values of the environment, the longest first."""
    known = os.environ if environment is None else environment
    return _secret_values(tuple(known.items()))


@lru_cache(maxsize=1)  # every answer of a model is looked through, and the environment hardly ever changes
def _secret_values(known: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(sorted({value for name, value in known if _is_secret(name, value)}, key=len, reverse=True))


def _is_secret(name: str, value: str) -> bool:
    if len(value) < _SHORTEST or not _NAMES.search(name):
        return False
    return _CHOSEN.search(name) is not None or not _COUNT.fullmatch(value)


def holds_secret(text: str, environment: Mapping[str, str] | None = None) -> bool:
    """Whether the value of a secret variable stands in `text`."""
    return any(value in text for value in secrets(environment))


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """`text` on one line of at most LONGEST characters, without secrets."""
    for value in secrets(environment):
        text = text.replace(value, HIDDEN)
    line = " ".join(_LOOKS.sub(HIDDEN, text).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
