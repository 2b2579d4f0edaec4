"""One optimizer step on one group, by TRL's GRPO trainer.

TRL computes the loss: the clipped surrogate over per-token ratios, divided by the valid tokens of the whole group
("dapo") or by nothing, so the cut into micro-batches does not matter. Three things differ from TRL. A batch comes from
a group, not from prompts to generate from (`_prepare_inputs`). A step is taken on demand, not by a loop over a dataset.
Tokens are weighted before the surrogate is formed (`_get_per_token_logps_and_entropies`: at that point the policy's
logprobs are known and the (B, T) advantages are not yet used). There are no reward functions, because advantages come
with the group. `kl_penalty` adds TRL's own KL term: the ratio times k3 against version 0, which is a mean under the
trained policy whichever policy sampled. The correction does not weight that term.

Invariant: a step happens with finite loss and gradient and within `settings.limits`, or weights and optimizer stay
unchanged. A step beyond the limits is shortened first (`movement`, `backtrack`).
Only imported in the learner's child process.
"""

import math
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from torch.nn.utils import clip_grad_norm_
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from pace_async.learn.adapters import load_model, with_adapters
from pace_async.learn.arguments import arguments_of
from pace_async.learn.backtrack import BeforeStep
from pace_async.learn.batch import MicroBatch, micro_batches
from pace_async.learn.correction import selection, weigh
from pace_async.learn.head import Answers, OwnHead, chunk_of, prepared, scores
from pace_async.learn.lengths import longest, refuse_too_long
from pace_async.learn.movement import HALVINGS, Movement, above_noise, beyond, movement, noise_metrics, too_far
from pace_async.learn.noise import DRAWS, dithered, is_noisy, rounding
from pace_async.learn.packing import can_pack, pack_rows
from pace_async.learn.passes import in_half, products_in_float32, recompute
from pace_async.learn.ranks import ALONE, Ranks
from pace_async.learn.ratios import off_policy_metrics
from pace_async.learn.seen import ForwardPass, array, group_facts, log_ratio
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.shards import is_sharded, shard, sum_gradients, whole
from pace_async.learn.steady import calm, fixed_text, refuse_noise
from pace_async.registry.corrections import CORRECTIONS
from pace_async.replay.group import Group
from pace_async.row_positions import refuse_dependent_rows


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of a step. `reason` is "" if it was taken, else why the weights are unchanged. `metrics` are `loss`,
    `grad_norm` (before clipping), `broken_tokens` (see `correction`), those of `ratios.off_policy_metrics`,
    `kl_reference` (mean k3 against version 0) with a KL penalty, and with limits those of `movement.Movement`, of
    `movement.noise_metrics` and `step_scale`, the share of the step that was taken. Metrics that are not finite
    are omitted."""

    reason: str
    metrics: dict[str, float]
    seconds: float


@dataclass(frozen=True, slots=True)
class Models:
    """What one learner loads: the policy with its tokenizer, the configuration of its adapters (None: all weights are
    trained), and the frozen reference of the KL penalty, if there is one."""

    policy: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    adapters: Any = None
    reference: PreTrainedModel | None = None


class GroupTrainer(GRPOTrainer):
    """GRPO over groups that were sampled elsewhere."""

    def __init__(self, models: Models, settings: TrainerConfig, out: Path, *, ranks: Ranks = ALONE):
        never_read = cast("Any", Dataset).from_dict({"prompt": [""]})  # the base class requires a dataset
        self._seen: list[ForwardPass] = []
        self._batch: MicroBatch | None = None
        self._inputs: dict[str, torch.Tensor] = {}
        self._kept: list[npt.NDArray[np.bool_]] | None = None
        self.settings, self.ranks = settings, ranks
        base = cast("Any", super())
        policy, reference = models.policy, models.reference
        if settings.gradient_checkpointing:
            recompute(policy)
        if ranks.count > 1 and settings.lora_rank is None:
            for model in (policy, reference) if reference is not None else (policy,):
                shard(model, ranks, half=settings.precision == "bf16")
        base.__init__(
            policy,
            _never_called,
            arguments_of(settings, out),
            never_read,
            processing_class=models.tokenizer,
            peft_config=models.adapters,
        )
        self.policy = cast("PreTrainedModel", cast("Any", self).model)  # with adapters, TRL wraps it
        self.reference = cast("Any", reference).eval().to(self.accelerator.device) if reference is not None else None
        self.beta = settings.kl_penalty if reference is not None else 0.0
        self.adamw: torch.optim.AdamW = base.create_optimizer()
        self._pad_id = cast("int", self._tokenizer.pad_token_id)
        with self._precision():
            refuse_noise(self.policy, ranks)
            refuse_dependent_rows(self.policy, longest(self._context, settings.max_length))
        both, text, eps = (self.policy, self.reference), fixed_text(self.policy), self._rounding
        chunks = prepared(both, self._run, text, eps)
        if settings.float32_head and not chunks:
            raise OwnHead("its head has adapters or an unknown way with logits: advisor.float32_head is not for it")
        self._head_chunk = settings.head_chunk if chunks else 0
        self.packs = settings.packing == "auto" and can_pack(both, self._run, text, eps)

    def step(self, group: Group) -> StepResult:
        """Train on every valid token of `group` once. Raises TooLong, after which nothing has changed."""
        refuse_too_long(group, self._context, self.settings.max_length)
        began = time.perf_counter()
        if all(rollout.advantage == 0 for rollout in group.rollouts):
            return StepResult("every advantage is 0", {}, 0.0)  # weight decay alone would move the weights
        batches = self._cut(group)
        metrics = self._gradient(batches)
        norm, reason = float(whole(clip_grad_norm_(self.policy.parameters(), self.settings.max_grad_norm))), ""
        if not math.isfinite(metrics["loss"]):
            reason = "the loss is not finite"
        elif not math.isfinite(norm):
            reason = "the gradient is not finite"
        elif metrics["masked_fraction"] == 1.0:
            reason = "no token is left after the correction"
        elif norm == 0.0:
            reason = "the gradient is 0"  # weight decay and momentum alone would move the weights
        else:
            moved, reason = self._move(batches, group.rate)
            metrics |= moved
        self._seen.clear()
        self.policy.zero_grad()
        finite = {name: value for name, value in {**metrics, "grad_norm": norm}.items() if math.isfinite(value)}
        return StepResult(reason, finite, time.perf_counter() - began)

    def accumulate(self, group: Group) -> dict[str, float]:
        """Leave the gradient of the group's loss in the weights' `grad`. Returns the loss and the metrics."""
        metrics = self._gradient(self._cut(group))
        self._seen.clear()
        return metrics

    def _cut(self, group: Group) -> list[MicroBatch]:
        """This rank's micro-batches, as many as any other rank's."""
        budget, ranks = self.settings.micro_tokens, self.ranks
        return micro_batches(group, budget, self._pad_id, packs=self.packs, rank=ranks.number, ranks=ranks.count)

    def _gradient(self, batches: list[MicroBatch]) -> dict[str, float]:
        """As `accumulate`, but keep the results of the forward passes for `_move`."""
        self.current_gradient_accumulation_steps = len(batches)
        cast("GRPOConfig", self.args).steps_per_generation = len(batches)
        self._seen.clear()
        self.policy.zero_grad()
        self._kept = self._selected(batches) if CORRECTIONS[self.settings.correction.kind].selects else None
        with products_in_float32(self.accelerator.device.type, half=self.settings.precision == "bf16"):
            loss = sum(float(self.training_step(self.policy, cast("Any", batch), None)) for batch in batches)
        if not is_sharded(self.policy):
            sum_gradients(self.policy.parameters(), self.ranks)
        cast("dict[str, Any]", vars(self)["_metrics"])["train"].clear()  # TRL's own log is never written
        return {"loss": sum(self.ranks.gathered(loss)), **self._measured(batches)}

    def _selected(self, batches: list[MicroBatch]) -> list[npt.NDArray[np.bool_]]:
        """The tokens of the group that its correction keeps, for each micro-batch. Takes a forward pass of its own,
        because the choice depends on the whole group."""
        log_ratios: list[npt.NDArray[np.float64]] = []
        for batch in batches:
            inputs = self._prepare_inputs(batch)
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
            attended = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
            with torch.no_grad():
                logprobs_BT = self._score(self.policy, ids, attended, batch.rest_ids_BT.shape[1])[0]
            log_ratios.append(log_ratio(logprobs_BT, batch))
        everyone = self.ranks.gathered((log_ratios, [batch.answer_BT.astype(bool) for batch in batches]))
        ratios, masks = ([part for own in side for part in own] for side in zip(*everyone, strict=True))
        selections = selection(ratios, masks, self.settings.correction)
        return selections[self.ranks.number * len(batches) :][: len(batches)]

    def _move(self, batches: list[MicroBatch], rate: float) -> tuple[dict[str, float], str]:
        """Take the optimizer's step within the limits. Returns its metrics, and why it was undone, or ""."""
        self._warm_up(rate)
        limits = self.settings.limits
        before = BeforeStep(self.adamw) if limits.hold else None
        cast("Any", self.adamw).step()
        if before is None:
            return {}, ""
        halvings, moved = 0, self._moved(batches)
        noise = self._noise(batches, before) if beyond(moved, limits) else []
        limits = above_noise(limits, noise)
        while beyond(moved, limits) and halvings < HALVINGS:
            before.halve()
            halvings, moved = halvings + 1, self._moved(batches)
        reason = too_far(moved, limits)
        if reason:
            before.undo()
        metrics = noise_metrics(noise, self.settings.limits, limits)
        return {**moved.metrics, **metrics, "step_scale": 0.0 if reason else 0.5**halvings}, reason

    def _noise(self, batches: list[MicroBatch], before: BeforeStep) -> list[Movement]:
        """What rounding alone moves, on the step's tokens, with its first weights. Nothing if it can reach no limit."""
        if not is_noisy(self._rounding):
            return []
        measured: list[Movement] = []
        with before.at_start():
            for draw in range(DRAWS):
                with dithered(self.policy, self._rounding, draw):
                    measured.append(self._moved(batches))
        return measured

    @property
    def _rounding(self) -> float:
        return rounding(self.policy, half=self.settings.precision == "bf16")

    def _warm_up(self, rate: float) -> None:
        """Set the next step's learning rate: the settings' rate times `rate`, and less during warm-up. The number of
        steps comes from AdamW's state, which a checkpoint contains."""
        states = cast("dict[torch.Tensor, dict[str, torch.Tensor]]", self.adamw.state)
        steps = max((float(state["step"]) for state in states.values()), default=0.0)
        share = min(1.0, (steps + 1) / self.settings.warmup) if self.settings.warmup else 1.0
        for weights in self.adamw.param_groups:
            weights["lr"] = self.settings.learning_rate * rate * share

    def _moved(self, batches: list[MicroBatch]) -> Movement:
        """Movement from the policy of the step's own forward passes to the current policy."""
        before: list[npt.NDArray[np.float64]] = []
        after: list[npt.NDArray[np.float64]] = []
        for batch, forward_pass in zip(batches, self._seen, strict=True):
            counts_BT = batch.answer_BT.astype(bool) & ~forward_pass.weighed.broken_BT
            positional, keywords = forward_pass.arguments
            self._batch = batch
            with torch.no_grad():
                logprobs_BT = self._score(self.policy, *positional, **keywords)[0]
            for values, tensor in ((before, forward_pass.logprobs_BT), (after, logprobs_BT)):
                values.append(array(tensor)[counts_BT])
        everyone = self.ranks.gathered((np.concatenate(before), np.concatenate(after)))
        return movement(*(np.concatenate(side) for side in zip(*everyone, strict=True)))

    def logprobs(self, prompt_ids: list[int], completion_ids: list[int]) -> list[float]:
        """Log-probability in nats of each token of an answer, at the run's temperature."""
        self.ranks.call("logprobs", prompt_ids, completion_ids)
        ids_1T = torch.tensor([[*prompt_ids, *completion_ids]], device=self.accelerator.device)
        scored_1N = torch.ones((1, len(completion_ids)), dtype=torch.bool, device=ids_1T.device)
        with torch.no_grad():
            return cast("Any", self._scores(self.policy, ids_1T, None, scored_1N)[0]).tolist()

    @property
    def _context(self) -> int | None:
        return cast("int | None", getattr(self.policy.config, "max_position_embeddings", None))

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, torch.Tensor]:
        """One micro-batch for `_compute_loss`: (B, P) prompts, (B, T) remaining tokens, masks and advantages."""
        batch = cast("MicroBatch", generation_batch)
        device = self.accelerator.device
        arrays = {
            "prompt_ids": batch.prompt_ids_BP,
            "prompt_mask": np.ones_like(batch.prompt_ids_BP),
            "completion_ids": batch.rest_ids_BT,
            "completion_mask": batch.attended_BT,
            "tool_mask": batch.answer_BT,  # TRL's name for the trained part of a completion
            "advantages": batch.advantages_BT,
        }
        tokens = torch.tensor(float(self.settings.divisor(batch.group_tokens)), device=device)
        tensors = {name: torch.tensor(array, device=device) for name, array in arrays.items()}
        self._batch, self._inputs = batch, {**tensors, "num_items_in_batch": tokens}
        return self._inputs

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        """Logprobs and entropies (B, T), not by TRL's own head: without a card that scores the prompts too, and version
        0 does not have it. They are also kept for the metrics. TRL forms the surrogate next, so here the correction's
        weights go into the advantages and the ratio gets its denominator."""
        computed = self._score(*args, **kwargs)
        assert self._batch is not None
        logprobs_BT = computed[0].detach()
        answer_BT = self._batch.answer_BT.astype(bool)
        weighed = weigh(
            log_ratio(logprobs_BT, self._batch),
            answer_BT,
            self._batch.ages_BT,
            self.settings.correction,
            kept_BT=None if self._kept is None else self._kept[len(self._seen)],
        )
        inputs = self._inputs
        inputs["advantages"] = inputs["advantages"] * torch.tensor(weighed.weights_BT, dtype=torch.float32).to(
            logprobs_BT.device
        )
        if CORRECTIONS[self.settings.correction.kind].ratio_to_sampler:
            sampled_BT = torch.tensor(self._batch.sampled_logprobs_BT, device=logprobs_BT.device)
            broken_BT = torch.tensor(weighed.broken_BT, device=logprobs_BT.device)
            inputs["old_per_token_logps"] = torch.where(broken_BT, logprobs_BT, sampled_BT)  # 0 * inf would be NaN
        reference_BT = None
        if self.reference is not None:
            with torch.no_grad():
                reference_BT = self._score(self.reference, *args[1:], **kwargs)[0]
            inputs["ref_per_token_logps"] = reference_BT
        self._seen.append(ForwardPass((args[1:], kwargs), logprobs_BT, computed[1].detach(), reference_BT, weighed))
        return computed

    def _run(self, model: Any, **inputs: Any) -> Any:
        """One forward pass, in the precision of the settings."""
        if model.training:
            calm(model)  # the base class puts all of it into training mode
        with self._precision():
            return model(**inputs, use_cache=False)

    @contextmanager
    def _precision(self) -> Generator[None]:
        """Forward passes in the precision of the settings."""
        device, half = self.accelerator.device.type, self.settings.precision == "bf16"
        with in_half(device, half=half), products_in_float32(device, half=half):
            yield

    def _score(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, length: int, **_: Any
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Logprobs and entropies (B, T), 0 where no token is trained."""
        assert self._batch is not None
        answer_BT = torch.tensor(self._batch.answer_BT.astype(bool), device=input_ids.device)
        nothing_BT = torch.zeros(answer_BT.shape, device=input_ids.device)
        if self.packs:
            row = pack_rows(input_ids, answer_BT, self._batch.lengths)
            scores = self._scores(model, row.ids_1L, None, row.scored_1T, row.inputs)
        else:
            scores = self._scores(model, input_ids, attention_mask, answer_BT)
        logprobs_BT, entropies_BT = (nothing_BT.masked_scatter(answer_BT, score_N) for score_N in scores)
        return logprobs_BT, entropies_BT, None

    def _scores(
        self,
        model: Any,
        ids_BL: torch.Tensor,
        attended_BL: torch.Tensor | None,
        scored_BT: torch.Tensor,
        inputs: Mapping[str, Any] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logprobs and entropies (N,) of the tokens on which `scored_BT` is true. `inputs`: of a packed row."""
        rows_N, columns_N = scored_BT.nonzero(as_tuple=True)
        float32 = self.settings.float32_head
        chunk = chunk_of(self._head_chunk, len(rows_N), model.config.get_text_config().vocab_size, float32=float32)
        temperature, in_one_row = self.settings.temperature, inputs is not None
        answers = Answers(rows_N, columns_N, scored_BT.shape[1], temperature, chunk, in_one_row, float32)
        return scores(partial(self._run, model, **(inputs or {})), ids_BL, attended_BL, answers)

    def _measured(self, batches: list[MicroBatch]) -> dict[str, float]:
        group = group_facts(batches, self._seen, self.ranks)
        clips = CORRECTIONS[self.settings.correction.kind].ratio_to_sampler
        metrics = off_policy_metrics(group.facts, self.epsilon_low, self.epsilon_high, clips=clips)
        metrics["broken_tokens"] = group.broken
        if group.reference_N is not None:
            away_N = group.reference_N - group.facts.logprobs_N
            with np.errstate(all="ignore"):
                metrics["kl_reference"] = float((np.exp(away_N) - 1.0 - away_N).mean())
        return metrics


def load_trainer(
    model: Path, settings: TrainerConfig, out: Path, base: Path | None = None, *, ranks: Ranks = ALONE
) -> GroupTrainer:
    """A trainer on the weights in directory `model`, in float32 (a step of 1e-6 vanishes in bfloat16). `base` is
    version 0's directory, if it is another one: the base of adapters, and the reference of the KL penalty. Of several
    `ranks`, each has to call this. Raises RandomPasses, OwnHead."""
    torch.set_num_threads(settings.threads)
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")  # TF32 where float32 stays: ten times as fast on a card
    tokenizer = cast("Any", AutoTokenizer).from_pretrained(base or model, local_files_only=True)
    kind = "auto" if settings.lora_rank is not None else torch.float32  # that of the policy without its adapters
    frozen = load_model(base, kind) if base is not None and settings.kl_penalty > 0 else None
    if settings.lora_rank is not None:
        policy, adapters = with_adapters(base or model, model, settings.lora_rank, settings.lora_alpha)
    else:
        policy, adapters = load_model(model, torch.float32), None
    return GroupTrainer(Models(policy, tokenizer, adapters, frozen), settings, out, ranks=ranks)


def _never_called(**_: Any) -> list[float]:
    raise AssertionError("advantages come with the group")
