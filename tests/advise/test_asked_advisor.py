"""An advisor over the network, against a local server that misbehaves: the ledger is the bill."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from pace_async.advise.advisor import Advice, Sampling, advise
from pace_async.advise.asked_advisor import AskedAdvisor, open_asked_advisor
from pace_async.advise.base import Prompt
from pace_async.advise.prompts import ProseWording
from pace_async.config import Config
from pace_async.errors import InfrastructureFault
from pace_async.search.state import SearchContext
from research.rivals.local_advice import ADVICE_FAULTS
from research.rivals.local_implementer_server import (
    SERVICE_FAULTS,
    USD_PER_MILLION_IN,
    USD_PER_MILLION_OUT,
    LocalProvider,
    serving,
)
from scripts.checks.check_implementer import check
from tests.doubles.implementers import PlainLedger
from tests.support.implementing import CANARY, PARENT, TASK
from tests.support.raw_provider import answering, openai_body
from tests.support.simulated_runs import settings

CONTEXT = SearchContext(PARENT, PARENT, ())
RECOVERED = tuple(name for name in SERVICE_FAULTS if name not in ("hang", "401"))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


def configured(url: str, **more: object) -> Config:
    """Quick retries, the server's prices."""
    given: dict[str, object] = {
        "advisor__model": "api:openai/local",
        "advisor__api_base": url,
        "advisor__price_per_million_in": USD_PER_MILLION_IN,
        "advisor__price_per_million_out": USD_PER_MILLION_OUT,
        "faults__backoff_s": 0.01,
        "learner__objective": "none",
    }
    return settings(**(given | more))


@asynccontextmanager
async def asking(config: Config) -> AsyncGenerator[tuple[AskedAdvisor, PlainLedger]]:
    ledger = PlainLedger()
    async with open_asked_advisor(config, ledger) as advisor:
        yield advisor, ledger


async def advice_of(advisor: AskedAdvisor, lease: int) -> Advice:
    sampling = Sampling(seed=1, max_tokens=512)
    return await advise(advisor, ProseWording(TASK), CONTEXT, lease=lease, sampling=sampling)


def test_its_answers_are_parsed_as_any_advisor_s_and_its_bill_is_in_the_ledger_under_its_role() -> None:
    provider = LocalProvider(TASK)

    async def main() -> None:
        with serving(provider) as url:
            async with asking(configured(url, advisor__options={"top_p": 0.5})) as (advisor, ledger):
                advice = await advice_of(advisor, 7)
        assert advice.experiment is not None and advice.experiment.startswith("Set ")
        assert [call.purpose for call in advice.calls] == ["propose", "assess", "select"]
        assert all("Parent, score" in (call.prompt or "") for call in advice.calls)
        assert all((call.prompt_ids, call.completion_ids, call.spans) == ((), (), ()) for call in advice.calls)
        assert advice.oldest_version == 0
        assert {(call.role, call.lease, call.outcome) for call in ledger.calls} == {("advisor", 7, "ok")}
        assert sum(call.cost_usd for call in ledger.calls) == pytest.approx(provider.charged_usd, abs=1e-12)
        assert {(body["temperature"], body["top_p"], body["max_tokens"]) for body in provider.bodies} == {(1, 0.5, 512)}

    anyio.run(main)


@pytest.mark.fault("Implementer", "server errors, then well")
def test_with_three_of_ten_calls_failing_every_rollout_is_advised_and_the_ledger_is_exact() -> None:
    draw = random.Random(5)
    kinds = [draw.choice(RECOVERED) if draw.random() < 0.3 else "ok" for _ in range(200)]
    kinds[1] = "hang"
    provider = LocalProvider(TASK, lambda number, _question: kinds[number - 1])

    found: list[Advice] = []

    async def main() -> None:
        with serving(LocalProvider(TASK)) as url:
            async with asking(configured(url)) as (advisor, _):
                # With its first call litellm loads for seconds, which would count against the timeout below.
                await advice_of(advisor, 0)
        with serving(provider) as url:
            config = configured(url, advisor__timeout_s=4.0, advisor__deadline_s=60.0, advisor__requests=3)
            async with asking(config) as (advisor, ledger), anyio.create_task_group() as group:

                async def one(lease: int) -> None:
                    found.append(await advice_of(advisor, lease))

                for lease in range(1, 13):
                    group.start_soon(one, lease)
        assert len(found) == 12
        assert all(advice.experiment is not None for advice in found)
        assert provider.most_in_flight <= 3
        assert provider.unknown > 0
        expected = provider.charged_usd + provider.unknown_usd
        assert sum(call.cost_usd for call in ledger.calls) == pytest.approx(expected, abs=1e-12)
        assert len(ledger.calls) == provider.calls
        assert {"rate_limit", "server_error", "timeout", "cut_stream", "invalid_answer"} <= set(ledger.outcomes)
        assert all(call.cost_usd <= ledger.reserved[call.reservation or 0] for call in ledger.calls)
        assert CANARY not in str(ledger)

    anyio.run(main)


@pytest.mark.parametrize(("behaviour", "outcome"), [*ADVICE_FAULTS.items()])
def test_a_bad_answer_is_paid_for_and_is_the_rollout_s_fault_but_one_that_holds_a_key_is_not(
    behaviour: str, outcome: str
) -> None:
    provider = LocalProvider(TASK, lambda _number, _question: behaviour)

    async def main() -> None:
        with serving(provider) as url:
            async with asking(configured(url)) as (advisor, ledger):
                if outcome == "secret_in_answer":
                    with pytest.raises(InfrastructureFault, match="secret_in_answer") as caught:
                        await advice_of(advisor, 1)
                    assert CANARY not in str(caught.value)
                else:
                    advice = await advice_of(advisor, 1)
                    assert advice.experiment is None
                    assert advice.unparsed
        assert ledger.outcomes == [outcome]
        assert ledger.calls[0].cost_usd == pytest.approx(provider.charged_usd, abs=1e-12)

    anyio.run(main)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_whole_run_with_an_asked_advisor_and_faults_balances_leaks_no_key_and_starts_no_engine(
    tmp_path: Path,
) -> None:
    found = check(tmp_path / "run", candidates=16, fault_rate=0.3, seed=11, advisor=True, away=7)
    assert found.wrong(candidates=16) == []
    assert found.ledger_usd > found.charged_usd > 0
    assert sorted(path.name for path in (tmp_path / "run" / "logs").iterdir()) == ["scorer.log"]
    assert not (tmp_path / "run" / "learner").exists()


def test_half_an_answer_of_a_service_that_failed_is_asked_for_again_and_not_kept() -> None:
    half = "Idea 1\nHypothesis: a hex"
    whole = "".join(f"Idea {number}\nHypothesis: a\nReasoning: b\n" for number in (1, 2, 3))
    turns = iter([openai_body(half, "error"), openai_body(half, "abort"), openai_body(whole)])

    async def main() -> None:
        with answering(lambda _: (200, next(turns))) as (url, _):
            async with asking(configured(url + "/v1")) as (advisor, ledger):
                call, ending = await advisor.ask(
                    Prompt(3, "propose", "Propose.", max_tokens=100, temperature=1.0, seed=1)
                )
        assert (call.text, ending) == (whole, "stop")
        assert ledger.outcomes == ["unfinished", "unfinished", "ok"]
        assert [made.answered is not None for made in ledger.calls] == [False, False, True]
        assert [made.completion_tokens for made in ledger.calls] == [20, 20, 20]
        assert [kind for kind, _ in ledger.faults] == ["unfinished", "unfinished"]

    anyio.run(main)
