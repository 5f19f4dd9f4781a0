#!/usr/bin/env bash
# A renamed label of a quantizer: its cells, their second order and movement on its grid stay as they are. Earlier versions hashed the
# label into the key of movement: plans say under which key they would have recorded it.
. "$SOURCE/tests/tools/lib.sh"
quickstart_sweep '1p;/step000100/p;/step001200/p' fixed_text <<'YAML'
name: labels
results: cube.h5
methods: [{method: rtn, name: first, bits: [4], group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 2}]
movement: first
curvature: {sharpness: none, trace: 1, second_order: total, critical: true, sequences: 1, length: 64}
surfaces: [{name: end, plane: quantization, quantizer: first, bits: 4, columns: 2, rows: 2}]
YAML
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "run: $(cat "$work/err")"
records=$(grep -cE '"type":"(cell|checkpoint|curvature|movement|point|completion)"' "$work/cube.journal")
sed -i 's/first/second/g' "$work/sweep.yaml"
"$QTRAJ" plan "$work/sweep.yaml" --rate 10 >"$work/out" 2>"$work/err" || fail "plan: $(cat "$work/err")"
grep -q 'left: 0 visits' "$work/out" || fail "the plan: $(cat "$work/out")"
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "renamed: $(cat "$work/err")"
grep -q 'nothing to do' "$work/err" "$work/out" || fail "renamed: $(cat "$work/err")"
[ "$(grep -cE '"type":"(cell|checkpoint|curvature|movement|point|completion)"' "$work/cube.journal")" = "$records" ] || fail "new records"
"$QTRAJ" show "$work/cube.h5" --quantizer second >"$work/out" 2>"$work/err" || fail "the new label: $(cat "$work/err")"
# The key of this movement as version 0.1.0 made it with the label "one".
sed -i 's/second\([],}]\|$\)/one\1/' "$work/sweep.yaml"
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "one: $(cat "$work/err")"
grep -q '"former_keys":{"d7d7a1329f74842d73158453a6a99a94":"105ab457897733e3e9391c38a5944ecf"}' "$work/cube.journal" ||
    fail "the earlier key: $(grep -o '"former_keys":{[^}]*}' "$work/cube.journal")"
finish
