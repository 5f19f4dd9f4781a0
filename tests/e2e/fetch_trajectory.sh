#!/usr/bin/env bash
# jobs/fetch_trajectory.py and jobs/schedules.py: every clause of a schedule, names from a file and from a hub, messages.
. "$SOURCE/tests/tools/lib.sh"
need_python json

script=$SOURCE/jobs/fetch_trajectory.py
cd "$work" || exit 2

# --- schedules ---
PYTHONPATH=$SOURCE/jobs "$python" - <<'PY' || fail "schedules"
import math
import schedules as s

one = s.parse_batch("1000")


def rates(words, *steps, batch=one):
    schedule = s.parse(words, batch)
    return [(round(s.rate_at(schedule, step), 12), s.phase_at(schedule, step)) for step in steps]


assert rates("warmup 10 steps to 1e-2; constant", 0, 5, 10, 10**6) == [(0, "warmup"), (5e-3, "warmup"), (1e-2, "stable"), (1e-2, "stable")]
assert rates("start at 1e-3; warmup 10 steps to 1e-2", 0, 5, 20) == [(1e-3, "warmup"), (5.5e-3, "warmup"), (1e-2, "warmup")]
assert rates("start at 8; linear to 0 between 10 and 20 steps", 9, 10, 15, 20, 25) == [(8, "stable"), (8, "decay"), (4, "decay"), (0, "decay"), (0, "decay")]
assert rates("start at 8; constant until 10 steps; linear to 0 over 10 steps", 15) == [(4, "decay")]
assert rates("start at 8; constant for 10k tokens; linear to 0 until 20k tokens", 15) == [(4, "decay")]
assert rates("start at 2; cosine to 1 over 100 steps", 0, 25, 50, 100) == [
    (2, "decay"), (round(1.5 + math.sqrt(2) / 4, 12), "decay"), (1.5, "decay"), (1, "decay")]
assert rates("start at 2; cosine to 0 over 100 steps, at least 0.5", 90, 50) == [(0.5, "decay"), (1, "decay")]
assert rates("start at 4; 1-sqrt to 0 over 100 steps", 25) == [(2, "decay")]
# the second half of a cosine begins where a cosine that is cut in its middle ends, and goes on with the same slope
whole = rates("start at 2; cosine to 1 over 100 steps", 60, 80, 100)
assert rates("start at 2; cosine to 1 over 100 steps; cut at 50 steps; half cosine to 1 until 100 steps", 60, 80, 100) == whole
assert rates("start at 2; cosine to 1 over 100 steps; cut at 50 steps; linear to 0 over 3 steps", 49, 50, 51)[1:] == [(1.5, "decay"), (1, "decay")]
# a batch that grows: positions in tokens and in steps, and a clause that runs in its own unit across the change
two = s.parse_batch("1000; 2000 from step 10")
assert [s.tokens_at(two, n) for n in (0, 10, 15)] == [0, 10000, 20000] and s.steps_at(two, 20000) == 15 and s.steps_at(two, 5000) == 5
assert rates("start at 4; linear to 0 over 20 steps", 10, batch=two) == [(2, "decay")]
assert rates("start at 4; linear to 0 over 40k tokens", 10, 15, batch=two) == [(3, "decay"), (2, "decay")]
assert [s.number(text) for text in ("2k", "8.4B", "5T", "5e12", "1.5")] == [2000, 8400000000, 5 * 10**12, 5 * 10**12, 1.5]

for words, why in (
    ("warmup 10 steps", "expected start"), ("cosine to 1e-5", "expected start"), ("cosine to 1e-5 until 5 parsecs", "`until X UNIT`"),
    ("start at 1; linear to 0 until 10 steps; linear to 0 until 5 steps", "begins at 10"), ("constant; linear to 0 over 3 steps", "no end"),
    ("start at 1; constant until 9 steps; start at 2", "must come first"), ("start at 1", "no clause that sets"),
    ("cut at 3 steps", "no clause before"), ("start at 1; linear to 0 until 10 steps; cut at 12 steps", "outside"), ("warmup x steps to 1", "x"),
):
    try:
        s.parse(words, one)
    except s.ScheduleError as error:
        assert why in str(error), (words, str(error))
    else:
        raise AssertionError(f"accepted: {words}")
