"""For every test: how long one example takes says nothing on a machine that is shared.

Tests marked `needs_vllm` are skipped where vLLM cannot serve, and counted in the summary, so that nobody takes a skip
for a pass; with PACE_NEEDS_VLLM=1 they fail there instead.
"""

import os

import pytest
from hypothesis import settings

from pace_async.advise.engines.vllm_found import Missing, find_vllm

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    found = find_vllm()
    if isinstance(found, Missing) and not os.environ.get("PACE_NEEDS_VLLM"):
        for item in items:
            if item.get_closest_marker("needs_vllm"):
                item.add_marker(pytest.mark.skip(reason=f"needs vLLM: {found.found}; {found.remedy}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = {
        state: sum("needs_vllm" in report.keywords for report in terminalreporter.getreports(state))
        for state in ("passed", "failed", "error", "skipped")
    }
    if any(counts.values()):
        terminalreporter.write_line("vllm: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
