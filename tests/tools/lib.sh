# Sourced by the scripts of tests/e2e, tests/mpi and tests/golden, which ctest starts with $QTRAJ and $SOURCE set.
# Creates a scratch folder $work, removed at the end; counts failures; exits with 77 to skip.
# shellcheck shell=bash
set -u
: "${QTRAJ:?the binary under test}" "${SOURCE:?the root of the sources}"

work=$(mktemp -d) || exit 2
failures=0
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
unset SLURM_TMPDIR COLUMNS
export TMPDIR=$work/tmp # run.scratch too

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

# Call at the end of a test.
finish() {
    [ $failures = 0 ] && echo "all good" && exit 0
    echo "$failures failed"
    exit 1
}

# only_bits: ends a test whose first part alone, which compares bits, runs again with other kernels.
only_bits() { [ -z "${QTRAJ_ONLY_BITS:-}" ] || finish; }

# Sets $python to an interpreter that has the modules, by default those of analysis/; skips the test if there is none.
need_python() {
    python=$("$SOURCE/slurm/python.sh" "$@" 2>"$work/err") || skip "$(cat "$work/err")"
}

# check NAME [ARGUMENT ...] <CODE: Python that asserts, with these arguments in sys.argv; run_checks runs all of it in one process.
check() {
    mkdir -p "$work/checks"
    { printf 'import sys; sys.argv[1:] = [%s]\n' "$(printf '"%s", ' "${@:2}")" && cat; } >"$work/checks/$(printf %02d "$(ls "$work/checks" | wc -l)") $1.py"
}

# run_checks [OPTION OF PYTHON ...]
run_checks() {
    PYTHONPATH=$SOURCE/analysis:$SOURCE/tests/tools "$python" "$@" "$SOURCE/tests/tools/checks.py" "$work"/checks/*.py >"$work/found" 2>&1 || fail "$(cat "$work/found")"
}

faq=/usr/share/doc/debian/FAQ/debian-faq.en.txt.gz

# launch SECONDS RANKS COMMAND ...: runs qtraj under mpirun, output in $work/out and $work/err; exit code 124 means a hang: five times
# the seconds, which a busy machine may need, are over.
launch() {
    local seconds=$1 ranks=$2
    shift 2
    timeout -k 5 $((5 * seconds)) mpirun -n "$ranks" "$QTRAJ" "$@" >"$work/out" 2>"$work/err" </dev/null
}

# comes SECONDS COMMAND ...: whether it succeeds within that time
comes() {
    local end=$((SECONDS + $1))
    shift
    until "$@" 2>/dev/null; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

# wait_for SECONDS COMMAND ...: until it succeeds
wait_for() { comes "$@" || { fail "never: ${*:2}: $(tail -n 20 "$work/err" 2>/dev/null)"; return 1; }; }

# memory_as_users_have: memory is returned to the system as in runs of users, which ctest's environment keeps (qtraj_test_properties).
memory_as_users_have() { unset MALLOC_MMAP_THRESHOLD_ MALLOC_TRIM_THRESHOLD_; }

# compare A B [ARGUMENT ...]: compares the cubes A.h5 and B.h5 in $work, except volatile variables.
compare() {
    "$python" "$SOURCE/tests/tools/compare_cubes.py" "$work/$1.h5" "$work/$2.h5" "${@:3}" >"$work/differences" ||
        fail "$1 and $2: $(cat "$work/differences")"
}

# own_text FILE: writes English prose and C from this repository, so that no download is needed: 40,000 tokens of the quickstart's, since
# each process of each run tokenizes all of them.
own_text() {
    cat "$SOURCE"/docs/*.md 2>/dev/null | head -c 60000 >"$1"
    cat "$SOURCE"/src/*/*.h 2>/dev/null | head -c 40000 >>"$1"
}

quickstart=$SOURCE/configs/quickstart

# fixed_text FILE: writes a text that no change of the sources changes, for numbers that depend on the text.
fixed_text() { fold -s -w 80 "$quickstart/trajectory/tokenizer.json" | sed -n 1,2000p >"$1"; }

# quickstart_sweep LINES [TEXT]: writes $work/sweep.yaml from standard input plus a model with the rows of the quickstart's
# trajectory that the sed expression LINES prints, and a text $work/text.txt (TEXT: own_text, the default, or fixed_text).
quickstart_sweep() {
    "${2:-own_text}" "$work/text.txt"
    sed -n "$1" "$quickstart/trajectory.csv" >"$work/trajectory.csv"
    {
        cat
        echo "models:"
        echo "  - {name: quickstart, trajectory: trajectory.csv, path: \"$quickstart/trajectory/{checkpoint}\", tokenizer: \"$quickstart/trajectory/tokenizer.json\"}"
    } >"$work/sweep.yaml"
}

# repeated_sweep VISITS: as quickstart_sweep with a fixed text, of a model m whose checkpoints v001, v002, ... are all the same one.
repeated_sweep() {
    local i name
    fixed_text "$work/text.txt"
    mkdir "$work/checkpoints"
    echo "checkpoint,step,tokens,learning_rate,phase" >"$work/trajectory.csv"
    for i in $(seq "$1"); do
        name=$(printf 'v%03d' "$i")
        ln -s "$quickstart/trajectory/step000100" "$work/checkpoints/$name"
        echo "$name,$i,$((i * 1000)),0.001,stable" >>"$work/trajectory.csv"
    done
    {
        cat
        echo "models:"
        echo "  - {name: m, trajectory: trajectory.csv, path: \"checkpoints/{checkpoint}\", tokenizer: \"$quickstart/trajectory/tokenizer.json\"}"
    } >"$work/sweep.yaml"
}

# kill_after SECONDS CUBE [COMMAND ...]: runs $work/sweep.yaml by three ranks in a session of their own, and kills all of it with kill -9:
# after this time or, given a command, as soon as it succeeds.
kill_after() {
    local session
    setsid mpirun -n 3 "$QTRAJ" run "$work/sweep.yaml" --set "results=$2" >"$work/out" 2>"$work/err" </dev/null &
    session=$!
    if [ $# -gt 2 ]; then comes "$1" "${@:3}"; else sleep "$1"; fi
    # shellcheck disable=SC2046
    kill -9 $(ps -o pid= -s $session) 2>/dev/null
    wait $session 2>/dev/null
    while ps -o stat= -s $session | grep -qv Z; do sleep 0.05; done
}

# take_faults: makes the folder $FAULTS, from which tests/tools/visit_fault.c ($FAULT) takes what it does to a process.
take_faults() {
    : "${FAULT:?the library of tests/tools/visit_fault.c}"
    export FAULTS=$work/faults OMPI_MCA_btl_vader_backing_directory=$work
    mkdir -p "$FAULTS/at" "$FAULTS/late"
}
