"""Inference engines for the advisor: the embedded engine and vLLM, each a child process.

The runtime imports only modules without torch: `managed`, `vllm_managed`, `vllm_found`, `vllm_plugin`, `served_copy`
and `wire`. The other modules run in the engines' processes.
"""
