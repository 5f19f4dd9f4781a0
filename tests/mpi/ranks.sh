# The same sweep with 1, 3 and 5 ranks, and with 1 and 3 threads: the same cube bit for bit, except timings.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py

quickstart_sweep '1p;2p;4p;9p' <<'END'
name: ranks
results: results.h5
bits: [2, 3]
methods:
  - {method: rtn, group_size: 64}
  - {method: gptq, group_size: 64}
  - {method: gptq, name: gptq-act, group_size: 64, order: activation, bits: [3]}
calibration: {text: text.txt, length: 256, samples: 8}
evaluation:
  - {name: docs, text: text.txt, length: 200, skip: 12, samples: 9}
END

run() { # name, ranks, threads
    launch 300 "$2" run "$work/sweep.yaml" --set "results=$1.h5" --set "run.threads=$3" || fail "$1: exit code $?: $(cat "$work/err")"
}
run alone 1 1
run alone-threads 1 3
QTRAJ_TRACE=sched,gptq,io run three 3 1
# the trace shows the work layer by layer: every worker logs its own, and only requested topics appear
for line in "sched \[0\]: job 1 of 3, " "sched \[[12]\]: visits quickstart step[0-9]* with" "io \[1\]: block 0: waited" "io \[2\]: tokens of" \
    "gptq \[1\]: gptq 2 bits, model.layers.0.self_attn.q_proj.weight: relative error 0\.[0-9]*, damping 0.01" "gptq \[2\]: gptq-act 3 bits, "; do
    grep -q "^trace $line" "$work/err" || fail "no trace of $line: $(grep '^trace' "$work/err" | cut -c1-80 | head -40)"
done
grep "^trace" "$work/err" | grep -Evq "^trace (sched|gptq|io) " && fail "other traces: $(cut -d: -f1 "$work/err" | sort | uniq -c)"
run five 5 2
for other in alone-threads three five; do compare alone $other; done
"$QTRAJ" show "$work/alone.h5"
finish
