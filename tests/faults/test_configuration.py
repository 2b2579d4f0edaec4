"""Every key mistyped, every value of a wrong kind, files that are odd: one sentence each, and nothing written."""

from typing import Any

import pytest

from pace_async.config import Config
from pace_async.configure import MAY_HOLD_A_SECRET, known_keys, resolve
from pace_async.errors import UsageError
from tests.support.command_line import Shell

KEYS = known_keys()


def value_at(config: Config, key: str) -> Any:
    """The default of a setting."""
    node: Any = config
    for part in key.split("."):
        node = getattr(node, part)
    return node


@pytest.mark.long
@pytest.mark.fault("Configuration and terminal", "a typo in every key")
@pytest.mark.parametrize("key", KEYS)
def test_a_mistyped_key_is_refused_with_the_nearest_known_one(key: str) -> None:
    room, _, name = key.rpartition(".")
    for wrong in {name + name[-1], name[:-1] if len(name) > 4 else name + "s", name[1:2] + name[0] + name[2:]} - {name}:
        mistyped = f"{room}.{wrong}" if room else wrong
        if mistyped in KEYS:
            continue
        with pytest.raises(UsageError) as caught:
            resolve(None, {mistyped: value_at(Config(), key)}, environment={})
        assert f"{mistyped!r}" in str(caught.value)
        assert "did you mean" in str(caught.value), "there is a key that is like it"
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError):
        resolve(None, {}, environment={f"PACE_{room.upper()}__{name.upper()}X" if room else f"PACE__{name}X": "1"})


@pytest.mark.fault("Configuration and terminal", "a wrong type in every key")
@pytest.mark.parametrize("key", KEYS)
def test_a_value_of_another_type_is_refused_with_the_key_and_the_value(key: str) -> None:
    wrong: Any = ["x"] if not isinstance(value_at(Config(), key), (list, tuple)) else {"x": 1}
    with pytest.raises(UsageError) as caught:
        resolve(None, {key: wrong}, environment={})
    assert key in str(caught.value)
    told = repr(wrong) in str(caught.value) or "'x'" in str(caught.value)
    assert told is (key not in MAY_HOLD_A_SECRET)
    assert "\n" not in str(caught.value)


@pytest.mark.fault("Configuration and terminal", "a unit where a number belongs")
@pytest.mark.parametrize("text", ["10s", "5 USD", "2GiB", "90%", "1,5"])
@pytest.mark.parametrize("key", ["stop.minutes", "stop.budget", "advisor.timeout_s", "advisor.kv_cache_gib", "seed"])
def test_a_number_with_a_unit_is_refused_and_not_interpreted(key: str, text: str) -> None:
    with pytest.raises(UsageError, match=key.replace(".", r"\.")):
        resolve(None, {key: text}, environment={})


@pytest.mark.fault("Configuration and terminal", "a byte order mark")
def test_a_file_may_begin_with_a_byte_order_mark(shell: Shell) -> None:
    (shell.folder / "run.yaml").write_bytes(b"\xef\xbb\xbflearner: {k: 2}\n")
    assert resolve(shell.folder / "run.yaml", environment={}).learner.k == 2


@pytest.mark.fault("Configuration and terminal", "an empty file")
@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "{}\n"])
def test_an_empty_file_leaves_every_default(shell: Shell, text: str) -> None:
    (shell.folder / "run.yaml").write_text(text)
    assert resolve(shell.folder / "run.yaml", environment={}) == Config()


@pytest.mark.fault("Configuration and terminal", "a key twice")
@pytest.mark.parametrize(
    "text",
    [
        "learner: {k: 2}\nlearner: {k: 3}\n",
        "learner: {k: 2, k: 3}\n",
        "? [a]\n: 1\n",
        "{1: 2}\n",
        "{null: 2}\n",
        "learner: [1]\n",
        "learner: &a [*a]\n",
        "a: !!python/object/apply:os.system [true]\n",
        "\0",
        "seed: 1\n--- \nseed: 2\n",
        "a: " + "[" * 3000,
    ],
    ids=["twice", "inside", "list_key", "number_key", "null_key", "list", "itself", "object", "nul", "two", "deep"],
)
def test_an_odd_file_is_one_sentence_and_no_traceback(shell: Shell, text: str) -> None:
    (shell.folder / "run.yaml").write_text(text)
    said = shell.pace("run", "--dry-run", "--config", "run.yaml")
    assert (said.code, said.out) == (2, "")
    assert len(said.err.strip().splitlines()) == 1
    assert shell.files() == ["run.yaml"]
