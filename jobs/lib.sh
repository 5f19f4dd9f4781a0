# Sourced by the scripts in this folder and by tests/run.sh: paths, missing packages, MPI environment.
# Changes the caller's directory to the root of the checkout.
# shellcheck shell=bash disable=SC2034,SC2046,SC2086

# -h: the comment that the script opens with
case ${1:-} in
-h | --help)
    sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0"
    exit
    ;;
esac

qtraj_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$qtraj_root" || exit 2
mkdir -p build

# --- required packages, by their Debian names ---
packages_build="build-essential cmake ninja-build pkg-config libopenmpi-dev openmpi-bin libhdf5-dev
    libscalapack-openmpi-dev libopenblas-dev libyaml-dev libpcre2-dev libutf8proc-dev libjansson-dev libxxhash-dev
    zlib1g-dev libzstd-dev libcmocka-dev"
packages_products="libdnnl-dev" # products in bf16: builds and runs do without it
packages_text="debian-faq"
packages_analysis="python3-h5py python3-numpy python3-matplotlib python3-xarray python3-h5netcdf
    python3-scipy python3-statsmodels python3-jinja2"
packages_tests="clang-format-14 hdf5-tools netcdf-bin chromium-headless-shell slurmctld slurmd slurm-client munge"
cmake_least=3.25
. "$qtraj_root/slurm/python.sh" # names python_modules

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "error: $*"
    exit 2
}

# --- installing ---
packages_of() {
    local set name
    for set in "$@"; do
        name=packages_$set
        [ -n "${!name:-}" ] || fail "no set of packages is called $set (build, products, text, analysis, tests)"
        printf '%s\n' ${!name}
    done
}

# Prints those of the named Debian packages that are not installed. pkgconf replaces and provides pkg-config.
packages_missing() {
    local installed name
    installed=" $(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" pkgconf 2>/dev/null |
        sed -n 's/ installed$//p' | tr '\n' ' ')"
    for name in "$@"; do
        case "$installed" in
        *" $name "*) ;;
        *" pkgconf "*) [ "$name" = pkg-config ] || echo "$name" ;;
        *) echo "$name" ;;
        esac
    done
}

# Sets $as_root to the prefix of commands that need root. sudo may ask for a password only on a terminal.
as_root_find() {
    as_root="env"
    [ "$(id -u)" != 0 ] || return 0
    command -v sudo >/dev/null || return 1
    as_root="sudo -n env"
    ! sudo -n true 2>/dev/null || return 0
    as_root="sudo env"
    [ -t 0 ]
}

apt_get() {
    local log=build/install.log
    $as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >>$log 2>&1 && return
    tail -n 20 $log >&2
    return 1
}

package_required() { case " $(echo $packages_build) " in *" $1 "*) ;; *) return 1 ;; esac; }

# packages_build are required. Packages of the other sets may be missing; later steps work around that.
install_debian() {
    local missing name wanted='' required=''
    missing=$(packages_missing $(packages_of "$@"))
    if [ -z "$missing" ]; then
        say "install: nothing is missing"
        return
    fi
    for name in $missing; do
        ! package_required "$name" || required="$required $name"
    done
    if ! as_root_find; then
        [ -z "$required" ] || fail "no root here to install what is missing; let somebody run:" \
            "apt-get install --no-install-recommends" $missing
        say "install: no root here, so it goes without" $missing
        return
    fi
    say "install:" $missing
    apt_get update || say "install: apt-get update failed; going on with the lists that are here"
    for name in $missing; do
        if package_required "$name" || apt-cache show "$name" >/dev/null 2>&1; then
            wanted="$wanted $name"
        else
            say "install: this distribution has no package $name"
        fi
    done
    if [ -n "$wanted" ] && ! apt_get install --no-install-recommends $wanted; then
        [ -z "$required" ] || apt_get install --no-install-recommends $required || fail "apt-get could not install$required"
        say "install: apt-get could not install all of$wanted; going on without"
    fi
}

# Other systems: prints the Spack names of build requirements that were not found.
missing_elsewhere() {
    local pair
    for pair in cc:gcc cmake:cmake ninja:ninja pkg-config:pkgconf mpicc:openmpi mpirun:openmpi; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
    done
    command -v pkg-config >/dev/null || return
    for pair in yaml-0.1:libyaml jansson:jansson libxxhash:xxhash libpcre2-8:pcre2 libutf8proc:utf8proc \
        openblas:openblas zlib:zlib libzstd:zstd cmocka:cmocka hdf5:hdf5; do
        pkg-config --exists "${pair%%:*}" || echo "${pair#*:}"
    done
}

