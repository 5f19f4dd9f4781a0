#!/usr/bin/env bash
# `run --part k/n` and `merge`: parts cut in two ways, run as separate processes that skip each other's cells, and merged from
# journals or cubes, are the single run, object for object; what crosses parts (averages, warm starts, predictions, movement, surfaces);
# what a merge refuses to replace, and what it says of parts that are missing.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
: "${FAULT_LIBRARY:?the library of tests/fault/fault.c}"

export OMPI_MCA_ess_singleton_isolated=1 # each process is alone: it needs no daemon of Open MPI, which may fail to start under load
own_text "$work/text.txt"
{ sed -n '1p;2p;4p;6p' "$quickstart/trajectory.csv"; } >"$work/trajectory.csv"
cat >"$work/sweep.yaml" <<YAML
name: parts
results: parts.h5
bits: [3]
methods:
  - {method: rtn, symmetric: true, group_size: 64}
  - {method: gptq, symmetric: true, group_size: 64}
calibration: {text: text.txt, length: 64, samples: 4}
evaluation: [{name: own, text: text.txt, length: 64, skip: 8, samples: 8}]
curvature: {sharpness: power, products: 3, sequences: 2, length: 32, warm_start: true, second_order: total}
movement: rtn
surfaces: [{name: run, plane: trajectory, columns: 0, rows: 0, samples: 2}]
run: {threads: 1}
models:
  - name: main
    trajectory: trajectory.csv
    path: "$quickstart/trajectory/{checkpoint}"
    tokenizer: $quickstart/trajectory/tokenizer.json
    averages: [{name: lawa, window: 2}]
YAML
sweep=$work/sweep.yaml parts=$work/parts.h5.parts

# part K/N: runs it; its messages in $work/K-N.err
part() { "$QTRAJ" run "$sweep" --part "$1" >/dev/null 2>"$work/${1/\//-}.err"; }
# merge CODE OUT INPUT ...
merge() {
    "$QTRAJ" merge "${@:2}" >"$work/out" 2>"$work/err"
    local code=$?
    [ $code = "$1" ] || fail "merge ${*:2}: exit code $code: $(cat "$work/err")"
}

"$QTRAJ" run "$sweep" --set "results=$work/single.h5" >/dev/null 2>"$work/err" || fail "single: $(cat "$work/err")"

# First the second of three parts, then all of eight, four of them at a time.
part 2/3 || fail "part 2/3: $(cat "$work/2-3.err")"
merge 0 "$work/early.h5" "$parts"
grep -q '^part 1, 3 of 3: not among the inputs' "$work/err" || fail "missing parts are not named: $(cat "$work/err")"
for first in 1 5; do
    pids=()
    for k in $first $((first + 1)) $((first + 2)) $((first + 3)); do
        part "$k/8" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || fail "a part of eight: $(tail -n 5 "$work"/*-8.err)"; done
