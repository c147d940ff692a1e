"""Reading shards and checkpointing them."""
