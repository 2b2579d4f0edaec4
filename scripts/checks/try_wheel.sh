#!/usr/bin/env bash
# Build the wheel, put it (without its dependencies, which .venv has) somewhere else, and run it in an empty directory.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$PWD/.venv/bin/python
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m pip wheel -q --disable-pip-version-check --no-deps -c constraints.txt -w "$place" .
"$python" -m pip install -q --disable-pip-version-check --no-deps --target "$place/installed" "$place"/*.whl
mkdir "$place/empty"
cd "$place/empty"
export PYTHONPATH=$place/installed
pace() { "$python" -m pace_async "$@"; }
"$python" -c "import pace_async, sys; sys.exit(not pace_async.__file__.startswith('$place'))"
pace task list
pace run --candidates 16 --display plain --run-dir run
pace db check run
pace best run