install_elsewhere() {
    local missing
    missing=$(missing_elsewhere | sort -u | tr '\n' ' ')
    if [ -z "$missing" ]; then
        say "install: nothing is missing"
        return
    fi
    say "This is neither Debian nor Ubuntu, so nothing was installed. Needed and not found: $missing"
    say "Load them as modules, or with Spack: spack install $missing&& spack load $missing"
    say "docs/install.md tells more. Then start this script again."
    exit 2
}

# install_packages SET...: the sets build, products, text, analysis, tests.
install_packages() {
    if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
        install_debian "$@"
    else
        install_elsewhere
    fi
    export PATH="$PATH:$qtraj_root/.venv/bin"
    cmake_find
}

# --- cmake: an installed one if it is new enough, otherwise from PyPI into .venv ---
cmake_new_enough() {
    local version
    version=$("$1" --version 2>/dev/null | sed -n '1s/.* version //p')
    [ -n "$version" ] && [ "$(printf '%s\n' $cmake_least "$version" | sort -V | head -n 1)" = $cmake_least ]
}

cmake_find() {
    for cmake in cmake /usr/bin/cmake "$qtraj_root/.venv/bin/cmake"; do
        ! cmake_new_enough "$cmake" || return 0
    done
    say "install: cmake here is older than $cmake_least; a newer one goes into .venv"
    venv_install "cmake>=$cmake_least"
}

# --- Python: the user's python3 may not be Debian's and may lack the modules ---

# venv_install PACKAGE...: installs by pip into .venv, which is created if it does not exist.
venv_install() {
    local python
    if [ ! -x .venv/bin/pip ]; then
        for python in python3 /usr/bin/python3; do
            ! "$python" -m venv .venv >/dev/null 2>&1 || break
        done
        if [ ! -x .venv/bin/pip ] && command -v apt-get >/dev/null; then
            as_root_find && apt_get install --no-install-recommends python3-venv && /usr/bin/python3 -m venv .venv >&2
        fi
        [ -x .venv/bin/pip ] || fail "python3 cannot make a virtual environment in .venv (its venv module is missing)"
    fi
    .venv/bin/pip install --quiet --disable-pip-version-check "$@" >&2 || fail "pip could not install: $*"
}

# python_find: sets $python to an interpreter that has the modules of analysis/; creates .venv if none has them.
python_find() {
    if python=$("$qtraj_root/slurm/python.sh" 2>build/python.log); then
        cat build/python.log >&2
        return
    fi
    say "install: no python3 here has $python_modules; they go into .venv"
    venv_install $python_modules
    python=$(PYTHON= "$qtraj_root/slurm/python.sh") || fail "after pip"
}

# --- the machine ---
# Prints the number of cores that this process may use: the smaller of affinity and cgroup quota.
cores() {
    local n quota period
    n=$(nproc)
    if read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && [ "$quota" != max ]; then
        quota=$(((quota + period - 1) / period))
        [ "$quota" -ge "$n" ] || n=$quota
    fi
    echo "$n"
}

# Open MPI: allow root (containers), no warnings about cross-memory attach, more ranks than cores, no binding to one core.
mpi_environment() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1
    export OMPI_MCA_hwloc_base_binding_policy=none
    export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none # Open MPI 5
}

# build_preset NAME: configures once and builds.
build_preset() {
    local log=build/$1/build.log
    mkdir -p "build/$1"
    if [ ! -f "build/$1/build.ninja" ] && ! "$cmake" --preset "$1" >"$log" 2>&1; then
        cat "$log" >&2
        fail "cmake could not configure build/$1"
    fi
    if ! "$cmake" --build --preset "$1" --parallel "$(cores)" >"$log" 2>&1; then
        cat "$log" >&2
        fail "build/$1 does not build"
    fi
    # the step that reads the git version always runs
    if grep -qE 'Building|Linking' "$log"; then say "build: build/$1"; else say "build: build/$1 is up to date"; fi
}

# timed NAME FUNCTION...: runs the function and adds its time to $times.
times=
timed() {
    local name=$1 start=$EPOCHREALTIME status=0
    shift
    "$@" || status=$?
    times="$times$(awk -v n="$name" -v a="${start/,/.}" -v b="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%-12s %8.1f s", n, b - a }')
"
    return $status
}
