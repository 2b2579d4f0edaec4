"""A task with a short program of settings, and a small model that writes edits of it: for advisors that write the code
themselves.

The model is a random Llama that was taught, for some seconds, to answer with the whole block and any digit. So most of
its answers are edits, and which digit it writes is left to learn.
"""

import random
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from pace_async.weights import write_atomically
from tests.support.engine_models import END, byte_tokenizer, tiny_config, write_model

EVALUATOR = """
def instances(seed):
    return [0]

def score(instances, outputs, seed):
    return {"score": float(outputs[0])}
"""
BLOCK = "size = {size}\n"
PROGRAM = f"# EVOLVE-BLOCK-START\n{BLOCK}# EVOLVE-BLOCK-END\n\n\ndef solve(instance):\n    return size\n"
ANSWER = f"Take another size.\n```python\n{BLOCK}```\n"
TEMPLATES = {
    "write_system": "Write an edit.",
    "write": "```{{ section.program.partition('```')[2] }}\n\n# Request\nChange the size.",
}
"""Without the words before the program, which the model was not taught."""
STEPS, BATCH, RATE = 120, 8, 3e-3


def write_task(folder: Path) -> Path:
    """The task's folder. The score is the program's only setting, a digit."""
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text(
        "name: sizes\nbackground: Find the size.\ncoding_requirements: solve(instance) returns a number.\n"
        "direction: maximize\nbounds: {lower: 0.0, upper: 9.0}\nprogram: initial.py\nevaluator: evaluator.py\n"
        "entry: solve\ntimeout_s: 10\nmemory_mb: 512\ndeterministic: true\n"
    )
    (folder / "evaluator.py").write_text(EVALUATOR)
    (folder / "initial.py").write_text(PROGRAM.format(size=3))
    (folder / "prompts").mkdir()
    for name, text in TEMPLATES.items():
        (folder / "prompts" / f"{name}.j2").write_text(text)
    return folder


def question(size: int) -> str:
    """What the model is asked about a program, as a run asks it."""
    return f"Write an edit.\n\n```python\n{PROGRAM.format(size=size)}```\n\n# Request\nChange the size.\n"


def save_writing_model(folder: Path) -> Path:
    """The model's folder. Equal calls on one machine give equal weights."""
    draw, tokenizer, threads = random.Random(0), byte_tokenizer(), torch.get_num_threads()
    torch.set_num_threads(1)  # with several, a busy machine takes ten times as long
    torch.manual_seed(0)
    model = LlamaForCausalLM(tiny_config())
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        asked = [tokenizer.encode(question(draw.randrange(10))) for _ in range(BATCH)]
        answers = [[*tokenizer.encode(ANSWER.format(size=draw.randrange(10))), END] for _ in range(BATCH)]
        longest = max(len(one) + len(other) for one, other in zip(asked, answers, strict=True))
        filled = [(one + other, len(one)) for one, other in zip(asked, answers, strict=True)]
        ids = torch.tensor([tokens + [END] * (longest - len(tokens)) for tokens, _ in filled])
        labels = torch.tensor(
            [[-100] * begin + tokens[begin:] + [-100] * (longest - len(tokens)) for tokens, begin in filled]
        )
        loss = model(input_ids=ids, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    torch.set_num_threads(threads)
    write_atomically(folder, lambda target: write_model(target, model))
    return folder
