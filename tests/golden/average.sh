#!/usr/bin/env bash
# qtraj average against numpy: types, files, weights, moving averages; identities; memory; wrong input.
. "$SOURCE/tests/tools/lib.sh"
memory_as_users_have
need_python json numpy

steps=("$quickstart"/trajectory/step000{500,700,900})
golden() { "$python" "$SOURCE/tests/golden/average.py" "$@" >"$work/golden" 2>&1 || fail "$*: $(tail -1 "$work/golden")"; }
average() { "$QTRAJ" average "$@" 2>"$work/err" || fail "average $*: $(cat "$work/err")"; }

# --- means ---
average "$work/mean" "${steps[@]}"
golden mean "$work/mean" "${steps[@]}"
grep -q 'types BF16' "$work/golden" || fail "the mean has the types $(cat "$work/golden")"
"$python" -c 'import json, sys; a, b = (json.load(open(f)) for f in sys.argv[1:]); sys.exit(a != b)' \
    "$work/mean/config.json" "${steps[0]}/config.json" || fail "another config.json"
cmp "$quickstart/trajectory/tokenizer.json" "$work/mean/tokenizer.json" || fail "the tokenizer did not go along"
average "$work/wide" "${steps[@]}" --dtype f32
golden mean "$work/wide" "${steps[@]}"
grep -q 'types F32' "$work/golden" || fail "--dtype f32 has the types $(cat "$work/golden")"
grep -q 'dtype": "float32"' "$work/wide/config.json" || fail "config.json of an average in f32 does not say so"
average "$work/weights" "${steps[@]}" --weights 2,0.5,-1
golden mean "$work/weights" "${steps[@]}" --weights 2,0.5,-1
average "$work/ema" --ema 0.75 "${steps[@]}"
golden mean "$work/ema" "${steps[@]}" --weights 0.5625,0.1875,0.25

# --- other types, other files: bf16 in one file, f32 in three, f16 in two ---
golden store "${steps[1]}" "$work/f32" F32 3
golden store "${steps[2]}" "$work/f16" F16 2
average "$work/mixed" "${steps[0]}" "$work/f32" "$work/f16"
golden mean "$work/mixed" "${steps[0]}" "$work/f32" "$work/f16"
grep -q 'types F32' "$work/golden" || fail "an average of three types has the types $(cat "$work/golden")"
# config.json follows the tensors that are written, whatever the members' say and in any order
average "$work/mixed2" "$work/f16" "$work/f32" "${steps[0]}"
average "$work/mixed3" "$work/f32" "${steps[0]}" "$work/f16"
grep -L 'dtype": "float32"' "$work"/mixed*/config.json >"$work/narrow"
[ ! -s "$work/narrow" ] || fail "f32 tensors under another dtype: $(cat "$work/narrow")"
average "$work/half" "$work/f16" "$work/f16"
golden same "$work/half" "$work/f16"
grep -q 'dtype": "float16"' "$work/half/config.json" || fail "f16 tensors under another dtype"
golden store "${steps[1]}" "$work/shards" BF16 4
average "$work/sharded" "${steps[0]}" "$work/shards" "${steps[2]}"
golden same "$work/sharded" "$work/mean"

# --- identities ---
average "$work/one" "${steps[0]}"
golden same "$work/one" "${steps[0]}"
average "$work/equal" "${steps[0]}" "${steps[0]}" "${steps[0]}"
golden same "$work/equal" "${steps[0]}"
average "$work/zero" "${steps[@]}" --weights 0,0,3
golden same "$work/zero" "${steps[2]}"
average "$work/same" "${steps[1]}" "$work/shards" --ema 0.3
golden same "$work/same" "${steps[1]}"

# --- a greedy soup: candidates in no order; the same in parts, with ties ---
text=(--text "$work/text.txt" --length 64 --samples 6)
fixed_text "$work/text.txt"
candidates=("$quickstart"/trajectory/step00{0500,1000,0100,0900,0700})
average "$work/greedy" "${candidates[@]}" --greedy "${text[@]}" >"$work/table"
golden greedy "$work/greedy" "$work/table" "${candidates[@]}" -- \
    "$QTRAJ" eval --json "${text[@]}" --tokenizer "$quickstart/trajectory/tokenizer.json"
# judged by the loss of quantized weights, which is what `quantize` says of each folder
judge=(--bits 2 --group-size 64 --calibration-text "$work/text.txt" --calibration-length 64 --calibration-skip 20 --calibration-samples 4)
average "$work/judged" "${candidates[@]}" --greedy --judge gptq "${judge[@]}" "${text[@]}" >"$work/judged-table"
golden greedy "$work/judged" "$work/judged-table" "${candidates[@]}" -- \
    "$QTRAJ" quantize --method gptq "${judge[@]}" --json "${text[@]/#--/--evaluation-}" --tokenizer "$quickstart/trajectory/tokenizer.json"
