"""Recommend what a user watches next, trained as the authors train: one target a user, larger batches, a cosine.

What stands in the evolve block says how a history becomes features, how these are mixed along the sequence, what is
kept of it, and how items are scored. What follows the block (batches, training, the answer) stays as it is. Nothing
here reads a clock: on one thread, equal programs give equal scores.
"""

import base64
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional

# EVOLVE-BLOCK-START
HEADS = 2
PERIODS = (86_400.0, 604_800.0)  # seconds: day and week
HARMONICS = 2
EXPANSION = 2  # of the feed-forward layer
DROPOUT = 0.5
CHUNK = 128  # positions that attend to each other directly


class Features(nn.Module):
    """What was watched, at which hour of the day and how long after the one before: (b, n) each to (b, n, width)."""

    def __init__(self, items, width):
        super().__init__()
        self.item = nn.Embedding(items + 1, width, padding_idx=0)
        self.hour = nn.Embedding(24, width)
        self.pause = nn.Embedding(24, width)
        for table in (self.item, self.hour, self.pause):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, items, times):
        pause = torch.log2(1.0 + gaps(times)).long().clamp(max=23)
        return self.item(items) + self.hour(times % 86_400 // 3600) + self.pause(pause)


def gaps(times):
    """Seconds since the interaction before, 0 for the first: (b, n)."""
    return functional.pad(times.diff(dim=1).clamp(min=0), (1, 0)).float()


def faded(query, key, value, fade):
    """Sum over the positions j up to each i of (query i · key j) value j, times exp of the sum of `fade` from j + 1 to
    i. (b, heads, n, features), the same, (b, heads, n, values) and (b or 1, heads, n), which is not positive. In time
    and memory linear in n: within a chunk directly, from chunk to chunk by a state."""
    total = fade.cumsum(-1)
    before = torch.zeros_like(total[..., :1])
    state, found = 0.0, []
    for begin in range(0, query.shape[2], CHUNK):
        part = slice(begin, begin + CHUNK)
        q, k, v, here = query[..., part, :], key[..., part, :], value[..., part, :], total[..., part]
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
        reach = (here[..., :, None] - here[..., None, :]).masked_fill(later, -torch.inf).exp()
        mixed = (q @ k.transpose(-1, -2) * reach) @ v
        if begin:
            mixed = mixed + (q * (here - before).exp()[..., None]) @ state
        end = here[..., -1:]
        state = state * (end - before).exp()[..., None] + (k * (end - here).exp()[..., None]).transpose(-1, -2) @ v
        before = end
        found.append(mixed)
    return torch.cat(found, dim=2)


class Mixer(nn.Module):
    """One block. Three channels carry values along the sequence, each by weights of its own: retention by what was
    watched, fading by position; temporal by the time of day and week, fading by hours; positional by where in the
    sequence. They are normalised, gated, joined, and followed by a feed-forward layer."""

    def __init__(self, width, history):
        super().__init__()
        self.before, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.asked = nn.Linear(width, 2 * width, bias=False)
        self.carried = nn.Linear(width, 3 * width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.joined = nn.Linear(3 * width, width, bias=False)
        self.normal = nn.RMSNorm(width // HEADS, elementwise_affine=False)
        self.register_buffer("decay", torch.log1p(-(2.0 ** -torch.linspace(1, 6, HEADS))))
        self.strength = nn.Parameter(torch.zeros(HEADS, 1 + len(PERIODS) * HARMONICS))
        self.hourly = nn.Parameter(torch.linspace(2, -4, HEADS))
        self.place = nn.Parameter(0.3 * torch.randn(2, HEADS, history, 8))
        self.wide = nn.Linear(width, 2 * EXPANSION * width, bias=False)
        self.narrow = nn.Linear(EXPANSION * width, width, bias=False)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x, times):
        here = self.before(x)
        values = [heads(part) for part in self.carried(here).chunk(3, dim=-1)]
        channels = (self.retention(here, values[0]), self.temporal(times, values[1]), self.positional(values[2]))
        mixed = torch.cat([joined(self.normal(channel)) for channel in channels], dim=-1)
        x = x + self.drop(self.joined(mixed * functional.silu(self.gate(here))))
        wide, gate = self.wide(self.after(x)).chunk(2, dim=-1)
        return x + self.drop(self.narrow(wide * functional.silu(gate)))

    def retention(self, here, value):
        query, key = (heads(part) for part in self.asked(here).chunk(2, dim=-1))
        fade = self.decay[None, :, None].expand(1, HEADS, here.shape[1])
        return faded(query, key, value, fade)

    def temporal(self, times, value):
        waves = clock(times)[:, None].expand(-1, HEADS, -1, -1)
        strength = functional.softplus(self.strength)
        each = torch.cat([strength, strength[:, 1:]], dim=-1)  # cosine and sine of a wave are equally strong
        fade = -functional.softplus(self.hourly)[:, None] * gaps(times)[:, None] / 3600
        return faded(waves, waves * each[:, None], value, fade.clamp(min=-20.0))

    def positional(self, value):
        query, key = self.place[:, None, :, : value.shape[2]]
        return faded(query, key, value, torch.zeros(1, HEADS, value.shape[2]))


def clock(times):
    """1, then the cosines and the sines of all waves: (b, n, 1 + 2 waves)."""
    phases = [times % int(period) * (2 * torch.pi * k / period) for period in PERIODS for k in range(1, HARMONICS + 1)]
    angle = torch.stack(phases, dim=-1).float()
    return torch.cat([torch.ones_like(angle[..., :1]), angle.cos(), angle.sin()], dim=-1)


def heads(x):
    """(b, n, width) to (b, heads, n, width / heads)."""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def joined(x):
    """What `heads` took apart."""
    return x.transpose(1, 2).flatten(-2)


class Recommender(nn.Module):
    """`items` are numbers from 1, and 0 behind the end of a shorter history; `times` whole seconds since 1970."""

    def __init__(self, items, history, width, blocks):
        super().__init__()
        self.features = Features(items, width)
        self.mixers = nn.ModuleList(Mixer(width, history) for _ in range(blocks))
        self.last = nn.RMSNorm(width)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, items, times):
        """(b, n, width): of each position what is known of the user there, from no later position."""
        x = self.drop(self.features(items, times))
        for mixer in self.mixers:
            x = mixer(x, times)
        return self.pooled(x)

    def pooled(self, x):
        return self.last(x)

    def score(self, users, items):
        """(m, c) of users (m, width) and items: (c,), the same for all, or (m, c)."""
        found = self.features.item(items)
        if items.dim() == 1:
            return users @ found.T
        return (users[:, None] * found).sum(-1)


# EVOLVE-BLOCK-END


BATCH = 128  # users
NEGATIVES = 128  # items that the next one is told from, drawn evenly for each batch
RATE, DECAY, BETAS = 1e-3, 0.01, (0.9, 0.999)  # of AdamW
WARM = 0.05  # share of the steps in which the rate rises; then it falls to 0 as a cosine does
DRAW = 0  # what all random numbers follow from: equal programs, equal scores
LEAST = -60_000.0  # half precision ends at -65,504


def recommend(instance):
    """Base64 of a score for every user and item, in half precision: (users, catalogue)."""
    use_a_card()
    torch.manual_seed(DRAW)
    items, times, lengths = histories(instance)
    catalogue = instance["catalogue"]
    model = Recommender(catalogue, instance["history"], instance["width"], instance["blocks"])
    train(model, items, times, lengths, catalogue, instance["epochs"])
    return base64.b64encode(ranking(model, items, times, lengths, catalogue).cpu().numpy().tobytes()).decode()


def use_a_card():
    """Where this evaluation has a card, tensors are made there from here on."""
    if torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # or its sums differ from run to run
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.set_default_device("cuda")


def histories(instance):
    """Items and times (users, longest), 0 behind the end of each, and lengths (users,)."""
    lengths = torch.as_tensor(numbers(instance["lengths"], "<u2"))
    found = torch.zeros(2, len(lengths), int(lengths.max()), dtype=torch.int64)
    there = torch.arange(found.shape[2]) < lengths[:, None]
    for row, values in zip(found, (numbers(instance["items"], "<u2"), numbers(instance["times"], "<u4")), strict=True):
        row[there] = torch.as_tensor(values)
    return found[0], found[1], lengths


def numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), kind).astype(np.int64)


