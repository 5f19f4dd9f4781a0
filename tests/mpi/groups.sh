# One sweep in groups of 1 to 4 ranks: nearly the same numbers; bit for bit for the same group size and, with
# `reproducible`, for any; with factors computed by one rank, by ScaLAPACK, and by both in one visit.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py

quickstart_sweep '1p;4p' <<'END'
name: groups
results: results.h5
bits: [3]
methods:
  - {method: rtn, group_size: 64}
  - {method: hqq, group_size: 64}
  - {method: gptq, group_size: 64}
  - {method: gptq, name: gptq-act, group_size: 64, order: activation, true_sequential: false}
  - {method: gptq, name: gptq-shared, group_size: 64, hessian: shared}
calibration: {text: text.txt, length: 128, samples: 10}
evaluation:
  - {name: docs, text: text.txt, length: 200, skip: 12, samples: 9}
END
# Groups differ from one rank by the order of f64 sums alone, which moves errors of layers by 1e-10 and no code; a code that flips
# would move losses by more than the 1e-4 below. Measured with four kernels of the BLAS on two draws of this text.
fixed_text "$work/text.txt"

run() { # name, ranks of the group, further settings
    local name=$1 ranks=$2
    shift 2
    QTRAJ_TRACE=linalg launch 300 $((ranks + (ranks > 1))) run "$work/sweep.yaml" --set "results=$name.h5" \
        --set "run.ranks_per_group=$ranks" "$@" || fail "$name: exit code $?: $(cat "$work/err")"
}

run one 1
run exact1 1 --set run.reproducible=true
compare one exact1 --relative 1e-4
# Factors are computed by one rank in groups of 2 and 3, and by ScaLAPACK on 2 ranks in a row and on 4 in a square.
for ranks in 2 3; do
    run "group$ranks" "$ranks"
    compare one "group$ranks" --relative 1e-4
done
for ranks in 2 4; do
    run "spread$ranks" "$ranks" --set run.scalapack_from=1
    grep -q 'ScaLAPACK pdpotrf' "$work/err" || fail "spread$ranks: no ScaLAPACK: $(cat "$work/err")"
    compare one "spread$ranks" --relative 1e-4
    run "exact$ranks" "$ranks" --set run.reproducible=true
    compare exact1 "exact$ranks"
done
# The Hessian of the widest stage alone is distributed (384 channels; the others have 128), beside methods without one.
run mixed 3 --set run.scalapack_from=384
grep -q 'ScaLAPACK pdpotrf' "$work/err" || fail "mixed: no ScaLAPACK: $(cat "$work/err")"
grep -q 'ScaLAPACK pdpotrf of order 128' "$work/err" && fail "mixed: a small Hessian was distributed: $(cat "$work/err")"
compare one mixed --relative 1e-4
# Independent of what is recomputed to save memory and of where a range of sequences ends.
launch 300 4 run "$work/sweep.yaml" --set results=none.h5 --set run.ranks_per_group=3 --set run.memory_per_rank=1M
least=$("$QTRAJ" status "$work/none.h5" | sed -n 's/.*it takes \([0-9]*\) MiB.*/\1/p' | head -1)
run tight 3 --set run.reproducible=true --set "run.memory_per_rank=$((least + 2))M"
compare exact1 tight
"$python" - "$work/spread4.h5" <<'END' || fail "the fingerprint lacks the ranks"
import sys, h5py
text = str(h5py.File(sys.argv[1])["cells/fingerprint"].asstr()[0])
assert "ranks 4" in text, text
END
run again 3
compare group3 again
"$QTRAJ" show "$work/group2.h5"
# qtraj plan with automatic groups: as many ranks as one visit needs, each within its memory.
"$QTRAJ" plan "$SOURCE/configs/scale/sizes.yaml" --json --rate 2000 --set run.threads=16 --set run.memory_per_rank=16G \
    >"$work/plan.json" 2>"$work/err"
[ $? = 2 ] || fail "plan, of checkpoints that are not there: $(cat "$work/err")"
"$python" - "$work/plan.json" <<'END' || fail "plan: groups"
import json, sys
models = {m["model"]: m["memory"] for m in json.load(open(sys.argv[1]))["cost"]["models"]}
print({name: (m["ranks"], m["peak"] / 2**30, m["fits"]) for name, m in models.items()})
assert models["OLMo2-1B"]["ranks"] == 1 and models["OLMo2-32B"]["ranks"] > 1
assert all(m["fits"] and m["peak"] <= 16 * 2**30 for m in models.values() if m["ranks"] > 1)
END
finish
