"""A `pace web` that ends as soon as it could answer. Other tests cover the server."""

from collections.abc import Callable
from typing import Any

import pytest


def end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every server of this test end at once."""

    def begun(*_: Any, begun: Callable[[], None], **__: Any) -> None:
        begun()

    monkeypatch.setattr("pace_async.web.serve.serve", begun)
