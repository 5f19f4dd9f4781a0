#!/usr/bin/env bash
# Checkpoints of qtraj train in transformers: every family loads, its validation loss is ours; torch makes the same steps. Skipped
# without torch. So with ternary linears, where a sum in another order may round otherwise, which takes the package accelerate.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/train.sh"
need_python torch transformers numpy
mkdir "$work/here" && cd "$work/here" || exit 2
runs_file runs.yaml
# compare OUT FAMILY STEPS "SETTING ..." ARGUMENT ...
compare() {
    local settings
    read -ra settings <<<"$4"
    "$QTRAJ" train runs.yaml --only tiny --set "output=$1" --set "model.family=$2" --set "steps=$3" --set schedule.peak=1e-3 "${settings[@]}" --set branches= 2>err ||
        fail "$1: $(cat err)"
    TORCHDYNAMO_DISABLE=1 "$python" "$SOURCE/tests/tools/check_training.py" "$1/tiny" "$1"/tokens-*.i32 "${@:5}" >report 2>&1 || fail "$1: $(tail -n 5 report)"
    grep -E '^(.*: validation|[0-9]+ steps)' report
}
for family in llama gpt_neox olmo olmo2 olmo3 smollm3 apertus qwen2 qwen3; do
    for dtype in float32 bfloat16; do
        [ $dtype = float32 ] || [ $family = apertus ] || continue
        more=(--train 6)
        [ $dtype = float32 ] || more=(--limit 3e-3)
        compare $family-$dtype $family 6 "--set checkpoints.every=3 --set checkpoints.dtype=$dtype" "${more[@]}"
    done
done
if "$python" -c 'import accelerate' 2>"$work/err"; then
    for family in bitnet gpt_neox; do
        compare $family-ternary $family 20 "--set model.linears=ternary --set model.layers=2 --set checkpoints.every=5" --train 20 --limit 3e-4
    done
else
    echo "without ternary linears: no package accelerate"
fi
finish
