"""The pure parts beside the edits: shares, prices, prompts, and what keeps secrets out of texts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.errors import UsageError
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import fence_for, messages_for
from pace_async.implement.shares import parse_shares
from pace_async.providers.base import Share
from pace_async.providers.pool import draw
from pace_async.providers.prices import Price, listed_price
from pace_async.providers.redact import HIDDEN, LONGEST, holds_secret, redact
from pace_async.search.state import Member
from pace_async.task import load_task

CANARY = "sk-canary-0123456789"


def test_one_model_or_several_by_weight() -> None:
    assert parse_shares("catalog") == (Share("catalog", 1.0),)
    assert parse_shares("a, b") == (Share("a", 1.0), Share("b", 1.0))
    assert parse_shares("gemini/x=3,openai/y=0.5") == (Share("gemini/x", 3.0), Share("openai/y", 0.5))


@pytest.mark.parametrize("text", ["", "a,,b", "a=0", "a=-1", "a=x", "a=nan", "a=inf", "a,a", "=3"])
def test_a_share_that_cannot_be_read_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="--implementer"):
        parse_shares(text)


def test_the_draw_follows_the_weights_and_can_be_repeated() -> None:
    shares = parse_shares("a=3,b=1")
    drawn = [draw(shares, 7, lease) for lease in range(1, 2001)]
    assert drawn == [draw(shares, 7, lease) for lease in range(1, 2001)]
    assert 1400 < sum(share == shares[0] for share in drawn) < 1600
    assert drawn != [draw(shares, 8, lease) for lease in range(1, 2001)]


@given(lease=st.integers(1, 10**6), down=st.sets(st.sampled_from("abc")))
def test_a_model_that_is_down_is_never_drawn(lease: int, down: set[str]) -> None:
    shares = parse_shares("a=5,b=2,c=1")
    drawn = draw(shares, 0, lease, down)
    assert (drawn is None) == (len(down) == 3)
    assert drawn is None or drawn.model not in down
    first = draw(shares, 0, lease)
    assert first is not None
    assert first.model in down or drawn == first


@given(text=st.text(max_size=300), tokens=st.integers(0, 10**5))
def test_no_call_costs_more_than_its_worst_case(text: str, tokens: int) -> None:
    price = Price.per_million(2.0, 8.0)
    byte_tokens = len(text.encode())
    worst = price.worst_case([{"role": "user", "content": text}], tokens)
    assert price.cost(byte_tokens, tokens) <= worst


def test_the_worst_case_takes_the_dearest_rate_listed() -> None:
    price = listed_price(
        {
            "input_cost_per_token": 1e-6,
            "input_cost_per_token_above_200k_tokens": 2e-6,
            "cache_creation_input_token_cost": 3e-6,
            "output_cost_per_token": 4e-6,
            "output_cost_per_reasoning_token": None,
        }
    )
    assert price == Price(1e-6, 4e-6, 3e-6, 4e-6)
    assert listed_price({"input_cost_per_token": None, "output_cost_per_token": 1e-6}) is None


def test_the_question_holds_the_task_the_program_the_idea_and_the_experiment() -> None:
    task = load_task("circle_packing")
    parent = Member(3, task.program, 1.25)
    system, user = messages_for(task, parent, Experiment(7, "rounder\nstart", "Set layout\nto hex."))
    assert task.program in user["content"]
    for part in (task.spec.background.strip(), task.spec.coding_requirements.strip(), "1.25", "`pack`"):
        assert part in user["content"]
    assert "Idea: rounder start\nExperiment: Set layout to hex.\n" in user["content"]
    assert "<<<<<<< SEARCH" in system["content"]
    assert system == messages_for(task, parent, Experiment(8, "", ""))[0]


@given(program=st.text(alphabet="`a\n", max_size=60))
def test_a_program_cannot_close_its_own_fence(program: str) -> None:
    fence = fence_for(program)
    assert fence not in program
    assert set(fence) == {"`"}


@pytest.mark.parametrize(
    "text",
    [
        f"bad key {CANARY}",
        f"Authorization: Bearer {CANARY}",
        "Authorization: Bearer abcdefghijkl",
        "url?key=abcdefghij&x=1",
        'sent {"api_key": "abcdefghij"}',
        "Incorrect API key provided: sk-abcd1234efgh",
    ],
)
def test_a_key_and_a_text_that_looks_like_one_are_hidden(text: str) -> None:
    shown = redact(text, {"OPENAI_API_KEY": CANARY})
    assert HIDDEN in shown
    assert not re.search("canary|abcdefghij|abcd1234", shown)


def test_ordinary_words_are_kept_on_one_short_line() -> None:
    assert redact("the server\nsays  no", {"KEYBOARD": "us", "MY_TOKEN": "1"}) == "the server says no"
    assert len(redact("x" * 1000, {})) == LONGEST
    assert holds_secret(f"x = {CANARY!r}", {"SOME_SECRET": CANARY})
    assert not holds_secret("x = 1", {"SOME_SECRET": CANARY, "EMPTY_KEY": ""})


def test_a_secret_that_the_environment_got_later_is_hidden_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not holds_secret(f"x = {CANARY!r}")
    monkeypatch.setenv("LATER_SECRET", CANARY)
    assert holds_secret(f"x = {CANARY!r}")
    monkeypatch.delenv("LATER_SECRET")
    assert not holds_secret(f"x = {CANARY!r}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_THINKING_TOKENS", "100000"),
        ("MAX_TOKENS", "1_000_000"),
        ("TOKEN_RATE", "0.000015"),
        ("GIT_AUTHOR_NAME", "circle packing"),
        ("XAUTHORITY", "/root/.Xauthority"),
        ("TOKENIZERS_PARALLELISM", "enabled"),
        ("KEYBOARD_LAYOUT", "layout"),
    ],
)
def test_an_answer_without_a_secret_is_kept(name: str, value: str) -> None:
    assert not holds_secret(f"x = {value!r}", {name: value})
    assert redact(f"it says {value}", {name: value}) == f"it says {value}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTP_AUTHORIZATION", "Digest abcdef"),
        ("PROXY_AUTH", "me:12345"),
        ("DB_PASSWORD", "100000"),
        ("CLIENT_SECRET", "123456"),
        ("GITHUBTOKEN", "abcdef12"),
        ("API_TOKENS", "abcdef,fedcba"),
        ("APIKEY", "1234567890123"),
        ("SSH_PASSPHRASE", "open it"),
    ],
)
def test_a_secret_never_passes(name: str, value: str) -> None:
    assert holds_secret(f"x = {value!r}", {name: value})
    assert value not in redact(f"it says {value}", {name: value})
