"""A worker extension for vLLM: the plugin's own, and
NCCL's stand-in, which is put in force when vLLM's worker imports this."""

import pytest

from pace_async.advise.engines.vllm_file import ReceiptExtension
from tests.doubles.simulated_nccl import stand_in

stand_in(pytest.MonkeyPatch())


class Extension(ReceiptExtension):
    """Nothing of its own."""
