#!/usr/bin/env bash
# Checkpoints of qtraj train in transformers: every family loads, its validation loss is ours; torch makes the same steps. Skipped
# without torch.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/train.sh"
need_python torch transformers numpy
mkdir "$work/here" && cd "$work/here" || exit 2
runs_file runs.yaml
for family in llama gpt_neox olmo olmo2 olmo3 smollm3 apertus qwen2 qwen3; do
    for dtype in float32 bfloat16; do
        [ $dtype = float32 ] || [ $family = apertus ] || continue
        out=$family-$dtype code=0
        "$QTRAJ" train runs.yaml --only tiny --set "output=$out" --set "model.family=$family" --set steps=6 --set schedule.peak=1e-3 \
            --set "checkpoints={every: 3, dtype: $dtype}" --set branches= 2>err || fail "$out: $(cat err)"
        more=(--train 6)
        [ $dtype = float32 ] || more=(--limit 3e-3)
        "$python" "$SOURCE/tests/tools/check_training.py" "$out/tiny" "$out"/tokens-*.i32 "${more[@]}" >report 2>&1 || fail "$out: $(tail -n 5 report)"
        grep -v Warning report | tail -n 2
    done
done
finish
