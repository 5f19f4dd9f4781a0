#!/usr/bin/env bash
# slurm/train.sbatch in a real Slurm: two elements share the runs of a file; one that gets SIGUSR1 is requeued alone and ends with the same bits.
# shellcheck source-path=SCRIPTDIR/../tools
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/slurm.sh"
. "$SOURCE/tests/tools/train.sh"
missing=$(slurm_missing)
[ -z "$missing" ] || skip "no Slurm: $missing"
export QTRAJ OMPI_MCA_btl_vader_backing_directory=$work RUNS=$work/runs.yaml
trap 'slurm_end "$work/slurm"; rm -rf "$work"' EXIT
slurm_start "$work/slurm" || skip "no Slurm: its daemons do not start, or run no job, here"
cd "$work" || exit 2
runs_file runs.yaml "grid: {seed: [1, 2, 3]}"
sed -i 's/steps: 24/steps: 600/; s/every: 6}/every: 300}/' runs.yaml
"$QTRAJ" train runs.yaml --set output=alone 2>err || fail "undisturbed: $(cat err)"

value() { scontrol -o show job "$1" | head -1 | tr ' ' '\n' | sed -n "s/^$2=//p"; }
begun() { [ "$(cat out/seed[12]/steps.csv | wc -l)" -gt 40 ] && [ -e out/seed2/steps.csv ]; }
again() { [ "$(value "$1" Restarts)" = 1 ]; }
over() { case $(value "$1" JobState) in COMPLETED | FAILED | TIMEOUT | CANCELLED | NODE_FAIL) ;; *) false ;; esac }
job=$(sbatch --parsable --export=ALL --cpus-per-task=1 --array=1-2 --output=%a.out "$SOURCE/slurm/train.sbatch")
job=${job%;*}
wait_for 120 begun
last=2 # of which Slurm knows by the number of the array
[ "$(value "${job}_1" JobId)" != "$job" ] || last=1
scancel --batch --signal=USR1 "${job}_$last"
wait_for 300 again "${job}_$last"
sleep 3 # slurmd refuses starts in the second of a requeue
scontrol update jobid="${job}_$last" StartTime=now 2>/dev/null || true
for element in 1 2; do
    wait_for 600 over "${job}_$element"
    [ $element = $last ] || [ "$(value "${job}_$element" Restarts)" = 0 ] || fail "element $element is requeued with $last"
    [ "$(value "${job}_$element" JobState) $(value "${job}_$element" ExitCode)" = "COMPLETED 0:0" ] ||
        fail "element $element: $(scontrol -o show job "${job}_$element"): $(tail -n 15 $element.out)"
done
same_training alone out
finish
