"""What an evaluator returns: numbers that are compared, and further findings that are only shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class EvaluationResult:
    """`metrics` are named numbers. `artifacts` are texts, bytes or JSON values for the author of the next program."""

    metrics: dict[str, Any]
    artifacts: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def from_dict(cls, metrics: dict[str, Any]) -> "EvaluationResult":
        """A result without artifacts."""
        return cls(metrics)

    def to_dict(self) -> dict[str, Any]:
        """The metrics alone."""
        return self.metrics

    def has_artifacts(self) -> bool:
        return len(self.artifacts) > 0

    def get_artifact_keys(self) -> list[str]:
        return [*self.artifacts]

    def get_artifact_size(self, key: str) -> int:
        """Bytes of one artifact, 0 if there is none of this name."""
        return _size(self.artifacts, key)

    def get_total_artifact_size(self) -> int:
        """Bytes of all artifacts."""
        return sum(_size(self.artifacts, key) for key in self.artifacts)


def _size(artifacts: Mapping[str, Any], key: str) -> int:
    value = artifacts.get(key, b"")
    return len(value if isinstance(value, bytes) else str(value).encode())
