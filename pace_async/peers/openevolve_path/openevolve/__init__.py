"""What an evaluator of an OpenEvolve example imports of OpenEvolve, written anew. OpenEvolve need not be installed.

Only the modules here are offered. An evaluator that also calls models or runs searches needs OpenEvolve itself.
"""
