#!/usr/bin/env bash
# What to run first on a machine with a card: `bash scripts/first_hour.sh [CONFIG.yaml] [--write]`. It takes the learner and
# the engine of a config through doctor, plan, a real training step, pushes, probes and a short run in each mode, and prints
# one table. `--write` puts the table into docs/gpu.md. Parts that need what this machine lacks say so. Without a config it
# takes the advisor in the package, and without a card it runs on the CPU. `--bare [PART ...]` measures what needs no vLLM.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --bare ]; then
  shift
  exec "${PYTHON:-.venv/bin/python}" -m scripts.first_hour.bare "$@"
fi
exec "${PYTHON:-.venv/bin/python}" -m scripts.first_hour "$@"
