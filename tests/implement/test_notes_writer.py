"""Writing notes by a model over the network: one paid call, whose page is data, and refusals before a run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from pace_async.config import Config
from pace_async.context.notes_page import page_in
from pace_async.context.questions import RenderedQuestion
from pace_async.errors import CandidateFault, InfrastructureFault, UsageError
from pace_async.events import NotesPage
from pace_async.implement.notes_writer import NotesWriter, open_notes_writer, refuse_unless_written, writers_of
from pace_async.providers.failures import CallFailed
from research.rivals.local_advice import NOTES, PAGE
from research.rivals.local_implementer_server import LocalProvider, serving
from tests.doubles.implementers import PlainLedger
from tests.support.implementing import CANARY, TASK, configured
from tests.support.simulated_runs import settings

QUESTION = RenderedQuestion("You keep notes.", f"# Request\nWrite the first notes.{NOTES} please.", {}, cut=False)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


@asynccontextmanager
async def writing(provider: LocalProvider, **more: object) -> AsyncGenerator[tuple[NotesWriter, PlainLedger]]:
    with serving(provider) as url:
        given: dict[str, object] = {"search__memory": "run", "search__notes_every": 5, **more}
        ledger = PlainLedger()
        async with open_notes_writer(configured(url, **given), ledger) as writer:
            assert writer is not None
            yield writer, ledger


def page_of(text: str) -> NotesPage:
    return NotesPage(1, 5, None, page_in(text))


@pytest.mark.long
async def test_a_page_is_written_by_one_call_and_is_in_the_ledger_with_its_cost() -> None:
    provider = LocalProvider(TASK)
    async with writing(provider) as (writer, ledger):
        await writer.write(QUESTION, 7, page_of)
    [call] = ledger.calls
    assert (call.lease, call.model, call.role, call.outcome) == (7, "openai/local", "notes", "ok")
    assert call.notes is not None and call.notes.text == PAGE.partition("\n")[2]
    assert call.cost_usd > 0 and call.cost_usd == pytest.approx(provider.charged_usd) and call.reservation == 1
    assert ledger.reserved[1] > call.cost_usd
    [body] = provider.bodies
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == QUESTION.text


@pytest.mark.parametrize(
    ("behaviour", "raised", "outcome"),
    [
        ("500", CallFailed, "server_error"),
        ("cut", CallFailed, "cut_stream"),
        ("prose", CandidateFault, "unparsed"),
        ("refusal", CandidateFault, "refusal"),
    ],
)
async def test_a_call_that_brings_no_page_is_asked_once_and_counts(
    behaviour: str, raised: type[Exception], outcome: str
) -> None:
    provider = LocalProvider(TASK, lambda _number, _question: behaviour)
    async with writing(provider) as (writer, ledger):
        with pytest.raises(raised):
            await writer.write(QUESTION, 7, page_of)
    assert provider.calls == 1
    assert [(call.outcome, call.notes) for call in ledger.calls] == [(outcome, None)]
    unknown = ledger.reserved[1] if behaviour == "cut" else 0.0
    assert ledger.calls[0].cost_usd == pytest.approx(provider.charged_usd + unknown)


async def test_a_page_that_holds_a_secret_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "more restarts")
    async with writing(LocalProvider(TASK)) as (writer, ledger):
        with pytest.raises(InfrastructureFault, match="secret_in_answer"):
            await writer.write(QUESTION, 7, page_of)
    assert ledger.calls[0].notes is None and ledger.calls[0].cost_usd > 0


async def test_an_advisor_over_the_network_writes_where_the_implementer_is_no_model() -> None:
    provider = LocalProvider(TASK)
    with serving(provider) as url:
        own = {"advisor__model": "api:openai/asked", "advisor__api_base": url, "implementer__model": "catalog"}
        config, ledger = settings(search__memory="run", search__notes_every=5, **own), PlainLedger()
        async with open_notes_writer(config, ledger) as writer:
            assert writer is not None
            await writer.write(QUESTION, 7, page_of)
    assert [call.model for call in ledger.calls] == ["openai/asked"]
    assert provider.bodies[0]["model"] == "asked"


async def test_without_the_setting_there_is_no_writer() -> None:
    async with open_notes_writer(settings(), PlainLedger()) as writer:
        assert writer is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"implementer__model": "openai/m", "search__memory": "island"}, "search.memory is island: say"),
        ({"implementer__model": "openai/m"}, "search.memory is pool: say"),
        ({"search__memory": "run"}, "--implementer catalog with --advisor tiny has none"),
        ({"search__memory": "run", "implementer__model": "command"}, "--implementer command with"),
    ],
)
def test_notes_that_cannot_be_had_are_refused_in_a_sentence(given: dict[str, object], said: str) -> None:
    config: Config = settings(search__notes_every=5, **given)
    with pytest.raises(UsageError, match=r"^search\.notes_every .*\.$") as error:
        refuse_unless_written(config)
    assert said in str(error.value)
    refuse_unless_written(settings(**given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"implementer__model": "openai/m", "search__memory": "run"}, "search.memory is run: say search.memory=island"),
        ({"search__memory": "island"}, "--implementer catalog with --advisor tiny has none"),
    ],
)
def test_ideas_of_which_no_model_can_say_that_they_leave_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=r"^search\.drop_ideas .*\.$") as error:
        refuse_unless_written(settings(search__drop_ideas=5, **given))
    assert said in str(error.value)
    refuse_unless_written(settings(**given))


def test_a_model_of_either_kind_can_write() -> None:
    for given in ({"implementer__model": "openai/m"}, {"advisor__model": "api:openai/m"}):
        config = settings(search__memory="run", search__notes_every=5, **given)
        refuse_unless_written(config)
        assert writers_of(config)
