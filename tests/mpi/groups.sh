# One sweep in groups of 1 to 4 ranks: the same numbers nearly, bit for bit for the same group size and, if
# `reproducible` says so, for any; with factors made by one rank and by ScaLAPACK.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for python in python3 /usr/bin/python3 none; do
    "$python" -c 'import h5py' 2>/dev/null && break
done
[ "$python" != none ] || { echo "skipped: no python3 with h5py"; exit 77; }

quickstart=$SOURCE/configs/quickstart
cat "$SOURCE"/docs/*.md "$SOURCE"/docs/*/*.md >"$folder/text.txt"
sed -n '1p;4p' "$quickstart/trajectory.csv" >"$folder/trajectory.csv"
cat >"$folder/sweep.yaml" <<END
name: groups
results: results.h5
models:
  - {name: quickstart, trajectory: trajectory.csv, path: "$quickstart/trajectory/{checkpoint}", tokenizer: "$quickstart/trajectory/tokenizer.json"}
bits: [3]
methods:
  - {method: rtn, group_size: 64}
  - {method: gptq, group_size: 64}
  - {method: gptq, name: gptq-act, group_size: 64, order: activation, true_sequential: false}
  - {method: gptq, name: gptq-shared, group_size: 64, hessian: shared}
calibration: {text: text.txt, length: 128, samples: 10}
evaluation:
  - {name: docs, text: text.txt, length: 200, skip: 12, samples: 9}
END

run() { # name, ranks of the group, further settings
    local name=$1 ranks=$2
    shift 2
    QTRAJ_TRACE=linalg OMP_NUM_THREADS=1 timeout 300 mpirun --oversubscribe -n $((ranks + (ranks > 1))) "$QTRAJ" run "$folder/sweep.yaml" \
        --set "results=$name.h5" --set "run.ranks_per_group=$ranks" "$@" 2>"$folder/$name.log" ||
        { cat "$folder/$name.log"; exit 1; }
}
compare() { # expected, found, further arguments of the comparison
    "$python" "$SOURCE/tests/tools/compare_cubes.py" "$folder/$1.h5" "$folder/$2.h5" "${@:3}"
}

run one 1
run exact1 1 --set run.reproducible=true
compare one exact1 --relative 1e-4
for ranks in 2 3 4; do
    run "group$ranks" "$ranks"
    compare one "group$ranks" --relative 1e-4
    run "spread$ranks" "$ranks" --set run.scalapack_from=1
    grep -q 'ScaLAPACK pdpotrf' "$folder/spread$ranks.log"
    compare one "spread$ranks" --relative 1e-4
    run "exact$ranks" "$ranks" --set run.reproducible=true
    compare exact1 "exact$ranks"
done
# Whatever is computed again for want of memory, and wherever a range of sequences ends.
(run none 3 --set run.memory_per_rank=1M) >/dev/null || true
least=$("$QTRAJ" status "$folder/none.h5" | sed -n 's/.*it takes \([0-9]*\) MiB.*/\1/p' | head -1)
run tight 3 --set run.reproducible=true --set "run.memory_per_rank=$((least + 2))M"
compare exact1 tight
"$python" - "$folder/spread4.h5" <<'END'
import sys, h5py
text = str(h5py.File(sys.argv[1])["cells/fingerprint"].asstr()[0])
assert "ranks 4" in text, text
END
run again 3
compare group3 again
"$QTRAJ" show "$folder/group2.h5"
