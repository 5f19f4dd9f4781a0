# Replicates: each equals a run that calibrates on its sequences, which Python draws here too, bit for bit; the cell is that of a
# run without replicates. The same for several ranks, after an interruption between two replicates and after a kill within one, with second
# order and exports.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy

quickstart_sweep '1p;6p' <<'END_'
name: replicates
results: results.h5
bits: [3]
methods:
  - {method: rtn, group_size: 64}
  - {method: gptq, group_size: 64, scale_dtype: f16, replicates: 4}
  - {method: gptq, name: shared, group_size: 64, hessian: shared, replicates: 2}
calibration: {ids: "ids.safetensors:calibration", samples: 8}
evaluation:
  - {name: docs, ids: "ids.safetensors:evaluation"}
run: {reproducible: true}
END_
head -c 40000 "$work/text.txt" | "$QTRAJ" tokenize "$quickstart/trajectory/tokenizer.json" >"$work/tokens" || fail "tokenize"
"$python" - "$work" "$SOURCE/tests/tools" <<'END_' || { fail "no ids"; finish; }
import sys
import numpy as np
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from safetensors_writer import save

work, width, used, mask = sys.argv[1], 96, 8, 2**64 - 1
ids = np.array(open(work + "/tokens").read().split(), dtype=np.int32)
rows = ids[:40 * width].reshape(40, width)
pool, evaluation = rows[:32], np.concatenate([rows[32:], rows[10:12], rows[20:21]])


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def shuffled(indices, k):  # seed 0
    stream = 2**48 + k
    return sorted(indices, key=lambda i: mix((i * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) & mask))


def spans(row):
    return {tuple(row[i:i + 32]) for i in range(len(row) - 31)}


seen = set().union(*map(spans, evaluation))
free = [i for i in range(len(pool)) if not spans(pool[i]) & seen]
fresh = [i for i in free if i >= used]
assert len(free) < len(pool) - 2 and 2 * used <= len(fresh) < 3 * used
order = shuffled(fresh, 0)
draws = [order[:used], order[used:2 * used], shuffled(free, 3)[:used]]
tensors = {"calibration": pool, "evaluation": evaluation}
tensors |= {f"draw{1 + k}": pool[sorted(d)] for k, d in enumerate(draws)}
save(Path(work, "ids.safetensors"), tensors)
END_

start() { launch 300 "$2" run "$work/sweep.yaml" --set "results=$1.h5" "${@:3}"; } # name, ranks, arguments
run() { start "$@" || fail "$1: exit code $?: $(cat "$work/err")"; }
run alone 1
run ranks 3 --set run.ranks_per_group=2
compare alone ranks
for k in 0 1 2 3; do
    run "plain$k" 1 --set 'methods[1].replicates=1' --set 'methods[2].replicates=1' $([ $k -gt 0 ] && echo --set "calibration.ids=ids.safetensors:draw$k")
done
"$QTRAJ" show "$work/alone.h5" --kind replicate >"$work/shown" || fail "show: exit code $?"
"$python" - "$work" <<'END_' || fail "replicates are not the runs with their sequences"
import sys
import h5py
import numpy as np

def read(name):
    return h5py.File(f"{sys.argv[1]}/{name}.h5")

all_, plain = read("alone"), [read(f"plain{k}") for k in range(4)]
loss, drawn = all_["loss"][0, 0, 0, :, 0], all_["loss_replicate"][0, 0, 0, :, :, 0]
assert "replicate" not in plain[0] and not [n for n in plain[0] if "replicate" in n]
assert list(all_["replicate"]) == [1, 2, 3]
for name in plain[0]:  # what there is without replicates is the same with them
    x = plain[0][name]
    if isinstance(x, h5py.Dataset) and not x.attrs.get("volatile", 0) and name != "recipe":
        assert np.array_equal(x[()], all_[name][()], equal_nan=x.dtype.kind == "f"), name
assert list(all_["cells/key"]) == list(plain[0]["cells/key"])
runs = np.array([[p["loss"][0, 0, 0, q, 0] for p in plain] for q in range(3)])
assert np.array_equal(runs[:, 0], loss) and np.array_equal(runs[1, 1:], drawn[1]) and runs[2, 1] == drawn[2, 0]
assert len(set(runs[1])) == 4 and np.isnan(drawn[0]).all() and np.isnan(drawn[2, 1:]).all()
for what in ("loss", "loss_relative", "kl_divergence"):
    of = [p[what][0, 0, 0, 1, 0] for p in plain]
    mean, deviation = (all_[f"{what}_replicate_{end}"][0, 0, 0, 1, 0] for end in ("mean", "std"))
    assert np.isclose(mean, np.mean(of), rtol=1e-14) and np.isclose(deviation, np.std(of, ddof=1), rtol=1e-6), what
