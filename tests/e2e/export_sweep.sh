#!/usr/bin/env bash
# `export` in a sweep: the chosen cells are written as models that give the losses of the cube, by one process and by groups of ranks;
# a run that is killed leaves nothing under a final name, and the next one writes what is missing, of finished cells too.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy json
preload=$(dirname "$QTRAJ")/libkill_at_line.so
[ -e "$preload" ] || skip "no $preload"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" OMPI_MCA_btl_vader_backing_directory=$work

mkdir "$work/m"
for checkpoint in a b c; do cp -r "$SOURCE/tests/fixtures/models/llama" "$work/m/$checkpoint"; done
cp "$SOURCE/tests/fixtures/models/llama_rope_yarn/model.safetensors" "$work/m/b/"
printf 'checkpoint,step\na,1\nb,2\nc,3\n' >"$work/t.csv"
ids=m/a/reference.safetensors:input_ids
cat >"$work/sweep.yaml" <<YAML
name: exported
results: results.h5
models: [{name: m, trajectory: t.csv, path: "m/{checkpoint}"}]
bits: [3, 4]
methods:
  - {method: rtn, group_size: 32, scale_dtype: f16}
  - {method: gptq, group_size: 32, scale_dtype: f16, order: activation}
  - {method: rtn, name: a8, bits: [4], activations: {bits: 8}} # no folder can hold it, and none is asked for
calibration: {ids: "$ids"}
evaluation: [{name: own, ids: "$ids"}]
export:
  - {out: exports, format: gptq, quantizer: gptq, bits: 4, checkpoint: "[ab]"}
  - {out: exports, quantizer: rtn, bits: 3, checkpoint: b}
run: {reproducible: true}
YAML

# folders DIR: the models there, and what is not one
folders() { (cd "$1" && find . -mindepth 3 -maxdepth 3 | sort | tr '\n' ' '); }
all="./m/a/gptq-4bit ./m/b/gptq-4bit ./m/b/rtn-3bit "

"$QTRAJ" plan "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "plan: $(cat "$work/err")"
grep -q "export: 3 models to write, .* GB of disk" "$work/out" || fail "plan: $(cat "$work/out")"

# --- one process; then nothing is to do, and what was removed is written again ---
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "run: $(cat "$work/err")"
[ "$(folders "$work/exports")" = "$all" ] || fail "run: $(folders "$work/exports")"
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "again: $(cat "$work/err")"
grep -q "nothing to do" "$work/err" || fail "again: $(cat "$work/err")"
mv "$work/exports" "$work/first"
mkdir -p "$work/exports/m/a/gptq-4bit.tmp.99"
touch "$work/exports/m/a/gptq-4bit.tmp.99/config.json" # a killed process left it
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "of finished cells: $(cat "$work/err")"
grep -q "0 cells to do" "$work/err" || fail "of finished cells: $(cat "$work/err")"
[ "$(folders "$work/exports")" = "$all" ] || fail "of finished cells: $(folders "$work/exports")"
diff -r "$work/first" "$work/exports" || fail "of finished cells: other files"
# --- its card: checkpoint, method, calibration, loss ---
card=$work/first/m/b/gptq-4bit/README.md
for line in '# m/b, gptq at 4 bits' '| method | `gptq`, 4 bits |' '| form of the weights | gptq |'; do
    grep -qxF -- "$line" "$card" || fail "no '$line' in $(cat "$card")"
done
digest=$("$QTRAJ" inspect "$work/m/b" --tensors --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["weights_hash"])')
grep -qE '^\| checkpoint \| `m/b`, weights_hash `'"$digest"'`: of samples of its bytes, .*, of all \|$' "$card" || fail "digest: $(cat "$card")"
grep -qE '^\| options \| .*`group_size: 32`.*`order: "?activation"?`' "$card" || fail "options: $(cat "$card")"
grep -qE '^\| calibration \| `.*m/a/reference.safetensors:input_ids`, digest `[0-9a-f]{32}`' "$card" || fail "calibration: $(cat "$card")"
grep -q '^vllm serve' "$card" || fail "loading: $(cat "$card")"

# --- the losses of the cube ---
"$python" - "$work" "$QTRAJ" <<'PYTHON' || fail "losses"
import h5py, json, subprocess, sys

