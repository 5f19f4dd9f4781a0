# Sourced behind lib.sh by tests that count what a run of $work/sweep.yaml adds to its journal.
# shellcheck shell=bash

# go WHAT NAME [ARGUMENT ...]: runs the sweep into NAME.h5; computed: how many records that added
go() {
    local before
    before=$(records "$2")
    "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/$2.h5" "${@:3}" >"$work/out" 2>"$work/err" </dev/null || fail "$1: exit code $?: $(cat "$work/err")"
    computed=$(($(records "$2") - before))
    echo "$1: $computed records computed"
}
records() { cat "$work/$1.journal" 2>/dev/null | grep -cE '"type":"(cell|checkpoint|completion|curvature|movement|replicate)"'; }
