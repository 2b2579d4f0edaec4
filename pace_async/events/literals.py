"""Literal types shared by events and tables."""

from typing import Literal

Purpose = Literal["propose", "assess", "select"]
Role = Literal["implementer", "advisor", "notes"]
"""Who asks a model over the network, or what for: `notes` are a page for the whole run."""
Action = Literal["backtrack", "crossover"]
Kind = Literal["tuning", "invention", "refinement"]
Subject = Literal["idea", "candidate", "note"]
"""What a person's word is about."""
Closing = Literal["trained", "skipped", "aborted", "expired"]
Outcome = Literal[
    "ok",
    "candidate_error",
    "timeout",
    "out_of_memory",
    "output_overflow",
    "invalid_score",
    "suspicious",
    "infrastructure_error",
    "unparsed",
    "not_implemented",
    "unchanged",
    "below_threshold",
    "pruned",
]

Reporter = Literal["scorer", "evaluator"]
