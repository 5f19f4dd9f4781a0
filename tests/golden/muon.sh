#!/usr/bin/env bash
# Steps of Muon, with both sizes of its updates, against the definition in numpy (tests/tools/check_muon.py), and the same bits by three ranks.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/train.sh"
need_python numpy
mkdir "$work/here" && cd "$work/here" || exit 2

runs_file runs.yaml 'optimizer: {kind: muon, adamw_rate: 0.5}'
sed -i 's/steps: 24/steps: 10/; s/every: 6/every: 1, states: true/; s/from: .9./from: [5]/' runs.yaml
for scale in rms spectral; do
    "$QTRAJ" train runs.yaml --set output=$scale --set optimizer.scale=$scale 2>"$work/err" || fail "train: $(cat "$work/err")"
    PYTHONPATH=$SOURCE/tests/tools "$python" "$SOURCE/tests/tools/check_muon.py" $scale/tiny >"$work/found" 2>&1 || fail "$scale: $(cat "$work/found")"
    tail -n 1 "$work/found"
done
launch 60 3 train runs.yaml --set output=three || fail "three ranks: $(cat "$work/err")"
same_training rms three

# of other optimizers it has no keys, which runs that were begun before it are compared with
"$QTRAJ" train runs.yaml --set output=rms --set optimizer.momentum=0.9 2>"$work/err" && fail "another momentum is taken"
grep -qF "begun with another optimizer.momentum" "$work/err" || fail "$(cat "$work/err")"
"$QTRAJ" train runs.yaml --set output=adamw --set optimizer='{kind: adamw}' 2>"$work/err" || fail "adamw: $(cat "$work/err")"
grep -qE 'scale|adamw_rate' adamw/tiny/run.json && fail "keys of muon: $(cat adamw/tiny/run.json)"
finish
