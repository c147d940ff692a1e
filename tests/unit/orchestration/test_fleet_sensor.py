"""The fleet sensor on runs that really ended."""

from collections.abc import Iterator

import dagster as dg
import pytest

from kcl_dagster.names import REASON_TAG, SLOT_TAG
from kcl_dagster.resources import KclApplication
from kcl_dagster.sensors import look_for_empty_places

pytestmark = [
    pytest.mark.dagster,
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def ending_job(name: str = "worker", *, fails: bool) -> dg.JobDefinition:
    @dg.op
    def work() -> None:
        if fails:
            raise dg.Failure("cannot start")

    return dg.GraphDefinition(name=name, node_defs=[work]).to_job(executor_def=dg.in_process_executor)


def run(instance: dg.DagsterInstance, slot: int, *, job: str = "worker", fails: bool) -> str:
    """Run a job to its end in this place; return the run's id."""
    done = ending_job(job, fails=fails).execute_in_process(
        instance=instance, tags={SLOT_TAG: str(slot)}, raise_on_error=False
    )
    assert done.success is not fails
    return done.run_id


def look(instance: dg.DagsterInstance, workers: int = 1) -> tuple[list[dg.RunRequest], str]:
    """Evaluate the sensor; nobody is called for it."""
    application = KclApplication(
        overrides={"application_name": "app", "stream_name": "stream", "pipeline": {"workers": workers}}
    )
    result = look_for_empty_places(dg.build_sensor_context(instance=instance), application)
    reason = result.skip_reason
    text = reason.skip_message if isinstance(reason, dg.SkipReason) else reason
    return list(result.run_requests or ()), text or ""


def test_a_run_that_ended_is_followed_under_a_key_of_its_own(instance: dg.DagsterInstance) -> None:
    for fails in (False, True):
        ended = run(instance, 0, fails=fails)
        (request,), _ = look(instance)
        assert request.run_key == f"worker-0-after-{ended}"
        assert request.tags[SLOT_TAG] == "0"
        assert ended[:8] in request.tags[REASON_TAG]
        (again,), _ = look(instance)
        assert again.run_key == request.run_key


def test_failures_in_a_row_make_a_pause_that_keeps_no_other_place_empty(instance: dg.DagsterInstance) -> None:
    for _ in range(5):
        run(instance, 0, fails=True)
    assert look(instance) == ([], "place 0 failed 5 times in a row and waits 40 s")
    (other,), _ = look(instance, workers=2)
    assert (other.run_key, other.tags[SLOT_TAG]) == ("worker-1-first", "1")


def test_the_pause_has_an_end_however_many_runs_failed(instance: dg.DagsterInstance) -> None:
    for _ in range(10):
        run(instance, 0, fails=True)
    assert look(instance)[1].endswith("waits 300 s")


def test_a_run_that_ended_well_ends_the_row_of_failures(instance: dg.DagsterInstance) -> None:
    for fails in (True, True, True, True, False, True):
        run(instance, 0, fails=fails)
    assert len(look(instance)[0]) == 1


def test_runs_of_other_jobs_take_no_place(instance: dg.DagsterInstance) -> None:
    run(instance, 0, job="another", fails=True)
    (request,), _ = look(instance)
    assert request.run_key == "worker-0-first"


@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTING", "STARTED", "CANCELING"])
def test_a_place_is_taken_until_its_run_has_ended(instance: dg.DagsterInstance, status: str) -> None:
    instance.create_run_for_job(ending_job(fails=False), tags={SLOT_TAG: "0"}, status=dg.DagsterRunStatus(status))
    assert look(instance) == ([], "all 1 workers are there")


def test_a_run_that_was_cancelled_before_it_began_is_followed(instance: dg.DagsterInstance) -> None:
    """It has no time of its end."""
    instance.create_run_for_job(ending_job(fails=False), tags={SLOT_TAG: "0"}, status=dg.DagsterRunStatus.CANCELED)
    assert len(look(instance)[0]) == 1
