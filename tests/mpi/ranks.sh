# The same sweep with 1, 3 and 5 ranks, and with 1 and 3 threads: the same cube bit for bit, timings aside.
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
run three 3 1
run five 5 2
for other in alone-threads three five; do compare alone $other; done
"$QTRAJ" show "$work/alone.h5"
finish
