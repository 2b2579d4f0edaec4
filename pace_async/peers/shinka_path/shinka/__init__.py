"""What an evaluator of a ShinkaEvolve example imports of ShinkaEvolve, written anew. It need not be installed.

Only the modules here are offered. An evaluator that also calls models needs ShinkaEvolve itself.
"""
