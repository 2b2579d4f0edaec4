"""An evaluator that does not answer while a run begins is reported on the screen."""

import anyio
import anyio.lowlevel
import pytest

from pace_async.runtime.start.launch import told_when_slow


@pytest.mark.parametrize(("waits", "display", "said"), [(True, "plain", 1), (False, "plain", 0), (True, "none", 0)])
def test_a_slow_evaluator_is_reported_once_and_a_quick_one_is_not(
    waits: bool, display: str, said: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def begin() -> None:
        with told_when_slow(display, 0.0):
            for _ in range(5 if waits else 0):
                await anyio.lowlevel.checkpoint()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()

    anyio.run(begin)
    assert capsys.readouterr().err.count("the evaluator has not answered for 0 s") == said
