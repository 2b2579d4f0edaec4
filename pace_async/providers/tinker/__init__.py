"""The Tinker API: what a run asks of it, and the adapter to its Python client."""
