"""A `pace web` that ends when it could answer: the server has tests of its own."""

from collections.abc import Callable
from typing import Any

import pytest


def end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every server of this test end at once."""

    def begun(*_: Any, begun: Callable[[], None], **__: Any) -> None:
        begun()

    monkeypatch.setattr("pace_async.web.serve.serve", begun)