work, program = sys.argv[1:]
with h5py.File(work + "/results.h5") as f:
    labels = [[x.decode() for x in f[name][:]] if f[name].dtype == object else list(f[name][:]) for name in ("checkpoint", "quantizer", "bits")]
    loss, sizes = f["loss"], dict(zip([d.label or f["loss"].dims[i][0].name for i, d in enumerate(f["loss"].dims)], f["loss"].shape))
    for path, checkpoint, quantizer, bits in (("a/gptq-4bit", 0, "gptq", 4), ("b/gptq-4bit", 1, "gptq", 4), ("b/rtn-3bit", 1, "rtn", 3)):
        at = {"model": 0, "checkpoint": checkpoint, "bits": labels[2].index(bits), "quantizer": labels[1].index(quantizer), "dataset": 0}
        recorded = loss[tuple(at[name.strip("/")] for name in sizes)]
        run = subprocess.run([program, "eval", f"{work}/exports/m/{path}", "--ids", work + "/m/a/reference.safetensors:input_ids", "--json"], capture_output=True, text=True, check=True)
        assert json.loads(run.stdout)["loss"] == recorded, (path, run.stdout, recorded)
        own = {name: f[name][tuple(at[axis.strip("/")] for axis in sizes)] for name in ("loss", "loss_relative", "loss_relative_stderr", "kl_divergence", "loss_delta")}
        error, half = 100 * own["loss_relative"], 196 * own["loss_relative_stderr"]
        row = f"| own | {recorded:.6f} | {recorded - own['loss_delta']:.6f} | {error:+.3f} % ({error - half:+.3f} to {error + half:+.3f}) | {own['kl_divergence']:.3g} |"
        card = open(f"{work}/exports/m/{path}/README.md").read().splitlines()
        assert card[-1] == row and any("have 5.125 bits per weight" in line for line in card) == (bits == 4), (row, card)
PYTHON

# --- groups of two ranks write the same bytes ---
rm -rf "$work/exports"
launch 120 3 run "$work/sweep.yaml" --set "results=$work/groups.h5" --set run.ranks_per_group=2 || fail "groups: $(cat "$work/err")"
diff -r "$work/first" "$work/exports" || fail "groups: other files"

# --- killed in the last block of a model, when half of it is written; then again in another ---
rm -rf "$work/exports"
for text in "gptq 4 bits, model.layers.2.mlp.down_proj" "rtn 3 bits, model.layers.1.mlp"; do
    QTRAJ_TRACE=gptq,rtn KILL_COUNT=1 KILL_TEXT=$text LD_PRELOAD=$preload "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/killed.h5" \
        >"$work/out" 2>"$work/err"
    [ $? = 137 ] || fail "killed: $(cat "$work/err")"
    [ -z "$(find "$work/exports" -mindepth 3 -maxdepth 3 ! -name '*.tmp.*')" ] || fail "killed: $(folders "$work/exports")"
    [ -n "$(find "$work/exports" -name '*.tmp.*')" ] || fail "killed before anything was written"
done
"$QTRAJ" run "$work/sweep.yaml" --set "results=$work/killed.h5" >"$work/out" 2>"$work/err" || fail "after kills: $(cat "$work/err")"
diff -r "$work/first" "$work/exports" || fail "after kills: other files"

# --- a card lists the texts of the sweep alone, not those that the cell was scored on before ---
"$QTRAJ" run "$work/sweep.yaml" --set "results=$work/killed.h5" --set 'evaluation[0].samples=1' >"$work/out" 2>"$work/err" || fail "fewer: $(cat "$work/err")"
[ "$(grep -c '^| own |' "$work/exports/m/b/rtn-3bit/README.md")" = 1 ] || fail "the card: $(cat "$work/exports/m/b/rtn-3bit/README.md")"

# --- and by the labels that they have now ---
"$QTRAJ" run "$work/sweep.yaml" --set "results=$work/killed.h5" --set 'evaluation[0].name=renamed' >"$work/out" 2>"$work/err" || fail "renamed: $(cat "$work/err")"
grep -q "nothing to do" "$work/err" || fail "renamed: $(cat "$work/err")"
[ "$(grep -c '^| renamed |' "$work/exports/m/b/rtn-3bit/README.md")$(grep -c '^| own |' "$work/exports/m/b/rtn-3bit/README.md")" = 10 ] || fail "renamed: $(cat "$work/exports/m/b/rtn-3bit/README.md")"

# --- what cannot be exported is said before any work ---
# refuse NAME PATTERN KEY=VALUE ...
refuse() {
    local name=$1 pattern=$2 got
    shift 2
    "$QTRAJ" plan "$work/sweep.yaml" "${@/#/--set=}" >"$work/out" 2>"$work/err"
    got=$?
    [ $got = 2 ] && grep -qF -- "$pattern" "$work/err" || fail "$name: exit code $got: $(cat "$work/err")"
}
refuse "a format" "export[1], rtn: format zip: expected dequantized, gptq, awq, compressed-tensors or qtraj" "export[1].format=zip"
refuse "awq at 3 bits" "export[1], rtn: format awq cannot hold 3 bits; it holds 4 bits" "export[1].format=awq"
refuse "no cell" "export[0]: it selects no cell" "export[0].quantizer=hqq"
refuse "activations" "export: method int8 quantizes activations too" "methods[0].method=int8" "methods[0].group_size=128" \
    "methods[0].scale_dtype=f32" "methods[0].bits=[8]" "export[1].bits=8" "export[1].quantizer=int8"
cp -r "$SOURCE/tests/fixtures/models/olmo3" "$work/m/wide"
printf 'checkpoint,step\nwide,1\n' >"$work/wide.csv"
refuse "sizes" "export[0], gptq: $work/m/wide/config.json: format gptq cannot hold model.layers.0.mlp.gate_proj.weight with 80 rows and 64 columns" \
    "models[0].trajectory=wide.csv" "export[0].checkpoint=wide" "export[1].checkpoint=wide"
finish
