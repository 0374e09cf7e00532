"""Bags on the workers of a cluster of two processes: what comes out is what comes out here."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.decomposition import IncrementalPCA
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler

from milearn import (
    M3IC,
    MISVC,
    MISVR,
    Bags,
    CoupledMISVC,
    InstanceMISVC,
    MIClassifier,
)
from milearn._bags.rows_on_disk import is_read_in_blocks
from milearn._solvers.common import passes
from milearn.datasets import make_bags, save_bags
from milearn.inspection import instance_scores
from milearn.metrics import bag_kernel
from milearn.preprocessing import ClippedScaler, InstanceTransformer
from milearn.survival import survival_outcomes
from milearn.svm import OrdinalMISVC
from tests._bags.kinds import dense
from tests.common import few_trees
from tests.common.common_checks import all_with_small_fits

dask = pytest.importorskip("dask", reason="Dask is not installed")
distributed = pytest.importorskip("distributed", reason="Dask is not installed")

from milearn.distributed import DistributedBags, _bags, scan_bag_folder, scan_bags  # noqa: E402


@pytest.fixture(scope="module")
def quick_start():
    """Let worker processes begin as copies of one that has imported what they need.

    Where there are such (not on Windows, nor with a Dask that settles this when it is imported).
    """
    context = getattr(distributed.utils, "get_mp_context", None)
    if context is None or "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        context().set_forkserver_preload(["distributed", "milearn.distributed"])
        yield


@contextmanager
def processes(n_workers, **options):
    """The client of worker processes, which a nanny starts again when they die."""
    sizes = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        # A busy machine may need longer to start a worker again than a LocalCluster waits for it,
        # and a task that waits for longer has failed.
        dask.config.set(
            {
                "distributed.deploy.lost-worker-timeout": "120s",
                "distributed.scheduler.no-workers-timeout": "120s",
            }
        ),
        distributed.LocalCluster(**sizes) as cluster,
        distributed.Client(cluster, **options) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client(quick_start):
    with processes(2) as client:
        yield client


@pytest.fixture(scope="module")
def data():
    return make_bags(120, 6, bag_size=(2, 7), flip_y=0.05, random_state=0)


@pytest.fixture(scope="module")
def there(client, data):
    """Bags in five partitions or so, with all passes on the workers."""
    bags = data[0].with_bag_data({"site": np.arange(120)})
    return DistributedBags.from_bags(bags, partition_bytes=bags.nbytes // 5, local_bytes=0)


def assert_same_bags(found, expected):
    assert np.array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(dense(found.instances), dense(expected.instances))


# -- the container -----------------------------------------------------------------------------


def test_sizes_are_here_and_instances_there(there, data):
    bags, _ = data
    assert there.shape == bags.shape
    assert len(there) == len(bags)
    assert there.n_instances == bags.n_instances
    assert np.array_equal(there.sizes, bags.sizes)
    assert there.n_partitions > 3
    assert repr(there).startswith("DistributedBags(n_bags=120, ")
    assert there[[5, 3]].bag_data["site"].tolist() == [5, 3]
    assert_same_bags(there.compute(), bags)
    assert copy.deepcopy(there).instance_rows is there.instance_rows
    assert is_read_in_blocks(there)


KEYS = {
    "slice": slice(10, 90, 3),
    "shuffled": np.random.RandomState(0).permutation(120)[:70],
    "twice": np.array([5, 5, 110, 3]),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_selections_are_those_of_bags(there, data, key):
    bags, _ = data
    picked, expected = there[key], bags[key]
    assert np.array_equal(picked.offsets, expected.offsets)
    assert_same_bags(picked[::2].compute(), expected[::2])
    weights = np.random.RandomState(0).normal(size=(2, 6))
    found = passes.highest(picked.source(block_bytes=200), weights)
    for value, here in zip(found, passes.highest(expected.source(), weights), strict=True):
        np.testing.assert_allclose(value, here, rtol=1e-12)
    doubled = picked._transformed(_doubled)
    assert_same_bags(doubled.compute(), expected.with_instances(2 * expected.instances))


def _doubled(bags):
    return bags.with_instances(2 * bags.instances)


@pytest.mark.parametrize("form", ["float64", "float16", "csr"])
def test_passes_are_those_of_bags(client, data, form):
    values = data[0].instances.astype(np.float16).astype(np.float64)
    stored = sparse.csr_array(values) if form == "csr" else values.astype(form)
    bags = Bags(stored, data[0].offsets)
    sent = DistributedBags.from_bags(bags, partition_bytes=bags.nbytes // 3, local_bytes=0)
    source = sent.source(block_bytes=8 * 6 * 3)
    here = bags.source(block_bytes=8 * 6 * 3)
    weights = np.random.RandomState(0).normal(size=(2, 6))
    # A product of a block depends on its rows by rounding, and partitions end blocks.
    np.testing.assert_allclose(
        passes.bag_maxima(source, weights), passes.bag_maxima(here, weights), rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(passes.sum_of_means(source), passes.sum_of_means(here), rtol=1e-12)
    np.testing.assert_array_equal(
        dense(passes.bag_means(source, np.float64)), dense(passes.bag_means(here, np.float64))
    )
    rows = np.array([200, 3, 3, 77])
    np.testing.assert_array_equal(
        dense(passes.gather(source, rows)), dense(passes.gather(here, rows))
    )
    assert source.fold(_count, 0, 2) == 2 * bags.n_instances


def _count(state, block, factor):
    return state + factor * (block.rows.stop - block.rows.start)


def test_a_large_argument_is_read_at_each_pass(there):
    source, large = there.source(), np.arange(10_000.0)
    first = source.map(_sum, large)
    large[0] = 0.5
    assert source.map(_sum, large) == [value + 0.5 for value in first]


def _sum(block, values):
    return values.sum() + block.first_row


@pytest.mark.parametrize("form", ["memory", "file"])
def test_bags_are_spread_and_not_copied_to_workers_that_have_an_argument(
    client, data, tmp_path, form
):
    bags, y = data
    sizes = {"partition_bytes": bags.nbytes // 11, "local_bytes": 0}
    if form == "file":
        save_bags(tmp_path / "bags", bags, y, format="npy-folder")
        sent = scan_bags(tmp_path / "bags", **sizes).data
    else:
        sent = DistributedBags.from_bags(bags, **sizes)
    for _ in range(3):
        sent.source().map(_sum, np.arange(10_000.0))
    holders = [
        workers for (workers,) in client.who_has(sent.instance_rows.partitions.futures).values()
    ]
    assert len(holders) == sent.n_partitions > 10
    counts = Counter(holders).values()
    assert len(counts) == 2
    assert min(counts) > 2


def test_a_few_bags_are_brought_to_this_process(client, data):
    bags, _ = data
    size = bags[::2].nbytes
    sent = DistributedBags.from_bags(bags, partition_bytes=size // 3, local_bytes=size)
    assert set(sent.source().map(_process)) - {os.getpid()}
    few = sent[::2]
    assert set(few.source().map(_process)) == {os.getpid()}
    assert set(few._transformed(_doubled).source().map(_process)) == {os.getpid()}
    rows = np.array([20, 3, 3])
    np.testing.assert_array_equal(few.source().gather(rows), bags[::2].instances[rows])
    assert few.source().fold(_count, 0, 2) == 2 * few.n_instances
    assert_same_bags(few[[7, 2]].compute(), bags[[14, 4]])


def _process(block):
    return os.getpid()


def test_what_belongs_to_this_process_is_refused(there):
    ones = np.ones(there.n_instances, dtype=bool)
    for use in (
        lambda: there.instances,
        lambda: list(there),
        lambda: there[:, 0],
        lambda: there[3],
        lambda: there.instance_rows[:3],
        lambda: there.select_instances(ones),
        lambda: there.sample_instances(2),
        lambda: there.with_instance_data(score=ones),
        lambda: there.with_instances(ones[:, None]),
        lambda: bag_kernel(there),
        lambda: MISVC().fit(there, np.arange(120) % 2),
    ):
        with pytest.raises(TypeError, match=r"bring them here with bags.compute\(\), or take"):
            use()
    with pytest.raises(TypeError, match="leave n_jobs=None"):
        pickle.dumps(there)
    with pytest.raises(ValueError, match="no bag among"):
        there[:0].compute()


# -- files -------------------------------------------------------------------------------------


def test_bags_of_files(client, data, tmp_path):
    bags, y = data
    bags = bags.with_instances(bags.instances, feature_names=list("abcdef"))
    paths = [tmp_path / f"part-{number}" for number in range(2)]
    for path, part in zip(paths, (slice(0, 50), slice(50, None)), strict=True):
        names = [f"bag {number}" for number in range(120)[part]]
        save_bags(path, bags[part], y[part], format="npy-folder", bag_names=names)
    found = scan_bags(paths, partition_bytes=bags.nbytes // 5)
    assert found.data.n_partitions == 6
    np.testing.assert_array_equal(found.target, y)
    assert found.bag_names[-1] == found.data.names[-1] == "bag 119"
    assert_same_bags(found.data.compute(), bags)
    with pytest.raises(FileNotFoundError, match="no such file"):
        scan_bags(tmp_path / "nothing")
    texts, names = np.where(y[:50] > 0, "b", "a"), bags.feature_names
    halves = bags[:50].with_instances(bags[:50].instances.astype(np.float16), feature_names=names)
    others = {
        "number": (bags[:50, :3], y[:50]),
        "names": (bags[:50, list("bacdef")], y[:50]),
        "type": (halves, y[:50]),
        "texts": (bags[:50], texts),
    }
    for what, (other, labels) in others.items():
        save_bags(tmp_path / what, other, labels, format="npy-folder")
        with pytest.raises(ValueError, match=rf"{what}: .*{what}.* differ from those of .*part-0"):
            scan_bags([paths[0], tmp_path / what])
    save_bags(tmp_path / "one.npz", bags, y)
    with pytest.raises(ValueError, match="is read as a memory map"):
        scan_bags(tmp_path / "one.npz")
    found = scan_bags(tmp_path / "texts")
    assert found.target.tolist() == texts.tolist()
    assert found.classes.tolist() == ["a", "b"]


def test_what_a_folder_lacks_is_left_out(client, tmp_path):
    for name in "abc":
        np.save(tmp_path / f"{name}.npy", np.full((2, 2), ord(name)))
    table = pd.DataFrame({"bag": ["c", "z", "b"], "label": ["no", "yes", None]})
    with pytest.warns(UserWarning, match="3 of 4 bags are left out"):
        found = scan_bag_folder(tmp_path, table, missing="drop", classes=["no", "yes"])
    assert [*found.dropped] == ["z", "b", "a"]
    assert (found.target.tolist(), found.classes.tolist()) == (["no"], ["no", "yes"])
    assert found.data.compute().instances.tolist() == [[99, 99]] * 2


def test_bags_of_a_folder_with_one_file_per_bag(client, data, tmp_path):
    bags, y = data
    for number in range(20):
        np.save(tmp_path / f"slide-{number:02}.npy", bags[number].astype(np.float32))
    rows = "\n".join(f"slide-{number:02},{y[number]}" for number in range(20))
    (tmp_path / "labels.csv").write_text(f"slide_id,label\n{rows}\n")
    found = scan_bag_folder(tmp_path, tmp_path / "labels.csv", partition_bytes=500)
    assert found.data.n_partitions > 2
    assert found.data.dtype == np.float32
    np.testing.assert_array_equal(found.target, y[:20])
    expected = bags[:20].with_instances(bags[:20].instances.astype(np.float32))
    assert_same_bags(found.data.compute(), expected)


# -- estimators --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        MISVC(kernel="linear"),
        MISVC(kernel="linear", slack="instance"),
        CoupledMISVC(kernel="linear"),
        InstanceMISVC(kernel="linear"),
        MISVR(kernel="linear"),
        OrdinalMISVC(),
        M3IC(3, C=10.0, min_cluster_size=5, n_init=2, tol=1e-8),
    ],
    ids=["bag", "instance", "coupled", "labels", "regression", "ordinal", "m3ic"],
)
def test_fits_are_those_of_bags(there, data, model):
    there, bags, y = there[:60], data[0][:60], data[1][:60].astype(float)
    model.set_params(random_state=0)
    here = copy.deepcopy(model).fit(bags, y)
    model.fit(there, y)
    # Sums of the same blocks, but for their order.
    assert model.objective_ == pytest.approx(here.objective_, rel=1e-5)
    np.testing.assert_allclose(model.coef_, here.coef_, atol=1e-3)
    np.testing.assert_array_equal(model.witnesses_, here.witnesses_)
    again = pickle.loads(pickle.dumps(model))
    for method in ("predict", "predict_instances", "witness"):
        found, expected = getattr(again, method)(there), getattr(model, method)(bags)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    found, expected = (instance_scores(again, each) for each in (there, bags))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


SCALERS = [
    InstanceTransformer(StandardScaler()),
    InstanceTransformer(MinMaxScaler()),
    InstanceTransformer(IncrementalPCA()),
    ClippedScaler("quantile"),
]


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
def test_scaled_bags_stay_distributed(there, data, scaler):
    bags, _ = data
    here = copy.deepcopy(scaler).fit(bags)
    scaled = scaler.fit_transform(there)
    assert isinstance(scaled, DistributedBags)
    np.testing.assert_allclose(
        scaled.compute().instances, here.transform(bags).instances, atol=1e-10
    )


class ClassifierOfFewModels(few_trees.MIClassifier):
    """In this process, what MIClassifier has for distributed bags."""

    def _candidates(self, run, given):
        of_kernels = {"mean", "minmax_laplacian"} if run.size.text else {"average", "instance"}
        return [way for way in super()._candidates(run, given) if way.name not in of_kernels]


def words_of(bags, y):
    """CSR bags of few words; the first instance of a positive bag has the first word."""
    rng = np.random.RandomState(0)
    values = np.zeros((bags.n_instances, 40))
    values[np.arange(len(values)), rng.randint(1, 40, len(values))] = 1.0
    values[bags.offsets[:-1][y == 1], 0] = 2.0
    return Bags(sparse.csr_array(values), bags.offsets)


@pytest.mark.parametrize("form", ["float32", "text"])
def test_models_without_settings_are_those_of_few_models(client, data, form):
    bags, y = data[0][:36], data[1][:36]
    model, here = few_trees.MIClassifier(random_state=0), ClassifierOfFewModels(random_state=0)
    if form == "float32":
        bags = Bags(bags.instances.astype(np.float32), bags.offsets, feature_names=list("abcdef"))
    else:
        bags = words_of(bags, y)
    there = DistributedBags.from_bags(bags, partition_bytes=bags.nbytes // 2)
    model.fit(there, y)
    here.fit(bags, y)
    assert model.paradigm_ == here.paradigm_
    assert model.skipped_[0] == "kernels between bags: the bags are distributed"
    assert list(model.scores_) == list(here.scores_)
    # Inner folds stop at a relative step of 1e-3, and the two algorithms stop at other points.
    for name, measures in here.scores_.items():
        assert model.scores_[name] == pytest.approx(measures, abs=0.02)
    for each in (there, bags):
        np.testing.assert_allclose(model.predict_proba(each), here.predict_proba(bags), atol=0.01)


def test_models_without_settings_take_a_few_distributed_bags(there, data):
    y = data[1].copy()
    few = [int(np.argmax(y == 0)), int(np.argmax(y == 1))]
    model = MIClassifier(random_state=0).fit(there[few], y[few])
    assert model.scores_ == {}
    np.testing.assert_allclose(model.predict(there[few]), model.predict(data[0][few]))


def test_values_that_are_not_finite_are_refused_by_their_bag(client, data):
    bags, y = data
    sent = DistributedBags.from_bags(bags, partition_bytes=2000)._transformed(_spoilt, 300)
    bag = int(bags.bag_index[300])
    with pytest.raises(ValueError, match=rf"Bag {bag} contains NaN \(instance row 300\)"):
        MISVC(kernel="linear").fit(sent, y)


def _spoilt(bags, row):
    # The one partition that the row is in is recognised by its values.
    every, _ = make_bags(120, 6, bag_size=(2, 7), flip_y=0.05, random_state=0)
    values = bags.instances.copy()
    values[(values == every.instances[row]).all(axis=1), 2] = np.nan
    return bags.with_instances(values)


# Settings of the public estimators that can be fitted on distributed bags.
PASSES = """
AppendBagData BagData BagOfWords BagStatistics ClippedScaler FisherVector InstanceTransformer M3IC
MIClassifier MICoxPH MIRegressor OrdinalMISVC ShareDiscriminant ShareRegressor VLAD
"""
LINEAR = "CoupledMISVC CoupledMISVR InstanceMISVC MISVC MISVR"
TAKEN = {name: {} for name in PASSES.split()} | {
    name: {"kernel": "linear"} for name in LINEAR.split()
}
METHODS = (
    *("predict", "predict_proba", "decision_function", "transform", "witness"),
    *("predict_instances", "predict_proba_instances", "instance_decision_function"),
)


@pytest.fixture(scope="module")
def few(client):
    """Bags in two partitions, and targets of each kind."""
    bags, y = make_bags(24, 3, bag_size=(2, 4), random_state=0)
    sent = DistributedBags.from_bags(bags, partition_bytes=bags.nbytes // 2 + 24)
    outcomes = survival_outcomes(np.ones(24, dtype=bool), np.random.RandomState(0).rand(24) + y + 1)
    return sent, bags, y.astype(float), outcomes


@pytest.mark.parametrize("model", all_with_small_fits(), ids=lambda each: type(each).__name__)
def test_every_estimator_takes_distributed_bags_or_says_what_does(few, model):
    there, bags, y, outcomes = few
    name = type(model).__name__
    targets = outcomes if name == "MICoxPH" else y
    model.set_params(**TAKEN.get(name, {}))
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    if name in TAKEN:
        model.fit(there, targets)
    else:
        with pytest.raises(TypeError, match=r"bring them here with bags.compute\(\), or take"):
            model.fit(there, targets)
        if name == "LinkContentMF":  # the graph is not on the workers
            return
        model.fit(bags, targets)
    found = [method for method in METHODS if hasattr(model, method)]
    assert found
    for method in found:
        expected, result = (rows_of(getattr(model, method)(each)) for each in (bags, there))
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


def rows_of(result):
    if isinstance(result, DistributedBags):
        result = result.compute()
    return dense(result.instances if isinstance(result, Bags) else result)


def test_transformers_that_need_all_instances_say_so(there):
    with pytest.raises(TypeError, match="needs all instances in one process"):
        InstanceTransformer(QuantileTransformer()).fit(there)


# -- a worker dies -----------------------------------------------------------------------------


def test_a_fit_outlives_all_workers(client, data):
    bags, y = data
    there = DistributedBags.from_bags(bags, partition_bytes=bags.nbytes // 4, local_bytes=0)
    model = MISVC(1.0, kernel="linear", random_state=0)
    expected = copy.deepcopy(model).fit(there, y)
    victims = list(client.run(os.getpid).values())

    def killing(source, function, arguments, options):
        thread = threading.Timer(0.05, kill, (victims,))
        thread.start()
        found = source.map(_slow, function, arguments, **options)
        thread.join()
        return found

    disturbed = disturb_first(there, killing)
    model.fit(there, y)
    assert disturbed
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    np.testing.assert_array_equal(model.witnesses_, expected.witnesses_)
    assert model.fit(there, y).objective_ == pytest.approx(expected.objective_, rel=1e-9)
    client.wait_for_workers(2, timeout=120)
    assert not set(victims) & set(client.run(os.getpid).values())


def kill(victims):
    for victim in victims:
        os.kill(victim, signal.SIGKILL)


def test_bags_outlive_the_only_worker(quick_start, data):
    with processes(1, set_as_default=False) as alone:
        there = DistributedBags.from_bags(data[0], client=alone)
        assert_same_bags(there.compute(), data[0])
        kill(alone.run(os.getpid).values())
        assert_same_bags(there.compute(), data[0])


def disturb_first(there, pass_):
    """Let the first pass over bags be ``pass_``; the list has an entry once it has been."""
    disturbed = []

    class Disturbed:
        def __init__(self, source):
            self.source = source

        def __getattr__(self, name):
            return getattr(self.source, name)

        def map(self, function, *arguments, **options):
            if disturbed:
                return self.source.map(function, *arguments, **options)
            disturbed.append(function)
            return pass_(self.source, function, arguments, options)

    make = there.source
    there.source = lambda **options: Disturbed(make(**options))
    return disturbed


def _slow(block, function, arguments):
    time.sleep(0.1)
    return function(block, *arguments)


def test_tasks_that_kill_their_workers_are_an_error(client, there):
    allowed = client.run_on_scheduler(_allow_failures, 0)
    try:
        with pytest.raises(
            RuntimeError, match=r"^A task was lost with 1 worker.* smaller partition_bytes"
        ):
            there.source().map(_die)
    finally:
        client.run_on_scheduler(_allow_failures, allowed)
    client.wait_for_workers(2, timeout=120)
    assert there.source().fold(_count, 0, 1) == there.n_instances


def _allow_failures(number, dask_scheduler):
    before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, number
    return before


def _die(block):
    if block.first_bag == 0:
        os.kill(os.getpid(), signal.SIGKILL)


# -- a worker has too little memory ------------------------------------------------------------


@pytest.fixture
def small_worker(client):
    """The client of a worker in this process whose memory is full."""
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, memory_limit="4MB", **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as small,
    ):
        yield small


def _statuses(client):
    return {worker["status"] for worker in client.scheduler_info()["workers"].values()}


def test_workers_whose_memory_stays_full_are_an_error(small_worker, monkeypatch):
    monkeypatch.setattr(_bags, "_BETWEEN_LOOKS", 0.05)
    deadline = time.monotonic() + 60
    while _statuses(small_worker) != {"paused"} and time.monotonic() < deadline:
        time.sleep(0.05)
    there = DistributedBags.from_bags(Bags.singletons(np.zeros((20, 2))), client=small_worker)
    with pytest.raises(RuntimeError, match="paused all workers"):
        there.compute()


# -- names ---------------------------------------------------------------------------------------


def test_names_of_bags_decide_their_order(client, data):
    bags, y = data
    ids = [f"p{number:03}" for number in np.random.default_rng(0).permutation(len(bags))]
    named = Bags(bags.instances, bags.offsets, names=ids)
    there = DistributedBags.from_bags(named, partition_bytes=bags.nbytes // 3)
    assert there.names.tolist() == there.compute().names.tolist() == ids
    assert there[[3, 1]].names.tolist() == [ids[3], ids[1]]
    labels = pd.Series(y, index=ids)
    fitted = MISVC(kernel="linear").fit(there, labels)
    here = MISVC(kernel="linear").fit(named, y)
    np.testing.assert_allclose(fitted.coef_, here.coef_, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match=r"pass y\.loc\[X\.names\]"):
        fitted.fit(there, labels.sort_index())
