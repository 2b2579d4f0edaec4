"""Predict what several mutations do together from wild type, singles and doubles: ridge regression with pairs.

The settings in the evolve block steer the toolbox below. A variant is a handful of mutations, and every feature belongs
to one mutation or to two, so a design matrix is three arrays (rows, columns, values). Nothing here reads a clock: equal
settings give equal predictions.
"""

import numpy as np

# EVOLVE-BLOCK-START
target = "raw"
offset = 1.0
readout = "linear"
singles = "onehot"
pairs = "onehot"
ridge = 100.0
stiffness = 10.0
damping = 1.0
weighting = "flat"
winsor = 1.0
members = 1
combine = "mean"

STEPS = 80  # of conjugate gradients, for every ridge regression
CHUNK = 2048  # variants whose features are held at once
DRAW = 7  # seed of every resampling

# Hydropathy, volume, charge, and liking for helices and sheets of each residue, each scaled to about one.
TRAITS = {
    "A": (0.40, -0.80, 0.0, 0.9, -0.5), "C": (0.56, -0.50, 0.0, -0.7, 0.4), "D": (-0.78, -0.45, -1.0, 0.0, -1.2),
    "E": (-0.78, 0.00, -1.0, 1.2, -1.4), "F": (0.62, 0.90, 0.0, 0.3, 0.9), "G": (-0.09, -1.30, 0.0, -1.0, -0.6),
    "H": (-0.71, 0.15, 0.3, 0.0, -0.4), "I": (1.00, 0.50, 0.0, 0.2, 1.3), "K": (-0.87, 0.50, 1.0, 0.4, -0.7),
    "L": (0.84, 0.50, 0.0, 0.5, 0.6), "M": (0.42, 0.45, 0.0, 0.8, 0.1), "N": (-0.78, -0.40, 0.0, -0.9, -0.4),
    "P": (-0.36, -0.40, 0.0, -1.5, -1.1), "Q": (-0.78, 0.05, 0.0, 0.3, 0.2), "R": (-1.00, 0.60, 1.0, 0.1, -0.1),
    "S": (-0.18, -0.75, 0.0, -0.6, -0.6), "T": (-0.16, -0.35, 0.0, -0.5, 0.3), "V": (0.93, 0.00, 0.0, 0.1, 1.6),
    "W": (-0.20, 1.50, 0.0, 0.2, 0.7), "Y": (-0.29, 0.95, 0.0, -0.7, 0.8),
}  # fmt: skip
STOP = (0.0, 0.0, 0.0, 0.0, 0.0)


def predict(instance):
    """A number for each variant of instance["test"], from instance["train"] and instance["scores"]. Where it is known,
    instance["target_seq"] is the sequence of the wild type, whose first residue has the position 1."""
    protein = Protein(instance["train"] + instance["test"])
    count = len(instance["train"])
    known, asked = protein.held[:count], protein.held[count:]
    score = np.array(instance["scores"], dtype=float)
    score = np.minimum(score, np.quantile(score, winsor))
    link = Link(score)
    goal, weight = link.forward(score), WEIGHTINGS[weighting]((known >= 0).sum(axis=1), score)
    basis = [Block(protein, known, *kind) for kind in SINGLES[singles] + PAIRS[pairs]]
    draw = np.random.default_rng(DRAW)
    models = [regression(basis, known, goal, resampled(weight, draw)) for _ in range(members)]
    found = []
    for begin in range(0, len(asked), CHUNK):
        some = asked[begin : begin + CHUNK]
        latent = np.stack([evaluated(basis, some, model) for model in models])
        found.append(COMBINERS[combine](link.back(latent)))
    return np.concatenate(found)


class Protein:
    """`held` (variants, most mutations) numbers of mutations by position, −1 beyond a variant's last; `site` and
    `traits` of each mutation, the latter less those of the residue that it replaces."""

    def __init__(self, variants):
        number = {}
        split = [[number.setdefault(one, len(number)) for one in text.split(":")] if text else [] for text in variants]
        place = np.array([int(name[1:-1]) for name in number], dtype=int)
        rank = np.argsort(place, kind="stable")
        renumbered = np.empty(len(rank) + 1, dtype=int)
        renumbered[rank], renumbered[-1] = np.arange(len(rank)), -1
        widest = max(map(len, split))
        padded = renumbered[np.array([one + [-1] * (widest - len(one)) for one in split])]
        order = np.argsort(np.where(padded < 0, len(rank), padded), axis=1)
        self.held = np.take_along_axis(padded, order, axis=1)
        names = [list(number)[k] for k in rank]
        self.site = np.unique(place[rank], return_inverse=True)[1]
        self.traits = np.array([np.subtract(TRAITS.get(one[-1], STOP), TRAITS.get(one[0], STOP)) for one in names])


