"""What kind of experiment one is, as far as it may matter to who implements it. Pure.

    tuning       a short sentence that names a value: a number, or a word in quotes
    invention    any other, the first experiment on its idea
    refinement   any other, on an idea that was tried before

Few kinds on purpose: what is learned of a model is learned for each kind apart, from some hundred rollouts in all.
"""

import re

from pace_async.events import Kind

SHORT = 16
"""Words; a longer sentence describes more than a value."""
_VALUE = re.compile(r"(?<!\w)[-+]?\d[\d.]*(?:e[-+]?\d+)?(?!\w)|([\"'`])[\w.+-]+\1", re.IGNORECASE)


def kind_of(experiment: str, trials: int) -> Kind:
    """The kind of an experiment on an idea that had so many before."""
    if len(experiment.split()) <= SHORT and _VALUE.search(experiment):
        return "tuning"
    return "refinement" if trials else "invention"
