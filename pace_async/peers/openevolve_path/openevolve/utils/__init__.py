"""Helpers of OpenEvolve that evaluators import."""
