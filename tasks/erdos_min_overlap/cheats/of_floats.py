"""Heights in [0, 1] as floats whose rounded sum is half their number, while the exact one is not."""


def heights(instance):
    """The scorer takes whole numbers only."""
    return [0.1] * 3 + [0.9] * 3 + [0.5000000000000001]
