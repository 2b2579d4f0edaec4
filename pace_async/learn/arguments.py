"""TRL's arguments for a trainer that takes one step on demand.

Only imported in the learner's child process.
"""

from pathlib import Path

import torch
from trl.trainer.grpo_config import GRPOConfig

from pace_async.learn.settings import TrainerConfig


def arguments_of(settings: TrainerConfig, out: Path) -> GRPOConfig:
    """The arguments that these settings give. `out` is never written to."""
    return GRPOConfig(
        output_dir=str(out),
        loss_type="dapo",
        num_iterations=1,
        use_bias_correction_kl=True,
        beta=0.0,  # otherwise the base class loads its own reference model
        epsilon=settings.clip_low,
        epsilon_high=settings.clip_high,
        temperature=settings.temperature,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        # On a card, the usual AdamW makes one more copy of all weights in a step.
        optim="adamw_torch_fused" if torch.cuda.is_available() else "adamw_torch",
        weight_decay=settings.weight_decay,
        adam_beta1=settings.betas[0],
        adam_beta2=settings.betas[1],
        max_grad_norm=settings.max_grad_norm,
        per_device_train_batch_size=1,  # TRL does not cut rows here
        gradient_accumulation_steps=2,  # set again for each step; 2 satisfies TRL's check of group sizes
        num_generations=2,
        router_aux_loss_coef=0.0,  # it depends on the cut into passes, and the documented loss has no such term
        disable_dropout=True,
        gradient_checkpointing=False,  # `passes` does both
        bf16=False,
        use_vllm=False,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_num_workers=0,
    )
