"""A prompt begins as the tokenizer begins texts, and never ends as it ends them."""

from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from tokenizers import processors
from transformers import AutoTokenizer

from pace_async.advise.chat import TextFormat
from pace_async.advise.client import HttpEngine, special_token_ids
from pace_async.advise.engines.batcher import Batcher
from pace_async.advise.engines.embedded import load_model
from pace_async.advise.engines.server import build_app
from tests.support.families import VOCAB, write_model

BEGIN, END = 3, 1


@pytest.mark.parametrize(
    ("single", "begins", "ends"),
    [("$A", 0, 0), ("w3 $A", 1, 0), ("$A w1", 0, 1), ("w3 $A w1", 1, 1), ("w3 w3 $A w1 w1", 2, 2)],
)
async def test_no_end_token_of_the_tokenizer_ends_a_prompt(single: str, begins: int, ends: int, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", "llama")
    tokenizer: Any = cast("Any", AutoTokenizer).from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["w3"]})
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("w1", END), ("w3", BEGIN)]
    )
    tokenizer.save_pretrained(folder)
    tokenizer = cast("Any", AutoTokenizer).from_pretrained(folder)
    assert tokenizer.encode("w5") == [BEGIN] * begins + [5] + [END] * ends
    batcher = Batcher(load_model(folder, "cpu"), end_ids=frozenset({END}), max_rows=2, threads=1, version="0")
    app: Any = build_app(batcher, tokenizer, name="m", vocabulary=VOCAB, max_model_len=512)
    special = special_token_ids(folder)
    assert END in special
    transport = httpx.ASGITransport(app)
    async with HttpEngine("http://engine", text=TextFormat(special), transport=transport) as engine:
        start = (BEGIN,) * begins
        assert await engine.encode("w5 w6") == (*start, 5, 6)
        assert await engine.tokens("w5 w6") == (5, 6)
        assert (await engine.encode("w5 w1"))[: begins + 1] == (*start, 5)
        assert END not in await engine.encode("w1 w5 w1")
