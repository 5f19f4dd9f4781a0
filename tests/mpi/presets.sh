#!/usr/bin/env bash
# A sweep with a preset: documents of unequal length, counted padding, on one rank and in a group; what the cube stores of the
# preset; cells are identified by values, not by names.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py json

quickstart_sweep '1p;4p' <<'END'
name: presets
results: results.h5
preset: gptqmodel-4
bits: [3]
methods: [{method: gptq, group_size: 64}, {method: rtn}]
calibration: {text: documents.jsonl, field: text, batch: 4}
evaluation: [{name: docs, text: text.txt, length: 128, samples: 8}]
END
"$python" - "$work" <<'PY'
import json, pathlib, sys
work = pathlib.Path(sys.argv[1])
words = work.joinpath("text.txt").read_text().split()
lengths = [40, 7, 90, 3, 55, 1, 70, 12, 33, 64, 25, 48]
lines = [json.dumps({"text": " ".join(words[i * 100 : i * 100 + n])}) + "\n" for i, n in enumerate(lengths)]
work.joinpath("documents.jsonl").write_text("".join(lines))
PY

run() { # name, ranks of the group, further settings
    local name=$1 ranks=$2
    shift 2
    launch 300 $((ranks + (ranks > 1))) run "$work/sweep.yaml" --set "results=$name.h5" --set "run.ranks_per_group=$ranks" "$@" ||
        fail "$name: exit code $?: $(cat "$work/err")"
}
differ() { "$python" "$SOURCE/tests/tools/compare_cubes.py" "$work/$1.h5" "$work/$2.h5" >"$work/differences" && fail "$1 and $2 are the same"; }

export QTRAJ_TRACE=memory
run counted 1 --set run.reproducible=true
# tokens of documents are counted, padding included, and the plan's counts equal the visit's
tokens=$(sed -n 's/.* of \([0-9]*\) tokens kept.*/\1/p' "$work/err" | sort -u)
"$QTRAJ" plan "$work/sweep.yaml" --json --rate 100 >"$work/plan.json" || fail "plan"
"$python" - "$work" "$tokens" <<'PY' || fail "the plan's calibration tokens are not the visit's, $tokens"
import json, sys
work, tokens = sys.argv[1:]
calibration = json.load(open(f"{work}/plan.json"))["cost"]["calibration"]
assert calibration["tokens"] == float(tokens) and not calibration["guessed"], calibration
PY
for ranks in 2 3; do
    run "group$ranks" "$ranks" --set run.reproducible=true
    compare counted "group$ranks"
done
run none 1 --set run.reproducible=true --set 'calibration={text: documents.jsonl, field: text, padding: none}'
differ counted none
run masked 1 --set run.reproducible=true --set calibration.padding=masked
"$python" - "$work" <<'PY' || fail "masked padding is not none, or counted is"
import sys, h5py
loss = {k: h5py.File(f"{sys.argv[1]}/{k}.h5")["loss"][...].ravel() for k in ("counted", "none", "masked")}
assert (loss["masked"] == loss["none"]).all(), loss
assert loss["counted"][0] != loss["none"][0] and loss["counted"][1] == loss["none"][1], loss  # gptq, rtn
PY

# every value is in the cube
"$python" - "$work/counted.h5" <<'PY' || fail "the resolved sweep is not as expected"
import json, sys, h5py
config = json.loads(h5py.File(sys.argv[1])["provenance/config"].asstr()[()])
gptq, c, e = config["methods"][0], config["calibration"], config["evaluation"][0]
assert config["preset"] == gptq["preset"] == c["preset"] == "gptqmodel-4", config
assert (gptq["order"], gptq["damping"], gptq["scale_dtype"], gptq["group_size"]) == ("activation", 0.05, "f16-packed", 64), gptq
assert (c["layout"], c["padding"], c["batch"], c["min_length"], c["documents"], c["special_tokens"]) == ("document", "counted", 4, 11, 1024, True), c
assert (e["follow"], e["length"], e["layout"]) == (2, 128, "packed"), e
layers = h5py.File(sys.argv[1])["layers/damping"][...]
assert (abs(layers[0] - 0.05) < 1e-12).all(), layers
PY

# the same values written out give the same cells
"$python" - "$work" <<'PY'
import json, sys, h5py
work = sys.argv[1]
config = json.loads(h5py.File(f"{work}/counted.h5")["provenance/config"].asstr()[()])
for part in (config, config["calibration"], *config["methods"], *config["evaluation"]):
    part["preset"] = "none"
json.dump(config, open(f"{work}/spelled.yaml", "w"))
PY
launch 100 1 run "$work/spelled.yaml" --set "results=counted.h5" || fail "spelled out: exit code $?: $(cat "$work/err")"
grep -q "nothing to do" "$work/err" || fail "spelled out, the cells are others: $(cat "$work/err")"
finish
