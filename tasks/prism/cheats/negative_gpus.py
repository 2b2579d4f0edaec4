"""Negative numbers of GPUs, which count from the end, or beside all."""


def place(instance):
    """They name the same GPUs to some languages."""
    return [-1 - number % instance["gpus"] for number in range(len(instance["models"]))]
