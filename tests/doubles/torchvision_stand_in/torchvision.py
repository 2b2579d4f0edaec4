"""Stands in for torchvision, without which vLLM's CPU build is installed. The modules of models that also see import
it, and touch it only where there are pictures."""

import sys
from unittest.mock import MagicMock

PARTS = ("io", "transforms", "transforms.functional", "transforms.v2", "transforms.v2.functional")

__version__ = "0.28.0"

sys.modules.update({f"{__name__}.{part}": MagicMock() for part in PARTS})
