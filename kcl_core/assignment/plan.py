"""What an assignment run intends: moves of leases, each with a reason. Values only."""

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Move:
    """One lease to give to a worker, and why.

    Attributes:
        source: worker id of the present owner (checkpoint owner, during a handoff); None if there is none.
        target: worker id of the next owner.
        kind: ``handoff`` asks the owner to finish and pass the lease on; ``assign`` takes it at once.
    """

    lease_key: str
    source: str | None
    target: str
    reason: str
    kind: Literal["assign", "handoff"] = "assign"


@dataclass(frozen=True, slots=True)
class Unplaced:
    """One lease that stays where it is although it should move, and why."""

    lease_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    """The moves of one run, at most one for each lease. Falsy when nothing moves.

    Attributes:
        moves: in the order of the decisions: leases without a live owner first.
        unplaced: leases that no worker may take, or whose owner is still handing them over.
    """

    moves: tuple[Move, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()

    def __len__(self) -> int:
        return len(self.moves)

    def rows(self) -> list[dict[str, str | None]]:
        """Return the moves as rows of a table, ready for JSON: lease_key, source, target, reason, kind."""
        return [asdict(move) for move in self.moves]
