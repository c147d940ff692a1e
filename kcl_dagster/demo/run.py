"""The demo from start to end: start everything, replay, split, kill, wait, count."""

import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.console import Console

from kcl_core.clock import SystemClock
from kcl_core.errors import EndpointUnavailableError, TableMissingError
from kcl_core.leases.model import Lease
from kcl_core.runtime import StopSignal
from kcl_core.testing.server import EmbeddedAws
from kcl_dagster.demo.aws_steps import create_stream, list_shards, split_widest
from kcl_dagster.demo.dagster_services import DagsterServices
from kcl_dagster.demo.ledger import read_ledger
from kcl_dagster.demo.observer import Observer
from kcl_dagster.demo.progress import Progress
from kcl_dagster.demo.replay_process import ReplayProcess
from kcl_dagster.demo.story import Story
from kcl_dagster.demo.summary import Kill, Summary, TableFacts, count_windows, read_landed, summarize
from kcl_dagster.demo.system import REPOSITORY, STREAM, StateFolder, demo_environment, new_state_folder
from kcl_dagster.settings import Settings, load_settings
from kcl_dagster.spark.commit_log import TableCommit
from kcl_dagster.spark.table import RecordTable, TableSnapshot

SHARDS = 2
SPLIT_AT = 0.3
KILL_AT = 0.6
SHORTEST_REPLAY = timedelta(seconds=50)
# The replay ends a moment before a window does, so that the last window closes soon after the last row.
END_BEFORE_WINDOW = timedelta(seconds=10)
LOOK_INTERVAL = timedelta(milliseconds=500)
START_PATIENCE = timedelta(seconds=120)
END_PATIENCE = timedelta(minutes=5)
CARRIER_DELAYS = [STREAM, "carrier_delays"]


@dataclass(frozen=True, slots=True)
class DemoSystem:
    """Everything that runs."""

    state: StateFolder
    settings: Settings
    aws: EmbeddedAws
    dagster: DagsterServices
    observer: Observer
    story: Story
    table: RecordTable
    progress: Progress
    clock: SystemClock
    stop: StopSignal

    def snapshot(self) -> TableSnapshot | None:
        """Return the table's present version; None before a worker created it."""
        try:
            return self.table.snapshot()
        except TableMissingError:
            return None

    def landed(self) -> int:
        """Return how many rows the table has, from its log."""
        snapshot = self.snapshot()
        return 0 if snapshot is None else sum(snapshot.rows_by_window().values())

    def look(self, replay: ReplayProcess | None = None) -> tuple[Lease, ...]:
        """Look at everything once and tell what is new; return the leases."""
        self.aws.check()
        for line in self.story.of_runs(self.observer.runs()):
            self.progress.event(line)
        if replay is not None:
            for news in replay.news():
                if news["event"] == "split":
                    self.progress.event(f"{news['shard_id']} was split: {news['reason']}")
            self.progress.counts(sent=replay.sent, total=replay.total)
        self.progress.counts(landed=self.landed())
        leases = self.observer.leases()
        for line in self.story.of_leases(leases):
            self.progress.event(line)
        return leases


@contextmanager
def running_system(console: Console, stop: StopSignal) -> Iterator[DemoSystem | None]:
    """Start embedded AWS and Dagster in a state folder of their own; end them, and all they started, at exit.

    Gives None if ``stop`` was set meanwhile.

    Raises:
        EndpointUnavailableError: something did not start; its log says why.
    """
    clock = SystemClock()
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(console, clock))
        now = clock.wall()
        state = new_state_folder(now)
        progress.event(f"state folder {state.root.relative_to(REPOSITORY)}")
        progress.step("starting embedded AWS and Dagster")
        aws = stack.enter_context(EmbeddedAws.start(log_dir=state.logs))
        stack.enter_context(_environment({**aws.environment(), **demo_environment(state, now)}))
        create_stream(aws.config().kinesis(), STREAM, SHARDS, clock, stop)
        dagster = stack.enter_context(DagsterServices(state.dagster_home, REPOSITORY, {}, clock))
        settings = load_settings(None)
        if not dagster.wait_until_up(stop):
            yield None
            return
        progress.event(f"Dagster is up: {dagster.url}")
        observer = Observer(settings, dagster)
        table = RecordTable(settings.pipeline)
        yield DemoSystem(state, settings, aws, dagster, observer, Story(), table, progress, clock, stop)
        progress.step("stopping")


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, which all that is started inherits; restore them at exit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run_demo(console: Console, stop: StopSignal) -> Summary | None:
    """Run the main job on real data to its end; None if ``stop`` was set before.

    Raises:
        EndpointUnavailableError: something that runs ended by itself.
    """
    with running_system(console, stop) as system:
        if system is None or not _wait_for_leases(system):
            return None
        duration = replay_duration(system.clock.wall(), system.settings.pipeline.grid.length)
        options = [f"--stream={STREAM}", f"--duration={duration.total_seconds():.1f}", f"--split-at={SPLIT_AT}"]
        with ReplayProcess(system.state.ledger, system.state.logs / "producer.log", options) as replay:
            kill = _follow(system, replay)
        if system.stop.is_set():
            return None
        return _summarize(system, kill)


def run_dev(console: Console, stop: StopSignal) -> None:
    """Run the same system with a trickle of data until ``stop`` is set.

    Raises:
        EndpointUnavailableError: something that runs ended by itself.
    """
    with running_system(console, stop) as system:
        if system is None or not _wait_for_leases(system):
            return
        options = [f"--stream={STREAM}", "--trickle"]
        with ReplayProcess(system.state.ledger, system.state.logs / "producer.log", options) as replay:
            system.progress.event(f"a trickle of flights arrives; look at {system.dagster.url}, Ctrl-C ends it all")
            system.progress.step(f"running, {system.dagster.url}")
            while not stop.wait(LOOK_INTERVAL):
                system.look(replay)


