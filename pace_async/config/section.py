"""Base of every section of the configuration, and a kind of value that several have."""

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict


@dataclass(frozen=True, slots=True)
class OnResume:
    """Whether a setting may change when a run goes on. `why_not` is a clause that says why it may not, empty if it
    may. `how` says what may become of it."""

    why_not: str = ""
    how: str = "may change"


MAY_CHANGE = OnResume()
MAY_BE_RAISED = OnResume(how="may be raised")


def stays(reason: str) -> OnResume:
    """It may not change, because of this."""
    return OnResume(reason, f"stays: {reason}")


class Section(BaseModel):
    """Unknown keys are refused, values are fixed, numbers finite.

    `on_resume` is what holds for the settings of the section that do not say it themselves. Invariant: a setting may
    change only if three things hold. The recorded groups still give the same training. Scores and rewards before and
    after can still be compared. The islands can still be rebuilt from the rows."""

    on_resume: ClassVar[OnResume] = stays("nobody has said that it may change")

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _without_password(url: str) -> str:
    if not re.match(r"https?://", url) or "@" in url or "?" in url:
        raise ValueError("must be http(s)://HOST/PATH, without a password or a query")
    return url


ServiceUrl = Annotated[str, AfterValidator(_without_password)]
"""The address of a service. It is stored, so it holds no secret."""
