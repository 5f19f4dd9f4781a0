#!/usr/bin/env bash
# jobs/fetch_texts.py with local copies and with a fake hub library: lines, digests, resuming, messages.
. "$SOURCE/tests/tools/lib.sh"
need_python json

script=$SOURCE/jobs/fetch_texts.py
cd "$work" || exit 2
"$python" - <<'PY'
import gzip, json
lines = [json.dumps({"url": "u", "text": f"document {i} \u00e9\nsecond line"}) for i in range(6)]
lines[2] = '{"text": "half \\ud800 of a pair"}'
with gzip.open("c4.json.gz", "wt", encoding="utf-8") as file:
    file.write("\n".join(lines) + "\n")
PY

# fetch CODE ARGUMENT ...: runs the script, stdout and stderr go to files out and err, checks the exit code.
fetch() {
    local want=$1 got=0
    shift
    "$python" "$script" "$@" >out 2>err || got=$?
    [ "$got" = "$want" ] || fail "fetch_texts $*: exit code $got, expected $want: $(cat err)"
}
said() { grep -qF -- "$1" err || fail "no \"$1\" in: $(cat err)"; }

# a dry run imports, reads and writes nothing
"$python" -S "$script" --dry-run --out dry >out || fail "the dry run failed"
[ ! -e dry ] || fail "the dry run made a folder"
grep -q 'allenai/c4 (main), en/c4-train.00001-of-01024.json.gz' out || fail "the dry run does not name C4: $(cat out)"
grep -q 'first 1024 documents' out || fail "the dry run does not say how many: $(cat out)"

fetch 0 c4 --from c4=c4.json.gz --documents 5 --out texts
grep -q '^calibration: {text: ".*/texts/c4.jsonl", field: text,' out || fail "no line for the sweep file: $(cat out)"
"$python" - <<'PY' || fail "the text is not as expected"
import hashlib, json
lines = open("texts/c4.jsonl", "rb").read()
rows = [json.loads(line)["text"] for line in lines.decode("utf-8").split("\n")[:-1]]
assert rows == [f"document {i} \u00e9\nsecond line" if i != 2 else "half \ud800 of a pair" for i in range(5)], rows
entry = json.load(open("texts/texts.json"))["c4"]
assert entry["sha256"] == hashlib.sha256(lines).hexdigest()
assert entry["source_sha256"] == hashlib.sha256(open("c4.json.gz", "rb").read()).hexdigest()
assert (entry["documents"], entry["bytes"], entry["field"]) == (5, len(lines), "text"), entry
PY

# existing texts are kept; texts that changed or are requested with other settings are written anew
fetch 0 c4 --from c4=c4.json.gz --documents 5 --out texts
said "texts/c4.jsonl: there already"
cp texts/c4.jsonl whole
echo '{"text": "added"}' >>texts/c4.jsonl
fetch 0 c4 --from c4=c4.json.gz --documents 5 --out texts
cmp -s texts/c4.jsonl whole || fail "a changed text was not made anew"
fetch 0 c4 --from c4=c4.json.gz --documents 3 --out texts
[ "$(wc -l <texts/c4.jsonl)" = 3 ] || fail "not 3 documents"

# after a failure the earlier text is unchanged and no partial file is left
fetch 2 c4 --from c4=c4.json.gz --documents 7 --out texts
said "c4.json.gz: 6 documents, expected 7"
[ "$(wc -l <texts/c4.jsonl)" = 3 ] || fail "the earlier text is gone"
[ "$(ls texts | wc -l)" = 2 ] || fail "something was left behind: $(ls texts)"
printf 'no json\n' >bad.jsonl
fetch 2 c4 --from c4=bad.jsonl --documents 1 --out texts
said "bad.jsonl:1: no JSON object with the field text"
head -c 60 c4.json.gz >cut.json.gz
fetch 2 c4 --from c4=cut.json.gz --documents 6 --out texts
said "cut.json.gz"
fetch 2 c4 --from c4=nowhere --out texts
said "nowhere"
fetch 2 wikitext
said "wikitext: unknown; the texts are c4, refinedweb, wikitext2, wikitext2-train, fineweb-edu, c4-validation"
fetch 2 --documents 0
fetch 2 --from pile=x
echo '[]' >texts/texts.json
fetch 2 c4 --from c4=c4.json.gz --documents 3 --out texts
said "texts.json: expected an object"

# rows that are one document, all of them; texts that nobody asked for are not fetched
for row in ' = Title = \n' '' ' a line \n'; do printf '{"text": "%s"}\n' "$row"; done >rows
for again in '' 'there already'; do
    fetch 0 wikitext2 --from wikitext2=rows --out rest
    said "rest/wikitext2.jsonl: $again"
done
[ "$(cat rest/wikitext2.jsonl)" = '{"text": " = Title = \n\n\n\n\n a line \n"}' ] || fail "joined: $(cat rest/wikitext2.jsonl)"
"$python" "$script" --dry-run >out && [ "$(grep -c '^  from ' out)" = 2 ] || fail "by default: $(cat out)"
: >rows
fetch 2 wikitext2 --from wikitext2=rows --out nothing
said "rows: 0 documents, expected some"

# with the hub's library: a file by name, one by pattern, and the recorded commit
mkdir hub
cat >hub/huggingface_hub.py <<'PY'
class HfApi:
    def dataset_info(self, repo, *, revision=None):
        if revision == "gone":
            raise RuntimeError("no such revision")
        return type("Info", (), {"sha": "c0ffee"})

    def list_repo_files(self, repo, *, revision=None, repo_type=None):
        assert (revision, repo_type) == ("c0ffee", "dataset")
        return ["README.md", "data/train-00000-of-05534-0123.parquet", "data/train-00001-of-05534-4567.parquet"]

def hf_hub_download(repo, name, *, repo_type=None, revision=None):
    assert (repo_type, revision) == ("dataset", "c0ffee")
    return {"en/c4-train.00001-of-01024.json.gz": "c4.json.gz", "data/train-00000-of-05534-0123.parquet": "pages"}[name]
PY
export PYTHONPATH=$work/hub
for i in 1 2 3; do echo "{\"content\": \"page $i\"}"; done >pages # the content decides how a file is read
fetch 0 --documents 3 --out both
[ "$(wc -l <both/refinedweb.jsonl)" = 3 ] || fail "not 3 pages"
"$python" - <<'PY' || fail "the origin is not recorded"
import json
entry = json.load(open("both/texts.json"))["refinedweb"]
assert (entry["revision"], entry["source_file"]) == ("c0ffee", "data/train-00000-of-05534-0123.parquet"), entry
PY
fetch 2 --revision gone --out both
said "allenai/c4: RuntimeError: no such revision"
unset PYTHONPATH

if "$python" -c 'import pyarrow.parquet' 2>/dev/null; then
    "$python" -c '
import pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({"url": ["u"] * 700, "content": [f"page {i}" for i in range(700)]}), "pages.parquet", row_group_size=100)'
    fetch 0 refinedweb --from refinedweb=pages.parquet --documents 600 --out parquet
    [ "$(tail -1 parquet/refinedweb.jsonl)" = '{"content": "page 599"}' ] || fail "parquet: $(tail -1 parquet/refinedweb.jsonl)"
    fetch 2 c4 --from c4=pages.parquet --out parquet
    said "no column text, only url, content"
else
    echo "skipped: parquet, no pyarrow"
fi
finish
