"""An output is measured before it is parsed: how deep it is, and how many values it holds, whatever its texts say."""

import json
from typing import Any, NoReturn, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.evaluate.scorer import strict_json
from pace_async.evaluate.scorer.strict_json import DEEPEST, Invalid, parse_all

texts = st.text(alphabet='ab"\\[]{},:\n', max_size=6)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)


def size(value: Any) -> int:
    """The number of values and names. An empty list or mapping counts twice, as if it held a value."""
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        return 1 + len(held) + sum(map(size, held.values())) if held else 2
    return 1 + (sum(map(size, cast("list[Any]", value))) or 1) if isinstance(value, list) else 1


def nested(depth: int) -> str:
    kinds = ["[", '{"a]":'], ["]", "}"]
    return (
        "".join(kinds[0][n % 2] for n in range(depth))
        + '"["'
        + "".join(kinds[1][n % 2] for n in reversed(range(depth)))
    )


@given(st.lists(values, min_size=1, max_size=3), st.booleans())
def test_exactly_the_allowed_number_of_values_passes(found: list[object], ascii_only: bool) -> None:
    outputs = [json.dumps(value, ensure_ascii=ascii_only).encode() for value in found]
    held = sum(map(size, found))
    assert parse_all(outputs, held) == found
    with pytest.raises(Invalid, match="more than"):
        parse_all(outputs, held - 1)


@pytest.mark.parametrize("depth", range(DEEPEST - 2, DEEPEST + 4))
def test_nesting_is_counted_exactly_and_not_within_texts(depth: int) -> None:
    text = f"[{nested(depth - 1)}, {nested(3)}]".encode()
    if depth <= DEEPEST:
        assert parse_all([text])[0] == json.loads(text)
    else:
        with pytest.raises(Invalid, match=f"deeper than {DEEPEST}"):
            parse_all([text])


@pytest.mark.fault("Programs as weapons", "an output of more values than a scorer can hold")
@pytest.mark.fault("Programs as weapons", "an output nested deeper than a parser can go")
@pytest.mark.parametrize(
    "bomb",
    [
        b"[" + b"{}," * 2000 + b"{}]",
        b"[" + b'"",' * 2000 + b'""]',
        b'{"a":' * 2000,
        b"[" * 2000,
        b"[" * 2000 + b"]" * 2000,
        b'"\\"",' * 2000,
        b"[" * 40 + b'"\\\\"' + b"]" * 40,
        b"]" * 2000,
    ],
    ids=lambda bomb: bomb[:10].decode(),
)
def test_an_output_that_is_too_large_is_refused_before_it_is_parsed(
    bomb: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(strict_json.json, "loads", parse)
    with pytest.raises(Invalid, match=r"more than 1000 values|nested deeper"):
        parse_all([bomb], 1000)


@given(st.binary(max_size=60) | st.text(alphabet='a"\\[]{},:1 ', max_size=60).map(str.encode))
def test_invalid_json_is_refused_without_another_effect(data: bytes) -> None:
    try:
        found = parse_all([data], 100)
    except Invalid:
        return
    assert found == [json.loads(data)]
