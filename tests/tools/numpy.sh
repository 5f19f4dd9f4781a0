# Sourced after lib.sh by tests that compare the quickstart's model with numpy (tests/golden/outliers.py): writes token ids of a text of ours ($numpy_text:
# or another of lib.sh) to $work/ids.safetensors; $numpy_texts has the lines of a sweep that read them, to calibrate and a sequence at a time to evaluate.
# shellcheck shell=bash
export PYTHONPATH=$SOURCE/tests/tools OMPI_MCA_ess_singleton_isolated=1

golden() { "$python" "$SOURCE/tests/golden/outliers.py" "$@" >"$work/golden" 2>&1 || fail "$*: $(tail -3 "$work/golden")"; }

# golden_ranks NAME: $work/sweep.yaml against numpy, and by two ranks against one.
golden_ranks() {
    "$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>&1 || fail "$(tail -3 "$work/out")"
    golden "$1" "$quickstart/trajectory/step001200" "$work/ids.safetensors" "$work/$1.h5"
    launch 60 3 run "$work/sweep.yaml" --set "results=$work/ranks.h5" --set run.ranks_per_group=2 || fail "two ranks: $(tail -1 "$work/err")"
    "$python" "$SOURCE/tests/tools/compare_cubes.py" --relative 1e-9 "$work/$1.h5" "$work/ranks.h5" >"$work/same" 2>&1 || fail "two ranks: $(tail -3 "$work/same")"
}

"${numpy_text:-own_text}" "$work/text.txt"
"$QTRAJ" tokenize "$quickstart/trajectory/tokenizer.json" <"$work/text.txt" >"$work/tokens"
golden ids "$work/ids.safetensors" <"$work/tokens"
numpy_texts="calibration: {ids: \"$work/ids.safetensors:calibration\"}
evaluation: [$(for i in 0 1 2 3 4 5 6 7; do printf '{name: e%d, ids: "%s:e%d"}, ' $i "$work/ids.safetensors" $i; done | sed "s|, $||")]"
