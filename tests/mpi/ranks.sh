# The same sweep with 1, 3 and 5 ranks, and with 1 and 3 threads: the same cube bit for bit, timings aside.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for python in python3 /usr/bin/python3 none; do
    "$python" -c 'import h5py' 2>/dev/null && break
done
[ "$python" != none ] || { echo "skipped: no python3 with h5py"; exit 77; }

quickstart=$SOURCE/configs/quickstart
cat "$SOURCE"/docs/*.md "$SOURCE"/docs/*/*.md >"$folder/text.txt"
sed -n '1p;2p;4p;9p' "$quickstart/trajectory.csv" >"$folder/trajectory.csv"
cat >"$folder/sweep.yaml" <<EOF
name: ranks
results: results.h5
models:
  - {name: quickstart, trajectory: trajectory.csv, path: "$quickstart/trajectory/{checkpoint}", tokenizer: "$quickstart/trajectory/tokenizer.json"}
bits: [2, 3]
methods:
  - {method: rtn, group_size: 64}
  - {method: gptq, group_size: 64}
  - {method: gptq, name: gptq-act, group_size: 64, order: activation, bits: [3]}
calibration: {text: text.txt, length: 256, samples: 8}
evaluation:
  - {name: docs, text: text.txt, length: 200, skip: 12, samples: 9}
EOF

run() { # name, ranks, threads
    mpirun --oversubscribe -n "$2" "$QTRAJ" run "$folder/sweep.yaml" --set "results=$1.h5" --set "run.threads=$3"
}
run alone 1 1
run alone-threads 1 3
run three 3 1
run five 5 2
for other in alone-threads three five; do
    "$python" "$SOURCE/tests/tools/compare_cubes.py" "$folder/alone.h5" "$folder/$other.h5"
done
"$QTRAJ" show "$folder/alone.h5"
