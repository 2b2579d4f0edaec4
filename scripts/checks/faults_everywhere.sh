#!/bin/bash
# The tests of faults as root and as another user, on SQLite and PostgreSQL, in every tier of the sandbox.
#
# bash scripts/checks/faults_everywhere.sh [FILE or option of pytest]...   # without any: every fault
#
# Needs root, bubblewrap, PostgreSQL, and .venv. What lacks PostgreSQL fails (PACE_NEEDS_POSTGRES). The tests name the
# tiers themselves: bubblewrap cold and warm, rlimits with Landlock, rlimits without. Each works on a copy of the
# committed tree, the other user (65534) with a Python that it can read. Prints the last line of each.
set -euo pipefail
cd "$(dirname "$0")/../.."
ROOT=$PWD
PLAIN=$(mktemp -d /var/tmp/pace-plain.XXXX)
trap 'rm -rf "$PLAIN"' EXIT
AS=(setpriv --reuid 65534 --regid 65534 --clear-groups env -i "HOME=$PLAIN/home" "TMPDIR=$PLAIN/tmp" LANG=C.UTF-8
    PACE_NEEDS_POSTGRES=1 "PATH=$PLAIN/.venv/bin:/usr/local/bin:/usr/bin:/bin")
export PYTHONDONTWRITEBYTECODE=

mkdir "$PLAIN"/{tree,root,home,tmp}
git archive HEAD | tar x -C "$PLAIN/tree"
git archive HEAD | tar x -C "$PLAIN/root"
minor=$(.venv/bin/python -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
for python in "$(readlink -f .venv/bin/python)" "/usr/bin/$minor" "/usr/local/bin/$minor"; do
    if "${AS[@]}" "$python" -c "import encodings, venv" 2>/dev/null; then break; fi
done
"$python" -m venv --without-pip "$PLAIN/.venv"
packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
site=$PLAIN/.venv/lib/$minor/site-packages # the packages themselves, because a sandbox shows nothing else
cp -al "$packages/." "$site/" 2>/dev/null || cp -a "$packages/." "$site/"
rm -rf "$site"/_editable* "$site/pace_async"
echo "$PLAIN/tree" > "$site/all.pth"
printf '#!%s\nfrom pace_async.cli.main import main\nmain()\n' "$PLAIN/.venv/bin/python" > "$PLAIN/.venv/bin/pace"
chmod +x "$PLAIN/.venv/bin/pace"
chown -R 65534:65534 "$PLAIN"/{tree,home,tmp}
chmod 755 "$PLAIN"

code=0
tests() { # WHO COMMAND...: the last line of a run of the tests, and which failed
    who=$1
    shift
    "$@" -m pytest -n 2 --dist loadfile --faults -q "${FILES[@]}" > "$PLAIN/said" 2>&1 || code=1
    grep -E "^(FAILED|ERROR|SKIPPED)" "$PLAIN/said" || true
    echo "$who: $(grep -E "(passed|failed|error)" "$PLAIN/said" | tail -1)"
}
FILES=("$@")
cd "$PLAIN/root" && tests "as root" env PACE_NEEDS_POSTGRES=1 "PYTHONPATH=$PLAIN/root" "$ROOT/.venv/bin/python"
cd "$PLAIN/tree" && tests "as user 65534" "${AS[@]}" python
exit $code
