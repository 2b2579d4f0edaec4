"""One optimizer step on one group, by TRL's GRPO trainer.

TRL computes the loss: the clipped surrogate over per-token ratios against the sampling policy, divided by the valid
tokens of the whole group ("dapo"), so that it does not matter how the group is cut into micro-batches. What is ours is
where a batch comes from (`_prepare_inputs`: a group, not prompts to generate from) and when a step is taken (on demand,
not by a loop over a dataset). No KL term and no reference model: the paper has none. No reward functions either:
advantages come with the group.

Invariant: a step either happens wholly, from finite loss and gradient, or leaves weights and optimizer as they were.
Only imported in the learner's child process.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset
from torch.nn.utils import clip_grad_norm_
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from pace_async.learn.batch import MicroBatch, micro_batches
from pace_async.learn.ratios import TokenFacts, off_policy_metrics
from pace_async.learn.settings import Settings
from pace_async.replay.group import Group


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a step. `reason` is empty if it was taken, else it says why weights are as they were. `metrics` are
    `loss`, `grad_norm` (before clipping) and those of `ratios.off_policy_metrics`, as far as they are finite."""

    reason: str
    metrics: dict[str, float]
    seconds: float


class GroupTrainer(GRPOTrainer):
    """GRPO over groups that were sampled elsewhere."""

    def __init__(self, policy: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, settings: Settings, out: Path):
        never_read = cast("Any", Dataset).from_dict({"prompt": [""]})  # the base class insists on a dataset
        self._seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.settings = settings
        base = cast("Any", super())
        base.__init__(policy, _never_called, _arguments(settings, out), never_read, processing_class=tokenizer)
        self.policy = policy
        self.adamw: torch.optim.AdamW = base.create_optimizer()
        self._pad_id = cast("int", self._tokenizer.pad_token_id)

    def step(self, group: Group) -> Taken:
        """Train on every valid token of `group` once."""
        began = time.perf_counter()
        if all(rollout.advantage == 0 for rollout in group.rollouts):
            return Taken("every advantage is 0", {}, 0.0)  # weight decay alone would move the weights
        metrics = self.accumulate(group)
        norm = float(clip_grad_norm_(self.policy.parameters(), self.settings.max_grad_norm))
        reason = ""
        if not math.isfinite(metrics["loss"]):
            reason = "the loss is not finite"
        elif not math.isfinite(norm):
            reason = "the gradient is not finite"
        else:
            cast("Any", self.adamw).step()
        self.policy.zero_grad()
        finite = {name: value for name, value in {**metrics, "grad_norm": norm}.items() if math.isfinite(value)}
        return Taken(reason, finite, time.perf_counter() - began)

    def accumulate(self, group: Group) -> dict[str, float]:
        """The gradient of the group's loss, left in the weights' `grad`; the loss and what else was measured."""
        batches = micro_batches(group, self.settings.micro_batch, self._pad_id)
        self.current_gradient_accumulation_steps = len(batches)
        cast("GRPOConfig", self.args).steps_per_generation = len(batches)
        self._seen.clear()
        self.policy.zero_grad()
        loss = sum(float(self.training_step(self.policy, cast("Any", batch), None)) for batch in batches)
        cast("dict[str, Any]", vars(self)["_metrics"])["train"].clear()  # TRL's log of them is never written
        return {"loss": loss, **off_policy_metrics(self._facts(batches), self.epsilon_low, self.epsilon_high)}

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, torch.Tensor]:
        """One micro-batch as `_compute_loss` takes it: (B, P) prompts, (B, T) answers, masks, advantages, logprobs."""
        batch = cast("MicroBatch", generation_batch)
        device = self.accelerator.device
        arrays = {
            "prompt_ids": batch.prompt_ids_BP,
            "prompt_mask": batch.prompt_mask_BP,
            "completion_ids": batch.completion_ids_BT,
            "completion_mask": batch.completion_mask_BT,
            "advantages": batch.advantages_BT,
            "old_per_token_logps": batch.sampled_logprobs_BT,
        }
        tokens = torch.tensor(float(batch.group_tokens), device=device)
        tensors = {name: torch.tensor(array, device=device) for name, array in arrays.items()}
        return {**tensors, "num_items_in_batch": tokens}

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        """Logprobs and entropies (B, T) as TRL computes them, kept aside for the metrics. On a CPU TRL's fused head
        scores the prompt too, a fifth of the step where prompts are long; there the model's own head is asked for the
        answer alone."""
        if self.accelerator.device.type == "cpu" and not kwargs.get("compute_aux_loss"):
            computed = self._score_answers(*args)
        else:
            computed = cast("Any", super())._get_per_token_logps_and_entropies(*args, **kwargs)
        self._seen.append((computed[0].detach(), computed[1].detach()))
        return computed

    def _score_answers(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, length: int
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        output = model(input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=length + 1, use_cache=False)
        logprobs_BTV = torch.log_softmax(output.logits[:, :-1].float() / self.temperature, dim=-1)
        logprobs_BT = logprobs_BTV.gather(-1, input_ids[:, -length:].unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            entropies_BT = -(logprobs_BTV.exp() * logprobs_BTV).sum(-1)
        return logprobs_BT, entropies_BT, None

    def _facts(self, batches: list[MicroBatch]) -> TokenFacts:
        masks = [batch.completion_mask_BT.astype(bool) for batch in batches]
        seen = [
            (logprobs.double().cpu().numpy(), entropies.double().cpu().numpy()) for logprobs, entropies in self._seen
        ]

        def flat(arrays: list[Any], dtype: Any) -> Any:
            return np.concatenate([array[mask] for array, mask in zip(arrays, masks, strict=True)]).astype(dtype)

        return TokenFacts(
            logprobs_N=flat([logprobs for logprobs, _ in seen], np.float64),
            sampled_N=flat([batch.sampled_logprobs_BT for batch in batches], np.float64),
            entropies_N=flat([entropies for _, entropies in seen], np.float64),
            advantages_N=flat([batch.advantages_BT for batch in batches], np.float64),
            ages_N=flat([batch.ages_BT for batch in batches], np.int64),
            rollouts_N=flat([batch.rollouts_B[:, None] + 0 * batch.ages_BT for batch in batches], np.int64),
        )


def load_trainer(model: Path, settings: Settings, out: Path) -> GroupTrainer:
    """A trainer on the weights in directory `model`, in float32 (a step of 1e-6 vanishes in bfloat16)."""
    torch.set_num_threads(settings.threads)
    policy = cast("Any", AutoModelForCausalLM).from_pretrained(model, dtype=torch.float32, local_files_only=True)
    tokenizer = cast("Any", AutoTokenizer).from_pretrained(model, local_files_only=True)
    return GroupTrainer(policy, tokenizer, settings, out)


def _never_called(**_: Any) -> list[float]:
    raise AssertionError("advantages come with the group")


def _arguments(settings: Settings, out: Path) -> GRPOConfig:
    return GRPOConfig(
        output_dir=str(out),
        loss_type="dapo",
        num_iterations=1,
        beta=0.0,
        epsilon=settings.clip_low,
        epsilon_high=settings.clip_high,
        temperature=settings.temperature,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        optim="adamw_torch",
        weight_decay=settings.weight_decay,
        adam_beta1=settings.betas[0],
        adam_beta2=settings.betas[1],
        max_grad_norm=settings.max_grad_norm,
        per_device_train_batch_size=settings.micro_batch,
        gradient_accumulation_steps=2,  # as many as a step needs; any number satisfies TRL's check of group sizes
        num_generations=2,
        disable_dropout=True,
        gradient_checkpointing=False,
        bf16=False,
        use_vllm=False,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_num_workers=0,
    )
