"""Heights that compare with nothing: where the greatest value is found by comparing, NaN is never greater."""


def heights(instance):
    """None of them is a number."""
    return [float("nan")] * 10
