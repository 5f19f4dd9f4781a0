#!/usr/bin/env bash
# The held-out loss that qtraj train writes is what qtraj eval finds for the checkpoint on the same ids, also of models with ternary linears, where
# the forward passes of both round: a number that lies on an edge may fall on either side (of 10 losses here one, by 1.4e-6).
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/train.sh"
need_python numpy
mkdir "$work/here" && cd "$work/here" || exit 2
runs_file runs.yaml
for family in bitnet llama olmo2 gpt_neox apertus; do
    for linears in ternary float; do
        [ $linears = ternary ] || [ $family = bitnet ] || continue
        out=$family-$linears
        "$QTRAJ" train runs.yaml --only tiny --set output=$out --set model.family=$family --set model.linears=$linears --set model.layers=2 --set steps=12 \
            --set branches= 2>err || fail "$out: $(cat err)"
        "$python" "$SOURCE/tests/tools/held_out.py" $out/tiny $out/tokens-*.i32 held.safetensors || fail "$out: held out"
        for step in 6 12; do
            "$QTRAJ" eval "$out/tiny/step$(printf %06d $step)" --ids held.safetensors:ids --json >eval.json 2>err || fail "$out: $(cat err)"
            "$python" - $linears "$(awk -F, -v s=$step '$1 == s { print $7 }' $out/tiny/steps.csv)" >found 2>&1 <<'PY' || fail "$out, step $step: $(cat found)"
import json, sys
apart = abs(float(sys.argv[2]) - json.load(open("eval.json"))["loss"])
print(f"{apart:.1e}", "rounded otherwise" if apart > 1e-6 else "")
assert apart <= (1e-4 if sys.argv[1] == "ternary" else 1e-6), apart
PY
            echo "$out, step $step: $(cat found)" | tee -a all
        done
    done
done
[ "$(grep -c otherwise all)" -le 3 ] || fail "of 10 losses with ternary linears more than 3 are not within 1e-6: $(cat all)"
finish
