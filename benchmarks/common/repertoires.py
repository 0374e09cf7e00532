"""Repertoires of immune receptors: associated sequences, and motifs implanted into sequences.

``cmv`` has the people of a study of cytomegalovirus: a pool of associated sequences, of which a
repertoire has a beta-binomial number by its depth, with the parameters that immuneML prints for the
data of Emerson et al. (2017). The other sequences are random identities: their probabilities are
log-normal, with the parameters that fit how often 16 repertoires of 25,000 sequences of OLGA share
one. ``motifs`` are the five labels of immuneML's benchmark: k-mers implanted into sequences of
OLGA, here drawn from one pool, so that a repertoire takes milliseconds. In ``needle`` the motif of
DeepRC's data sets is implanted into positive repertoires only.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from scipy import sparse

from milearn import Bags

# Associated sequences: their number, and alpha and beta of negative and positive people.
POOL = 539
COUNTS = ((4.2, 148_472.0), (6.79, 35_330.0))
POSITIVE_SHARE = 0.45
# Spread of the depth, and natural logarithms of the probability of a sequence.
DEPTH_SPREAD = 0.3
LOG_PROBABILITY = (-19.1, 2.8)
# Sequences with lower probabilities are in one repertoire only; those with higher ones are drawn
# one by one.
PRIVATE, COMMON = -21.5, -15.0
N_BINS = 130


@dataclass(frozen=True)
class People:
    """Repertoires of training and of test people."""

    train: Bags
    y_train: np.ndarray
    test: Bags
    y_test: np.ndarray
    # Columns of the associated sequences that at least two training people have.
    associated: np.ndarray


@dataclass(frozen=True)
class _Background:
    """Identities by bins of equal probability; ``starts`` has the first one of each bin."""

    probabilities: np.ndarray
    starts: np.ndarray

    @classmethod
    def make(cls) -> _Background:
        edges = np.linspace(PRIVATE, LOG_PROBABILITY[0] + 5 * LOG_PROBABILITY[1], N_BINS + 1)
        middle = (edges[1:] + edges[:-1]) / 2
        mean, spread = LOG_PROBABILITY
        density = np.exp(-0.5 * ((middle - mean) / spread) ** 2) / (spread * np.sqrt(2 * np.pi))
        sizes = np.rint(density * np.diff(edges) / np.exp(middle)).astype(np.int64)
        return cls(np.exp(middle[sizes > 0]), np.concatenate([[0], np.cumsum(sizes[sizes > 0])]))

    @cached_property
    def first_common(self) -> int:
        return int(np.searchsorted(self.probabilities, np.exp(COMMON)))

    def draw(self, depth: int, rng: np.random.Generator) -> np.ndarray:
        """Sorted identities of a repertoire that other repertoires can share."""
        present = -np.expm1(-depth * self.probabilities)
        sizes, rare = np.diff(self.starts), slice(0, self.first_common)
        numbers = rng.binomial(sizes[rare], present[rare])
        drawn = (rng.random(numbers.sum()) * np.repeat(sizes[rare], numbers)).astype(np.int64)
        drawn += np.repeat(self.starts[:-1][rare], numbers)
        common = np.repeat(present[self.first_common :], sizes[self.first_common :])
        found = np.flatnonzero(rng.random(len(common)) < common)
        return np.concatenate([np.unique(drawn), found + self.starts[self.first_common]])


def draw_cmv(n_train: int, seed: int, *, depth: int, n_test: int = 200) -> People:
    """Draw people; the sequences of one training person only are instances without a feature."""
    rng = np.random.default_rng(seed)
    background = _Background.make()
    parts = [rng.permutation(n) < POSITIVE_SHARE * n for n in (n_train, n_test)]
    y = np.concatenate(parts).astype(int)
    depths = np.rint(depth * rng.lognormal(0, DEPTH_SPREAD, len(y))).astype(int)
    rows = []
    for positive, size in zip(y.tolist(), depths.tolist(), strict=True):
        number = min(POOL, rng.binomial(size, rng.beta(*COUNTS[positive])))
        own = np.sort(rng.choice(POOL, number, replace=False))
        rows.append(np.concatenate([own, background.draw(size, rng) + POOL]))
    shared, number = np.unique(np.concatenate(rows[:n_train]), return_counts=True)
    shared = shared[number > 1]
    columns = []
    for row in rows:
        places = np.minimum(np.searchsorted(shared, row), len(shared) - 1)
        columns.append(places[shared[places] == row])
    train, test = (
        _bags(columns[part], depths[part], len(shared))
        for part in (slice(0, n_train), slice(n_train, None))
    )
    associated = np.flatnonzero(shared < POOL)
    return People(train, y[:n_train], test, y[n_train:], associated)


def _bags(columns: list[np.ndarray], depths: np.ndarray, n_features: int) -> Bags:
    """An instance with all shared sequences of a person, and one for each of the others."""
    sizes = np.array([len(row) for row in columns])
    offsets = np.concatenate([[0], np.cumsum(1 + np.maximum(depths - sizes, 0))])
    ends = np.zeros(offsets[-1] + 1, dtype=np.int64)
    ends[offsets[:-1] + 1] = sizes
    indices = np.concatenate(columns).astype(np.int32)
    parts = (np.ones(len(indices), dtype=np.float32), indices, np.cumsum(ends))
    return Bags(sparse.csr_array(parts, shape=(offsets[-1], n_features)), offsets)


# -- a motif ---------------------------------------------------------------------------------------

# The first of four starts: the middle of the sequence, for IMGT positions 109 to 112.
MOTIF, N_STARTS, START = "SFEN", 4, -2


@cache
def olga_pool(n_sequences: int, model: str) -> np.ndarray:
    """Productive CDR3 sequences of OLGA, kept in a temporary folder."""
    file = Path(tempfile.gettempdir()) / f"milearn-olga-{model}-{n_sequences}.npy"
    if not file.is_file():
        from olga import load_model, sequence_generation

        folder = Path(load_model.__file__).parent / "default_models" / model
        genes, recombination = load_model.GenomicDataVDJ(), load_model.GenerativeModelVDJ()
        anchors = [str(folder / f"{gene}_gene_CDR3_anchors.csv") for gene in "VJ"]
        genes.load_igor_genomic_data(str(folder / "model_params.txt"), *anchors)
        recombination.load_and_process_igor_model(str(folder / "model_marginals.txt"))
        maker = sequence_generation.SequenceGenerationVDJ(recombination, genes)
        np.random.seed(0)  # noqa: NPY002 - OLGA draws from it
        made = [maker.gen_rnd_prod_CDR3()[1] for _ in range(n_sequences)]
        np.save(file, np.array(made))
    return np.load(file)


def implant(sequence: str, rng: np.random.Generator) -> str:
    """A sequence with the motif near its middle."""
    start = len(sequence) // 2 + START + int(rng.integers(N_STARTS))
    start = max(0, min(start, len(sequence) - len(MOTIF)))
    return sequence[:start] + MOTIF[: len(sequence)] + sequence[start + len(MOTIF) :]


def draw_needle(
    n: int, size: int, share: float, pool: np.ndarray, seed: int
) -> tuple[Bags, np.ndarray]:
    """Bags of sequences as text; positive ones have the motif in a share, at least in one."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    people = []
    for label in y:
        sequences = pool[rng.integers(len(pool), size=size)].tolist()
        for at in rng.choice(size, max(1, round(share * size)), replace=False) if label else ():
            sequences[at] = implant(sequences[at], rng)
        people.append(sequences)
    return Bags.from_list(people), y
