#!/bin/bash
# Installs what is missing, builds toporun and shows one run of it: a real MPI program of four processes
# on this machine's CPU that stands in for training on a GPU node.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
. "$root/dev/packages.sh"

install_packages "${build_packages[@]}" || exit 1
configure_and_build release

if [ "$(id -u)" -eq 0 ]; then
    say "running as root: setting OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 for Open MPI"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
mkdir -p "$root/build/quickstart"
cd "$root/build/quickstart"
export PATH="$root/build/release/bin:$PATH"
set -x
toporun mpirun --oversubscribe -np 4 ring_allreduce
{ set +x; } 2>/dev/null
echo "report: $(readlink -f toporun/latest)/report.txt"
echo "to go on:  export PATH=$root/build/release/bin:\$PATH"
