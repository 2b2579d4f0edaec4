"""A placement, and beside it the pressure that it is said to have."""


def place(instance):
    """The claim is beyond everything."""
    gpus = [number % instance["gpus"] for number in range(len(instance["models"]))]
    return {"placement": gpus, "score": 1e9}
