"""The fuzz script passes on the readers as they are."""

from __future__ import annotations

from tests.datasets import fuzz


def test_mutated_files_are_read_or_refused(tmp_path):
    report = fuzz.run(tmp_path, seed=0, files=50 * len(fuzz.FORMATS))
    assert report.failures == []
    for form in fuzz.FORMATS:
        outcomes = {outcome: report.counts[form, outcome] for outcome in ("read", "refused")}
        assert sum(outcomes.values()) == 50
        # Damage of which all or nothing is refused would test half of a reader.
        assert min(outcomes.values()) > 0, form
