"""The tokenizer without transformers, against transformers."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from transformers import AutoTokenizer

from pace_async.tokenizer_file import TokenizerFile, end_tokens
from scripts.benchmarks.toys import write_llama

TEMPLATE = """{%- for message in messages %}
    {%- if message.role not in ['user', 'assistant'] %}{{ raise_exception('no such role') }}{%- endif %}
    {{- 'w5 ' + message['content'] | trim + ' ' + eos_token + ' ' }}
{%- endfor %}
{%- if tools %}{{ tools | tojson }}{%- endif %}
{%- if add_generation_prompt %}{{- 'w6 ' }}
    {%- if enable_thinking is defined and not enable_thinking %}w7{%- endif %}
{%- endif %}
"""
CHAT = [{"role": "user", "content": "w9 w8"}, {"role": "assistant", "content": "w3"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "model", vocab=20, width=16, layers=1)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("arguments", [{}, {"enable_thinking": False}])
def test_texts_and_chats_have_the_tokens_that_transformers_gives_them(
    arguments: dict[str, Any], asks: bool, folder: Path
) -> None:
    theirs = cast("Any", AutoTokenizer).from_pretrained(folder, local_files_only=True)
    ours = TokenizerFile(folder, TEMPLATE)
    for text in ("w3 w4 unknown", "w1", ""):
        assert ours.encode(text, add_special_tokens=True) == theirs.encode(text)
    assert ours.decode([3, 1, 4]) == theirs.decode([3, 1, 4])
    assert ours.decode([3, 1, 4], skip_special_tokens=True) == theirs.decode([3, 1, 4], skip_special_tokens=True)
    theirs.chat_template = TEMPLATE
    text = theirs.apply_chat_template(CHAT, add_generation_prompt=asks, tokenize=False, **arguments)
    assert ours.chat(CHAT, asks, arguments) == theirs.encode(text, add_special_tokens=False)
    assert len(ours) == len(theirs)


def test_what_cannot_be_read_or_rendered_is_said(folder: Path) -> None:
    assert end_tokens(folder) == (1,)
    with pytest.raises(ValueError, match="the chat template cannot be applied: no such role"):
        TokenizerFile(folder, TEMPLATE).chat([{"role": "tool", "content": "w3"}], True, {})
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 4]}), "utf-8")
    assert end_tokens(folder) == (1, 4)
    (folder / "tokenizer.json").write_text("{", "utf-8")
    with pytest.raises(ValueError, match="cannot be read"):
        TokenizerFile(folder)
