"""`pytest --faults`: only the tests that show a fault, and one line a clause at the end.

Works with pytest-xdist: what a test shows travels in its report as user properties. A mark that names no clause of the
list ends the session before anything runs.
"""

from collections import Counter, defaultdict

import pytest

from tests.faults.clauses import CLAUSES, NOT_COVERED

PROPERTY = "fault"
ORDER = ("failed", "error", "skipped", "passed")
"""What counts for a clause is the worst of its tests."""
WORDS = {"failed": "FAILED", "error": "FAILED", "skipped": "skipped", "passed": "ok"}


class FaultListing:
    """The plugin. `listed`: `--faults` was given."""

    def __init__(self, listed: bool) -> None:
        self._listed = listed

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            item.user_properties += [(PROPERTY, clause) for clause in shown_by(item)]
        if self._listed:
            others = [item for item in items if not _clauses_of(item)]
            items[:] = [item for item in items if _clauses_of(item)]
            config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A clause of which no test ran is a failure, where nothing was left out on purpose."""
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        whole = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS and not session.config.option.markexpr
        if self._listed and whole and reporter is not None and session.exitstatus == 0:
            ran = {
                clause for outcome in ORDER for report in reporter.getreports(outcome) for clause in _clauses_of(report)
            }
            listed = {(heading, clause) for heading, clauses in CLAUSES.items() for clause in clauses}
            if listed - ran - set(NOT_COVERED):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._listed:
            return
        found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for outcome in ORDER:
            for report in terminalreporter.getreports(outcome):
                for clause in _clauses_of(report):
                    found[clause].add(outcome)
        counts: Counter[str] = Counter()
        for heading, clauses in CLAUSES.items():
            terminalreporter.section(heading, "-")
            for clause in clauses:
                outcomes = found[heading, clause]
                word = next((WORDS[outcome] for outcome in ORDER if outcome in outcomes), "not run")
                if why := NOT_COVERED.get((heading, clause)):
                    word = "no test"
                counts[word] += 1
                terminalreporter.write_line(f"{word:8} {clause}{f': {why}' if why else ''}")
        terminalreporter.section("faults", "-")
        terminalreporter.write_line(", ".join(f"{count} {word}" for word, count in sorted(counts.items())))


def shown_by(item: pytest.Item) -> list[tuple[str, str]]:
    """The clauses that a test shows. Raises UsageError for one that is not in the list."""
    row: str = item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""
    ids = {row, *row.split("-")}
    found: list[tuple[str, str]] = []
    for mark in item.iter_markers("fault"):
        heading, clause = mark.args
        if clause not in CLAUSES.get(heading, ()):
            raise pytest.UsageError(f"{item.nodeid}: no such fault: {heading!r}, {clause!r}")
        only = mark.kwargs.get("only")
        if (only is None or only in ids) and (heading, clause) not in found:
            found.append((heading, clause))
    return found


def _clauses_of(test: pytest.Item | pytest.TestReport | pytest.CollectReport) -> list[tuple[str, str]]:
    properties = getattr(test, "user_properties", [])
    return [(value[0], value[1]) for name, value in properties if name == PROPERTY]
