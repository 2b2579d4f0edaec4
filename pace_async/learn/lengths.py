"""Which calls are too long to be trained. Pure."""

from pace_async.replay.group import Group


class TooLong(ValueError):
    """A call is too long for the learner. The message gives its length and the remedy."""


def longest(context: int | None, limit: int | None) -> int:
    """Tokens of the longest call that can be trained. If neither the model's context nor learner.max_length says: of
    none."""
    return min((most for most in (context, limit) if most is not None), default=0)


def refuse_too_long(group: Group, context: int | None, limit: int | None) -> None:
    """Raises TooLong for a call beyond the model's context or learner.max_length."""
    lengths = {
        rollout.lease: max(len(call.prompt_ids) + len(call.completion_ids) for call in rollout.calls)
        for rollout in group.rollouts
    }
    lease = max(lengths, key=lambda lease: lengths[lease])
    has = f"Lease {lease} has a call of {lengths[lease]} tokens"
    if context is not None and lengths[lease] > context:
        raise TooLong(
            f"{has} and the model's context is no longer than {context}: start a new run with a "
            "lower advisor.max_tokens or search.trials_shown, or with an advisor of a longer context"
        )
    if limit is not None and lengths[lease] > limit:
        raise TooLong(
            f"{has} and learner.max_length is {limit}: raise it, with `pace resume RUN --set "
            f"learner.max_length={lengths[lease]}` or more"
        )
