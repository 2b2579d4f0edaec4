"""Base of every section of the configuration, and a kind of value that several have."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class Section(BaseModel):
    """Unknown keys are refused, values are fixed, numbers finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _without_password(url: str) -> str:
    if not re.match(r"https?://", url) or "@" in url or "?" in url:
        raise ValueError("must be http(s)://HOST/PATH, without a password or a query")
    return url


ServiceUrl = Annotated[str, AfterValidator(_without_password)]
"""The address of a service. It is stored, so it holds no secret."""
