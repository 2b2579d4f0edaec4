#!/usr/bin/env bash
# Install the compilers with which tests run programs in C, C++, Go, Fortran and R, where this is Debian and this user is
# root. What cannot be installed is said, and its tests are skipped and counted.
set -uo pipefail

as_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
install_debian() {
    timeout 600 apt-get install -y -q --no-install-recommends "$@" >/dev/null 2>&1
}

updated=
for wanted in gcc:gcc:libc6-dev g++:g++ go:golang-go gfortran:gfortran Rscript:r-base-core; do
    IFS=: read -r command packages <<<"$wanted"
    command -v "$command" >/dev/null && continue
    if ! as_root; then
        echo "no $command: what is compiled by it is skipped (apt install ${packages//:/ })"
        continue
    fi
    if ! install_debian ${packages//:/ }; then
        [ -n "$updated" ] || timeout 300 apt-get update -q >/dev/null 2>&1
        updated=yes
        install_debian ${packages//:/ }
    fi
    if command -v "$command" >/dev/null; then
        echo "installed ${packages//:/ }: tests run programs compiled by $command"
    else
        echo "no $command: what is compiled by it is skipped (apt install ${packages//:/ })"
    fi
done
exit 0
