#!/usr/bin/env bash
# Texts in real-world forms, through the commands: layouts, separators, patterns, compression, invalid UTF-8, and how a
# change of these affects a sweep's cells.
. "$SOURCE/tests/tools/lib.sh"
need_python json

checkpoint=$SOURCE/configs/quickstart/trajectory/step001200
tokenizer=$SOURCE/configs/quickstart/trajectory/tokenizer.json
own_text "$work/all"
"$python" - "$work" <<'PY'
import gzip, json, pathlib, sys
work = pathlib.Path(sys.argv[1])
words = work.joinpath("all").read_text().split()
documents = ["a b c"] + [" ".join(words[i * 37 : i * 37 + 3 + 5 * i]) for i in range(1, 12)] + ["one"]
lines = [json.dumps({"content": d}).encode() + b"\n" for d in documents]
work.joinpath("all.jsonl").write_bytes(b"".join(lines))
work.joinpath("part-1.jsonl").write_bytes(b"".join(lines[:5]))
work.joinpath("part-2.jsonl").write_bytes(gzip.compress(b"".join(lines[5:])))
work.joinpath("bad.jsonl").write_bytes(b"".join(lines).replace(b"the", b"\xffhe", 3))
PY

# score ARGUMENT ...: writes the loss of the checkpoint on a text as JSON to $work/out.
score() {
    timeout 120 "$QTRAJ" eval "$checkpoint" --tokenizer "$tokenizer" --json "$@" >"$work/out" 2>"$work/err"
}
# told KEY: prints a number of the last score; sequences: prints their number.
told() {
    "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(len(d["loss_per_sequence"]) if sys.argv[2] == "sequences" else d[sys.argv[2]])' "$work/out" "$1"
}

score --text "$work/all.jsonl" --field content --length 32 || fail "packed: $(cat "$work/err")"
loss=$(told loss) sequences=$(told sequences)
score --text "$work/part-*.jsonl" --field content --length 32 || fail "a pattern: $(cat "$work/err")"
[ "$(told loss)" = "$loss" ] || fail "the same documents from two files, one gzip: $(told loss), expected $loss"
score --text "$work/all.jsonl" --field content --length 32 --separator '<|end_of_text|>' || fail "separator: $(cat "$work/err")"
[ "$(told loss)" != "$loss" ] && [ "$(told sequences)" -ge "$sequences" ] || fail "the separator made no difference"

score --text "$work/all.jsonl" --field content --layout document --length none || fail "documents: $(cat "$work/err")"
documents=$(told sequences) tokens=$(told tokens)
[ "$documents" = 12 ] || [ "$documents" = 13 ] || fail "$documents documents, expected all but those of one token"
score --text "$work/all.jsonl" --field content --layout document --length none --min-length 11 ||
    fail "min-length: $(cat "$work/err")"
[ "$(told sequences)" -lt "$documents" ] && [ "$(told tokens)" -lt "$tokens" ] || fail "no short document was dropped"
score --text "$work/all.jsonl" --field content --layout document --length 20 || fail "cut documents: $(cat "$work/err")"
[ "$(told sequences)" = "$documents" ] && [ "$(told tokens)" -lt "$tokens" ] || fail "documents were not cut at 20"
score --text "$work/all.jsonl" --field content --layout document --length none --documents 4 || fail "$(cat "$work/err")"
[ "$(told sequences)" -le 4 ] || fail "more than 4 documents"

score --text "$work/bad.jsonl" --field content --length 32 || fail "invalid UTF-8: $(cat "$work/err")"
grep -q 'bad.jsonl: [123] invalid UTF-8 sequences replaced' "$work/err" || fail "no warning: $(cat "$work/err")"

# refused ARGUMENTS MESSAGE
refused() {
    local code=0
    # shellcheck disable=SC2086
    score --text "$work/all.jsonl" --field content $1 || code=$?
    [ $code = 2 ] && grep -qF -- "$2" "$work/err" || fail "$1: exit code $code, $(cat "$work/err")"
}
refused '--length none' '--length: none is for layout: document'
refused '--layout document --separator eos' '--separator has no effect here: it goes with --layout packed'
refused '--separator <none>' 'the tokenizer has no token <none>'
refused '--separator eos' 'separator eos: no eos_token in a tokenizer_config.json'
refused '--min-length 100000' '13 documents too short'
refused '--layout pakced' 'did you mean packed?'

# JSON lines without a field, however they are read: one warning, which names the fields.
lines="part-1.jsonl: its lines are JSON objects, and are read as plain text; \`field: NAME\` takes the text (its fields: content)"
warned() { [ "$(grep -cF -- "$lines" "$work/err")" = "$1" ] || fail "$2: not $1 warnings of JSON lines: $(cat "$work/err")"; }
score --text "$work/part-1.jsonl" --length 32 || fail "plain: $(cat "$work/err")"
warned 1 eval
score --text "$work/part-1.jsonl" --field content --length 32 || fail "field: $(cat "$work/err")"
warned 0 "eval with a field"
score --text "$work/part-1.jsonl" --field txt --length 32 && fail "an unknown field is taken"
grep -qF 'part-1.jsonl:1: no field "txt" (its fields: content)' "$work/err" || fail "an unknown field: $(cat "$work/err")"

