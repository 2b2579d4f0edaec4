"""Coordinates of four thousand digits, and a set beyond all vectors."""


def cap_set(instance):
    """They would be reduced modulo 3 for ever."""
    return [[10**4000] * 8] * 10
