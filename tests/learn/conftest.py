"""The model of the tests of the learner."""

from pathlib import Path

import pytest

from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import VOCAB


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a Llama of one layer. No test changes it."""
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=VOCAB, width=16, layers=1)
