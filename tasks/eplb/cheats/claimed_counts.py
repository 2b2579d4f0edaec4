"""A map, and beside it counts of replicas that were never made, by which a scorer that believes them would divide."""


def place(instance):
    """Each expert once, and a claim of 288 of each."""
    slots, experts = instance["slots"], len(instance["load"][0])
    layers = [[slot % experts for slot in range(slots)] for _ in instance["load"]]
    return {"map": layers, "replicas": [[slots] * experts for _ in instance["load"]]}
