"""What becomes of a prepared checkpoint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_dagster.spark.recovery import Verdict, decode_state, encode_state, next_number, plan_recovery

NUMBERS = st.integers(1, 10**9)


def lease(state: bytes | None) -> Lease:
    return Lease(
        lease_key="s",
        checkpoint=ExtendedSequenceNumber("1"),
        pending_checkpoint=ExtendedSequenceNumber("2"),
        pending_checkpoint_state=state,
    )


@given(NUMBERS, st.none() | NUMBERS)
def test_the_table_decides(number: int, committed: int | None) -> None:
    plan = plan_recovery(lease(encode_state(number)), committed)
    assert plan is not None
    at = committed or 0
    expected = Verdict.ADOPT if at == number else Verdict.DISCARD if at > number else Verdict.FENCE
    assert (plan.verdict, plan.number, plan.pending) == (expected, number, ExtendedSequenceNumber("2"))
    assert plan.reason


@given(st.none() | NUMBERS)
def test_the_next_number_is_never_one_that_was_used(committed: int | None) -> None:
    assert next_number(committed) > (committed or 0)
    # After a fence of N, at N + 1, the batch N reads as fenced off.
    plan = plan_recovery(lease(encode_state(next_number(committed))), next_number(committed) + 1)
    assert plan is not None
    assert plan.verdict is Verdict.DISCARD


def test_without_a_prepared_checkpoint_there_is_nothing_to_decide() -> None:
    assert plan_recovery(Lease(lease_key="s", checkpoint=ExtendedSequenceNumber("1")), 5) is None


@pytest.mark.parametrize("state", [None, b"", b"java's own", b"{}", b"[]", b"\xff", b'{"transaction": "x"}'])
def test_a_checkpoint_that_another_application_prepared_is_dropped(state: bytes | None) -> None:
    assert decode_state(state) is None
    plan = plan_recovery(lease(state), 5)
    assert plan is not None
    assert plan.verdict is Verdict.DISCARD_FOREIGN