cmp -s "$work/table" "$work/judged-table" && fail "the judge changes no loss"
average "$work/ties" "${candidates[0]}" "$work/shards" "${steps[1]}" --greedy "${text[@]}" >"$work/table"
[ "$(sed -n '2p; 3p' "$work/table" | sed 's/.* kept *//')" = "$work/shards
${steps[1]}" ] || fail "equal candidates: $(cat "$work/table")"
average "$work/single" "${steps[1]}" --greedy "${text[@]}" >"$work/table"
golden same "$work/single" "${steps[1]}"

# --- memory and reads: three checkpoints of 24 MB need no more memory than three of 24 kB, and are read once ---
cost() { # ARGUMENT ...: peak memory in KiB and kilobytes read
    "$python" - "$QTRAJ" "$@" <<'PYTHON'
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stderr=subprocess.DEVNULL)
os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its counters stay until it is waited for
with open(f"/proc/{process.pid}/io", encoding="ascii") as file:
    read = int(file.readline().split()[1])
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(usage.ru_maxrss, read // 1000)
sys.exit(process.returncode)
PYTHON
}
for i in 1 2 3; do
    golden large "$work/small$i" 24000 $i
    golden large "$work/large$i" 24000000 $i
done
for kind in mean ema; do
    rm -rf "$work/small" "$work/large"
    read -r small small_read < <(cost average "$work/small" "$work"/small[123] $([ $kind = ema ] && echo --ema 0.5))
    read -r large large_read < <(cost average "$work/large" "$work"/large[123] $([ $kind = ema ] && echo --ema 0.5))
    [ $((large - small)) -lt 8000 ] || fail "$kind: $large KiB for 24 MB of weights, $small KiB for 24 kB"
    read_of_large=$((large_read - small_read))
    [ "$read_of_large" -ge 71000 ] && [ "$read_of_large" -le 73000 ] || fail "$kind: $read_of_large kB read of 72000 kB"
    [ $kind = ema ] || golden mean "$work/large" "$work"/large[123]
done

# --- wrong input: one error line that names file and tensor ---
refuse() {
    local name=$1 pattern=$2 got
    shift 2
    "$QTRAJ" average "$work/never" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ $got = 2 ] || fail "$name: exit code $got: $(cat "$work/err")"
    [ "$(grep -c 'error:' "$work/err")" = 1 ] || fail "$name: expected one error line: $(cat "$work/err")"
    grep -qF -- "$pattern" "$work/err" || fail "$name: '$(cat "$work/err")' does not name '$pattern'"
    [ -z "$(find "$work" -name 'never*')" ] || fail "$name: left $(find "$work" -name 'never*')"
}
mkdir "$work/other" "$work/lacks" "$work/shape"
sed 's/"rope_theta": [0-9.]*/"rope_theta": 5/' "${steps[0]}/config.json" >"$work/other/config.json"
cp "${steps[0]}/model.safetensors" "$work/other"
cp "${steps[0]}/config.json" "$work/lacks"
cp "${steps[0]}/config.json" "$work/shape"
"$python" - "$SOURCE" "${steps[0]}" "$work" <<'PYTHON' || fail "making damaged checkpoints"
import sys
sys.path.insert(0, sys.argv[1] + "/tests/golden")
import average
t = average.read(sys.argv[2])
norm = "model.norm.weight"
average.write(sys.argv[3] + "/lacks/model.safetensors", {n: v for n, v in t.items() if n != norm})
dtype, shape, data = t[norm]
average.write(sys.argv[3] + "/shape/model.safetensors", {**t, norm: (dtype, [shape[0] // 2], data[:len(data) // 2])})
PYTHON
refuse "another config" "$work/other/config.json: rope_parameters is {\"rope_theta\":5," "${steps[0]}" "$work/other"
refuse "a missing tensor" "$work/lacks: no tensor model.norm.weight, which ${steps[0]}/model.safetensors has" "${steps[0]}" "$work/lacks"
refuse "another shape" "$work/shape/model.safetensors: tensor model.norm.weight has shape" "${steps[0]}" "$work/shape"
refuse "another family" "config.json: " "${steps[0]}" "$SOURCE/tests/fixtures/checkpoints/tiny_llama"
refuse "no checkpoint" "$work/nothing: no such folder" "${steps[0]}" "$work/nothing"
refuse "nothing to average" "usage: qtraj average OUT DIR..."
refuse "too few weights" "--weights: 1 numbers for 2 checkpoints" "${steps[@]:0:2}" --weights 1
refuse "no number" '--weights: "x" does not begin with a number' "${steps[@]:0:2}" --weights 1,x
refuse "weights of nothing" "sum to 0" "${steps[@]:0:2}" --weights 1,-1
refuse "decay 1" "--ema 1: expected" "${steps[@]:0:2}" --ema 1
refuse "two kinds" "--weights, --ema and --greedy" "${steps[@]:0:2}" --ema 0.5 --weights 1,1
refuse "greedy and more" "--weights, --ema and --greedy" "${steps[@]:0:2}" --ema 0.5 --greedy "${text[@]}"
refuse "greedy without a text" "--text: text or ids is missing" "${steps[@]:0:2}" --greedy
refuse "a text for nothing" "--text has no effect here: it goes with --greedy" "${steps[@]:0:2}" "${text[@]}"
refuse "a candidate twice" "${steps[0]} is there twice" "${steps[0]}" "${steps[0]}" --greedy "${text[@]}"
refuse "no candidate" "$work/nothing: no such folder" "${steps[0]}" "$work/nothing" --greedy "${text[@]}"
refuse "candidates of two kinds" "$work/other/config.json: rope_parameters is" "${steps[0]}" "$work/other" --greedy "${text[@]}" --tokenizer "$quickstart/trajectory/tokenizer.json"
refuse "another type" "--dtype bf16: unknown" "${steps[@]:0:2}" --dtype bf16
before=$(ls -l "$work/mean")
"$QTRAJ" average "$work/mean" "${steps[@]}" 2>"$work/err" && fail "a folder was written over"
grep -q "$work/mean: exists already" "$work/err" || fail "a folder that is there: $(cat "$work/err")"
[ "$before" = "$(ls -l "$work/mean")" ] || fail "the folder was changed"
finish
