#!/usr/bin/env bash
# What says the same stays known: config.json and tokenizer.json that were written again in another form, or with keys that have no
# effect, and what is not drawn by a seed that has changed; also in a journal of a version that did not know what they say. What has an effect is computed again.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/computed.sh"
need_python h5py numpy

fixed_text "$work/all.txt"
sed -n 1,120p "$work/all.txt" >"$work/calibration.txt"
sed -n 121,200p "$work/all.txt" >"$work/text.txt"
mkdir "$work/first"
cp -r "$quickstart"/trajectory/{step000100,step001200} "$work/first"
for step in step000100 step001200; do cp "$quickstart/trajectory/tokenizer.json" "$work/first/$step"; done
sed -n '1p;/step000100/p;/step001200/p' "$quickstart/trajectory.csv" >"$work/trajectory.csv"
cat >"$work/sweep.yaml" <<YAML
name: alike
results: cube.h5
seed: 7
methods: [{method: rtn, bits: [4], group_size: 64}, {method: gptq, bits: [4], group_size: 64, replicates: 2}]
calibration: {text: calibration.txt, length: 32, samples: 4}
evaluation: [{name: plain, text: text.txt, length: 32, samples: 3}]
curvature: {sharpness: none, trace: 1, second_order: total, sequences: 1, length: 32}
movement: rtn
models:
  - name: quickstart
    trajectory: trajectory.csv
    path: "first/{checkpoint}"
    averages: [{name: mean, window: 2}]
YAML

