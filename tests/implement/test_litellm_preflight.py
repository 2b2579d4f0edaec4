"""Before anything is spent: a wrong key, name or price ends the run in one sentence, with nothing written."""

import os
from pathlib import Path

import pytest

from pace_async.errors import GaveUp, UsageError
from pace_async.evaluate.sandbox import cgroup
from pace_async.providers.chat import open_chats
from pace_async.providers.keys import KEYS, refuse_without_keys
from pace_async.providers.preflight import check_models, refuse_unless_ready
from pace_async.runtime.start.machine_checks import Finding, _control_groups, implementers
from pace_async.runtime.start.refusals import asking
from research.rivals.local_implementer_server import LocalProvider, serving
from tests.support.command_line import Shell
from tests.support.implementing import CANARY, TASK, configured


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)


async def test_a_model_that_answers_is_asked_once_and_what_that_cost_is_known() -> None:
    provider = LocalProvider(TASK)
    with serving(provider) as url:
        config = configured(url, stop__budget=1.0)
        found = await check_models(["openai/local"], config.implementer)
    refuse_unless_ready(found, config.stop)
    assert found[0].fact is not None
    assert found[0].fact.cost_usd == pytest.approx(provider.charged_usd, abs=1e-12)
    assert provider.calls == 1


@pytest.mark.parametrize(
    ("behaviour", "model", "says"),
    [
        ("401", "openai/local", "bad key .*put a valid key"),
        ("403", "openai/local", "no permission .*ask for access"),
        ("404", "openai/local", "unknown model .*how models are named"),
        ("400", "openai/local", "bad request .*implementer.options"),
        ("ok", "nosuch-model", "unknown model"),
        ("ok", "gemini/gemini-2.5-pro", "missing key .*set .*GEMINI_API_KEY"),
    ],
)
async def test_a_users_mistake_is_one_sentence(behaviour: str, model: str, says: str) -> None:
    provider = LocalProvider(TASK, plan=lambda _number, _question: behaviour)
    if behaviour == "401":
        provider.accepts = lambda _key: False
    with serving(provider) as url:
        config = configured(url)
        base = {"api_base": None} if model.startswith("gemini") else {}
        found = await check_models([model], config.implementer.model_copy(update=base))
    with pytest.raises(UsageError, match=f"--implementer {model}: {says}") as caught:
        refuse_unless_ready(found, config.stop)
    assert CANARY not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_key_that_is_missing_or_empty_is_looked_for_where_litellm_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (name for names in KEYS.values() for name in names):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "")
    async with open_chats(
        [f"{provider}/x" for provider in KEYS], configured("http://127.0.0.1:1").implementer
    ) as chats:
        for names, chat in zip(KEYS.values(), chats, strict=True):
            assert set(chat.missing_keys()) & set(names)
    assert os.environ["OPENAI_API_KEY"] == ""
    with pytest.raises(UsageError, match="OPENAI_API_KEY is empty in the environment"):
        refuse_without_keys(["openai/x"], "http://127.0.0.1:1", os.environ)


async def test_an_unknown_price_is_refused_only_with_a_budget() -> None:
    with serving(LocalProvider(TASK)) as url:
        config = configured(url, implementer__price_per_million_in=None, implementer__price_per_million_out=None)
        found = await check_models(["openai/local"], config.implementer)
    refuse_unless_ready(found, config.stop)
    with pytest.raises(UsageError, match="price_per_million_in"):
        refuse_unless_ready(found, config.stop.model_copy(update={"budget": 1.0}))


async def test_a_model_out_of_reach_ends_the_run_only_if_there_is_no_other() -> None:
    provider = LocalProvider(TASK)
    provider.plan = lambda number, _question: "503" if provider.bodies[number - 1]["model"] == "bad" else "ok"
    with serving(provider) as url:
        config = configured(url)
        found = await check_models(["openai/bad", "openai/good"], config.implementer)
    refuse_unless_ready(found, config.stop)
    with pytest.raises(GaveUp, match="No implementer answers"):
        refuse_unless_ready(found[:1], config.stop)


async def test_doctor_names_the_remedy() -> None:
    provider = LocalProvider(TASK, accepts=lambda _key: False)
    with serving(provider) as url:
        found = await implementers(configured(url, implementer__model="openai/local,catalog").implementer)
    assert [(row.name, row.ok) for row in found] == [("implementer catalog", True), ("implementer openai/local", False)]
    assert isinstance(found[1], Finding)
    assert "bad key" in found[1].found
    assert "valid key" in found[1].remedy
    assert CANARY not in str(found)


def test_doctor_says_whether_a_candidates_memory_can_be_limited_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    places = cgroup.Hierarchy(Path("/m"), Path("/p"), None, None, 2)
    for found, ok in ((places, True), (None, None)):
        monkeypatch.setattr(cgroup, "find", lambda found=found: found)
        told = _control_groups()
        assert (told.name, told.ok, bool(told.remedy)) == ("control groups", ok, ok is None)


@pytest.mark.fault("Implementer", "a bad key, before anything is spent")
def test_a_bad_key_is_exit_code_2_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    provider = LocalProvider(TASK, accepts=lambda _key: False)
    with serving(provider) as url:
        command = ["run", "--implementer", "openai/local", "--set", f"implementer.api_base={url}"]
        done = shell.pace(*command, "--run-dir", "run", "--display", "none", "--candidates", "8")
    assert done.code == 2, done.err
    assert done.err.startswith("pace: --implementer openai/local: bad key")
    assert done.err.count("\n") == 1
    assert CANARY not in done.out + done.err
    assert shell.files() == []


@pytest.mark.parametrize(
    ("advisor", "implementer", "flag"),
    [
        ("api:openai/local", "openai/local", "--implementer openai/local: bad key"),
        ("api:openai/local", "openai/other=2,openai/local", "--implementer openai/local: bad key"),
        ("api:openai/local", "openai/other", "--advisor api:openai/local: bad key"),
    ],
)
async def test_a_bad_key_of_an_implementer_that_advises_too_names_its_flag(
    advisor: str, implementer: str, flag: str
) -> None:
    provider = LocalProvider(TASK, accepts=lambda _key: False)
    with serving(provider) as url:
        config = configured(url, implementer__model=implementer, advisor__model=advisor, advisor__api_base=url)
        caller, models, asked = asking(config)[0]
        assert (caller.role, models) == ("advisor", ["openai/local"])
        with pytest.raises(UsageError, match=f"^{flag}"):
            refuse_unless_ready(await check_models(models, asked, caller), config.stop)
