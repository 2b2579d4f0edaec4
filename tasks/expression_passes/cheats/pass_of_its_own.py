"""A function in place of the name of a pass: it would be called with the graph."""


def orders(instance):
    """It leaves nothing of a graph."""
    return {
        name: [lambda graph: type(graph)((("const", 0),), (0,) * len(graph.outputs))] * 3
        for name in instance["functions"]
    }