"$QTRAJ" eval "$checkpoint" --tokenizer "$work/all.jsonl" --text "$work/all" --length 32 >"$work/out" 2>"$work/err" && fail "lines as a tokenizer are taken"
grep -qF "not a tokenizer.json: $work/all.jsonl:2:1: " "$work/err" || fail "lines as a tokenizer: $(cat "$work/err")"

# Weights that are no numbers: the loss is printed, and the command says so and ends with 1.
cp -r "$checkpoint" "$work/nan"
"$python" - "$work/nan/model.safetensors" <<'PY'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
size = struct.unpack("<Q", data[:8])[0]
first, end = json.loads(data[8 : 8 + size])["model.norm.weight"]["data_offsets"]
data[8 + size + first : 8 + size + end] = b"\xff\x7f" * ((end - first) // 2)
open(sys.argv[1], "wb").write(data)
PY
code=0
"$QTRAJ" eval "$work/nan" --tokenizer "$tokenizer" --text "$work/all" --length 32 --samples 4 >"$work/out" 2>"$work/err" || code=$?
[ $code = 1 ] && grep -q "loss nan" "$work/out" && grep -qF "nan: its loss is not finite" "$work/err" || fail "NaN: exit code $code, $(cat "$work/out" "$work/err")"

# a sweep: a text that is cut differently gives another result, moving its files does not
mkdir "$work/moved"
cp "$work"/part-?.jsonl "$work/moved"
printf 'checkpoint\nstep001200\n' >"$work/one.csv"
cat >"$work/sweep.yaml" <<YAML
name: texts
results: texts.h5
models: [{name: m, trajectory: one.csv, path: "$SOURCE/configs/quickstart/trajectory/{checkpoint}", tokenizer: $tokenizer}]
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: own, text: [part-1.jsonl, part-2.jsonl], field: content, length: 32}]
YAML
done_of() { "$QTRAJ" plan "$work/sweep.yaml" --json --rate 100 "$@" 2>"$work/err" >"$work/plan" || fail "plan: $(cat "$work/err")"; }
launch 120 1 run "$work/sweep.yaml" || fail "run: exit code $?: $(cat "$work/err")"
done_of
cp "$work/plan" "$work/finished"
done_of --set 'evaluation[0].text=moved/part-*.jsonl'
cmp -s "$work/plan" "$work/finished" || fail "files elsewhere are another plan: $(cat "$work/plan" "$work/finished")"
done_of --set 'evaluation[0].special_tokens=true'
cmp -s "$work/plan" "$work/finished" && fail "special tokens make no other cell: $(cat "$work/plan")"
done_of --set 'evaluation[0].layout=document' --set 'evaluation[0].length=none'
cmp -s "$work/plan" "$work/finished" && fail "another layout makes no other cell: $(cat "$work/plan")"
done_of --set 'evaluation[0].field=null'
warned 1 plan
launch 120 2 run "$work/sweep.yaml" --set 'evaluation[0].field=null' --set "results=$work/plain.h5" || fail "run: exit code $?: $(cat "$work/err")"
warned 1 run
"$QTRAJ" quantize "$checkpoint" --method gptq --bits 4 --group-size 64 --calibration-text "$work/part-1.jsonl" --calibration-length 16 --tokenizer "$tokenizer" --out "$work/quantized" >"$work/out" 2>"$work/err" ||
    fail "quantize: $(cat "$work/err")"
warned 1 quantize

# A tokenizer with ids that the model lacks: a fault if the texts have such.
"$python" - "$tokenizer" "$work/large.json" <<'PY'
import json, sys
tokens = json.load(open(sys.argv[1]))
tokens["added_tokens"].append({"id": 2999, "content": "ORDINARY", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False})
json.dump(tokens, open(sys.argv[2], "w"))
PY
cp "$work/all" "$work/usual.txt"
{ echo ORDINARY; cat "$work/all"; } >"$work/outside.txt"
sed -i "s|tokenizer: .*}\]|tokenizer: large.json}]|" "$work/sweep.yaml"
# large CODE TEXT LIMIT: plan of the sweep with that text
large() {
    local code=0
    "$QTRAJ" plan "$work/sweep.yaml" --rate 100 --brief --set results="$work/large.h5" --set "evaluation=[{name: own, text: $work/$2, length: 32, $3}]" >"$work/out" 2>"$work/err" || code=$?
    [ $code = "$1" ] || fail "large ids, $2: exit code $code: $(cat "$work/out" "$work/err")"
}
large 0 usual.txt "samples: 8"
grep -q "vocabulary" "$work/err" && fail "ids that no text has: $(cat "$work/err")"
large 2 outside.txt "samples: 8"
grep -qF "m: models[0].tokenizer: gives its texts ids up to 2999, but the model's vocabulary is 2048" "$work/err" || fail "outside: $(cat "$work/err")"
"$QTRAJ" slurm "$work/sweep.yaml" --rate 100 --node-cores 4 --node-memory 8 --set results="$work/large.h5" --set "evaluation=[{name: own, text: $work/outside.txt, length: 32, samples: 8}]" >"$work/out" 2>"$work/err" &&
    fail "slurm takes ids outside the vocabulary"
grep -qF "gives its texts ids up to 2999" "$work/err" || fail "slurm: $(cat "$work/err")"
finish
