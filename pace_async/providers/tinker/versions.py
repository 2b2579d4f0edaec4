"""Whether the installed `tinker` package and a server of the API understand each other.

Since 0.25 the package sends training requests as protobuf alone, and before that as JSON unless the server asks for
protobuf. A server takes the one or the other, and an answer to a request without a body says which: nothing is computed
for it. A server that says neither is believed. docs/tinker.md has the table of what was tried.
"""

import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, cast

import httpx

from pace_async.errors import GaveUp
from pace_async.providers.redact import redact

PROTOBUF_SINCE = (0, 25)
FOR_JSON, FOR_PROTOBUF = "tinker==0.24.1", "'tinker>=0.25,<0.26'"
_TRAINING = "/api/v1/forward_backward"


def installed() -> str:
    """The version of the installed package."""
    return version("tinker")


def sends_protobuf(package: str) -> bool:
    """Whether this version of the package sends protobuf."""
    numbers = re.match(r"(\d+)\.(\d+)", package)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= PROTOBUF_SINCE


async def refuse_unless_understood(http: httpx.AsyncClient, url: str, key: str) -> None:
    """Raises GaveUp, with the version to install, for a server that cannot read what the package sends."""
    package = installed()
    protobuf = sends_protobuf(package)
    kind = "application/x-protobuf" if protobuf else "application/json"
    try:
        headers = {"Content-Type": kind, "X-API-Key": key}
        answer = await http.post(url + _TRAINING, headers=headers, follow_redirects=False)  # the key goes nowhere else
    except httpx.HTTPError:
        return  # the package's own calls say what is wrong
    if protobuf and (answer.status_code == 415 or _wants_a_json_body(answer)):
        sent, taken, remedy = "sends protobuf", "takes JSON, as versions before 0.25 send it", FOR_JSON
    elif not protobuf and answer.status_code == 415:
        sent, taken, remedy = "sends JSON", "takes protobuf, as versions from 0.25 on send it", FOR_PROTOBUF
    else:
        return
    raise GaveUp(
        f"learner.trainer tinker: the package tinker {package} {sent}, and {redact(url)} {taken}: "
        f"`pip install {remedy}`, then `pace resume` goes on."
    )


def _wants_a_json_body(answer: httpx.Response) -> bool:
    """Whether the body is missing for the server, which is how FastAPI says that it is not JSON."""
    if answer.status_code != 422:
        return False
    try:
        document = cast("Mapping[str, Any]", answer.json())
        return any(list(fault["loc"]) == ["body"] for fault in document["detail"])
    except (ValueError, LookupError, TypeError):
        return False
