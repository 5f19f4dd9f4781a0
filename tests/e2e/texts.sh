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
finish
