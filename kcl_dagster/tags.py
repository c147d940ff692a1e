"""Names of the run tags that sensors, jobs and workers put on runs, and look for."""

ROLE = "kcl/role"
"""``worker`` or ``leader``."""

REASON = "kcl/reason"
"""Why a sensor asked for the run."""

SLOT = "kcl/slot"
"""The place in the fleet that a worker run fills, from 0."""

WORKER = "kcl/worker"
"""The worker id of a worker run: its lease owner in DynamoDB."""
