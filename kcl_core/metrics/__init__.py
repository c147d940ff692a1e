"""Worker metrics: what assignment is fed with."""
