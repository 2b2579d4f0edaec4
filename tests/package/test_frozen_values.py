"""`fast_init`: the constructor differs from that of `dataclasses` in its speed alone."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest

from pace_async.evaluate.base import Evaluation
from pace_async.events import AdvisorCall, TokenSpan
from pace_async.frozen_values import fast_init
from pace_async.replay.group import TrainedCall


@dataclass(frozen=True, slots=True)
class Plain:
    name: str
    size: int = 3
    more: Mapping[str, int] = field(default_factory=dict[str, int])
    hidden: int = field(default=7, repr=False, compare=False)


@fast_init
@dataclass(frozen=True, slots=True)
class Fast:
    name: str
    size: int = 3
    more: Mapping[str, int] = field(default_factory=dict[str, int])
    hidden: int = field(default=7, repr=False, compare=False)


Arguments = tuple[tuple[object, ...], dict[str, object]]
TAKEN: list[Arguments] = [
    (("a",), {}),
    (("a", 4), {}),
    ((), {"name": "a", "hidden": 1}),
    (("a",), {"more": {"b": 1}}),
    (("a", 4, {}, 8), {}),
]
REFUSED: list[Arguments] = [
    ((), {}),
    (("a", 1, {}, 2, 3), {}),
    (("a",), {"other": 1}),
    (("a",), {"name": "b"}),
]


def made(cls: Callable[..., Any], arguments: Arguments) -> Any:
    """A value from these positional and named arguments."""
    return cls(*arguments[0], **arguments[1])


@pytest.mark.parametrize("arguments", TAKEN)
def test_it_takes_the_same_arguments_and_defaults(arguments: Arguments) -> None:
    plain, fast = made(Plain, arguments), made(Fast, arguments)
    names = [one.name for one in dataclasses.fields(Plain)]
    assert [getattr(fast, name) for name in names] == [getattr(plain, name) for name in names]
    assert repr(fast) == repr(plain).replace("Plain", "Fast")
    assert made(Fast, arguments) == fast


@pytest.mark.parametrize("arguments", REFUSED)
def test_it_refuses_the_same_arguments(arguments: Arguments) -> None:
    for cls in (Plain, Fast):
        with pytest.raises(TypeError):
            made(cls, arguments)


def test_each_value_has_a_default_of_its_own() -> None:
    assert Fast("a").more is not Fast("a").more


def test_no_field_can_be_assigned_or_deleted() -> None:
    value = Fast("a")
    with pytest.raises(FrozenInstanceError):
        value.name = "b"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError):
        del value.name  # pyright: ignore[reportAttributeAccessIssue]
    assert value.name == "a"


def test_it_can_be_replaced_copied_pickled_and_inspected() -> None:
    value = TokenSpan(1, 0, 4)
    assert dataclasses.replace(value, end=5) == TokenSpan(1, 0, 5)
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert list(inspect.signature(Fast).parameters) == list(inspect.signature(Plain).parameters)
    call = AdvisorCall("propose", (1,), (2,), (-0.5,), (value,), "text", 1.0)
    assert pickle.loads(pickle.dumps(call)) == call


def test_what_follows_the_constructor_still_runs() -> None:
    with pytest.raises(ValueError, match="a prompt and an answer"):
        TrainedCall((), (), (), ())


def test_an_evaluation_without_metrics_has_none() -> None:
    evaluation = Evaluation("ok", 1.0, 2.0)
    assert evaluation.metrics == {} and type(evaluation.metrics) is dict


def test_a_class_without_slots_or_with_a_field_that_is_no_parameter_is_refused() -> None:
    @dataclass(frozen=True)
    class Loose:
        size: int

    @dataclass(frozen=True, slots=True)
    class Counted:
        size: int
        twice: int = field(init=False, default=0)

    @dataclass(frozen=True, slots=True)
    class Named:
        size: int = field(kw_only=True)

    for cls, name in ((Loose, "size"), (Counted, "twice"), (Named, "size")):
        with pytest.raises(TypeError, match=name):
            fast_init(cls)
