"""A whole run against a provider that misbehaves: the ledger is the bill, and the key is nowhere."""

from pathlib import Path

import pytest

from scripts.checks.check_implementer import CANARY, check

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.nightly
@pytest.mark.fault("Implementer", "a key is in no row, log or error")
def test_a_run_with_faults_balances_and_leaks_no_key(tmp_path: Path) -> None:
    found = check(tmp_path / "run", candidates=24, fault_rate=0.5, seed=156)
    assert found.wrong(candidates=24) == []
    assert found.unseen > 0 and found.ledger_usd > found.charged_usd > 0
    assert {"bad_key", "secret_in_answer", "refused_connection", "server_error"} <= set(found.outcomes)
    assert {"bad_key", "refused_connection", "provider_down", "provider_back"} <= set(found.faults)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {"population.db", "events.jsonl", "config.yaml", "best.py"} <= {path.name for path in files}
    assert not any(CANARY.encode() in path.read_bytes() for path in files)