def replay_duration(now: datetime, window: timedelta) -> timedelta:
    """Return how long the replay takes: long enough to split and kill, and to end just before a window does."""
    earliest = now + SHORTEST_REPLAY + END_BEFORE_WINDOW
    midnight = earliest.replace(hour=0, minute=0, second=0, microsecond=0)
    windows = -(-(earliest - midnight) // window)
    return midnight + windows * window - END_BEFORE_WINDOW - now


def _wait_for_leases(system: DemoSystem) -> bool:
    """Wait until shard sync has created the first leases; False if stopped before."""
    system.progress.step("waiting for the first leases: a sensor asks for shard sync")
    deadline = system.clock.monotonic() + START_PATIENCE.total_seconds()
    while len(system.look()) < SHARDS:
        if system.clock.monotonic() > deadline:
            raise EndpointUnavailableError(
                service="shard sync",
                operation="create leases",
                cause=f"none after {START_PATIENCE}, see {system.state}",
            )
        if system.stop.wait(LOOK_INTERVAL):
            return False
    return True


def _follow(system: DemoSystem, replay: ReplayProcess) -> Kill | None:
    """Watch the replay, kill a worker on the way, and wait until everything is in its place."""
    kill: Kill | None = None
    deadline: float | None = None
    system.progress.step("replaying the flights; two workers consume them")
    while not system.stop.wait(LOOK_INTERVAL):
        leases = system.look(replay)
        if kill is None and replay.total and replay.sent >= KILL_AT * replay.total:
            kill = _kill_a_worker(system, leases)
        if not replay.done:
            continue
        missing = _what_is_missing(system, leases, replay, kill)
        if missing is None:
            break
        system.progress.step(missing)
        deadline = deadline or system.clock.monotonic() + END_PATIENCE.total_seconds()
        if system.clock.monotonic() > deadline:
            system.progress.event(f"gave up after {END_PATIENCE}: {missing}")
            break
    return kill


def _kill_a_worker(system: DemoSystem, leases: tuple[Lease, ...]) -> Kill | None:
    """Kill the worker that reads most shards, and split one of them; None if it is too early: two do not read yet.

    Nobody reads the shard to its end while its owner is dead, so it is shard sync that creates the children's leases.
    """
    snapshot = system.snapshot()
    reading = {} if snapshot is None else leases_being_read(leases, snapshot.history())
    if len(reading) < 2:  # noqa: PLR2004 - a victim and a survivor
        return None
    victim = max(sorted(reading), key=lambda worker: len(reading[worker]))
    at = system.clock.wall()
    os.kill(process_of(victim), signal.SIGKILL)
    system.progress.event(f"killed worker {victim} with SIGKILL; it was reading {', '.join(reading[victim])}")
    kinesis = system.aws.config().kinesis()
    split = split_widest(kinesis, STREAM, system.clock, system.stop, among=reading[victim])
    system.progress.event(f"split {split.shard_id}, which has no reader now")
    return Kill(victim, at)


def leases_being_read(leases: Iterable[Lease], history: Iterable[TableCommit]) -> dict[str, list[str]]:
    """Return the keys of unfinished leases by worker, where the owner has committed records of them."""
    last = {each.lease_key: commit.worker_id for commit in history for each in commit.ranges if each.rows}
    reading: dict[str, list[str]] = {}
    for lease in leases:
        owner = lease.actual_owner
        if owner is not None and not lease.is_finished and last.get(lease.lease_key) == owner:
            reading.setdefault(owner, []).append(lease.lease_key)
    return reading


def process_of(worker_id: str) -> int:
    """Return the process id in a worker id (`kcl_core.leases.identity.new_worker_id`)."""
    return int(worker_id.rsplit("-", 2)[1])


def _what_is_missing(
    system: DemoSystem, leases: tuple[Lease, ...], replay: ReplayProcess, kill: Kill | None
) -> str | None:
    """Say what the demo still waits for; None if everything is in its place."""
    if kill is None:
        return "waiting until two workers have committed, to kill one"
    snapshot = system.snapshot()
    rows = {} if snapshot is None else snapshot.rows_by_window()
    if sum(rows.values()) < replay.sent:
        return f"waiting for {replay.sent - sum(rows.values()):,} more rows in the table"
    computed = system.observer.materialized(CARRIER_DELAYS)
    waiting = [window.partition_key for window in rows if window.partition_key not in computed]
    if waiting:
        return f"waiting for windows to close and their statistics: {', '.join(waiting)}"
    shards = list_shards(system.aws.config().kinesis(), STREAM)
    if {shard.shard_id for shard in shards} <= {lease.lease_key for lease in leases}:
        return "waiting for lease cleanup to delete the lease of a finished shard"
    return None


def _summarize(system: DemoSystem, kill: Kill | None) -> Summary:
    system.progress.step("reading the table and the ledger")
    snapshot = system.table.snapshot()
    computed = system.observer.materialized(CARRIER_DELAYS)
    windows = count_windows(snapshot.rows_by_window(), computed)
    facts = TableFacts(snapshot.version, read_landed(snapshot.files()), snapshot.history(), windows)
    state = system.state
    return summarize(
        read_ledger(state.ledger),
        facts,
        stream=STREAM,
        shards=list_shards(system.aws.config().kinesis(), STREAM),
        kill=kill,
        places={
            "the table (Delta)": str(state.table.relative_to(REPOSITORY)),
            "what the producer sent": str(state.ledger.relative_to(REPOSITORY)),
            "logs": str(state.logs.relative_to(REPOSITORY)),
            "the same, left running": "make dev",
        },
    )