done
grep -lq 'nothing to do' "$work"/*-8.err || fail "no part of eight was all in the part of three"
done_in() { "$QTRAJ" status "$1" --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["all"]["done"])'; }
sum=0
for journal in "$parts"/*.journal; do sum=$((sum + $(done_in "$journal"))); done
[ $sum = "$(done_in "$work/single.journal")" ] || fail "parts hold $sum cells, the single run $(done_in "$work/single.journal")"

merge 0 "$work/merged.h5" "$parts"
compare single merged
merge 0 "$work/cubes.h5" "$parts"/*.h5
compare single cubes
[ ! -e "$work/cubes.journal" ] || fail "a merge of cubes wrote a journal"
"$QTRAJ" rebuild "$work/rebuilt.h5" "$work/merged.journal" 2>"$work/err" || fail "rebuild: $(cat "$work/err")"
cmp "$work/merged.h5" "$work/rebuilt.h5" || fail "rebuild of the merged journal gives another cube"

# The merged plan tells when each part, of both cuts, began and ended.
"$python" - "$work/merged.h5" <<'PY' || fail "what was merged"
import h5py, json, sys
plan = json.loads(h5py.File(sys.argv[1])["provenance/plan"].asstr()[()])
ends = {run.split(" ", 2)[2].split()[-1]: (run.split()[0], end) for run, end in plan["merged"].items()}
assert sorted(ends) == sorted([f"{k}/8" for k in range(1, 9)] + ["2/3"]) and "part" not in plan, plan["merged"]
assert all("2" < start <= end for start, end in ends.values()), ends
PY

# Other orders, groupings and repetitions give the same bytes; the journal of the output counts as an input.
mapfile -t reversed < <(ls -r "$parts"/*.journal)
merge 0 "$work/some.h5" "${reversed[@]:0:4}"
merge 0 "$work/all.h5" "${reversed[@]:2}" "$work/some.journal" "${reversed[3]}"
cmp "$work/all.journal" "$work/merged.journal" || fail "another grouping gives another journal"
merge 0 "$work/early.h5" "${reversed[@]}"
cmp "$work/early.journal" "$work/merged.journal" || fail "merging on gives another journal"

# Killed before each renaming and syncing: what was there stays whole, and the next merge makes the same.
mkdir "$work/killed" "$work/state"
kills=0
for at in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 18 20 24; do
    cp "$work/some.h5" "$work/some.journal" "$work/killed/"
    (LD_PRELOAD=$FAULT_LIBRARY FAULT_CALLS=sync,rename,truncate FAULT_AT=$at FAULT_DO=kill FAULT_FOLDER=$work/killed FAULT_SEED=1 \
        FAULT_REPORT=$work/report FAULT_STATE=$work/state exec "$QTRAJ" merge "$work/killed/some.h5" "$parts") >"$work/out" 2>"$work/err"
    code=$?
    [ $code != 0 ] || break
    [ $code = 137 ] || fail "killed at $at: exit code $code: $(cat "$work/err")"
    kills=$((kills + 1))
    "$QTRAJ" status "$work/killed/some.journal" >"$work/out" 2>"$work/err" && "$QTRAJ" show "$work/killed/some.h5" >>"$work/out" 2>"$work/err" ||
        fail "killed at $at: $(cat "$work/err")"
    merge 0 "$work/killed/some.h5" "$parts"
    cmp "$work/killed/some.journal" "$work/merged.journal" || fail "killed at $at: another journal"
    [ "$(ls -A "$work/killed" | wc -l)" = 2 ] || fail "killed at $at: left behind: $(ls -A "$work/killed")"
done
[ $kills -ge 4 ] && [ $code = 0 ] || fail "$kills merges were killed, the last ended with $code"

# A file twice, journals and cubes mixed, its own journal, a name with spaces; a folder that cannot be written.
merge 0 "$work/twice.h5" "$parts" "$parts"
cmp "$work/twice.journal" "$work/merged.journal" || fail "files that come twice give another journal"
merge 2 "$work/merged.h5" "$work/merged.journal" # its own journal
merge 0 "$work/merged.h5" "$work/twice.journal"
merge 0 "$work/mixed.h5" "$parts"/part-00[1-4]*.h5 "$parts"/part-00[5-8]*.journal "$parts"/part-*-of-003.journal
compare single mixed
mkdir "$work/a b"
cp "$parts"/*.journal "$work/a b/"
merge 0 "$work/a b/out of parts.h5" "$work/a b"
compare single "a b/out of parts"
merge 2 /proc/out.h5 "$parts"
grep -q '/proc' "$work/err" || fail "a folder that cannot be written is not named: $(cat "$work/err")"

# The first part of a number records the cut, which the others take; they do not read journals of parts that have none of their visits.
"$QTRAJ" run "$sweep" --set "results=$work/cut.h5" --part 4/4 >/dev/null 2>"$work/err" || fail "part 4/4: $(cat "$work/err")"
cut=$(ls "$work"/cut.h5.parts/cut-of-4-*.json)
"$python" - "$cut" <<'PY' || fail "the recorded cut: $(cat "$cut")"
import json, sys
cut = json.load(open(sys.argv[1]))
assert len(cut["bounds"]) == 5 and not cut["shared"], cut
cut["bounds"][2] = cut["bounds"][1]  # the second part gets nothing
json.dump(cut, open(sys.argv[1], "w"))
PY
echo garbage >"$work/cut.h5.parts/part-003-of-004.journal"
"$QTRAJ" run "$sweep" --set "results=$work/cut.h5" --part 2/4 >/dev/null 2>"$work/err" || fail "part 2/4: $(cat "$work/err")"
grep -q "part 2 of 4: 0 of the sweep's visits" "$work/err" || fail "part 2/4 has another cut: $(cat "$work/err")"
echo '{"bounds": [0, 3, 2, 4, 5]}' >"$cut"
"$QTRAJ" run "$sweep" --set "results=$work/cut.h5" --part 2/4 >/dev/null 2>"$work/err"
[ $? = 2 ] && grep -q "cut-of-4-.*: bounds of parts that decrease" "$work/err" || fail "a damaged cut: $(cat "$work/err")"

# A run continues from a merged journal.
"$QTRAJ" run "$sweep" --set "results=$work/merged.h5" 2>"$work/err" || fail "run on a merge: $(cat "$work/err")"
grep -q 'nothing to do' "$work/err" || fail "a run computes again what was merged: $(cat "$work/err")"

# A folder of parts, while one runs and after it was stopped; of the sweep when all are done.
watched=$work/watch.h5.parts
"$QTRAJ" run "$sweep" --set "results=$work/watch.h5" --part 1/2 >/dev/null 2>"$work/watch.err" &
pid=$!
wait_for 120 grep -q '"type":"checkpoint"' "$watched/part-001-of-002.journal"
kill -STOP $pid
"$QTRAJ" status "$watched" >"$work/out" 2>"$work/err" || fail "status of a folder: $(cat "$work/err")"
grep -q '^1 of 2 .* running ' "$work/out" && grep -q '^1 of 2 parts not started' "$work/out" || fail "status of a folder: $(cat "$work/out")"
# The time of the sweep is that of all that is pending, also in the part that waits.
"$python" - "$work/out" <<'PY' || fail "the time of the sweep: $(cat "$work/out")"
import sys
rows = {line.split()[0]: line.split()[-5:] for line in open(sys.argv[1]) if line.startswith(("1 of 2  ", "sweep "))}
(own, *_), (pending, rate, left, unit) = rows["1"][1:], rows["sweep"][1:]
seconds, needed = float(left) * {"s": 1, "min": 60, "h": 3600, "days": 86400}[unit], 3600 * float(pending) / float(rate)
assert int(pending) > int(own) and 0.98 * needed < seconds < 1.02 * needed, (own, seconds, needed)
PY
# What was merged meanwhile is not "stopped".
"$QTRAJ" merge "$work/watch.h5" "$watched" 2>"$work/err" || fail "merge while a part runs: $(cat "$work/err")"
"$QTRAJ" status "$work/watch.h5" >"$work/out" 2>"$work/err" || fail "status of the merge: $(cat "$work/err")"
grep -q '^running in parts since it was merged' "$work/out" && ! grep -q '^stopped' "$work/out" || fail "status of the merge: $(cat "$work/out")"
kill -CONT $pid
kill -TERM $pid
wait $pid
"$QTRAJ" status "$work/watch.h5" >"$work/out" 2>"$work/err"
grep -q '^stopped; qtraj run goes on' "$work/out" || fail "status of the merge after the run: $(cat "$work/out")"
rm "$work"/watch.h5 "$work"/watch.journal
"$QTRAJ" status "$watched" --json | "$python" -c '
import json, sys
part, = json.load(sys.stdin)["parts"]
sys.exit(part["state"] != "stopped" or part["k"] != 1 or part["n"] != 2 or part["pending"] == 0)' || fail "no part of two is stopped"
# Parts that were done are not "killed" when the sweep asks for more.
less=(--set "results=$work/more.h5" --set 'methods=[{method: rtn}]' --set calibration=null --set curvature=null --set movement=null --set surfaces=[])
for k in 1/2 2/2; do "$QTRAJ" run "$sweep" "${less[@]}" --part $k >/dev/null 2>"$work/err" || fail "part $k: $(cat "$work/err")"; done
"$QTRAJ" run "$sweep" "${less[@]}" --set 'bits=[3, 4]' --part 1/4 >/dev/null 2>"$work/err" || fail "more: $(cat "$work/err")"
"$QTRAJ" status "$work/more.h5.parts" >"$work/out" 2>"$work/err" || fail "status: $(cat "$work/err")"
grep -q '^2 of 2 .* done before ' "$work/out" && grep -q '^done before: of the sweep as it was' "$work/out" && ! grep -q killed "$work/out" ||
    fail "parts of the sweep before: $(cat "$work/out")"
# A cut that was given up for another has lines for results that are not merged alone.
given=$work/given.h5.parts
given() { "$QTRAJ" run "$sweep" "${less[@]}" --set "results=$work/given.h5" "$@" >/dev/null 2>"$work/err" || fail "run $*: $(cat "$work/err")"; }
lines() { "$QTRAJ" status "$given" >"$work/out" 2>"$work/err" && grep -o '^[0-9]* of [0-9]*' "$work/out" | paste -sd, || fail "status: $(cat "$work/err")"; }
given --part 40/40
sleep 1 # plans have seconds
for k in 1/2 2/2; do given --part $k; done
[ "$(lines)" = "1 of 2,2 of 2" ] || fail "an empty cut is shown: $(cat "$work/out")"
sleep 1
given --set 'bits=[3, 4]' --part 1/3
[ "$(lines)" = "1 of 2,2 of 2,1 of 3,2 of 3" ] || fail "results that are not merged are not shown: $(cat "$work/out")"
merge 0 "$work/given.h5" "$given"
[ "$(lines)" = "1 of 3,2 of 3" ] || fail "what is merged of another cut is shown: $(cat "$work/out")"
"$QTRAJ" status "$given" --json | "$python" -c 'import json, sys; sys.exit([part["n"] for part in json.load(sys.stdin)["parts"]] != [3])' || fail "JSON has other cuts"
"$QTRAJ" status "$sweep" --exit-code >"$work/out" 2>"$work/err" || fail "status of the sweep: exit code $?: $(cat "$work/out" "$work/err")"
"$QTRAJ" show "$parts" >"$work/folder.txt" 2>"$work/err" && "$QTRAJ" show "$work/merged.h5" >"$work/one.txt" 2>"$work/err" || fail "show: $(cat "$work/err")"
cmp "$work/folder.txt" "$work/one.txt" || fail "show of a folder of parts and of their merge differ"
# The name of results that are not merged yet, with its ending or as the journal, means its parts.
results=${parts%.parts}
[ ! -e "$results" ] && [ ! -e "${results%.h5}.journal" ] || fail "$results is there"
for name in "$results" "${results%.h5}.journal"; do
    "$QTRAJ" show "$name" >"$work/named.txt" 2>"$work/err" || fail "show $name: $(cat "$work/err")"
    cmp "$work/folder.txt" "$work/named.txt" || fail "show of $name and of the folder of its parts differ"
    "$QTRAJ" status "$name" --exit-code >"$work/out" 2>"$work/err" || fail "status $name: $(cat "$work/out" "$work/err")"
done
if "$python" -c 'import xarray, h5netcdf, pandas' 2>/dev/null; then # the analyses find them as well
    PYTHONPATH=$SOURCE/analysis PATH=$(dirname "$QTRAJ"):$PATH "$python" - "$results" "$parts" "$sweep" "$work/merged.h5" <<'PY' || fail "the package does not find parts"
import sys
import numpy as np
import qtraj
*names, whole = sys.argv[1:]
for name in names:
    np.testing.assert_array_equal(qtraj.open(name).loss.values, qtraj.open(whole).loss.values, name)
from qtraj.report import summary
said = [summary.command_and_time(qtraj.cube.files.provenance(name))[0].split("; ")[-1] for name in names]
assert said == ["the parts as they are"] * len(names), said
PY
fi
"$QTRAJ" status "$work/nothing.h5" >"$work/out" 2>"$work/err"
[ $? = 2 ] && grep -q 'nothing has been run yet' "$work/err" || fail "status of nothing: $(cat "$work/err")"
"$QTRAJ" status "$work" >"$work/out" 2>"$work/err"
[ $? = 2 ] && grep -q 'no parts in this folder' "$work/err" || fail "status of another folder: $(cat "$work/err")"

# Refused, and left as it was.
echo precious >"$work/notes.h5"
merge 2 "$work/notes.h5" "$parts"
[ "$(cat "$work/notes.h5")" = precious ] || fail "a merge replaced what is no cube"
merge 2 "$work/cubes.h5" "$work/cubes.h5" "$parts"
merge 2 "$work/merged.h5" "$parts"/part-001-of-008.h5
merge 2 "$work/new.h5" "$work"
merge 2 "$work/new.h5" "$work/nowhere.journal"
part 9/8
[ $? = 2 ] || fail "--part 9/8 was accepted: $(cat "$work/9-8.err")"
part 40/40 || fail "an empty part: $(cat "$work/40-40.err")"
grep -q 'more parts than visits' "$work/40-40.err" || fail "an empty part does not say so: $(cat "$work/40-40.err")"

# The same cells of other weights are a conflict.
mkdir "$work/other"
for checkpoint in "$quickstart"/trajectory/step*; do ln -s "$checkpoint" "$work/other/"; done
rm "$work/other/step000100"
ln -s "$quickstart/trajectory/step000300" "$work/other/step000100"
"$QTRAJ" run "$sweep" --set "results=$work/other.h5" --set "models[0].path=$work/other/{checkpoint}" --only checkpoint=step000100 \
    >/dev/null 2>"$work/err" || fail "other weights: $(cat "$work/err")"
merge 1 "$work/conflict.h5" "$parts" "$work/other.journal"
grep -q 'conflict: cell main step000100 gptq 3 bits: measured on other weights' "$work/err" || fail "no conflict is named: $(cat "$work/err")"

finish
