#!/usr/bin/env bash
# tests/julia.sh CUBE: the tests of analysis/julia and the Julia blocks of docs/julia.md on this cube; what they compute equals what the
# Python blocks do. Without a `julia` that has HDF5.jl, takes Julia 1.5 of Debian 11 (unpacked below build/julia, not installed) and the
# sources of HDF5.jl, Compat.jl and Requires.jl: folders of these names in $JULIA_SOURCES, else from github.com. Exit code 77: skipped.
set -u
. "$(dirname "$0")/../jobs/lib.sh"
[ -r "${1:-}" ] || { say "usage: tests/julia.sh CUBE.h5"; exit 2; }
cube=$(realpath "$1")
here=build/julia
python_find

skip() {
    say "skipped: $*"
    exit 77
}

# Packages that julia of Debian 11 needs, unpacked into $here/root by an apt whose state is in $here.
unpack() {
    local mirror key=/usr/share/keyrings/debian-archive-keyring.gpg
    mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -m 1 '/debian/*$') || return
    mkdir -p $here/{state,cache/archives/partial,root,first}
    echo "deb [signed-by=$key] $mirror bullseye main" >$here/list
    local apt=(-qq -o "Dir::Etc::SourceList=$PWD/$here/list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State=$PWD/$here/state"
        -o Dir::State::status=/dev/null -o "Dir::Cache=$PWD/$here/cache" -o Debug::NoLocking=1 -o "APT::Sandbox::User=$(id -un)")
    apt-get "${apt[@]}" update && apt-get "${apt[@]}" -y --no-install-recommends --download-only install julia || return
    local package
    for package in $here/cache/archives/*.deb; do dpkg -x "$package" $here/root || return; done
    # Julia needs its own libunwind; of other libraries, the system's come first, which HDF5 was linked with.
    ln -sf "$PWD/$here"/root/usr/lib/*/libunwind*.so* $here/first/
}

# The sources as folders from which Julia loads packages; HDF5.jl is told where the system's library is.
sources() {
    local name tag library
    mkdir -p $here/packages $here/hdf5
    while read -r name owner tag; do
        [ ! -d "$here/packages/$name" ] || continue
        if [ -n "${JULIA_SOURCES:-}" ]; then
            cp -rL "$JULIA_SOURCES/$name.jl" "$here/packages/$name" || return
        else
            git clone -q --depth 1 --branch "$tag" "https://github.com/$owner/$name.jl" "$here/packages/$name" || return
        fi
    done <<<"HDF5 JuliaIO v0.16.10
Compat JuliaLang v3.47.0
Requires JuliaPackaging v1.3.0"
    library=$(ldconfig -p | sed -n 's/.*=> \(.*\)\/libhdf5_serial\.so$/\1/p' | head -n 1)
    ln -sf "$library/libhdf5_serial.so" $here/hdf5/libhdf5.so
    ln -sf "$library/libhdf5_serial_hl.so" $here/hdf5/libhdf5_hl.so
    JULIA_HDF5_PATH=$PWD/$here/hdf5 unpacked "$here/packages/HDF5/deps/build.jl"
}

unpacked() {
    local lib
    lib=$(dirname $here/root/usr/lib/*/libjulia.so.1)
    LD_LIBRARY_PATH=$PWD/$here/first:/${lib#*/root/}:$PWD/$lib:$PWD/$lib/julia JULIA_DEPOT_PATH=$PWD/$here/depot \
        JULIA_LOAD_PATH=$PWD/$here/packages:@stdlib $here/root/usr/bin/julia "$@"
}

installed() { julia --project=analysis/julia "$@"; }

run=installed
if ! command -v julia >/dev/null || ! installed -e 'using HDF5' 2>/dev/null; then
    run=unpacked
    if [ ! -e $here/first/libunwind.so.8 ]; then unpack >$here.log 2>&1 || skip "julia of Debian 11 cannot be had: $(tail -n 1 $here.log)"; fi
    sources >>$here.log 2>&1 || skip "HDF5.jl cannot be had: $(tail -n 1 $here.log)"
    ln -sfn "$PWD/analysis/julia" $here/packages/QtrajCube
fi

QTRAJ_CUBE=$cube $run analysis/julia/test/runtests.jl || exit
"$python" tests/tools/julia_blocks.py docs/julia.md "$cube" >$here.jl || exit
$run $here.jl >$here.out || exit
"$python" tests/tools/julia_blocks.py docs/julia.md "$cube" --compare $here.out
