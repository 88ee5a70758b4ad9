# Sourced by examples/quickstart.sh, tests/run.sh and .ci/run: the Debian 12 packages that toporun
# needs, and a function that installs those that are missing. Runs as root or with sudo.

build_packages=(
    g++ cmake ninja-build
    libboost-filesystem1.81-dev libboost-program-options1.81-dev
    libhwloc-dev libtomlplusplus-dev libfmt-dev nlohmann-json3-dev libpugixml-dev zlib1g-dev libzstd-dev
    libopenmpi-dev openmpi-bin
)
test_packages=(doctest-dev)                # without them the tests do not build
optional_test_packages=(                   # without them some tests skip
    python3 python3-torch iproute2 mpich munge slurmctld slurmd slurm-client
)
format_packages=(clang-format)
fuzz_packages=(clang libclang-rt-14-dev)  # of dev/fuzz

apt_lists_are_fresh=

say() { printf '%s\n' "${0##*/}: $*" >&2; }

# missing_packages NAME...: prints those that are not installed, one a line.
missing_packages() {
    local name
    for name in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] ||
            printf '%s\n' "$name"
    done
}

apt() {
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            say "error: installing packages needs root, and there is no sudo"
            return 1
        fi
        as_root=(sudo)
    fi
    # Standard input stays away from maintainer scripts; sudo asks on the terminal itself.
    local output
    output=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -o DPkg::Lock::Timeout=300 -y "$@" </dev/null 2>&1) ||
        { printf '%s\n' "$output" | tail -n 20 >&2; return 1; }
}

# install_packages NAME...: installs what is missing. Returns 1 when something cannot be got, with
# its names in the array not_installed and on standard error.
install_packages() {
    local missing name
    mapfile -t missing < <(missing_packages "$@")
    not_installed=("${missing[@]}")
    [ ${#missing[@]} -gt 0 ] || return 0
    if command -v apt-get >/dev/null; then
        say "installing ${missing[*]} (may take minutes)"
        if [ -z "$apt_lists_are_fresh" ]; then
            apt update || say "warning: apt-get update failed, using the package lists at hand"
            apt_lists_are_fresh=yes
        fi
        # One by one after a failure: a package that is not to be had must not keep the others away.
        apt install --no-install-recommends "${missing[@]}" ||
            for name in "${missing[@]}"; do
                apt install --no-install-recommends "$name" || true
            done
        mapfile -t not_installed < <(missing_packages "$@")
        [ ${#not_installed[@]} -gt 0 ] || return 0
    fi
    say "cannot get: ${not_installed[*]}"
    say "  hint: on Debian 12, as root: apt-get install ${not_installed[*]}"
    return 1
}

# configure_and_build PRESET [CMAKE OPTION...]
configure_and_build() {
    local preset=$1
    local build=$root/build/$preset
    shift
    if [ -e "$build" ] && [ ! -w "$build" ]; then
        say "error: $build belongs to $(stat -c %U "$build"), not to $(id -un)"
        say "  hint: remove it, or run this as $(stat -c %U "$build")"
        return 1
    fi
    mkdir -p "$build"
    cmake -S "$root" --preset "$preset" "$@" >"$build/configure.log" 2>&1 ||
        { cat "$build/configure.log" >&2; return 1; }
    cmake --build "$build"
}
