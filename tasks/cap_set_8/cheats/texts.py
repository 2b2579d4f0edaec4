"""Vectors as texts of digits."""

import itertools


def cap_set(instance):
    """A scorer could read them digit by digit."""
    return ["".join(vector) for vector in itertools.product("01", repeat=8)]
