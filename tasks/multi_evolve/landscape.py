"""Synthetic fitness landscapes: effects of mutations, of pairs that touch, and a scale that saturates.

A mutation changes a hidden quantity, in part by what the two residues are like; pairs of sites in contact change it
further. Fitness is nearly exponential in it and levels off at the top, so most variants with several mutations are
dead and what is additive does not look so. Measured with noise. Everything follows from a seed.
"""

from dataclasses import dataclass

import numpy as np

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
# Hydropathy, size and charge, in the order of RESIDUES.
LIKE = np.array(
    [
        [
            1.8,
            2.5,
            -3.5,
            -3.5,
            2.8,
            -0.4,
            -3.2,
            4.5,
            -3.9,
            3.8,
            1.9,
            -3.5,
            -1.6,
            -3.5,
            -4.5,
            -0.8,
            -0.7,
            4.2,
            -0.9,
            -1.3,
        ],
        [89, 109, 111, 138, 190, 60, 153, 167, 169, 167, 163, 114, 113, 144, 174, 89, 116, 140, 228, 194],
        [0, 0, -1, -1, 0, 0, 0.1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
    ]
).T
LIKE = (LIKE - LIKE.mean(axis=0)) / LIKE.std(axis=0)


@dataclass(frozen=True, slots=True)
class Shape:
    """`options` residues besides the wild type's at each of `sites` sites; of the doubles `doubles` are measured;
    `asked` variants of 3 to `deepest` mutations. `burden` is how much a mutation costs on average, `contacts` the share
    of pairs of sites that touch, `touch` how much that matters, `top` the greatest fitness there is."""

    name: str
    sites: int
    options: int
    doubles: int
    asked: int
    deepest: int
    burden: float
    contacts: float
    touch: float
    top: float


SHAPES = (
    Shape("pocket", 4, 19, doubles=1400, asked=3000, deepest=4, burden=1.6, contacts=1.0, touch=0.9, top=9.0),
    Shape("core", 8, 12, doubles=1400, asked=3000, deepest=6, burden=2.0, contacts=0.4, touch=1.3, top=9.0),
    Shape("surface", 16, 5, doubles=1200, asked=3000, deepest=8, burden=1.3, contacts=0.2, touch=1.2, top=4.0),
)
UNEVEN = 1.2  # spread of the effects of single mutations
HIDDEN = 0.15  # spread of what no pair explains, for each mutation beyond the second
NOISE, FLOOR = 0.1, 0.02  # of a measurement: a share of it, and what is read where there is nothing
TOLD = 2  # mutations up to which variants are for training


def rows(shape: Shape, seed: int) -> list[tuple[str, float]]:
    """(variant, fitness) of wild type, all singles, some doubles and some of higher order; the wild type has 1."""
    rng = np.random.default_rng([seed, shape.sites, shape.options])
    wild = rng.integers(len(RESIDUES), size=shape.sites)
    places = np.sort(rng.choice(np.arange(2, 200), shape.sites, replace=False))
    others = np.array([rng.permutation(np.delete(np.arange(len(RESIDUES)), w))[: shape.options] for w in wild])
    single, pair = _effects(shape, LIKE[others] - LIKE[wild][:, None], rng)
    chosen = _variants(shape, rng)  # (variants, sites)
    mutated = chosen >= 0
    order = mutated.sum(axis=1)
    hidden = HIDDEN * np.maximum(order - TOLD, 0) * rng.standard_normal(len(chosen))
    for site in range(shape.sites):
        hidden += np.where(mutated[:, site], single[site, chosen[:, site]], 0.0)
        for other in range(site + 1, shape.sites):
            both = mutated[:, site] & mutated[:, other]
            hidden += np.where(both, pair[site, chosen[:, site], other, chosen[:, other]], 0.0)
    grown = np.exp(np.minimum(hidden, 30.0))
    fitness = shape.top * grown / (shape.top - 1 + grown)
    read = fitness * np.exp(NOISE * rng.standard_normal(len(chosen))) + FLOOR * abs(rng.standard_normal(len(chosen)))
    read[order == 0] = 1.0
    words = [
        [f"{RESIDUES[w]}{place}{RESIDUES[o]}" for o in mine]
        for w, place, mine in zip(wild, places, others, strict=True)
    ]
    names = [":".join(words[s][o] for s, o in enumerate(variant) if o >= 0) for variant in chosen.tolist()]
    return list(zip(names, read.tolist(), strict=True))


def _effects(shape: Shape, like: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Effects of mutations (sites, options), and of pairs of them (sites, options, sites, options), from the traits
    (sites, options, 3) by which residues differ from the wild type's."""
    sites, options, traits = like.shape
    taste = rng.standard_normal((sites, traits))
    single = np.einsum("sot,st->so", like, taste) / np.sqrt(traits) + rng.standard_normal((sites, options))
    single = UNEVEN / np.sqrt(2) * single - shape.burden
    touching = np.triu(rng.random((sites, sites)) < shape.contacts, 1)
    taste = rng.standard_normal((sites, sites, traits, traits))
    smooth = np.einsum("sot,ruv,srtv->soru", like, like, taste) / traits
    pair = smooth + rng.standard_normal((sites, options, sites, options))
    return single, shape.touch / np.sqrt(2) * pair * touching[:, None, :, None]


def _variants(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """(variants, sites) options, −1 for the wild type's residue: wild type, all singles, and as many doubles and
    variants of higher order as the shape says, or as there are; each once."""
    few = np.full((1 + shape.sites * shape.options, shape.sites), -1)
    few[np.arange(1, len(few)), np.repeat(np.arange(shape.sites), shape.options)] = np.tile(
        np.arange(shape.options), shape.sites
    )
    parts = [few]
    for count, fewest, most in ((shape.doubles, TOLD, TOLD), (shape.asked, TOLD + 1, shape.deepest)):
        drawn = rng.integers(shape.options, size=(2 * count, shape.sites))
        turn = rng.random(drawn.shape).argsort(axis=1).argsort(axis=1)
        drawn[turn >= rng.integers(fewest, most + 1, size=(2 * count, 1))] = -1
        _, first = np.unique(drawn, axis=0, return_index=True)
        parts.append(drawn[np.sort(first)[:count]])
    return np.concatenate(parts)