for words in ("0", "10 from step 5", "10; 20", "10; 20 from step 0", "ten"):
    try:
        s.parse_batch(words)
    except s.ScheduleError:
        continue
    raise AssertionError(f"accepted: {words}")
try:
    s.rate_at(s.parse("start at 1; constant; stop at 7 steps", one), 8)
except s.ScheduleError as error:
    assert "after the end of the run" in str(error)
else:
    raise AssertionError("a step after the end")
PY

# --- tables ---
# fetch CODE ARGUMENT ...: runs the script, stdout and stderr go to files out and err, checks the exit code.
fetch() {
    local want=$1 got=0
    shift
    "$python" "$script" "$@" >out 2>err || got=$?
    [ "$got" = "$want" ] || fail "fetch_trajectory $*: exit code $got, expected $want: $(cat err)"
}
said() { grep -qF -- "$1" err || fail "no \"$1\" in: $(cat err)"; }

cat >run.ini <<'INI'
# where it is from
[trajectory]
hub = owner/run
names = late-200 soup b-50 step20 a-50 a-100
    step10-tokens1B ck_1

[main]
pattern = step(?P<step>[0-9]+)(?:-tokens(?P<tokens>[0-9]+)B)?
tokens per step = 100000000
schedule = warmup 10 steps to 1e-3; linear to 0 until 110 steps

[branch]
pattern = (?P<seed>[ab])-(?P<step>[0-9]{2,3})
after = main at step 60
tokens per step = 200000000
schedule = linear to 0 over 100 steps
phase = seed-{seed}

[tokens]
pattern = late-(?P<tokens>[0-9]+)
tokens per step = 1000000000
schedule = start at 2e-4; constant

[chunks]
pattern = ck_(?P<chunk>[0-9]+)
steps per chunk = 5
tokens per chunk = 1000
schedule = start at 1e-4; constant

[average]
pattern = soup
as = branch at step 100
phase = soup
INI
fetch 0 run.ini
cat >expected <<'CSV'
# where it is from
checkpoint,step,tokens,learning_rate,phase
step10-tokens1B,10,1000000000,0.001,decay
step20,20,2000000000,0.0009,decay
a-50,110,16000000000,0.00025,seed-a
a-100,160,26000000000,0,seed-a
b-50,110,16000000000,0.00025,seed-b
late-200,200,200000000000,0.0002,stable
ck_1,10,2000,0.0001,stable
soup,160,26000000000,0,soup
CSV
diff expected out || fail "the table of run.ini"
mkdir tables
fetch 0 run.ini --out tables
cmp -s tables/run.csv expected || fail "--out"
[ "$(ls tables)" = run.csv ] || fail "something was left behind: $(ls tables)"

# a run and its branches in tables of their own
{
    cat run.ini
    printf '\n[table whole]\n\n[table branch-a]\ntake = a-.*\n'
} >several.ini
fetch 0 several.ini --out tables
cmp -s tables/whole.csv expected || fail "the table of all names"
[ "$(grep -v '^#' tables/branch-a.csv | cut -d , -f 1 | tr '\n' ' ')" = "checkpoint a-50 a-100 " ] || fail "take: $(cat tables/branch-a.csv)"
fetch 0 several.ini --table branch-a
cmp -s tables/branch-a.csv out || fail "--table"

# without a spec file, names from a file or standard input
echo "step512 step98000" >names
common=(--pattern 'step(?P<step>[0-9]+)' --tokens-per-step 2097152 --schedule 'warmup 1430 steps to 6e-4; cosine to 6e-5 until 143000 steps')
fetch 0 --names names "${common[@]}"
grep -q '^step512,512,1073741824,0.000214825,warmup$' out || fail "a table without a spec file: $(cat out)"
cp out first
fetch 0 --names - "${common[@]}" <names
cmp -s out first || fail "names from standard input"

# qtraj reads the tables
cp -r "$quickstart/trajectory/step000500" step10-tokens1B
cp "$quickstart/trajectory/tokenizer.json" step10-tokens1B/
printf '%s\n' "name: t" "results: t.h5" "models: [{name: t, trajectory: tables/run.csv, path: '{checkpoint}'}]" \
    "bits: [3]" "methods: [{method: rtn}]" "evaluation: [{name: e, text: names, length: 8}]" >t.yaml
