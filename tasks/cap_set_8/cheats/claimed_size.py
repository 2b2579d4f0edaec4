"""A small set, and beside it the size that it is said to have."""


def cap_set(instance):
    """The claim is beyond everything."""
    return {"vectors": [[0] * 8, [1] * 8], "size": 1e9}
