# Sourced by the scripts of tests/e2e, tests/mpi and tests/golden, which ctest starts with $QTRAJ and $SOURCE set.
# Makes a scratch folder $work, which goes at the end; counts failures; skips with 77.
# shellcheck shell=bash
set -u
: "${QTRAJ:?the binary under test}" "${SOURCE:?the root of the sources}"

work=$(mktemp -d)
failures=0
trap 'rm -rf "$work"' EXIT

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1

skip() {
    echo "skipped: $*"
    exit 77
}

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# The last line of a test.
finish() {
    [ $failures = 0 ] && echo "all good" && exit 0
    echo "$failures failed"
    exit 1
}

# Sets $python to an interpreter that has the modules; skips where there is none.
need_python() {
    local modules
    modules=$(echo "$*" | tr ' ' ,)
    for python in python3 /usr/bin/python3 "$SOURCE/.venv/bin/python"; do
        ! "$python" -W ignore -c "import $modules" >/dev/null 2>&1 || return 0
    done
    skip "no python3 here has the modules $modules"
}

faq=/usr/share/doc/debian/FAQ/debian-faq.en.txt.gz

# launch SECONDS RANKS COMMAND ...: qtraj under mpirun, its output in $work/out and $work/err; 124 is a hang.
launch() {
    local seconds=$1 ranks=$2
    shift 2
    timeout -k 5 "$seconds" mpirun -n "$ranks" "$QTRAJ" "$@" >"$work/out" 2>"$work/err" </dev/null
}

# compare A B [ARGUMENT ...]: the cubes A.h5 and B.h5 in $work, timings aside.
compare() {
    "$python" "$SOURCE/tests/tools/compare_cubes.py" "$work/$1.h5" "$work/$2.h5" "${@:3}" >"$work/differences" ||
        fail "$1 and $2: $(cat "$work/differences")"
}

# own_text FILE: English prose and C that is here wherever the tests are.
own_text() { cat "$SOURCE"/docs/*.md "$SOURCE"/src/*/*.h >"$1"; }

quickstart=$SOURCE/configs/quickstart

# quickstart_sweep LINES: $work/sweep.yaml is standard input and, of the quickstart's trajectory, the lines that sed's LINES
# takes; $work/text.txt a text for it.
quickstart_sweep() {
    own_text "$work/text.txt"
    sed -n "$1" "$quickstart/trajectory.csv" >"$work/trajectory.csv"
    {
        cat
        echo "models:"
        echo "  - {name: quickstart, trajectory: trajectory.csv, path: \"$quickstart/trajectory/{checkpoint}\", tokenizer: \"$quickstart/trajectory/tokenizer.json\"}"
    } >"$work/sweep.yaml"
}
