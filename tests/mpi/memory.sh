# memory_per_rank is a hard limit and changes no number: the same sweep with unlimited memory, with a third of what that
# takes (states on scratch), without scratch (several waves), with 1 and 3 ranks, also in a family with a parallel
# residual: the same cube bit for bit, no rank above its limit, and the planned peak within 15 % of the measured one.
# ranks_per_group is auto: more ranks per visit would change last digits, so they are chosen after scratch and waves.
# Then bf16 states, in memory and on scratch: again one cube bit for bit, but different from that of f32.
. "$SOURCE/tests/tools/lib.sh"
memory_as_users_have
need_python h5py numpy

printf 'checkpoint\nonly\n' >"$work/one.csv"
make_model() { # family, further flags
    local family=$1
    shift
    "$python" "$SOURCE/tests/bench/make_checkpoint.py" "$QTRAJ" "$work/$family" --family "$family" --hidden 128 \
        --heads 2 --intermediate 256 --vocab 300 "$@" || fail "make_checkpoint $family"
}
make_model llama --layers 2 --kv-heads 1
make_model gpt_neox --layers 1 --set use_parallel_residual=true
"$python" "$SOURCE/tests/bench/make_ids.py" "$work/ids.safetensors" 300 calibration=240,64 evaluation=300,64
cat >"$work/sweep.yaml" <<YAML
name: memory
results: results.h5
models:
  - {name: llama, trajectory: one.csv, path: "$work/llama"}
  - {name: gpt_neox, trajectory: one.csv, path: "$work/gpt_neox"}
bits: [3]
methods:
  - {method: rtn, group_size: 64, bits: [2, 3, 4, 8]}
  - {method: gptq, group_size: 64, scale_dtype: f16-packed}
  - {method: gptq, name: gptq-shared, group_size: 64, hessian: shared}
  - {method: gptq, name: gptq-shared-act, group_size: 64, hessian: shared, order: activation}
  - {method: gptq, name: gptq-once, group_size: 64, true_sequential: false}
calibration: {ids: "ids.safetensors:calibration"}
evaluation:
  - {name: text, ids: "ids.safetensors:evaluation"}
run: {threads: 1}
YAML

# run NAME RANKS SETTING ...: makes NAME.h5; the choices of the memory plan are in NAME.trace.
run() {
    local name=$1 ranks=$2 settings=()
    shift 2
    for s in "$@"; do settings+=(--set "$s"); done
    QTRAJ_TRACE=memory launch 300 "$ranks" run "$work/sweep.yaml" --set "results=$work/$name.h5" "${settings[@]}" ||
        fail "$name: exit code $?: $(cat "$work/err")"
    grep 'trace memory' "$work/err" >"$work/$name.trace"
    tail -n 2 "$work/$name.trace"
}

# says NAME PATTERN: checks what a visit of that run chose.
says() { grep -q "$2" "$work/$1.trace" || fail "$1: expected '$2' in: $(cat "$work/$1.trace")"; }

# peaks NAME BOUND (MiB, 0: none). A measured peak is that of the process so far, so of its largest visit.
peaks() {
    "$python" - "$work/$1.h5" "$2" <<'PY' || fail "$1: peaks"
import sys
import h5py
with h5py.File(sys.argv[1]) as f:
    measured, planned = (f[f"checkpoint_{k}_memory"][:].max() / 2**20 for k in ("peak", "planned"))
bound = float(sys.argv[2])
print(f"measured {measured:.1f}, planned {planned:.1f} MiB, ratio {planned / measured:.3f}, bound {bound:.0f}")
assert 0.85 <= planned / measured <= 1.15, "the prediction is off"
assert not bound or measured <= bound, "the promise is broken"
PY
}

run free 1
says free "1 waves.*in memory, 15360 of 15360"
peaks free 0
peak=$("$python" -c "import h5py, sys; print(int(h5py.File(sys.argv[1])['checkpoint_peak_memory'][:].max() / 2**20))" "$work/free.h5")
# a third, and the few MiB that a process has more when oneDNN's library is loaded
third=$((peak / 3 + 5)) tight=$((peak / 2))
run less 1 "run.memory_per_rank=$((peak - 8))M"
says less '1 waves.*in memory, \([0-9]\{1,4\}\|1[0-4][0-9]*\) of 15360'
run third 1 "run.memory_per_rank=${third}M" "run.scratch=$work"
says third "states in $work"
run third-3 3 "run.memory_per_rank=${third}M"
run waves 1 "run.memory_per_rank=${tight}M" run.scratch=off
says waves "[2-9] waves.*in memory"
for other in less third third-3 waves; do compare free $other; done
peaks less $((peak - 8))
peaks third "$third"
peaks third-3 "$third"
peaks waves "$tight"
# planned NAME "WAVES SCRATCH" SETTING ...: checks qtraj plan's prediction of that run: peak within 15 %, waves and scratch.
planned() {
    local name=$1 how=$2 settings=()
    shift 2
    for s in "$@"; do settings+=(--set "$s"); done
    "$QTRAJ" plan "$work/sweep.yaml" --json --rate 100 --set "results=$work/none.h5" "${settings[@]}" >"$work/plan.json" ||
        fail "plan of $name"
    "$python" - "$work/$name.h5" "$work/plan.json" "$how" <<'PY' || fail "$name: qtraj plan says otherwise"
import json, sys
import h5py
measured = h5py.File(sys.argv[1])["checkpoint_peak_memory"][:].max()
of = [model["memory"] for model in json.load(open(sys.argv[2]))["cost"]["models"]]
peak, fits = max(m["peak"] for m in of), all(m["fits"] for m in of)
how = ("waves" if of[0]["waves"] > 1 else "one") + " " + ("scratch" if of[0]["scratch"] else "memory")
print(f"qtraj plan: {how}, {peak / 2**20:.1f} MiB, ratio {peak / measured:.3f}")
assert fits and how == sys.argv[3] and 0.85 <= peak / measured <= 1.15, of
PY
}
planned free "one memory"
planned third "one scratch" "run.memory_per_rank=${third}M" "run.scratch=$work"
planned waves "waves memory" "run.memory_per_rank=${tight}M" run.scratch=off

[ -z "$(find "$work" -name 'qtraj-*')" ] || fail "scratch files were left: $(find "$work" -name 'qtraj-*')"

run half 1 run.activations=bf16
run half-scratch 1 run.activations=bf16 "run.memory_per_rank=${third}M"
says half-scratch "states in /"
compare half half-scratch
"$python" - "$work" <<'PY' || fail "bf16 against f32"
import sys
import h5py
import numpy as np
a, b = (h5py.File(f"{sys.argv[1]}/{name}.h5")["loss"][:].ravel() for name in ("free", "half"))
a, b = a[np.isfinite(a)], b[np.isfinite(b)]
print("bf16 changes losses by up to", np.abs(a - b).max())
assert len(a) == len(b) > 0 and 0 < np.abs(a - b).max() < 0.05
PY

# Too little memory: every cell's message names the minimum.
launch 60 1 run "$work/sweep.yaml" --set "results=$work/little.h5" --set run.memory_per_rank=30M
[ $? = 1 ] || fail "too little: $(cat "$work/err")"
"$QTRAJ" status "$work/little.h5" | grep -q "memory_per_rank of .* is too little" || fail "too little: no message"
finish
