"""A keyboard for tests."""

from collections.abc import AsyncGenerator, Callable, Sequence

import anyio

from pace_async.observe.keyboard import Keyboard


class Typed(Keyboard):
    """Gives these keys, then waits until it is cancelled, or raises. `typed` is called after each key was obeyed."""

    def __init__(
        self, keys: Sequence[str], typed: Callable[[str], None] = lambda key: None, error: Exception | None = None
    ) -> None:
        super().__init__(-1)
        self._keys, self._typed, self._error = keys, typed, error
        self.entered = self.left = False

    def __enter__(self) -> "Typed":
        self.entered = True
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True

    async def keys(self) -> AsyncGenerator[str]:
        for key in self._keys:
            yield key
            self._typed(key)
        if self._error is not None:
            raise self._error
        await anyio.sleep_forever()
