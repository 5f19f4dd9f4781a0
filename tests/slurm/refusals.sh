#!/usr/bin/env bash
# `qtraj slurm --submit` in a real Slurm: ten broken sweeps, of which nothing is submitted and all faults are named; and a good one
# for whose nodes no rate is known: a job measures it and submits the others, which end with the cube of a single run.
# shellcheck source-path=SCRIPTDIR/../tools
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/slurm.sh"
need_python
missing=$(slurm_missing)
[ -z "$missing" ] || skip "no Slurm: $missing"
export OMPI_MCA_btl_vader_backing_directory=$work
trap 'slurm_end "$work/slurm"; rm -rf "$work"' EXIT
slurm_start "$work/slurm" || { tail -n 5 "$work"/slurm/*.log; skip "no Slurm: its daemons do not start, or run no job, here"; }
cd "$work" || exit 2

quickstart_sweep '1p;/step000100/p;/step001200/p' fixed_text <<'YAML'
name: good
results: new/folder/good.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 4}]
run: {reproducible: true}
YAML
jobs() { squeue -h -t all -o %A | wc -l; }
none=$(jobs) # that of the start
# refused TEXT[|TEXT...] ARGUMENT ...: nothing is submitted, and every fault is named
refused() {
    local texts text
    IFS='|' read -ra texts <<<"$1"
    timeout 120 "$QTRAJ" slurm "$work/sweep.yaml" --submit --rate 10 "${@:2}" >out 2>err
    [ $? = 2 ] || fail "${*:2}: exit code $?: $(cat out err)"
    [ "$(jobs)" = "$none" ] && [ ! -s out ] || fail "${*:2}: submitted: $(cat out)"
    tail -n 1 err | grep -q "nothing is submitted: ${#texts[@]} fault" || fail "${*:2}: $(cat err)"
    for text in "${texts[@]}"; do grep -qF -- "$text" err || fail "${*:2}: expected $text: $(cat err)"; done
    cat err
}
echo "too short" >few.txt
echo "a file" >file
mkdir folder
scontrol update PartitionName=declared State=INACTIVE
refused "none.txt: No such file" --set 'evaluation[0].text=none.txt'
refused "none.json: no such tokenizer" --set 'models[0].tokenizer=none.json'
refused "few.txt: no sequence is left" --set 'evaluation[0].text=few.txt'
refused "step000100 will fail: $work/nowhere/step000100: no such checkpoint" --set "models[0].path=$work/nowhere/{checkpoint}"
refused "results: $work/file: $work/file is no folder" --set "results=$work/file/good.h5"
refused "results: $work/folder is a folder" --set "results=$work/folder"
refused "/proc/1/scratch" --set run.scratch=/proc/1/scratch
refused "Slurm refuses such jobs: " --partition declared
refused "quickstart: stage: no-such-program: no such program" --set 'models[0].stage=[no-such-program, "{path}"]'
refused "--report: $work/file/page: $work/file is no folder" --report "$work/file/page"
refused "--partition nowhere: Slurm has no such partition; there are: main, declared, short|none.txt: No such file|/nowhere/step000100|is no folder|/proc/1/scratch" \
    --partition nowhere --set 'evaluation[0].text=none.txt' --set "models[0].path=$work/nowhere/{checkpoint}" --set "results=$work/file/good.h5" \
    --set run.scratch=/proc/1/scratch
# Jobs that sbatch takes, and that would wait for ever; those of the merge and of the rate are as short as they must be.
refused "--time 10:00: jobs of the partition (short) may take 00:05:00|--node-cores 64: no node of the partition (short) has more than 2" \
    --partition short --time 10:00 --node-cores 64
scontrol update PartitionName=short State=DOWN
refused "partition short is down" --partition short --time 5:00
scontrol update PartitionName=short State=UP
"$QTRAJ" slurm sweep.yaml --partition short --time 5:00 --rate 10 >out 2>err || fail "short: $(cat err)"
grep -q "afterany.* --time=00:05:00 .*merge.sbatch" out || fail "the merge: $(cat out)"
# Jobs of the same results are there already.
held() { SBATCH="sbatch --hold" "$QTRAJ" slurm sweep.yaml --submit --rate 0.001 "$@" >submitted 2>err || fail "held: $(cat err)"; }
held --set results=held.h5
grep -q "^follow: .* status held.h5$" submitted || fail "it follows other results: $(cat submitted)"
job=$(sed -n 's/^job //p' submitted | head -n 1)
[ "$(squeue -h -r -j "$job" | wc -l)" = 2 ] || fail "not two elements: $(cat submitted)"
none=$(jobs)
refused "jobs of these results wait or run: $job; others would compute the same twice: wait for them, or \`scancel $job\`" --set results=held.h5
held --set results=held.h5 --anyway
# Only parts that have something to do are submitted.
cancel() { squeue -h -o %F | sort -u | xargs scancel && wait_for 60 idle; }
idle() { [ -z "$(squeue -h)" ]; }
cancel
"$QTRAJ" run sweep.yaml --part 1/2 --set results=held.h5 2>err || fail "part 1: $(cat err)"
held --set results=held.h5
grep -q "^job" submitted || fail "part 2: $(cat submitted)"
job=$(sed -n 's/^job //p' submitted | head -n 1)
[ "$(squeue -h -r -j "$job" -o %K)" = 2 ] || fail "elements: $(squeue -h -r -j "$job")"
cancel
# A process, in no job, computes them.
none=$(jobs)
"$QTRAJ" run sweep.yaml --part 2/2 --set results=held.h5 --set 'curvature={trace: 1000000}' >run.out 2>&1 &
process=$!
wait_for 60 test -e held.h5.parts/part-002-of-002.journal.lock
refused "1 process computes these results ($process on $(hostname))" --set results=held.h5
kill -9 $process
wait $process 2>/dev/null
[ ! -e new ] || fail "a refused sweep left a folder"
# What only nodes have: --anyway.
"$QTRAJ" slurm sweep.yaml --rate 10 --anyway --set run.scratch=/proc/1/scratch >out 2>err && grep -q "^submit " out || fail "--anyway: $(cat err)"

# --- a good one ---
"$QTRAJ" run "$work/sweep.yaml" --set "results=$work/single.h5" >out 2>err || fail "undisturbed: $(cat err)"
"$QTRAJ" slurm sweep.yaml --partition main --time 1:00:00 --submit >submitted 2>err || fail "--submit: $(cat err)"
grep -q "the rate of a node of main is not known" err || fail "it does not say so: $(cat err)"
measure=$(sed -n 's/^job //p' submitted)
grep -q "^stop: scancel $measure$" submitted && grep -q "^follow: .* status .*/sweep.yaml$" submitted || fail "no last lines: $(cat submitted)"
state() { scontrol -o show job "$1" | head -1 | tr ' ' '\n' | sed -n 's/^JobState=//p'; }
over() { case $(state "$1") in COMPLETED | FAILED | TIMEOUT | CANCELLED | NODE_FAIL) ;; *) false ;; esac }
wait_for 600 over "$measure"
[ "$(state "$measure")" = COMPLETED ] || fail "measuring: $(cat qtraj-rate-*.out)"
grep -qE '^[0-9.e+]+$' new/folder/qtraj-rate-main.txt || fail "no rate: $(cat qtraj-rate-*.out)"
merge=$(sed -n 's/^job //p' qtraj-rate-*.out | tail -n 1)
wait_for 600 over "$merge"
[ "$(state "$merge")" = COMPLETED ] || fail "merge: $(cat qtraj-*.out)"
cp new/folder/good.h5 .
compare single good
"$QTRAJ" slurm sweep.yaml --partition main --submit >out 2>err || fail "finished: $(cat err)"
grep -q "nothing to do" err && [ ! -s out ] || fail "finished: $(cat out err)"
# The rate is known now.
"$QTRAJ" slurm sweep.yaml --set bits=[5,6] --partition main --time 1:00:00 >out 2>err || fail "again: $(cat err)"
grep -q "not known" err && fail "the rate was measured: $(cat err)"
grep -q "^submit --array=" out || fail "again: $(cat out)"
finish