# nothing WHAT NAME [ARGUMENT ...]: a plan and a run find nothing to do
nothing() {
    "$QTRAJ" plan "$work/sweep.yaml" --rate 10 --set "results=$work/$2.h5" "${@:3}" >"$work/out" 2>"$work/err" || fail "$1: plan: $(cat "$work/err")"
    grep -q 'left: 0 visits' "$work/out" && ! grep -q 'pending again' "$work/err" || fail "$1: the plan: $(cat "$work/out" "$work/err")"
    go "$@"
    [ "$computed" = 0 ] && grep -q 'nothing to do' "$work/err" || fail "$1: $computed records: $(cat "$work/err")"
}
# left WHAT NAME: a plan finds something to do
left() {
    "$QTRAJ" plan "$work/sweep.yaml" --rate 10 --set "results=$work/$2.h5" >"$work/out" 2>"$work/err" || fail "$1: plan: $(cat "$work/err")"
    ! grep -q 'left: 0 visits' "$work/out" || fail "$1: nothing is left"
}
# same A B: two cubes, but for what they say of settings, files and keys
same() {
    "$python" "$SOURCE/tests/tools/compare_cubes.py" "$work/$1.h5" "$work/$2.h5" >"$work/differences"
    grep -v -e '^provenance/' -e '/key: ' -e '/recipe: ' -e '^recipe: ' -e ' objects, ' -e 'weights_\(hash\|digest\): ' "$work/differences" >"$work/more" && fail "$1 and $2: $(head -n 5 "$work/more")"
}
# written FILE CODE: writes the JSON files of first/*/FILE again after CODE has changed x, from the last key to the first
written() {
    "$python" - "$2" "$work"/first/*/"$1" <<'PY'
import json, sys
def turned(x):
    return {k: turned(x[k]) for k in reversed(x)} if isinstance(x, dict) else [turned(y) for y in x] if isinstance(x, list) else x
for name in sys.argv[2:]:
    x = json.load(open(name))
    exec(sys.argv[1])
    json.dump(turned(x), open(name, "w"), indent=3)
PY
}
config='x.update(transformers_version="9.9", _name_or_path="elsewhere", use_cache=not x.get("use_cache"), rope_scaling=None, hidden_size=float(x["hidden_size"])); x.pop("attention_bias"); x.pop("torch_dtype", 0); x.pop("dtype", 0)'
tokenizer='m = x["model"]; x.update(version="9.9", truncation={"max_length": 8}, padding=None); m["ignore_merges"] = False; m["merges"] = [p.split(" ") if isinstance(p, str) else p for p in m["merges"]]'
again() { rm -r "$work/first" && cp -r "$work/kept" "$work/first"; }
cp -r "$work/first" "$work/kept"

# --- from the start ---

go "from the start" cube
cp "$work/cube.h5" "$work/start.h5"
nothing "the same" cube
written config.json "$config"
nothing "another config.json" cube
written tokenizer.json "$tokenizer"
nothing "another tokenizer.json" cube
cp -r "$work/first" "$work/second" && sed -i 's|first/|second/|' "$work/sweep.yaml"
nothing "both in a moved folder" cube
sed -i 's|second/|first/|' "$work/sweep.yaml"
same start cube
go "and a bit-width" cube --set 'methods[1].bits=[3,4]'
[ "$computed" = 9 ] || fail "a bit-width: $computed records"
nothing "a bit-width" cube --set 'methods[1].bits=[3,4]'
go "all of it from the start" fresh --set 'methods[1].bits=[3,4]'
same fresh cube
again
nothing "put back" cube --set 'methods[1].bits=[3,4]'
for change in 'config.json x["rms_norm_eps"]=2*x["rms_norm_eps"]' 'tokenizer.json x["model"]["merges"]=x["model"]["merges"][:-1]'; do
    written "${change%% *}" "${change#* }"
    left "an effect of ${change%% *}" cube
    again
done

# --- another seed: replicates alone are drawn by it ---

go "the seed of before" seed
"$QTRAJ" plan "$work/sweep.yaml" --rate 10 --set "results=$work/seed.h5" --set seed=9 >"$work/out" 2>"$work/err"
grep -q 'replicates are pending again: seed: 7 -> 9' "$work/err" || fail "another seed: no reason: $(cat "$work/err")"
nothing "another seed without replicates" seed --set seed=9 --set 'methods[1].replicates=1'
go "another seed" seed --set seed=9
[ "$computed" = 3 ] || fail "another seed: $computed records: $(cat "$work/err")"
nothing "another seed, again" seed --set seed=9
go "another seed from the start" nine --set seed=9
same nine seed
nothing "the seed of before" seed
same start seed
"$QTRAJ" merge "$work/merged.h5" "$work/seed.journal" >"$work/out" 2>"$work/err" || fail "merge: $(cat "$work/err")"
nothing "another seed, merged" merged --set seed=9

# --- checkpoints under other names ---

cp "$work/sweep.yaml" "$work/without.yaml"
sed -i 's/{name: mean, window: 2}/&, {name: soup, of: [step000100, step001200], greedy: {text: text.txt, length: 32, skip: 8, samples: 2}}/' "$work/sweep.yaml"
go "named as before" names
renamed() {
    sed -i "s/$1/$2/" "$work/trajectory.csv" "$work/sweep.yaml"
    [ "${3:-}" = stay ] || mv "$work/first/$1" "$work/first/$2"
}
renamed step000100 early
nothing "a renamed checkpoint" names
cp "$work/names.h5" "$work/early.h5"
"$python" - "$work/names.h5" <<'PY' || fail "renamed: the label of before"
import sys, h5py
assert list(h5py.File(sys.argv[1])["checkpoint_name"].asstr()[0][:2]) == ["early", "step001200"]
PY
go "and a bit-width of it" names --set 'methods[1].bits=[3,4]'
nothing "a bit-width of it" names --set 'methods[1].bits=[3,4]'
renamed early begin
renamed step001200 step000100
nothing "one has the other's name" names --set 'methods[1].bits=[3,4]'
renamed step000100 step001200
nothing "and its own again" names --set 'methods[1].bits=[3,4]'
renamed begin step000100
nothing "named as before again" names
renamed step000100 early
nothing "renamed once more" names --set 'methods[1].bits=[3,4]'
cp "$work"/first/step001200/*.safetensors "$work/first/early"
go "a renamed checkpoint has other weights: what was made from them too" names --set 'methods[1].bits=[3,4]'
nothing "the same weights" names --set 'methods[1].bits=[3,4]'
renamed early step000100
again
mv "$work/without.yaml" "$work/sweep.yaml"

# --- a journal of a version that did not know what the files say ---

gzip -dc "$SOURCE/tests/fixtures/results/alike.journal.gz" >"$work/old.journal"
nothing "a journal of an earlier version" old
written config.json "$config"
written tokenizer.json "$tokenizer"
nothing "of an earlier version, files written again" old
go "of an earlier version, another seed" old --set seed=9
[ "$computed" = 3 ] || fail "of an earlier version, another seed: $computed records: $(cat "$work/err")"
gzip -dc "$SOURCE/tests/fixtures/results/alike.journal.gz" >"$work/old.journal"
again
renamed step000100 early
nothing "of an earlier version, a renamed checkpoint" old
renamed early step000100
again
finish
