"""What `learner.trainer: tinker` chooses, and what it refuses."""

import re
import subprocess
import sys
from contextlib import nullcontext
from typing import Any

import httpx
import pytest

from pace_async import installing
from pace_async.configure import resolve
from pace_async.errors import GaveUp, NotHere, UsageError
from pace_async.providers.tinker import sdk, versions
from tests.support.command_line import Shell

TINKER: dict[str, Any] = {"learner.trainer": "tinker", "advisor.model": "models/mine"}


def test_the_trainer_chooses_its_engine_a_rank_and_no_limits() -> None:
    config = resolve(None, TINKER, environment={})
    learner = config.learner
    assert (config.advisor.engine, learner.lora_rank) == ("tinker", 32)
    assert (learner.max_move, learner.min_move_ess, learner.max_sure_move) == (None, None, None)
    again = resolve(None, {}, environment={})
    assert (again.advisor.engine, again.learner.lora_rank, again.learner.max_move) == ("embedded", None, 0.01)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"learner.max_move": 0.1}, "learner.max_move"),
        ({"learner.min_move_ess": 0.9}, "learner.min_move_ess"),
        ({"learner.max_sure_move": 1e-6}, "learner.max_sure_move"),
        ({"learner.objective": "entropic"}, "learner.kl_penalty"),
        ({"learner.kl_penalty": 0.1}, "learner.kl_penalty"),
        ({"learner.lora_rank": None}, "learner.lora_rank"),
        ({"learner.lora_alpha": 16}, "learner.lora_alpha"),
        ({"learner.precision": "bf16"}, "learner.precision"),
        ({"learner.checkpoint_every": 5}, "learner.checkpoint_every"),
        ({"learner.gpus": 1}, "learner.gpus"),
        ({"learner.max_length": 100}, "learner.max_length"),
        ({"learner.objective": "none"}, "trains nothing"),
        ({"advisor.engine": "vllm"}, "advisor.engine vllm"),
        ({"advisor.temperature": 0.7}, "advisor.temperature"),
        ({"advisor.transport": "fetch"}, "advisor.transport"),
        ({"advisor.probe_limit": 0.1}, "advisor.probe_limit"),
        ({"advisor.model": "tiny"}, "by --advisor"),
        ({"advisor.model": "auto"}, "by --advisor"),
        ({"tinker.price_per_million_prompt": 1.0}, "three prices"),
        ({"tinker.url": "https://me:word@host"}, "without a password"),
    ],
)
def test_what_a_service_cannot_do_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resolve(None, {**TINKER, **changes}, environment={})


def test_settings_of_the_service_need_its_trainer() -> None:
    for changes in ({"tinker.reduction": "mean"}, {"tinker.url": "http://host:1"}, {"advisor.engine": "tinker"}):
        with pytest.raises(UsageError, match=r"learner\.trainer"):
            resolve(None, changes, environment={})


def none(name: str) -> object | None:
    return None


def there(name: str) -> object | None:
    return name


def test_without_the_package_or_the_key_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    service = resolve(None, TINKER, environment={}).tinker
    monkeypatch.setattr(installing, "find_spec", none)
    with pytest.raises(NotHere, match="needs the package tinker"):
        sdk.refuse_unless_ready(service)
    monkeypatch.setattr(installing, "find_spec", there)
    monkeypatch.delenv(sdk.KEY, raising=False)
    with pytest.raises(NotHere, match=f"set {sdk.KEY}"):
        sdk.refuse_unless_ready(service)
    sdk.refuse_unless_ready(service.model_copy(update={"url": "http://127.0.0.1:1"}))


async def test_an_absent_server_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "find_spec", there)
    service = resolve(None, {**TINKER, "tinker.url": "http://127.0.0.1:1"}, environment={}).tinker
    with pytest.raises(GaveUp, match=r"http://127\.0\.0\.1:1 does not answer .*see to the server or the network"):
        async with sdk.open_service(service, "toy", 5.0):
            pass
    assert "tinker" not in sys.modules