assert list(all_["replicates_done"][0, 0, 0]) == [1, 4, 2]
shown = open(sys.argv[1] + "/shown").read()  # relative errors in percent, as everywhere
mean = 100 * all_["loss_relative_replicate_mean"][0, 0, 0, 1, 0]
assert f" {mean:.2f}"[:-1] in shown and " loss_relative (%)" in shown, (mean, shown)
END_

only_bits

# an interruption after the records of the cells and of the first replicates
records=$(grep -n '"replicate"' "$work/alone.journal" | grep -n '"type": *"replicate"' | sed -n '2s/^[0-9]*:\([0-9]*\):.*/\1/p')
head -n "$records" "$work/alone.journal" >"$work/resumed.journal"
run resumed 1
grep -q '^2 replicates of cells to do' "$work/err" || fail "what is left is not two replicates: $(cat "$work/err")"
compare alone resumed

# with second order, of the cells alone, and exports; killed in the wave of the first replicates, with and without exports: saved
# states continue, and nothing else than in an undisturbed run comes out
preload=$(dirname "$QTRAJ")/libkill_at_line.so
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
order=(--set 'curvature={second_order: total, sequences: 1}' --set 'methods[1].replicates=2')
exports=(--set 'export=[{out: exports, format: gptq, quantizer: gptq}]')
killed() { # name, arguments: in the second block of the first replicates, after four blocks of three cells and one of two replicates
    [ -e "$preload" ] || return 0
    KILL_COUNT=16 KILL_TEXT='trace visit: block' QTRAJ_SAVE=always QTRAJ_TRACE=visit LD_PRELOAD=$preload start "$1" 1 "${@:2}" &&
        fail "$1: not killed"
    run "$1" 1 "${@:2}"
}
run both 1 "${order[@]}" "${exports[@]}"
mv "$work/exports" "$work/whole"
[ "$(cd "$work/whole/quickstart" && echo */*)" = step000900/gptq-3bit ] || fail "exports: $(find "$work/whole")"
killed again "${order[@]}" "${exports[@]}"
[ ! -e "$preload" ] || compare both again
[ ! -e "$preload" ] || diff -r "$work/whole" "$work/exports" || fail "exports after a kill differ"
killed saved "${order[@]}"
[ ! -e "$preload" ] || grep -q 'continues from the state saved' "$work/err" || fail "no state of a replicate's wave: $(cat "$work/err")"
"$python" - "$work" "$([ -e "$preload" ] && echo both again saved || echo both)" <<'END_' || fail "second order and replicates"
import sys
import h5py
import numpy as np

alone = h5py.File(sys.argv[1] + "/alone.h5")
for name in sys.argv[2].split():
    other = h5py.File(f"{sys.argv[1]}/{name}.h5")
    assert np.array_equal(other["loss"][()], alone["loss"][()]), name
    assert np.array_equal(other["loss_replicate"][..., :1, :], alone["loss_replicate"][..., :1, :], equal_nan=True), name
    assert np.isfinite(other["second_order"][()]).all() and "second_order_replicate" not in other, name
    assert np.array_equal(other["second_order"][()], h5py.File(sys.argv[1] + "/both.h5")["second_order"][()]), name
END_

# other methods are refused, and a text that is too short fails the replicates alone
launch 60 1 run "$work/sweep.yaml" --set results=bad.h5 --set 'methods[0].replicates=2'
[ $? = 2 ] && grep -q 'methods\[0\].replicates: rtn uses no calibration text' "$work/err" || fail "rtn: $(cat "$work/err")"
launch 60 1 run "$work/sweep.yaml" --set results=bad.h5 --set calibration.samples=0
[ $? = 2 ] && grep -q 'replicates: calibration takes the whole text' "$work/err" || fail "no samples: $(cat "$work/err")"
launch 60 1 run "$work/sweep.yaml" --set results=short.h5 --set calibration.samples=30
[ $? = 1 ] || fail "too short a text: $(cat "$work/err")"
"$QTRAJ" status "$work/short.h5" >"$work/out"
grep -Eq '^quickstart +1 +3 +3 +0' "$work/out" && grep -q '^replicates: 0 done, 4 failed' "$work/out" &&
    grep -q 'gptq 3 replicate 1.*calibration text has 29 sequences, and a draw takes 30' "$work/out" || fail "too short a text: $(cat "$work/out")"
finish
