"""Sightings as text: they survive a process, not a boot."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.expiry import Sighting
from kcl_core.leases.identity import boot_id, new_worker_id
from kcl_core.leases.sightings import dump, load


@given(st.dictionaries(st.text(), st.builds(Sighting, st.integers(0, 2**62), st.floats(0, 1e9))))
def test_what_is_dumped_is_loaded(seen: dict[str, Sighting]) -> None:
    assert load(dump(seen)) == seen


def test_sightings_of_another_boot_are_dropped() -> None:
    stored = json.loads(dump({"a": Sighting(1, 2.0)}))
    assert stored["boot"] == boot_id()
    stored["boot"] = "another"
    assert load(json.dumps(stored)) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"seen": {}}', '{"boot": "x", "seen": {"a": 1}}'])
def test_an_empty_or_foreign_text_is_nothing_seen(text: str) -> None:
    assert load(text) == {}


def test_the_boot_has_one_id_and_workers_have_many() -> None:
    assert boot_id() == boot_id() != ""
    first, second = new_worker_id("kcl"), new_worker_id("kcl")
    assert first != second
    assert first.startswith("kcl-")
    assert new_worker_id()