class Block:
    """Features of one kind: of one mutation or of two, each of its own (`onehot`) or by what the residues are like
    (`traits`). Columns are numbered by what occurs in the training set; what is new there has none."""

    def __init__(self, protein, known, order, kind):
        self.protein, self.order, self.kind = protein, order, kind
        keys = [self.keyed(parts)[1] for parts in self.parts(known)]
        self.keys = np.unique(np.concatenate(keys)) if keys else np.empty(0, dtype=int)
        self.width = 1 if kind == "onehot" else protein.traits.shape[1] ** order
        self.size = len(self.keys) * self.width

    def parts(self, held):
        """Columns of `held` that make one feature."""
        most = held.shape[1]
        if self.order == 1:
            return [held[:, [k]] for k in range(most)]
        return [held[:, [j, k]] for j in range(most) for k in range(j + 1, most)]

    def keyed(self, part):
        """(rows, keys) of the variants that have all mutations of this part."""
        rows = np.flatnonzero((part >= 0).all(axis=1))
        names = part[rows] if self.kind == "onehot" else self.protein.site[part[rows]]
        base = len(self.protein.site) + 1
        return rows, names[:, 0] if self.order == 1 else names[:, 0] * base + names[:, 1]

    def design(self, held):
        """(rows, columns, values) of these variants."""
        rows, columns, values = [], [], []
        for part in self.parts(held):
            row, key = self.keyed(part)
            at = np.searchsorted(self.keys, key)
            seen = self.keys[np.minimum(at, len(self.keys) - 1)] == key if len(self.keys) else np.zeros(len(key), bool)
            row, at = row[seen], at[seen]
            if self.kind == "onehot":
                rows, columns, values = [*rows, row], [*columns, at], [*values, np.ones(len(row))]
                continue
            value = self.protein.traits[part[row, 0]]
            if self.order == 2:
                other = self.protein.traits[part[row, 1]]
                value = (value[:, :, None] * other[:, None, :]).reshape(len(row), self.width)
            rows.append(np.repeat(row, self.width))
            columns.append((at[:, None] * self.width + np.arange(self.width)).ravel())
            values.append(value.ravel())
        if not rows:
            return np.empty(0, int), np.empty(0, int), np.empty(0)
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def regression(basis, known, goal, weight):
    """(centre, coefficients of each block): weighted ridge regression by conjugate gradients."""
    centre = (weight * goal).sum() / weight.sum()
    designs = [block.design(known) for block in basis]
    starts = np.cumsum([0] + [block.size for block in basis])
    rows = np.concatenate([design[0] for design in designs])
    columns = np.concatenate([design[1] + start for design, start in zip(designs, starts[:-1], strict=True)])
    values = np.concatenate([design[2] for design in designs])
    penalty = np.concatenate([np.full(block.size, ridge * (stiffness if block.order == 2 else 1.0)) for block in basis])
    size = starts[-1]

    def upward(residual):
        return np.bincount(columns, values * residual[rows], minlength=size)

    def forward(coefficients):
        return np.bincount(rows, values * coefficients[columns], minlength=len(goal))

    found = np.zeros(size)
    left = upward(weight * (goal - centre))
    scale = np.bincount(columns, values**2 * weight[rows], minlength=size) + penalty
    move = left / scale
    power, aim = left @ move, 1e-12 * (left @ move)
    for _ in range(STEPS):
        if power <= aim:
            break
        ahead = upward(weight * forward(move)) + penalty * move
        length = power / (move @ ahead)
        found += length * move
        left -= length * ahead
        step = left / scale
        power, before = left @ step, power
        move = step + power / before * move
    return centre, np.split(found, starts[1:-1])


def evaluated(basis, held, model):
    """Predictions on the scale of the regression, pairs damped where there are more of them than in a double."""
    centre, coefficients = model
    total = np.full(len(held), centre)
    many = (held >= 0).sum(axis=1)
    for block, mine in zip(basis, coefficients, strict=True):
        rows, columns, values = block.design(held)
        part = np.bincount(rows, values * mine[columns], minlength=len(held))
        total += part * damping ** np.maximum(many - 2, 0) if block.order == 2 else part
    return total


class Link:
    """Between scores and the scale on which effects are added up."""

    def __init__(self, score):
        self.low, self.high = score.min(), score.max()
        self.room = offset * np.std(score)

    def forward(self, score):
        return FORWARD[target](score - self.low + self.room, self.high - self.low + 2 * self.room)

    def back(self, latent):
        return READOUTS[readout](latent)


FORWARD = {
    "raw": lambda above, span: above,
    "root": lambda above, span: np.sqrt(above),
    "log": lambda above, span: np.log(above),
    "logit": lambda above, span: np.log(above / (span - above)),
}

READOUTS = {
    "linear": lambda latent: latent,
    "square": lambda latent: np.maximum(latent, 0.0) ** 2,
    "exp": lambda latent: np.exp(np.clip(latent, -30, 30)),
    "logistic": lambda latent: 1.0 / (1.0 + np.exp(-np.clip(latent, -30, 30))),
}

SINGLES = {"onehot": [(1, "onehot")], "traits": [(1, "traits")], "both": [(1, "onehot"), (1, "traits")]}
PAIRS = {"none": [], "onehot": [(2, "onehot")], "traits": [(2, "traits")], "both": [(2, "onehot"), (2, "traits")]}

WEIGHTINGS = {
    "flat": lambda order, score: np.ones(len(score)),
    "order": lambda order, score: len(order) / np.bincount(order)[order],
    "singles": lambda order, score: np.where(order < 2, 5.0, 1.0),
    "high": lambda order, score: 0.1 + (score - score.min()) / np.std(score),
    "low": lambda order, score: 1 / (0.1 + (score - score.min()) / np.std(score)),
}

COMBINERS = {
    "mean": lambda each: each.mean(axis=0),
    "median": lambda each: np.median(each, axis=0),
    "lowest": lambda each: each.min(axis=0),
}


def resampled(weight, draw):
    """As they are for one member; otherwise each times how often a bootstrap draws it."""
    return weight * draw.poisson(1.0, len(weight)) if members > 1 else weight


# EVOLVE-BLOCK-END
