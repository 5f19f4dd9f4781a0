#!/usr/bin/env bash
# A sweep in a real Slurm of two nodes on this machine: an array of 8 parts and its merge make the cube of a single run; elements
# that get SIGUSR1, whose walltime ends, that are cancelled and submitted again, that are requeued, whose node is drained or dies go on
# where they were, with the states that a user expects; `qtraj slurm` plans the paper's sweep in jobs that sbatch accepts.
# shellcheck source-path=SCRIPTDIR/../tools
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/slurm.sh"
need_python h5py numpy
missing=$(slurm_missing)
[ -z "$missing" ] || skip "no Slurm: $missing"
export QTRAJ OMPI_MCA_btl_vader_backing_directory=$work
trap 'slurm_stop; sleep 1; rm -rf "$work"' EXIT
slurm_start "$work/slurm" || { cat "$work"/slurm/*.log; skip "no Slurm: it does not start"; }
cd "$work" || exit 2

# --- jobs of the paper's 326 checkpoints ---

for nodes in 16 64 256; do
    "$QTRAJ" slurm "$SOURCE/configs/scale/paper.yaml" --nodes $nodes --time 24:00:00 --rate 2000 --partition declared \
        --set results="$work/paper.h5" >jobs.sh 2>err || fail "$nodes nodes: $(cat err)"
    "$QTRAJ" plan "$SOURCE/configs/scale/paper.yaml" --rate 2000 --simulate $nodes --json >plan.json 2>err
    "$python" "$SOURCE/tests/tools/check_slurm.py" jobs.sh plan.json 24 || fail "$nodes nodes: $(head -n 6 jobs.sh)"
    SBATCH="sbatch --test-only" bash jobs.sh >out 2>&1 || fail "$nodes nodes: sbatch refuses: $(cat out)"
done

# --- an array of 8 parts, and its merge ---

quickstart_sweep '1p;2p;3p;4p;5p;6p;7p;8p;9p' fixed_text <<YAML
name: slurm
results: whole.h5
bits: [3, 4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 4}]
YAML
"$QTRAJ" run "$work/sweep.yaml" >out 2>err || fail "undisturbed: $(cat err)"

value() { scontrol -o show job "$1" | tr ' ' '\n' | sed -n "s/^$2=//p"; } # of a job, as scontrol says
is() { [ "$(value "$1" JobState)" = "$2" ]; }
over() { case $(value "$1" JobState) in COMPLETED | FAILED | TIMEOUT | CANCELLED | NODE_FAIL) ;; *) false ;; esac }
started_again() { is "$1" RUNNING || is "$1" COMPLETED; }
# restart JOB: starts a requeued job, which Slurm would leave alone for two minutes, once its processes are gone.
restart() {
    wait_for 120 is "$1" PENDING
    sleep 5
    scontrol update jobid="$1" StartTime=now
    wait_for 120 started_again "$1"
    [ "$(value "$1" Restarts)" -ge 1 ] || fail "restarts of job $1: $(value "$1" Restarts)"
}
# Processes of a job, behind the slurmstepd that has started them.
of_job() {
    local process parents="" all=""
    for process in /proc/[0-9]*; do
        tr '\0' '\n' <"$process/environ" | grep -cxe "SLURM_JOB_ID=$1" -e "SLURM_CONF=$work/slurm/slurm.conf" | grep -qx 2 || continue
        all="$all ${process#/proc/}"
        parents="$parents $(ps -o ppid= -p "${process#/proc/}")"
    done 2>/dev/null
    for process in $parents; do [ "$(cat "/proc/$process/comm")" != slurmstepd ] || echo "$process"; done 2>/dev/null | sort -u
    echo "$all"
}
step() { echo "$SECONDS s: $*"; }
log() { tail -n 15 "$1.out"; }
says() { grep -qF -- "$2" "$1.out"; }
# submit NAME SCRIPT OPTION ...: sets $job
submit() {
    job=$(sbatch --parsable --export=ALL --cpus-per-task=1 --mem=0 --output="$1.out" "${@:3}" "$SOURCE/slurm/$2.sbatch" \
        ${arguments[@]+"${arguments[@]}"})
    job=${job%;*}
}

export SWEEP=$work/sweep.yaml PARTS=8 RESULTS=$work/parts.h5
arguments=(--set "results=$RESULTS")
submit part trajectory --array=1-8 --time=10
arguments=()
submit merge merge --dependency="afterany:$job"
wait_for 300 over "$job"
is "$job" COMPLETED && [ "$(value "$job" ExitCode)" = 0:0 ] || fail "merge: $(value "$job" JobState): $(log merge) $(log part)"
[ "$(find parts.h5.parts -name '*.journal' | wc -l)" = 8 ] || fail "parts: $(ls parts.h5.parts)"
compare whole parts

# --- SIGUSR1: the visits in hand are finished, the element is requeued, and the next start does the rest ---

step "SIGUSR1"
export PARTS=1
arguments=(--set "results=$work/drained.h5" --set curvature.trace=8 --set curvature.sequences=16 --set curvature.length=64)
submit drained trajectory --array=1 --time=60
records() { [ "$(cat drained.h5.parts/*.journal | grep -c '"type":"curvature"')" -ge 1 ]; }
wait_for 120 records
scancel --signal=USR1 --batch "$job"
wait_for 120 says drained "the job is requeued; its next start continues"
! says drained "too little time" || fail "drained: it blames the time"
restart "$job"
wait_for 300 over "$job"
is "$job" COMPLETED || fail "drained: $(value "$job" JobState): $(log drained)"
n=$(cat drained.h5.parts/*.journal | grep -c '"type":"curvature"')
[ "$n" = 8 ] || fail "drained: $n curvatures of 8"

# --- elements that are disturbed: curvature that would take hours, whose state is saved everywhere ---

# One checkpoint: with several, a start would begin with those that have more to do.
quickstart_sweep '1p;9p' fixed_text <<YAML
name: disturbed
results: whole.h5
bits: [3]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 4}]
YAML
export PARTS=1 QTRAJ_SAVE=always
# begin NAME TIME: submits an element, and waits until it has saved a state of its curvature
begin() {
    arguments=(--set "results=$work/$1.h5" --set curvature.trace=1000000 --set curvature.sequences=64 --set curvature.length=64)
    submit "$1" trajectory --array=1 --time="$2"
    wait_for 120 says "$1" "(curvature, "
    wait_for 120 has_state "$1"
}
has_state() { [ "$(find "$1".h5.parts/*.checkpoints -name '*.[01]' | wc -l)" -ge 1 ]; }
continues() { [ "$(grep -c continues "$1.out")" -ge "$2" ]; }

step "the walltime ends"
begin walltime 1 # is looked at below, when its minute is over
walltime=$job

step "cancelled, then submitted again"
begin other 60
scancel "$job"
wait_for 60 over "$job"
is "$job" CANCELLED || fail "scancel: $(value "$job" JobState)"
wait_for 60 says other "stopped, resumable"
begin other 60
wait_for 120 continues other 1

step "requeued by hand"
scontrol requeue "$job"
restart "$job"
wait_for 120 continues other 2

step "its node is drained"
node=$(value "$job" NodeList)
scontrol update nodename="$node" state=drain reason=test
[ "$(sinfo -h -p main -n "$node" -o %T)" = draining ] || fail "drain: $(sinfo -h -p main -n "$node" -o %T)"
is "$job" RUNNING || fail "drained: $(value "$job" JobState)"
scontrol update nodename="$node" state=resume

wait_for 150 says walltime "the job is requeued; its next start continues"
restart "$walltime"
wait_for 120 continues walltime 1
scancel "$walltime"
wait_for 60 over "$walltime"

step "its node dies"
node=$(value "$job" NodeList)
kill -9 "$(cat "$work/slurm/slurmd-$node.pid")"
# shellcheck disable=SC2046
kill -9 $(of_job "$job")
restart "$job"
[ "$(value "$job" NodeList)" != "$node" ] || fail "it is on the dead node $node again"
wait_for 120 continues other 3
grep -q 'taken over' other.out || fail "the lock: $(tail -n 20 other.out)"

scancel "$job"
wait_for 60 over "$job"
finish
