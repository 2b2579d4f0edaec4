"""Runs the tests of a repository with pytest, and makes a score of them.

    python tests_score.py RESULTS time|passed COMMAND …     COMMAND is pytest with its arguments

    time      the seconds of the tests, without those of their collection. A failed test is the end of it
    passed    the share of the tests that pass

It writes RESULTS/metrics.json: `score`, `seconds`, `tests` and `failed`. RESULTS/feedback.txt has the end of what
pytest printed if a test failed.
"""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

LONGEST = 6_000
"""Characters of what pytest printed."""


def main(results: Path, wanted: str, command: list[str]) -> int:
    """The exit code: 0 if there is a score."""
    report = results / "tests.xml"
    argv = [*command, f"--junitxml={report}", "-p", "no:cacheprovider"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    sys.stdout.write(ended.stdout)
    sys.stderr.write(ended.stderr)
    if not report.is_file():
        print("pytest ended without a report", file=sys.stderr)
        return ended.returncode or 1
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    tests = sum(int(suite.get("tests", 0)) - int(suite.get("skipped", 0)) for suite in suites)
    failed = sum(int(suite.get("failures", 0)) + int(suite.get("errors", 0)) for suite in suites)
    seconds = sum(float(case.get("time", 0)) for case in ET.parse(report).getroot().iter("testcase"))
    if failed:
        (results / "feedback.txt").write_text(ended.stdout[-LONGEST:], encoding="utf-8")
    if not tests or (wanted == "time" and failed):
        print(f"{failed} of {tests} tests failed" if tests else "no test was run", file=sys.stderr)
        return 1
    score = seconds if wanted == "time" else (tests - failed) / tests
    metrics = {"score": score, "seconds": seconds, "tests": tests, "failed": failed}
    (results / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
