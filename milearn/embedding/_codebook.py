"""Embeddings of bags by a codebook of instances: histograms, VLAD and Fisher vectors."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state, get_tags

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.distinct import distinct_points
from .._bags.segments import bag_ranges, segment_index, segment_sum
from .._constraints import AT_LEAST_ONE, NOT_NEGATIVE, Constraints
from .._fit.threads import fit_context
from .._fit.validation import STORED_FLOATS, validate_bags
from .._kernels.centring import centre_of, subtracted
from ._base import BagEmbedding

# CSR samples are converted to dense arrays for clustering up to this size.
_DENSE_BYTES = 2**26
# Rows of bags that are finished at once.
_ROWS_AT_ONCE = 1024


class _Codebook(BagEmbedding):
    """Base class of transformers that learn a codebook and embed bags block by block."""

    _dtypes = STORED_FLOATS

    def _learn(self, sample: Any, seed: int) -> dict[str, Any]:
        """Fitted attributes from a sample of instances."""
        raise NotImplementedError

    def _block_sums(self, block: Block) -> np.ndarray:
        """Sums over the instances of each bag of a block in float64, shape (n_bags, n_sums)."""
        raise NotImplementedError

    def _finished(self, sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Rows of bags from the sums over all their instances, which may be changed in place."""
        raise NotImplementedError

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn the codebook from the instances of the training bags.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : ignored
            Present for consistency with other estimators.

        Returns
        -------
        self
            The fitted transformer.
        """
        bags, noted = self._validate_fit(X, accept_sparse=get_tags(self).input_tags.sparse)
        rng = check_random_state(self.random_state)
        sample = _sampled(bags, self.max_instances, rng)
        learned = self._learn(sample, int(rng.randint(np.iinfo(np.int32).max)))
        self._replace_fitted({**noted, **learned})
        return self

    def _validated(self, X: Any) -> Bags:
        takes_sparse = get_tags(self).input_tags.sparse
        return validate_bags(self, X, reset=False, dtype=self._dtypes, accept_sparse=takes_sparse)

    def _rows(self, bags: Bags) -> np.ndarray:
        # A bag that is larger than a block is read in parts.
        parts = bags.source(dtype=np.float64).map(_sums_of_block, self, in_parts=True)
        sums = np.zeros((len(bags), parts[0][1].shape[1]))
        for first, found in parts:
            sums[first : first + len(found)] += found
        del parts
        for first, last in bag_ranges(np.arange(len(bags) + 1), _ROWS_AT_ONCE):
            sums[first:last] = self._finished(sums[first:last], bags.sizes[first:last])
        return sums


def _sums_of_block(block: Block, model: _Codebook) -> tuple[int, np.ndarray]:
    return block.first_bag, model._block_sums(block)


class BagOfWords(_Codebook):
    r"""Represent each bag by the histogram of the nearest words of its instances.

    The words are the centres of a k-means clustering of the training instances. Entry k of a row
    is the fraction of the instances of the bag whose nearest word is the k-th. Since rows are
    histograms, kernels for histograms are recommended, such as ``SVC(kernel=chi2_kernel)`` with
    scikit-learn's :func:`~sklearn.metrics.pairwise.chi2_kernel`.

    Read more in the :ref:`User Guide <methods_embeddings>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_words : int, default=50
        Number of words. If there are fewer distinct training instances, each of them is a word.
    counts : bool, default=False
        Return numbers of instances instead of fractions.
    batch_size : int, default=None
        Size of the batches of :class:`~sklearn.cluster.MiniBatchKMeans`; None for
        :class:`~sklearn.cluster.KMeans`.
    max_instances : int, default=100000
        Maximum number of training instances for the clustering. If there are more, a sample is
        used. None uses all instances.
    random_state : int, RandomState instance or None, default=None
        Determines the sample and the first centres.

    Attributes
    ----------
    words_ : ndarray of shape (n_words_, n_features)
        The words.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    See Also
    --------
    VLAD : Sums of the differences between instances and their words.

    Notes
    -----
    With a chi-squared kernel this is the histogram baseline of [1]_, which uses the colours of an
    image. Instances are read once, in blocks, also from a memory map or on the workers of a
    :class:`~milearn.distributed.DistributedBags`; CSR instances stay CSR.

    References
    ----------
    .. [1] O. Chapelle, P. Haffner, V. N. Vapnik. Support vector machines for histogram-based image
       classification. IEEE Transactions on Neural Networks 10(5), 1999.

    Examples
    --------
    >>> from milearn.embedding import BagOfWords
    >>> bags = [[[0.0], [0.1], [5.0]], [[5.1], [5.2]]]
    >>> words = BagOfWords(n_words=2, random_state=0).fit(bags)
    >>> words.transform(bags)[:, words.words_[:, 0].argsort()].round(2)
    array([[0.67, 0.33],
           [0.  , 1.  ]])
    """

    _parameter_constraints = Constraints(counts=["boolean"])

    words_: np.ndarray

    def __init__(
        self,
        n_words: int = 50,
        *,
        counts: bool = False,
        batch_size: int | None = None,
        max_instances: int | None = 100_000,
        random_state: Any = None,
    ) -> None:
        self.n_words = n_words
        self.counts = counts
        self.batch_size = batch_size
        self.max_instances = max_instances
        self.random_state = random_state

    def _learn(self, sample: Any, seed: int) -> dict[str, Any]:
        words = _words(sample, self.n_words, self.batch_size, seed)
        return {"words_": words, "_counts": self.counts, "_n_features_out": len(words)}

    def _block_sums(self, block: Block) -> np.ndarray:
        histograms = _memberships(block.instances, block.offsets, self.words_)
        return np.asarray(histograms.sum(axis=1)).reshape(len(block.offsets) - 1, -1)

    def _finished(self, sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return sums if self._counts else sums / sizes[:, None]


class VLAD(_Codebook):
    r"""Represent each bag by sums of differences between instances and words (VLAD, miVLAD).

    The words :math:`c_k` are the centres of a k-means clustering of the training instances. With
    the instances :math:`B_k` of a bag whose nearest word is the k-th, its row has the parts

    .. math::

        v_k = \sum_{x \in B_k} (x - c_k) .

    Each entry is raised to a power, :math:`\operatorname{sign}(v) |v|^p`, and the row is scaled to
    unit length. The rows are suited for linear classifiers.

    Read more in the :ref:`User Guide <methods_embeddings>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_words : int, default=5
        Number of words. If there are fewer distinct training instances, each of them is a word.
    power : float, default=0.5
        The exponent p, above 0 and at most 1.
    batch_size : int, default=None
        Size of the batches of :class:`~sklearn.cluster.MiniBatchKMeans`; None for
        :class:`~sklearn.cluster.KMeans`.
    max_instances : int, default=100000
        Maximum number of training instances for the clustering. If there are more, a sample is
        used. None uses all instances.
    random_state : int, RandomState instance or None, default=None
        Determines the sample and the first centres.

    Attributes
    ----------
    words_ : ndarray of shape (n_words_, n_features)
        The words.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    See Also
    --------
    FisherVector : A similar representation based on a mixture of Gaussians.

    Notes
    -----
    [1]_ first reduces the instances by a principal component analysis; use
    ``InstanceTransformer(PCA(...))`` for that. The cost is linear in the number of instances, which
    are read once, in blocks, also from a memory map or on the workers of a
    :class:`~milearn.distributed.DistributedBags`. A row has n_words * n_features entries.

    References
    ----------
    .. [1] X.-S. Wei, J. Wu, Z.-H. Zhou. Scalable Algorithms for Multi-Instance Learning. IEEE
       Transactions on Neural Networks and Learning Systems 28(4), 2017.

    Examples
    --------
    >>> from milearn.embedding import VLAD
    >>> bags = [[[0.0, 1.0], [4.0, 4.0]], [[1.0, 0.0]]]
    >>> VLAD(n_words=1, power=1.0).fit_transform(bags).round(3)
    array([[ 0.371,  0.928],
           [-0.371, -0.928]])
    """

    _parameter_constraints = Constraints()

    words_: np.ndarray

    def __init__(
        self,
        n_words: int = 5,
        *,
        power: float = 0.5,
        batch_size: int | None = None,
        max_instances: int | None = 100_000,
        random_state: Any = None,
    ) -> None:
        self.n_words = n_words
        self.power = power
        self.batch_size = batch_size
        self.max_instances = max_instances
        self.random_state = random_state

    def _learn(self, sample: Any, seed: int) -> dict[str, Any]:
        words = _words(sample, self.n_words, self.batch_size, seed)
        return {"words_": words, "_power": self.power, "_n_features_out": words.size}

    def _block_sums(self, block: Block) -> np.ndarray:
        instances, offsets = block.instances, block.offsets
        words = self.words_
        members = _memberships(instances, offsets, words)
        sums = members @ instances
        sums = sums.toarray() if sparse.issparse(sums) else np.asarray(sums)
        counts = np.asarray(members.sum(axis=1))
        sums -= counts[:, None] * np.tile(words, (len(offsets) - 1, 1))
        return sums.reshape(len(offsets) - 1, -1)

    def _finished(self, sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return _normalised(sums, self._power)


class FisherVector(_Codebook):
    r"""Represent each bag by the gradient of its likelihood under a Gaussian mixture (miFV).

    A mixture of K Gaussians with weights :math:`w_k`, means :math:`\mu_k` and diagonal standard
    deviations :math:`\sigma_k` is fitted to the training instances. With the posteriors
    :math:`\gamma_k(x)` and the n instances of a bag, its row has for each k the parts

    .. math::

        \frac{1}{n \sqrt{w_k}} \sum_x (\gamma_k(x) - w_k), \quad
        \frac{1}{n \sqrt{w_k}} \sum_x \gamma_k(x) \frac{x - \mu_k}{\sigma_k}, \quad
        \frac{1}{n \sqrt{2 w_k}} \sum_x \gamma_k(x)
        \Bigl[ \frac{(x - \mu_k)^2}{\sigma_k^2} - 1 \Bigr] .

    Each entry is raised to a power, :math:`\operatorname{sign}(v) |v|^p`, and the row is scaled to
    unit length. The rows are suited for linear classifiers.

    Read more in the :ref:`User Guide <methods_embeddings>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_components : int, default=2
        Number of Gaussians, at most the number of distinct training instances.
    power : float, default=0.5
        The exponent p, above 0 and at most 1.
    reg_covar : float, default=1e-3
        Added to the variances. Otherwise a feature that is nearly constant in the training data
        would dominate for bags in which it varies.
    max_instances : int, default=100000
        Maximum number of training instances for the mixture. If there are more, a sample is used.
        None uses all instances.
    random_state : int, RandomState instance or None, default=None
        Determines the sample and the start of the mixture.

    Attributes
    ----------
    mixture_ : GaussianMixture
        The fitted mixture.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    TypeError
        If the instances are CSR, because the mixture requires dense instances.

    See Also
    --------
    VLAD : A similar representation based on hard assignments, which supports CSR instances.

    Notes
    -----
    [1]_ first reduces the instances by a principal component analysis; use
    ``InstanceTransformer(PCA(...))`` for that. The cost is linear in the number of instances, which
    are read once, in blocks, also from a memory map or on the workers of a
    :class:`~milearn.distributed.DistributedBags`. A row has (2 * n_features + 1) * n_components
    entries.

    References
    ----------
    .. [1] X.-S. Wei, J. Wu, Z.-H. Zhou. Scalable Algorithms for Multi-Instance Learning. IEEE
       Transactions on Neural Networks and Learning Systems 28(4), 2017.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.embedding import FisherVector
    >>> bags, y = make_bags(n_bags=20, n_features=4, random_state=0)
    >>> FisherVector(n_components=3, random_state=0).fit_transform(bags).shape
    (20, 27)
    """

    _parameter_constraints = Constraints(n_components=[AT_LEAST_ONE], reg_covar=[NOT_NEGATIVE])

    mixture_: GaussianMixture
    # The mixture of the instances less a point, which is None for instances near zero.
    _centred_mixture: GaussianMixture
    _centre: np.ndarray | None

    def __init__(
        self,
        n_components: int = 2,
        *,
        power: float = 0.5,
        reg_covar: float = 1e-3,
        max_instances: int | None = 100_000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.power = power
        self.reg_covar = reg_covar
        self.max_instances = max_instances
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _learn(self, sample: Any, seed: int) -> dict[str, Any]:
        n_components = _at_most(self.n_components, sample)
        if len(sample) == 1:
            # scikit-learn requires two rows. A duplicate does not change means and variances.
            sample = np.repeat(sample, 2, axis=0)
        centre = centre_of(sample)
        mixture = GaussianMixture(
            n_components,
            covariance_type="diag",
            reg_covar=self.reg_covar,
            max_iter=500,
            random_state=seed,
        )
        mixture.fit(sample if centre is None else subtracted(sample, centre))
        learned: dict[str, Any] = {"mixture_": mixture, "_centred_mixture": mixture}
        if centre is not None:
            learned["mixture_"] = copy(mixture)
            learned["mixture_"].means_ = mixture.means_ + centre
        width = (2 * sample.shape[1] + 1) * n_components
        return {**learned, "_centre": centre, "_power": self.power, "_n_features_out": width}

    def _block_sums(self, block: Block) -> np.ndarray:
        instances, offsets, mixture = block.instances, block.offsets, self._centred_mixture
        if self._centre is not None:
            instances = subtracted(instances, self._centre)
        posteriors = mixture.predict_proba(instances)
        parts = [segment_sum(posteriors - mixture.weights_, offsets) / np.sqrt(mixture.weights_)]
        for k, weight in enumerate(mixture.weights_):
            z = (instances - mixture.means_[k]) * np.sqrt(mixture.precisions_[k])
            gamma = posteriors[:, k, None]
            parts.append(segment_sum(gamma * z, offsets) / np.sqrt(weight))
            parts.append(segment_sum(gamma * (z * z - 1.0), offsets) / np.sqrt(2.0 * weight))
        return np.concatenate(parts, axis=1)

    def _finished(self, sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return _normalised(sums / sizes[:, None], self._power)


def _sampled(bags: Bags, limit: int | None, rng: np.random.RandomState) -> Any:
    """At most ``limit`` instances in float64, in an order that does not depend on the bags."""
    rows = np.arange(bags.n_instances)
    if limit is not None and len(rows) > limit:
        rows = np.sort(rng.choice(len(rows), limit, replace=False))
    sample = bags.source().gather(rows).astype(np.float64)
    _, point_of = distinct_points(sample)
    return sample[np.argsort(point_of, kind="stable")]


def _at_most(wanted: int, sample: Any) -> int:
    """``wanted``, or the number of distinct rows if there are fewer."""
    for size in (4 * wanted, sample.shape[0]):
        found = len(distinct_points(sample[:size])[0])
        if found >= wanted:
            return wanted
    return found


def _words(sample: Any, n_words: int, batch_size: int | None, seed: int) -> np.ndarray:
    """Centres of a k-means clustering, shape (n_words, n_features)."""
    n_words = _at_most(n_words, sample)
    if sparse.issparse(sample) and 8 * sample.shape[0] * sample.shape[1] <= _DENSE_BYTES:
        # scikit-learn selects different initial centres for CSR and dense rows.
        sample = sample.toarray()
    clusterer = KMeans(n_words, n_init=1, random_state=seed)
    if batch_size is not None:
        clusterer = MiniBatchKMeans(n_words, n_init=1, batch_size=batch_size, random_state=seed)
    return clusterer.fit(sample).cluster_centers_


def _memberships(instances: Any, offsets: np.ndarray, words: np.ndarray) -> sparse.csr_array:
    """Assignment of instances to words of their bags, (n_bags * n_words, n_instances)."""
    # scikit-learn's clusterers do not accept the read-only CSR instances of bags.
    # Relative to their mean, as squares of words far from zero would hide the differences.
    middle = words.mean(axis=0)
    words = words - middle
    closeness = np.asarray(instances @ words.T) - words @ middle - 0.5 * (words**2).sum(axis=1)
    n, n_words = closeness.shape
    pairs = segment_index(offsets) * n_words + closeness.argmax(axis=1)
    return sparse.csr_array(
        (np.ones(n), (pairs, np.arange(n))), shape=((len(offsets) - 1) * n_words, n)
    )


def _normalised(rows: np.ndarray, power: float) -> np.ndarray:
    rows = np.sign(rows) * np.abs(rows) ** power
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
