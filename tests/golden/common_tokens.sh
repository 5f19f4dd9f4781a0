#!/usr/bin/env bash
# Losses per token of a common tokenizer: the counts beside an independent one, in qtraj eval and in a sweep that gets the
# tokenizer after it has ended.
. "$SOURCE/tests/tools/lib.sh"
need_python json h5py numpy

own=$quickstart/trajectory/tokenizer.json
other=$SOURCE/tests/fixtures/tokenizers/llama3
fixed_text "$work/all.txt"
head -100 "$work/all.txt" >"$work/text.txt"
printf 'Ein na\303\257ver Stra\303\237enbahnschaffner \342\202\254 \346\227\245\346\234\254\350\252\236 %.0s' {1..40} >>"$work/text.txt"

# The common tokens by hand: the blocks' tokens but the first, as bytes by the vocabulary, each piece tokenized alone.
cat >"$work/count.py" <<'PY'
import json, subprocess, sys
binary, own, other, text, length = *sys.argv[1:5], int(sys.argv[5])


def tokenize(path, texts):
    lines = "".join(json.dumps(x) + "\n" for x in texts)
    done = subprocess.run([binary, "tokenize", path, "--json"], input=lines, capture_output=True, check=True, text=True)
    return [json.loads(x) for x in done.stdout.splitlines()]


plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
byte = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(sorted(set(range(256)) - set(plain)))}
word = {i: w for w, i in json.load(open(own))["model"]["vocab"].items()}
ids = tokenize(own, [open(text).read()])[0]
pieces = [ids[i + 1:i + length] for i in range(0, len(ids) - length + 1, length)]
texts = [bytes(byte[c] for x in piece for c in word[x]).decode(errors="replace") for piece in pieces]
assert any("\ufffd" in x for x in texts), "no block that is cut inside a character"
print(sum(len(x) for x in tokenize(other, texts)))
PY
expected=$("$python" "$work/count.py" "$QTRAJ" "$own" "$other/tokenizer.json" "$work/text.txt" 100) || fail "count.py"

"$QTRAJ" eval "$quickstart/trajectory/step001200" --text "$work/text.txt" --length 100 --count-tokens "$other" --json >"$work/out" || fail eval
"$python" -c '
import json, math, sys
x, expected = json.load(open(sys.argv[1])), int(sys.argv[2])
assert x["common_tokens"] == expected > 1000, (x["common_tokens"], expected)
nll = sum(x["loss_per_sequence"]) * 99  # all sequences have 99 scored tokens
assert abs(x["loss_common"] * expected / nll - 1) < 1e-12, x["loss_common"]
' "$work/out" "$expected" || fail "eval: $(cut -c1-300 "$work/out")"
"$QTRAJ" eval "$quickstart/trajectory/step001200" --text "$work/text.txt" --length 100 --count-tokens "$other/tokenizer.json" |
    grep -q "nats per common token, $expected common tokens" || fail "eval's text"

refused() { # EXPECTED COMMAND ...
    "${@:2}" >"$work/out" 2>"$work/err" && fail "not refused: ${*:2}"
    grep -q -- "$1" "$work/err" || fail "${*:2}: $(cat "$work/err")"
}
refused 'count_tokens: /nowhere: no such file' "$QTRAJ" eval "$quickstart/trajectory/step001200" --text "$work/text.txt" --count-tokens /nowhere
refused 'count-tokens has no effect here: it goes with --text' "$QTRAJ" eval "$quickstart/trajectory/step001200" --ids a.safetensors:ids --count-tokens "$other"

# a sweep that is done gets the counts without new work; its numbers stay
cat >"$work/sweep.yaml" <<YAML
name: counts
results: $work/plain.h5
models:
  - {name: m, trajectory: $work/rows.csv, path: "$quickstart/trajectory/{checkpoint}", tokenizer: $own}
bits: [8]
methods: [{method: rtn}]
evaluation: [{name: a, text: $work/text.txt, length: 100, samples: 10}, {name: b, text: $work/text.txt, length: 100}]
YAML
printf 'checkpoint,step\nstep001200,1200\n' >"$work/rows.csv"
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>&1 || fail "run: $(cat "$work/out")"
cp "$work/plain.h5" "$work/before.h5"
cells=$(grep -c '"type":"cell"' "$work/plain.journal")
"$QTRAJ" run "$work/sweep.yaml" --set "count_tokens=$other" >"$work/out" 2>&1 || fail "second run: $(cat "$work/out")"
[ "$(grep -c '"type":"cell"' "$work/plain.journal")" = "$cells" ] || fail "cells were computed again"
"$python" - "$work" "$expected" <<'PY' || fail "the cube"
import math, sys
import h5py, numpy
before, after = (h5py.File(f"{sys.argv[1]}/{name}.h5") for name in ("before", "plain"))
assert "common_tokens" not in before and "loss_common" not in before
counts = after["common_tokens"][0]
assert counts[1] == int(sys.argv[2]) and 0 < counts[0] < counts[1], counts
for name in ("loss", "baseline_loss", "bits_per_byte", "loss_relative"):
    assert numpy.array_equal(before[name][()], after[name][()]), name
nats = math.log(2) * after["baseline_bytes"][0, 0] / counts
for common, bits in (("baseline_loss_common", "baseline_bits_per_byte"), ("loss_common", "bits_per_byte")):
    got, want = after[common][()], after[bits][()] * nats
    assert numpy.isfinite(got).all() and abs(got / want - 1).max() < 1e-14, (common, got, want)
assert numpy.array_equal(after["cells/loss_common"][()].ravel(), after["loss_common"][()].ravel())
PY
"$QTRAJ" rebuild "$work/again.h5" "$work/plain.journal" >/dev/null || fail rebuild
compare plain again
refused 'count_tokens: /nowhere: no such file' "$QTRAJ" run "$work/sweep.yaml" --set count_tokens=/nowhere
finish
