#!/usr/bin/env bash
# Outliers of what models compute against numpy; of all families; the same by any ranks and threads, with the cells or later;
# numbers that are not finite; what is pending.
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy h5py
export PYTHONPATH=$SOURCE/tests/tools OMPI_MCA_ess_singleton_isolated=1
models=$SOURCE/tests/fixtures/models
golden() { "$python" "$SOURCE/tests/golden/outliers.py" "$@" >"$work/golden" 2>&1 || fail "$*: $(tail -1 "$work/golden")"; }
sweep() { # FIXTURE
    printf 'checkpoint,step\n%s,1\n' "$1" >"$work/$1.csv"
    cat >"$work/$1.yaml" <<YAML
name: $1
results: $1.h5
bits: [4]
methods: [{method: rtn, group_size: -1}]
evaluation: [{name: ids, ids: "$models/$1/reference.safetensors:input_ids"}]
outliers: true
models: [{name: tiny, trajectory: $1.csv, path: "$models/{checkpoint}"}]
run: {threads: 1}
YAML
}
run() { # NAME OPTION ...: results in NAME.h5
    "$QTRAJ" run "$work/$fixture.yaml" --set "results=$work/$1.h5" "${@:2}" >"$work/out" 2>&1 || fail "$1: $(tail -3 "$work/out")"
}

for fixture in apertus gpt_neox_parallel gpt_neox_sequential llama olmo olmo2 olmo3 opensci qwen2 qwen3 smollm3; do
    [ -e "$models/$fixture/reference.safetensors" ] || continue
    sweep $fixture
    run $fixture
    layers=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["num_hidden_layers"])' "$models/$fixture/config.json")
    golden forms "$work/$fixture.h5" "$layers"
    case $fixture in llama | gpt_neox_parallel | olmo3 | apertus) ;; *) continue ;; esac
    run $fixture-without --set outliers=false
    run $fixture-without # what is lacking alone
    grep -q 'outliers of 1 of 1 checkpoints done' "$work/out" || fail "$fixture later: $(cat "$work/out")"
    golden same "$work/$fixture.h5" "$work/$fixture-without.h5"
done
golden compare gpt_neox "$models/gpt_neox_parallel" "$work/gpt_neox_parallel.h5"
golden compare llama "$models/llama" "$work/llama.h5"

fixture=llama
run threads --set run.threads=3
for n in 2 3; do
    launch 100 $((n + 1)) run "$work/llama.yaml" --set "results=$work/ranks$n.h5" --set run.ranks_per_group=$n || fail "$n ranks: $(tail -3 "$work/err")"
done
golden same "$work/llama.h5" "$work/threads.h5" "$work/ranks2.h5" "$work/ranks3.h5"
# with a second text that the cells lack too
sed "s|^evaluation: \\[.*}|&, {name: more, ids: \"$models/qwen2/reference.safetensors:input_ids\"}|" "$work/llama.yaml" >"$work/more.yaml"
run more --set outliers=false
"$QTRAJ" run "$work/more.yaml" --set "results=$work/more.h5" >"$work/out" 2>&1 || fail "two texts: $(tail -3 "$work/out")"
golden compare llama "$models/llama" "$work/more.h5"
# a cube without its journal; two models, the shorter of which lacks blocks
mkdir "$work/alone" && cp "$work/llama.h5" "$work/alone"
"$QTRAJ" merge "$work/merged.h5" "$work/alone/llama.h5" >"$work/out" 2>&1 || fail "merge: $(cat "$work/out")"
golden same "$work/llama.h5" "$work/merged.h5"
printf 'checkpoint,step\ntiny_llama,1\n' >"$work/tiny.csv"
sed "s|^models: \\[|&{name: short, trajectory: tiny.csv, path: \"$models/{checkpoint}\"}, |; s|$models/llama/|$models/tiny_llama/|" "$work/llama.yaml" >"$work/two.yaml"
"$QTRAJ" run "$work/two.yaml" --set "results=$work/two.h5" >"$work/out" 2>&1 || fail "two models: $(tail -3 "$work/out")"
"$python" - "$work/two.h5" <<'PY' || fail "two models of other lengths"
import sys
import h5py
import numpy as np
found = np.isfinite(h5py.File(sys.argv[1])["outlier_kurtosis"][:])
assert found.shape == (2, 1, 3, 7) and (found.all(-1) == found.any(-1)).all() and found[..., 0].tolist() == [[[True, False, False]], [[True] * 3]], found
PY
mkdir "$work/left"
cp -r "$models/tiny_llama" "$work/left" && cp -r "$models/tiny_llama" "$work/left/more" && echo more,2 >>"$work/tiny.csv"
"$QTRAJ" run "$work/two.yaml" --set "results=$work/two.h5" --set "models[0].path=$work/left/{checkpoint}" --set "models[1].path=$work/left/{checkpoint}" >"$work/out" 2>&1
"$python" - "$work/two.h5" <<'PY' || fail "the longer model is gone: its blocks too: $(tail -3 "$work/out")"
import sys
import h5py
import numpy as np
found = np.isfinite(h5py.File(sys.argv[1])["outlier_kurtosis"][:])[..., 0]
assert found.tolist() == [[[True, False, False]] * 2, [[True] * 3, [False] * 3]], found
PY

"$QTRAJ" show "$work/llama.h5" --kind outliers >"$work/out" 2>&1 || fail "show: $(cat "$work/out")"
grep -q '^llama *tiny *2 *values ' "$work/out" || fail "show: $(cat "$work/out")"
"$QTRAJ" status "$work/llama.h5" | grep -q '^outliers of checkpoints: 1 done, 0 failed, 0 pending' || fail "status"
left() { # COUNT OPTION ...: visits that are left
    "$QTRAJ" plan "$work/llama.yaml" --brief "${@:2}" >"$work/out" 2>"$work/err" || fail "plan of $*: $(cat "$work/err")"
    grep -q "left: $1 visit" "$work/out" || fail "$*: $(cat "$work/out")"
}
left 0
left 0 --set 'evaluation[0].name=other'
left 1 --set 'evaluation[0].samples=1'

# a number that is not finite: the layer and the place are named
"$python" "$SOURCE/tests/tools/break_checkpoint.py" "$models/tiny_llama" "$work/broken" overflow || fail "no broken checkpoint"
printf 'checkpoint,step\nbroken,1\n' >"$work/broken.csv"
sed "s|llama.csv|broken.csv|; s|$models/{checkpoint}|$work/{checkpoint}|; s|$models/llama/|$models/tiny_llama/|" "$work/llama.yaml" >"$work/broken.yaml"
"$QTRAJ" run "$work/broken.yaml" --set "results=$work/broken.h5" >"$work/out" 2>&1
"$QTRAJ" status "$work/broken.h5" >"$work/out"
grep -q 'layer 0: inputs of down: [0-9]* of its numbers are NaN or infinite' "$work/out" || fail "not finite: $(cat "$work/out")"
finish
