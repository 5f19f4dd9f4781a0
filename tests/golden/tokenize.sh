#!/usr/bin/env bash
# qtraj tokenize against results of the tokenizers library: every case of the fixtures, and of real tokenizers beside the
# checkout if they exist, with and without special tokens.
. "$SOURCE/tests/tools/lib.sh"
need_python json

cat >"$work/tokenize.py" <<'PY'
import json, os, pathlib, subprocess, sys

binary, source = sys.argv[1], pathlib.Path(sys.argv[2])
folders = sorted((source / "tests/fixtures/tokenizers").glob("*/"))
shared = pathlib.Path(os.environ.get("QTRAJ_SHARED", source / "../shared")) / "fixtures/tokenizers"
real = sorted(shared.glob("real_*/"))
if not real:
    print("skipped: the real tokenizers, none beside the checkout")


def ids_of(folder, cases, *flags):
    lines = "".join(json.dumps(case["text"]) + "\n" for case in cases)
    done = subprocess.run([binary, "tokenize", folder / "tokenizer.json", "--json", *flags], input=lines,
                          capture_output=True, text=True)
    assert done.returncode == 0, (folder, done.returncode, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


failures = compared = 0
for folder in folders + real:
    cases = json.loads((folder / "cases.json").read_text())["cases"]
    for flags in ([], ["--special-tokens"]):
        got = ids_of(folder, cases, *flags)
        assert len(got) == len(cases), (folder, len(got), len(cases))
        for case, ids in zip(cases, got):
            bos = [case["bos"]] if flags and "bos" in case else []
            compared += 1
            if ids != bos + case["ids"]:
                failures += 1
                if failures <= 10:
                    print(f"FAIL: {folder.name} {flags}: {case['text']!r}: {ids}, expected {bos + case['ids']}")
assert len(folders) >= 7 and compared >= 2800, (len(folders), compared)
print(f"{compared} cases, {failures} differ")
sys.exit(failures > 0)
PY
"$python" "$work/tokenize.py" "$QTRAJ" "$SOURCE" || fail "ids differ"

# input that is no JSON string, and a text line by line
[ "$(printf '"a"\n{"a": 1}\n' | "$QTRAJ" tokenize "$SOURCE/tests/fixtures/tokenizers/gpt2/tokenizer.json" --json 2>"$work/err")" ] ||
    fail "no ids of the line before a bad one"
grep -q 'line 2: expected a JSON string' "$work/err" || fail "the message: $(cat "$work/err")"
printf '"a"\n{"a": 1}\n' | "$QTRAJ" tokenize "$SOURCE/tests/fixtures/tokenizers/gpt2/tokenizer.json" --json >"$work/out" 2>&1
[ $? = 2 ] || fail "exit code of a bad line"
[ "$(printf 'ab\nno newline' | "$QTRAJ" tokenize "$SOURCE/tests/fixtures/tokenizers/gpt2/tokenizer.json" | wc -l)" = 2 ] ||
    fail "two lines of text"
finish