"$QTRAJ" plan t.yaml --json --rate 100 >plan.json 2>err
[ $? = 1 ] || fail "plan, of one checkpoint of eight: $(cat err)"
grep -q '"cells": 8' plan.json || fail "qtraj plan does not see eight checkpoints"

# --- mistakes ---
fetch 2 --names names --pattern 'step(?P<step>[0-9]{3})' --tokens-per-step 10 --schedule constant
said "step98000: no stage has a pattern that matches this name"
echo step1000-tokens9B >wrong
fetch 2 run.ini --names wrong
said "9 billion tokens in the name, but step 1000 has seen 100.0 billion"
fetch 2 --names names --pattern '(' --tokens-per-step 10 --schedule constant
said "pattern:"
fetch 2 --names names --pattern 'step.*' --tokens-per-step 10 --schedule constant
said "no group step, tokens or chunk"
fetch 2 --names names
said "give --pattern, --tokens-per-step and --schedule"
fetch 2 nowhere.ini
said "nowhere.ini"
fetch 2 run.ini --names nowhere
said "nowhere"
fetch 2 run.ini --schedule constant
said "no --pattern, --tokens-per-step or --schedule"
sed 's/^phase = soup/phaze = soup/' run.ini >bad.ini
fetch 2 bad.ini
said "bad.ini: [average]: phaze: unknown"
sed 's/^schedule = linear to 0 over 100 steps/schedule = linear to 0 over 100 weeks/' run.ini >bad.ini
fetch 2 bad.ini
said "bad.ini: [branch]: 'linear to 0 over 100 weeks'"
sed 's/^after = main/after = mane/' run.ini >bad.ini
fetch 2 bad.ini
said "[branch]: after: 'mane at step 60'"
sed 's/{seed}/{sead}/' run.ini >bad.ini
fetch 2 bad.ini
said "{sead} is not known, only seed, step"
sed 's/^pattern = soup/patern = soup/' run.ini >bad.ini
fetch 2 bad.ini
said "bad.ini: [average]: patern: unknown"
sed '/^pattern = soup/d' run.ini >bad.ini
fetch 2 bad.ini
said "bad.ini: [average]: pattern is missing"
fetch 2 "$SOURCE/configs/trajectories/pythia.ini"
said "7 tables: choose one with --table"
fetch 2 run.ini --table other
said "no table other"
: >empty
fetch 2 run.ini --names empty
said "no checkpoint"

# --- a hub: a server of our own ---
cat >server.py <<'PY'
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        good = self.path == "/api/models/owner/run/refs" and self.headers.get("Authorization") == "Bearer secret"
        self.send_response(200 if good else 404)
        self.end_headers()
        names = ["main", "step20", "a-50", "step10-tokens1B"]
        self.wfile.write(json.dumps({"branches": [{"name": n, "ref": f"refs/heads/{n}"} for n in names], "tags": []}).encode())

    def log_message(self, *arguments):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
"$python" server.py >port &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq 100); do [ -s port ] && break; sleep 0.1; done
export HF_ENDPOINT=http://127.0.0.1:$(cat port) HF_TOKEN=secret no_proxy=127.0.0.1
fetch 0 run.ini --hub
said "left out 1 names that no stage matches: main"
[ "$(grep -c -E '^(step10-tokens1B|step20|a-50),' out)" = 3 ] || fail "the names of the hub: $(cat out)"
fetch 0 --repo owner/run --pattern 'step(?P<step>[0-9]+)(-.*)?' --tokens-per-step 100 --schedule 'start at 1; constant'
[ "$(wc -l <out)" = 3 ] || fail "--repo: $(cat out)"
fetch 2 --repo owner/other --pattern 'step(?P<step>[0-9]+)' --tokens-per-step 100 --schedule 'start at 1; constant'
said "/api/models/owner/other/refs: HTTP Error 404"
kill $server
fetch 2 run.ini --hub
said "/api/models/owner/run/refs"
finish
