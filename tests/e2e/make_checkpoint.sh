#!/usr/bin/env bash
# The benches' random checkpoints: every family that the binary knows, every type, in shards, config only. The loss of a random
# model is close to that of uniform guessing.
. "$SOURCE/tests/tools/lib.sh"
need_python numpy

make() { "$python" "$SOURCE/tests/bench/make_checkpoint.py" "$QTRAJ" "$@" 2>"$work/err" || fail "make_checkpoint $*: $(tail -1 "$work/err")"; }
shape=(--hidden 64 --layers 2 --heads 4 --intermediate 96 --vocab 200)
"$python" "$SOURCE/tests/bench/make_ids.py" "$work/ids.safetensors" 200 e=4,60

# guesses DIR: evaluates the checkpoint; the loss must be about log 200.
guesses() {
    "$QTRAJ" eval "$1" --ids "$work/ids.safetensors:e" --json >"$work/out" 2>"$work/err" || { fail "$1: $(cat "$work/err")"; return; }
    "$python" -c 'import json, math, sys; sys.exit(abs(json.load(open(sys.argv[1]))["loss"] - math.log(200)) > 1)' "$work/out" || fail "$1: $(head -c 60 "$work/out")"
}

families=$("$QTRAJ" architectures | grep -oE '^[a-z0-9_]+')
[ "$(wc -w <<<"$families")" -ge 10 ] || fail "qtraj architectures: $families"
for family in $families; do
    make "$work/$family" --family "$family" "${shape[@]}"
    guesses "$work/$family"
done
for dtype in F16 F32; do
    make "$work/$dtype" --family llama --kv-heads 2 --dtype $dtype "${shape[@]}"
    guesses "$work/$dtype"
done
make "$work/shards" --family llama --shard-gb 0.00005 "${shape[@]}"
[ "$(find "$work/shards" -name 'model-*-of-*.safetensors' | wc -l)" -gt 2 ] || fail "no shards"
guesses "$work/shards"
make "$work/config" --family olmo2 --config-only "${shape[@]}"
[ "$(ls "$work/config")" = config.json ] || fail "more than config.json: $(ls "$work/config")"
"$QTRAJ" inspect "$work/config/config.json" >/dev/null || fail "inspect of the config alone"
finish
