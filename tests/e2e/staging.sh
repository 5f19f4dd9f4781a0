# Staging: a disk budget of two checkpoints over the quickstart's trajectory; commands that fail, for a while and for ever; kill -9 while a
# checkpoint is fetched; two parts that share the space; `qtraj stage`. The command that fetches is a stand-in that writes a diary.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy

cd "$work" || exit 2
fixed_text text.txt
cp "$quickstart"/{trajectory.csv,trajectory/tokenizer.json,trajectory/step000100/config.json} .
names=($(tail -n +2 trajectory.csv | cut -d , -f 1))
bytes=$(cat "$quickstart/trajectory/${names[0]}"/* | wc -c)

# fetch NAME FOLDER: notes how many checkpoints are on disk with this one, obeys the file orders/NAME, and copies.
cat >fetch <<'FETCH'
#!/usr/bin/env bash
cd "$(dirname "$0")" || exit 2
on_disk=$(find store -mindepth 1 -maxdepth 1 | wc -l)
echo "$1 $on_disk $(grep -c working events)" >>diary
order=$(cat "orders/$1" 2>/dev/null)
case $order in
fail) exit 5 ;;
fail_twice) [ "$(grep -c "^$1 " diary)" -gt 2 ] || exit 5 ;;
wait) echo half >"$2/half"; touch "orders/$1.waits"; while [ -e "orders/$1" ]; do sleep 0.05; done ;;
esac
cp "$QUICKSTART/trajectory/$1"/* "$2/"
echo "copied $1"
FETCH
chmod +x fetch
export QUICKSTART=$quickstart
mkdir orders
touch events

cat >sweep.yaml <<YAML
name: staging
results: results.h5
models:
  - {name: small, trajectory: trajectory.csv, path: "store/{checkpoint}", tokenizer: tokenizer.json,
     stage: [./fetch, "{revision}", "{path}"], keep: false}
bits: [3]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 2}]
run: {threads: 1, stage_tries: 3, stage_pause: 0.05}
YAML
two=run.stage_space=$((2 * bytes + bytes / 2))

# go CODE RANKS ARGUMENT...: a run that ends with this code
go() {
    local code=$1 ranks=$2
    shift 2
    launch 240 "$ranks" run sweep.yaml "$@"
    local was=$?
    [ $was = "$code" ] || fail "exit code $was, expected $code: $(cat err)"
}
anew() { rm -rf results* store diary; : >events; mkdir -p store; }
fetched() { cut -d ' ' -f 1 diary | sort | uniq -c | awk '{print $1}' | sort -u | tr '\n' ' '; }
most_on_disk() { cut -d ' ' -f 2 diary | sort -n | tail -1; }
# same NAME: the cube has the numbers of a run without staging
same() {
    "$python" "$SOURCE/tests/tools/compare_cubes.py" plain.h5 "$1" | grep -v '^provenance/config: \| 1 differences$' >differences &&
        fail "$1: $(cat differences)"
}
left_over() { find store -mindepth 1 | head; }

# --- the numbers of a run without staging ---
sed '/stage: /d; s|store/|'"$quickstart"'/trajectory/|; s|tokenizer.json,$|tokenizer.json}|; s|, stage_tries.*|}|' sweep.yaml >plain.yaml
"$QTRAJ" run plain.yaml --set results=plain.h5 2>err || fail "without staging: $(cat err)"

# --- two checkpoints on disk at most, each fetched once, the next while one is worked on ---
anew
go 0 2 --set $two
[ "$(fetched)" = "1 " ] || fail "not each fetched once: $(cat diary)"
[ "$(wc -l <diary)" = ${#names[@]} ] || fail "not all fetched: $(cat diary)"
[ "$(most_on_disk)" = 2 ] || fail "$(most_on_disk) checkpoints on disk at most, expected 2: $(cat diary)"
[ -z "$(left_over)" ] || fail "left on disk: $(left_over)"
same results.h5
grep -q "^copied ${names[0]}" results.h5.stage/*"${names[0]}.log" || fail "no log of the command"
go 0 2 --set $two
grep -q "nothing to do" err || fail "done again: $(cat err)"
[ "$(wc -l <diary)" = ${#names[@]} ] || fail "fetched again though all is done"

# --- the first visit is not started before the second checkpoint's command, which waits for it to be over ---
# The visit of the first can end only while the second is still being fetched, because that ends when the first is removed.
anew
echo wait >"orders/${names[1]}"
launch 240 2 run sweep.yaml --set $two &
wait_for 120 [ -e "orders/${names[1]}.waits" ] && wait_for 120 [ ! -e "store/${names[0]}" ]
# Meanwhile status tells what is running.
is_running() { "$QTRAJ" status results.h5 | grep -q "^  small ${names[1]}, rank 1, since 20..-.*Z: waiting for files"; }
wait_for 120 is_running || fail "not running: $("$QTRAJ" status results.h5)"
"$QTRAJ" status results.h5 --json | "$python" -c 'import json, sys; [v] = json.load(sys.stdin)["running"]; assert v["rank"] == 1, v' ||
    fail "running as JSON"
rm -f "orders/${names[1]}"*
wait $! || fail "the next is not fetched while one is worked on: $(cat err)"
[ ! -e results.journal.running ] || fail "left behind: $(cat results.journal.running)"
"$QTRAJ" status results.h5 | grep "^running:" && fail "running after the end"

# --- one fails twice and then works, one never does; averages need several at once ---
anew
echo fail_twice >"orders/${names[1]}"
echo fail >"orders/${names[3]}"
go 1 3 --set $two
"$QTRAJ" status results.h5 --json >status.json
"$python" - "${names[3]}" <<'PY' || fail "failures: $(cat status.json)"
import json, os, sys
failures = json.load(open("status.json"))["failures"]
assert {f["checkpoint"] for f in failures} == {sys.argv[1]}, failures
text = failures[0]["message"]
log = text.split("output is in ")[1].strip()
assert "(try 3 of 3)" in text and "exit code 5" in text and os.path.isfile(log), text
PY
[ "$(grep -c "^${names[1]} " diary) $(grep -c "^${names[3]} " diary)" = "3 3" ] || fail "tries: $(cat diary)"
[ "$(most_on_disk)" = 2 ] || fail "with failures, $(most_on_disk) on disk"
rm orders/*
go 0 3 --set $two --retry failed
same results.h5
launch 60 1 run sweep.yaml --set $two --set 'models[0].averages=[{name: lawa, window: 3}]'
[ $? = 2 ] && grep -q "reads 3 checkpoints at once" err || fail "a space below a window of averages: $(cat err)"

launch 60 1 run sweep.yaml --set run.stage_space=$((bytes + bytes / 2)) --set movement=rtn --set results=none.h5
[ $? = 2 ] && grep -q "reads 2 checkpoints at once" err || fail "a space without room for the checkpoint before: $(cat err)"

# --- kill -9 while a checkpoint is fetched, then once more ---
anew
echo wait >"orders/${names[2]}"
"$QTRAJ" run sweep.yaml --set $two 2>err &
pid=$!
wait_for 120 [ -e "orders/${names[2]}.waits" ]
kill -9 $pid
wait $pid 2>/dev/null
grep -q half "store/.${names[2]}.partial/half" || fail "what was fetched in part is gone: $(ls -A store)"
[ ! -e "store/${names[2]}" ] || fail "half a checkpoint has its name"
rm -f "orders/${names[2]}"*
go 0 2 --set $two
grep -v "^${names[2]} " diary >rest && mv rest diary
[ "$(fetched)" = "1 " ] || fail "after kill -9, fetched again: $(cat diary)"
[ "$(most_on_disk)" -le 2 ] || fail "after kill -9, $(most_on_disk) on disk"
[ -z "$(left_over)" ] || fail "after kill -9, left on disk: $(left_over)"
same results.h5

# --- two parts at once share the space; their averages share checkpoints ---
anew
averages='models[0].averages=[{name: lawa, window: 2}]'
three=run.stage_space=$((3 * bytes + bytes / 2))
for k in 1 2; do
    "$QTRAJ" run sweep.yaml --part $k/2 --set $three --set movement=rtn --set "$averages" 2>err$k &
done
wait -n || fail "a part: $(cat err1 err2)"
wait -n || fail "a part: $(cat err1 err2)"
[ "$(most_on_disk)" -le 3 ] || fail "two parts: $(most_on_disk) on disk, expected at most 3: $(cat diary)"
[ -z "$(left_over)" ] || fail "two parts: left on disk: $(left_over)"
# A checkpoint is fetched at most once for each visit that reads it (docs/decisions/0026): its own and the next one, for movement, and the
# three averages whose members or whose predecessor's members have it.
most=$(cut -d ' ' -f 1 diary | sort | uniq -c | awk '{print $1}' | sort -n | tail -1)
[ "$most" -le 5 ] || fail "two parts: a checkpoint was fetched $most times: $(cat diary)"
"$QTRAJ" run plain.yaml --set results=plain2.h5 --set movement=rtn --set "$averages" 2>err || fail "averages: $(cat err)"
"$python" - <<'PY' || fail "the parts' losses"
import glob, h5py
def losses(paths):
    found = {}
    for path in paths:
        cells = h5py.File(path)["cells"]
        for name, loss, status in zip(cells["checkpoint_name" if "checkpoint_name" in cells else "checkpoint"][:], cells["loss"][:], cells["status"][:]):
            if status == 1:
                found[name] = loss
    return found
one, parts = losses(["plain2.h5"]), losses(glob.glob("results.h5.parts/*.h5"))
assert one == parts and len(one) > 8, (one, parts)
PY

# --- fetched ahead by `qtraj stage`, for a run that may start no command ---
anew
"$QTRAJ" stage sweep.yaml --set $two --no-wait 2>err || fail "qtraj stage: $(cat err)"
[ "$(ls store | wc -l)" = 2 ] || fail "qtraj stage --no-wait: $(ls -A store)"
"$QTRAJ" stage sweep.yaml --set $two 2>stage_err &
stager=$!
go 0 2 --set $two --set run.stage_commands=false
wait $stager || fail "qtraj stage: $(cat stage_err)"
[ "$(fetched)" = "1 " ] && [ "$(most_on_disk)" = 2 ] || fail "fetched ahead: $(cat diary)"
grep -q "${#names[@]} of ${#names[@]} checkpoints staged" stage_err || fail "qtraj stage says: $(cat stage_err)"

# --- what cannot be ---
rm config.json
"$QTRAJ" run sweep.yaml --set results=never.h5 --set 'models[0].path=none/{checkpoint}' 2>err && fail "no config.json"
grep -q "small: no config.json beside .*tokenizer.json" err || fail "message: $(cat err)"
"$QTRAJ" run sweep.yaml --set $two --set 'models[0].keep=true' 2>err && fail "kept, with a limit"
grep -q "keep" err || fail "message: $(cat err)"
"$QTRAJ" plan sweep.yaml --set 'models[0].stage=[hf, "{where}", "{path}"]' 2>err && fail "an unknown placeholder"
grep -q "{where} is not replaced" err || fail "message: $(cat err)"
"$QTRAJ" stage plain.yaml 2>err && fail "stage without a stage"
grep -q "nothing to fetch" err || fail "message: $(cat err)"
finish