@pytest.mark.parametrize(
    ("package", "status", "detail", "said"),
    [
        (
            "0.25.0",
            422,
            [{"type": "missing", "loc": ["body"]}],
            "tinker 0.25.0 sends protobuf, .* takes JSON, .*0.24.1",
        ),
        (
            "0.38.0",
            415,
            "what is this",
            r"tinker 0.38.0 sends protobuf, .* `pip install tinker==0.24.1`, then `pace re",
        ),
        ("1.0", 415, None, "tinker 1.0 sends protobuf"),
        ("0.24.1", 415, "expected protobuf", r"0.24.1 sends JSON, .* takes protobuf, .*'tinker>=0.25,<0.26'`, then"),
        ("0.24.1", 422, [{"type": "missing", "loc": ["body"]}], None),
        ("0.25.0", 404, "unknown model", None),
        ("0.25.0", 400, "no data", None),
        ("0.25.0", 422, [{"loc": ["body", "model_id"]}], None),
        ("0.25.0", 422, "no model_id", None),
        ("0.25.0", 422, [7], None),
        ("0.25.0", 401, "a key", None),
        ("0.25.0", 500, None, None),
        ("unknown", 200, {}, None),
    ],
)
async def test_a_package_and_a_server_that_do_not_understand_each_other_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, package: str, status: int, detail: Any, said: str | None
) -> None:
    asked: list[httpx.Request] = []

    def answered(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, json={"detail": detail})

    monkeypatch.setattr(versions, "installed", lambda: package)
    async with httpx.AsyncClient(transport=httpx.MockTransport(answered)) as http:
        with nullcontext() if said is None else pytest.raises(GaveUp, match=said):
            await versions.refuse_unless_understood(http, "http://127.0.0.1:1", "tml-key")
    [request] = asked
    kind = "application/json" if package in ("0.24.1", "unknown") else "application/x-protobuf"
    assert (request.headers["content-type"], request.content) == (kind, b"")


async def test_a_server_that_says_nothing_of_its_requests_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("", request=request)

    monkeypatch.setattr(versions, "installed", lambda: "0.25.0")
    async with httpx.AsyncClient(transport=httpx.MockTransport(answered)) as http:
        await versions.refuse_unless_understood(http, "http://127.0.0.1:1", "tml-key")
    text = httpx.MockTransport(lambda _: httpx.Response(422, text="<html>"))
    async with httpx.AsyncClient(transport=text) as http:
        await versions.refuse_unless_understood(http, "http://127.0.0.1:1", "tml-key")


def test_the_way_of_the_service_loads_no_torch() -> None:
    loads = "pace_async.runtime.children.tinker, pace_async.providers.tinker.sdk"
    code = f"import sys, {loads}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("command", [("plan",), ("run", "--dry-run")], ids=" ".join)
def test_the_bill_of_an_advisor_of_8b_is_its_tokens_at_the_given_prices(
    bare_shell: Shell, command: tuple[str, ...]
) -> None:
    """As docs/tinker.md says: 480 candidates are about 4 USD."""
    prices = {"prompt": 0.13, "sampled": 0.4, "trained": 0.4}
    settings = {
        "advisor.model": "models/deepseek-r1-0528-qwen3-8b",
        "learner.trainer": "tinker",
        "tinker.base_model": "Qwen/Qwen3-8B",
        "stop.candidates": 480,
        **{f"tinker.price_per_million_{name}": price for name, price in prices.items()},
    }
    said = bare_shell.pace(
        *command, *(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))
    )
    assert (said.code, said.err) == (0, "")
    text = " ".join(said.out.split())
    calls = re.findall(r"(ideas|assessment|choice|training) (\d+) in, (\d+) out, ([\d.e-]+) USD", text)
    assert [call for call, *_ in calls] == ["ideas", "assessment", "choice", "training"]
    a_candidate = 0.0
    for call, read, written, usd in calls:
        way = ("trained", "trained") if call == "training" else ("prompt", "sampled")
        cost = (int(read) * prices[way[0]] + int(written) * prices[way[1]]) / 1e6
        assert float(usd) == pytest.approx(cost, rel=0.05)
        a_candidate += float(usd)
    whole = re.search(r"480 candidates: .* ([\d.]+) USD", text)
    assert whole is not None
    assert float(whole[1]) == pytest.approx(480 * a_candidate, rel=0.05)
    assert 3 < float(whole[1]) < 5
