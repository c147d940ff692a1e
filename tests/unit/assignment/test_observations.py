"""Observations as text: they survive a process, not a boot."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.assignment.handoff import Handoff
from kcl_core.assignment.liveness import SeenReport
from kcl_core.assignment.observations import Observations, dump, load
from kcl_core.leases.expiry import Sighting
from kcl_core.leases.identity import boot_id, new_worker_id

SIGHTINGS = st.builds(Sighting, st.integers(0, 2**62), st.floats(0, 1e9))
HANDOFFS = st.builds(Handoff, st.text(), st.none() | st.text(), st.floats(0, 1e9))
REPORTS = st.builds(SeenReport, st.integers(0, 2**40), st.floats(0, 1e9), st.booleans())


@given(
    st.builds(
        Observations,
        st.dictionaries(st.text(), SIGHTINGS),
        st.dictionaries(st.text(), HANDOFFS),
        st.dictionaries(st.text(), REPORTS),
    )
)
def test_what_is_dumped_is_loaded(seen: Observations) -> None:
    assert load(dump(seen)) == seen


def test_observations_without_reports_are_loaded() -> None:
    """Stored by an earlier version."""
    stored = json.loads(dump(Observations({"a": Sighting(1, 2.0)})))
    del stored["reports"]
    assert load(json.dumps(stored)) == Observations({"a": Sighting(1, 2.0)})


def test_observations_of_another_boot_are_dropped() -> None:
    stored = json.loads(dump(Observations({"a": Sighting(1, 2.0)})))
    assert stored["boot"] == boot_id()
    stored["boot"] = "another"
    assert load(json.dumps(stored)) == Observations()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"seen": {}}', '{"boot": "x", "seen": {"a": 1}}'])
def test_an_empty_or_foreign_text_is_nothing_seen(text: str) -> None:
    assert load(text) == Observations()


def test_the_boot_has_one_id_and_workers_have_many() -> None:
    assert boot_id() == boot_id() != ""
    first, second = new_worker_id("kcl"), new_worker_id("kcl")
    assert first != second
    assert first.startswith("kcl-")
    assert new_worker_id()
