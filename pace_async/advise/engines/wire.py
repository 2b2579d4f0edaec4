"""The subset of the HTTP protocol of vLLM 0.32 and 0.33 that pace uses, as types. Client and embedded engine share it.

    POST /inference/v1/generate     token ids in, token ids, logprobs and weight-version spans out
    POST /tokenize /detokenize      text, or messages of a chat, to ids and back (the text keeps special tokens)
    GET  /health /v1/models /load /version    (/version: vLLM only)
    POST /pause?mode=keep&clear_cache=true    GET /is_paused    POST /resume
    POST /init_weight_transfer_engine /start_weight_update /update_weights /finish_weight_update
    POST /collective_rpc {"method": M}   → {"results": [{tensor name: digest}, …]}, one for each worker
        M = weights_prepared   tensors read from the announced directory, null until all are read
        M = weight_receipt     tensors that the model holds
    GET  /weight_info               POST /reset_prefix_cache

Requests reject unknown fields, which a server would ignore silently. Answers may contain more fields than are read
here. Not a general client: it samples from the whole distribution (top-p 1), and one request gives one answer.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from pace_async.transfer import Offer


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class SamplingParams(_Request):
    """How to sample. `logprobs` 0 requests those of the sampled tokens. `ignore_eos` continues after the end token.
    `stop_token_ids` end an answer too, and are part of it."""

    max_tokens: int = Field(ge=1)
    temperature: float = Field(default=1.0, gt=0)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    ignore_eos: bool = False
    stop_token_ids: list[int] | None = None
    logprobs: Literal[0] = 0
    top_p: Literal[1] = 1
    top_k: Literal[0, -1] = 0
    n: Literal[1] = 1


class GenerateRequest(_Request):
    """One prompt as token ids."""

    token_ids: list[int] = Field(min_length=1)
    sampling_params: SamplingParams
    model: str | None = None
    request_id: str | None = None
    stream: Literal[False] = False


class TokenLogprob(_Answer):
    token_id: int
    logprob: float


class Logprobs(_Answer):
    content: list[TokenLogprob]


class VersionSpan(_Answer):
    """Completion tokens [start, end) were sampled by the weights labelled `version`."""

    version: str
    start: int
    end: int


class CompletionChoice(_Answer):
    """`weight_versions` is None if the server does not report which weights sampled which token."""

    index: int
    finish_reason: str
    token_ids: list[int]
    logprobs: Logprobs
    weight_versions: list[VersionSpan] | None = None


class GenerateAnswer(_Answer):
    request_id: str
    choices: list[CompletionChoice]


class TokenizeRequest(_Request):
    prompt: str
    add_special_tokens: bool = True
    model: str | None = None


class TokenizeChatRequest(_Request):
    """Messages of a chat (`role`, `content`), put through the model's chat template with `chat_template_kwargs`."""

    messages: list[dict[str, str]] = Field(min_length=1)
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None
    model: str | None = None


class AnyTokenizeRequest(RootModel[TokenizeRequest | TokenizeChatRequest]):
    """What a server may be asked."""


class TokenizeAnswer(_Answer):
    count: int
    max_model_len: int
    tokens: list[int]


class DetokenizeRequest(_Request):
    tokens: list[int]
    model: str | None = None


class DetokenizeAnswer(_Answer):
    prompt: str


class InitRequest(_Request):
    """Announces the directory of the next update. An engine reads it while it generates."""

    init_info: "Announcement"


class FileUpdate(_Request):
    """`path`: a checkpoint directory with safetensors files, as the engine sees it."""

    path: str


class Announcement(FileUpdate):
    """`fetch`: fetch this offer, and know it under `path`, which is then of another machine."""

    fetch: Offer | None = None


class UpdateRequest(_Request):
    update_info: FileUpdate


class FinishRequest(_Request):
    weight_version: str


class RpcRequest(_Request):
    method: Literal["weights_prepared", "weight_receipt"]


class WeightInfo(_Answer):
    weight_version: str


class ServerVersion(_Answer):
    """The server's own version, such as 0.33.0."""

    version: str


def generate_answer(
    request_id: str,
    token_ids: Sequence[int],
    logprobs: Sequence[float],
    finish: str,
    spans: Sequence[tuple[str, int, int]],
) -> dict[str, Any]:
    """The JSON of a `GenerateAnswer` with one choice. `spans` are (version label, start, end) over its tokens."""
    content = [{"token_id": token, "logprob": logprob} for token, logprob in zip(token_ids, logprobs, strict=True)]
    choice = {
        "index": 0,
        "finish_reason": finish,
        "token_ids": token_ids,
        "logprobs": {"content": content},
        "weight_versions": [{"version": version, "start": start, "end": end} for version, start, end in spans],
    }
    return {"request_id": request_id, "choices": [choice]}