def batches(lengths, shuffled):
    """Users of about equal history together, in a random order where `shuffled`."""
    order = torch.randperm(len(lengths)) if shuffled else torch.arange(len(lengths))
    order = order[torch.argsort(lengths[order], stable=True)]
    parts = order.split(BATCH)
    return [parts[k] for k in torch.randperm(len(parts))] if shuffled else parts


def train(model, items, times, lengths, catalogue, epochs):
    """`epochs` times through all users, the last item of each history to be scored above drawn ones."""
    parameters = list(model.parameters())
    moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in parameters]
    steps = epochs * -(-len(lengths) // BATCH)
    step = 0
    model.train()
    for _ in range(epochs):
        for batch in batches(lengths, shuffled=True):
            step += 1
            longest = int(lengths[batch].max())
            last = lengths[batch] - 1
            rows = torch.arange(len(batch))
            users = model(items[batch, : longest - 1], times[batch, : longest - 1])[rows, last - 1]
            model.zero_grad()
            sampled_softmax(model, users, items[batch, last], catalogue).backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            descend(parameters, moments, step, RATE * scheduled(step, steps))


def scheduled(step, steps):
    """Share of the rate at a step, counted from 1."""
    warm = max(1, round(WARM * steps))
    if step <= warm:
        return step / warm
    return (1 + np.cos(np.pi * (step - warm) / (steps - warm + 1))) / 2


@torch.no_grad()
def descend(parameters, moments, step, rate):
    """One step of AdamW. Torch's own takes seconds to load, which every program would pay for."""
    for each, (mean, square) in zip(parameters, moments, strict=True):
        if each.grad is None:
            continue
        mean.lerp_(each.grad, 1 - BETAS[0])
        square.lerp_(each.grad.square(), 1 - BETAS[1])
        spread = (square / (1 - BETAS[1] ** step)).sqrt_().add_(1e-8)
        each.mul_(1 - rate * DECAY).addcdiv_(mean / (1 - BETAS[0] ** step), spread, value=-rate)


def sampled_softmax(model, users, target, catalogue):
    """Mean cross-entropy of the next items (m,), drawn ones standing for all others."""
    drawn = torch.randint(1, catalogue + 1, (NEGATIVES,))
    others = model.score(users, drawn) + np.log((catalogue - 1) / NEGATIVES)
    others = others.masked_fill(drawn == target[:, None], -torch.inf)
    scores = torch.cat([model.score(users, target[:, None]), others], dim=1)
    return functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.int64))


@torch.no_grad()
def ranking(model, items, times, lengths, catalogue):
    """(users, catalogue) scores, less the best of each user's: half precision is finest near 0."""
    model.eval()
    every = torch.arange(1, catalogue + 1)
    found = torch.empty(len(lengths), catalogue, dtype=torch.float16)
    for batch in batches(lengths, shuffled=False):
        longest = int(lengths[batch].max())
        users = model(items[batch, :longest], times[batch, :longest])[torch.arange(len(batch)), lengths[batch] - 1]
        scores = model.score(users, every)
        found[batch] = (scores - scores.max(dim=1, keepdim=True).values).clamp(min=LEAST).half()
    return found
