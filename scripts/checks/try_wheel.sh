#!/usr/bin/env bash
# Build the wheel, install it with its own few dependencies into a new environment, and use it in an empty directory: a
# search without torch, what reads runs, and the sentence of what is not installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
constraints=$PWD/constraints.txt
build=$PWD/.venv/bin/python
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$build" -m pip wheel -q --disable-pip-version-check --no-deps -c "$constraints" -w "$place" .
"$build" -m venv "$place/environment"
"$place/environment/bin/python" -m pip install -q --disable-pip-version-check -c "$constraints" "$place"/*.whl
mkdir "$place/empty"
cd "$place/empty"
pace() { "$place/environment/bin/pace" "$@"; }
"$place/environment/bin/python" -c "import importlib.util, sys; sys.exit(any(map(importlib.util.find_spec, ('torch', 'litellm'))))"
echo "megabytes of the packages, without compiled modules and pip: $(find "$place"/environment/lib/python*/site-packages \
    \( -name pip -o -name setuptools -o -name pkg_resources -o -name __pycache__ \) -prune -o -type f -printf '%s\n' |
    awk '{sum += $1} END {printf "%.0f", sum / 1e6}')"
TIMEFORMAT="seconds of the first search: %1R by the clock, %1U + %1S of the processor"
time pace run circle_packing --advisor bandit --candidates 16 --display plain --run-dir run
pace task list
pace doctor
pace db check run
pace best run
pace report run -o run.html
# In one sentence, with the line that mends it, and without a folder of a run.
if pace run circle_packing --candidates 16 --run-dir other 2>refused; then exit 1; fi
grep "pip install .*whl\[learn\]" refused
if OPENAI_API_KEY=none pace run circle_packing --advisor bandit --implementer openai/gpt-5 --run-dir other 2>refused; then exit 1; fi
grep "pip install .*whl\[api\]" refused
test ! -e other
