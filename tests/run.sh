#!/bin/bash
# Installs what is missing, builds toporun with warnings as errors, and runs every test.
# Arguments go to ctest: tests/run.sh -R end_to_end
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
. "$root/dev/packages.sh"

install_packages "${build_packages[@]}" "${test_packages[@]}" || exit 1
install_packages "${optional_test_packages[@]}" || true
lacking=("${not_installed[@]}")

configure_and_build dev

output=$(mktemp)
trap 'rm -f "$output"' EXIT
status=0
ctest --test-dir "$root/build/dev" --parallel "$(nproc)" --output-on-failure --no-tests=error "$@" \
    </dev/null 2>&1 | tee "$output" || status=$?

# Last of all: what was not tested here and why, and ctest's closing line once more.
skipped=$(grep -ah '^skipped: ' "$root/build/dev/Testing/Temporary/LastTest.log" | sort -u || true)
[ -z "$skipped" ] || printf '\n%s\n' "$skipped"
[ ${#lacking[@]} -eq 0 ] || printf '\nnot to be had here: %s\n' "${lacking[*]}"
printf '\n'
grep -aE '^[0-9]+% tests passed' "$output" | tail -n 1 || true
exit "$status"
