"""Where a run is recorded."""

import re
from typing import ClassVar

from pydantic import Field, field_validator

from pace_async.config.section import OnResume, Section, stays


class PopulationConfig(Section):
    """Where a run is recorded."""

    on_resume: ClassVar[OnResume] = stays("the rows stay where they are")

    url: str | None = Field(
        default=None,
        description="A PostgreSQL database, as postgresql://USER@HOST/NAME; by default a SQLite file in the run's "
        "folder. The password comes from PGPASSWORD or ~/.pgpass.",
    )

    @field_validator("url")
    @classmethod
    def _no_password(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not re.match(r"postgres(ql)?://[^/?#]*/[^/]", url) or re.search(r"://[^/@]*:[^/@]*@|pass", url):
            raise ValueError("must be postgresql://USER@HOST/NAME; a password belongs in PGPASSWORD or ~/.pgpass")
        return url
