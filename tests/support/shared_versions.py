"""A small version to be shared, and how it is served."""

from dataclasses import replace

import torch

from tests.support.transfers import table_of

HELD = {
    "matrix": torch.arange(70.0).reshape(7, 10),
    "one number": torch.tensor(3.0),
    "rounded": torch.linspace(-1, 1, 12).reshape(3, 4),
    "not in one piece": torch.arange(12.0).reshape(3, 4).T,
    "empty": torch.empty(0, 5),
}
TABLE = replace(table_of(HELD), dtypes=["float32", "float32", "bfloat16", "float32", "float32"])
SERVED = {name: tensor.to(torch.bfloat16) if name == "rounded" else tensor for name, tensor in HELD.items()}
