"""Calls that need a separate event loop, although one may run already, as in a notebook."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def beside_any_loop(function: Callable[[], T]) -> T:
    """What `function` returns. It is called here, or in a thread if this one has a running event loop, which waits."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()
