"""Removes secrets from texts of other programs before they reach a row, a log or a screen.

A secret is the value of any environment variable whose name mentions a key, token, secret, password or credential, and
any text that looks like a bearer token or a provider's key. A short number under a name that mentions only keys or
tokens (MAX_THINKING_TOKENS) is a count: no provider issues such a key, and it occurs in many programs. The texts of
exceptions are redacted too, because a server may echo a request.
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
"""Names of secrets that a person chooses. These may be short numbers."""
_COUNT = re.compile(r"[+-]?[\d_.,]{1,12}(?:e[+-]?\d+)?", re.IGNORECASE)
_SHORTEST = 6
"""A shorter value, such as `1`, is not a secret. Hiding it would hide most texts."""
_LOOKS = re.compile(
    r"(?i:\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|glpat|AIza)[-_*]?[\w*-]{8,}"
    r"|(?i:(?<=[?&\s\"'])(?:api[_-]?key|key|access[_-]?token|token|password)[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,}]{6,}"
)


def secrets(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The secret values of the environment, longest first."""
    known = os.environ if environment is None else environment
    return _secret_values(tuple(known.items()))


@lru_cache(maxsize=1)  # each answer of a model is searched, and the environment rarely changes
def _secret_values(known: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(
        sorted(
            {value for name, value in known if len(value) >= _SHORTEST and _named_secret(name, value)},
            key=len,
            reverse=True,
        )
    )


def _named_secret(name: str, value: str) -> bool:
    return bool(_NAMES.search(name)) and (_CHOSEN.search(name) is not None or not _COUNT.fullmatch(value))


def must_not_be_passed_on(name: str, value: str) -> bool:
    """Whether a variable looks like a secret, by its name or by its value."""
    return _named_secret(name, value) or looks_secret(value)


def holds_secret(text: str, environment: Mapping[str, str] | None = None) -> bool:
    """Whether `text` contains the value of a secret variable."""
    return any(value in text for value in secrets(environment))


def looks_secret(text: str, environment: Mapping[str, str] | None = None) -> bool:
    """Whether `text` holds a secret, or something that looks like one."""
    return holds_secret(text, environment) or _LOOKS.search(text) is not None


def without_secrets(text: str, environment: Mapping[str, str] | None = None) -> str:
    """`text` with each secret replaced."""
    for value in secrets(environment):
        text = text.replace(value, HIDDEN)
    return _LOOKS.sub(HIDDEN, text)


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """`text` on one line of at most LONGEST characters, without secrets."""
    line = " ".join(without_secrets(text, environment).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
