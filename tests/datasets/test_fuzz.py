"""The fuzz script passes on the readers as they are."""

from __future__ import annotations

from tests.datasets import fuzz


def test_mutated_files_are_read_or_refused(tmp_path):
    counts, failures = fuzz.run(tmp_path / "x", seed=0, files=80 * len(fuzz.FORMATS))
    assert failures == []
    for form in fuzz.FORMATS:
        # Damage of which all or nothing is refused would test half of a reader.
        assert min(counts[form, outcome] for outcome in ("read", "refused")) > 0, form
