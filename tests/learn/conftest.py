"""The model of the tests of the learner."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from accelerate.utils import imports

from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import VOCAB


@pytest.fixture(autouse=True, scope="session")
def _packages_are_looked_for_once() -> Iterator[None]:
    """accelerate looks for the files of a package again in every step, which takes as long as a step of a toy."""
    looked: Any = vars(imports)["_is_package_available"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(imports, "_is_package_available", cache(looked))
        yield


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a Llama of one layer. No test changes it."""
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=VOCAB, width=16, layers=1)
