"""How hypothesis searches: little and anew at every run on a desk, more and always the same in CI."""

import os

from hypothesis import settings

# No deadlines: a busy machine is not a slow function.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("deep", max_examples=5000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))
