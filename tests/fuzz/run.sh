#!/usr/bin/env bash
# run.sh [SECONDS [NAME...]]: builds the preset `fuzz` and runs each fuzz target (or those named) for SECONDS (600
# by default), two at a time. New inputs stay in build/fuzz/corpus, findings in build/fuzz/findings. Exits with 1 if there
# are findings.
set -u
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." || exit
seconds=${1:-600}
names=("${@:2}")
[ ${#names[@]} -gt 0 ] || names=(tokenizer pickle zip gguf sweep safetensors hfconfig text tasks)
work=build/fuzz

command -v clang-14 >/dev/null || {
    echo "needs clang-14, libclang-rt-14-dev and libomp-14-dev" >&2
    exit 2
}
cmake --preset fuzz && cmake --build --preset fuzz -j 2 || exit

fuzz_one() { # NAME: log and findings under $work
    local name=$1 seeds=("$here/corpus/$1") limit=4096
    local flags=()
    case $name in
    sweep) seeds+=("$here/../fixtures/config/bad") ;;
    tokenizer | tasks) limit=8192 ;;
    esac
    [ -f "$here/$name.dict" ] && flags+=(-dict="$here/$name.dict")
    mkdir -p "$work/corpus/$name" "$work/findings"
    OMP_NUM_THREADS=1 nice -n 19 "$work/fuzz_$name" -max_total_time="$seconds" -max_len=$limit -timeout=10 \
        -rss_limit_mb=2048 -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="$work/findings/$name-" \
        "${flags[@]}" "$work/corpus/$name" "${seeds[@]}" >"$work/$name.log" 2>&1
    local code=$?
    if [ $code = 0 ]; then
        echo "$name: nothing found, $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log") executions," \
            "$(sed -n 's/^Done.* in \(.*\) second.*/\1/p' "$work/$name.log") seconds"
    else
        echo "$name: FOUND something, exit $code; see $work/$name.log: $(grep -m1 'Test unit written to' "$work/$name.log")"
    fi
    return $code
}

failed=0 running=0
for name in "${names[@]}"; do
    if [ $running = 2 ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    fuzz_one "$name" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
exit $failed
