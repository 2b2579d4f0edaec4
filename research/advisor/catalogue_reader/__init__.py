"""Builds the advisor that reads the catalogue in its prompt: corpus, tokenizer, training, measurement."""
