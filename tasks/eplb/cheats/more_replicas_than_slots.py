"""Two replicas of every expert and of the busiest many more, in slots that the machine does not have."""


def place(instance):
    """512 slots and more."""
    return [[*range(len(layer)), *range(len(layer)), *[layer.index(max(layer))] * 64] for layer in instance["load"]]
