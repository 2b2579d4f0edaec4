"""Which versions of vLLM a server by URL may have. A server reports its own: there is no setting for it. Pure.

The plugin's names were compared with the source of each version in `COMPARED`. A later one is not refused, because
receipts and probes prove every push. An earlier one lacks paths that a run needs.
"""

import re

COMPARED = ((0, 32), (0, 33))


def series(version: str) -> tuple[int, int] | None:
    """(0, 33) of 0.33.1. None for a build between releases and for another text."""
    match = re.match(r"(\d+)\.(\d+)(?![\d.]*\.?dev)", version)
    return None if match is None else (int(match[1]), int(match[2]))


def why_not(server: str, learner: str | None) -> str | None:
    """Why a vLLM of this version cannot serve a run, as a clause. None if it can. `learner`: the version in the run's
    environment if weights go from GPU to GPU, where each end runs a part of vLLM, else None."""
    own, oldest = series(server), COMPARED[0]
    if own is not None and own < oldest:
        return f"is vLLM {server}, and a run needs vLLM {oldest[0]}.{oldest[1]} or a later one"
    if learner is not None and own != series(learner):
        return f"is vLLM {server} and the learner's is {learner}, and both ends of a transfer must be of one version"
    return None
