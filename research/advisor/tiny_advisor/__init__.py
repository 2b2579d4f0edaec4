"""Builds the tiny advisor in the package from nothing: corpus, tokenizer, training, measurement."""
