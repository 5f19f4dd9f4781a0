#!/usr/bin/env bash
# Sweeps in a real Slurm of three nodes on this machine. `qtraj slurm` plans the paper's sweep in jobs that sbatch accepts, and submits
# an array of 8 parts with its merge, which make the cube of a single run, and a job on two nodes. Elements that get SIGUSR1, whose
# walltime ends, that are cancelled and submitted again, that are requeued, whose node is drained or dies go on where they were,
# with the states that docs/cluster.md lists; the merge writes a report. Under srun, checkpoints are fetched.
# shellcheck source-path=SCRIPTDIR/../tools
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/slurm.sh"
need_python
missing=$(slurm_missing)
[ -z "$missing" ] || skip "no Slurm: $missing"
: "${FAULT:=$(dirname "$QTRAJ")/libvisit_fault.so}" # the library of tests/tools/visit_fault.c
export QTRAJ OMPI_MCA_btl_vader_backing_directory=$work
trap 'slurm_end "$work/slurm"; rm -rf "$work"' EXIT
slurm_start "$work/slurm" || { tail -n 5 "$work"/slurm/*.log; skip "no Slurm: its daemons do not start, or run no job, here"; }
mkdir "$work/a sweep"
cd "$work/a sweep" || exit 2

value() { scontrol -o show job "$1" | head -1 | tr ' ' '\n' | sed -n "s/^$2=//p"; } # of a job, as scontrol says
is() { [ "$(value "$1" JobState)" = "$2" ]; }
over() { case $(value "$1" JobState) in COMPLETED | FAILED | TIMEOUT | CANCELLED | NODE_FAIL) ;; *) false ;; esac }
of_job() { slurm_processes "$work/slurm" "SLURM_JOB_ID=$1"; }
named() { for process in $(slurm_processes "$work/slurm"); do grep -qx "$1" "/proc/$process/comm" 2>/dev/null && echo "$process"; done; }
# gone JOB: its processes, and the one of Slurm that has started them and tells how they ended
gone() { [ -z "$(of_job "$1")$(grep -slz "^slurmstepd: [[]$1[.]batch" /proc/[0-9]*/cmdline)" ]; }
step() { echo "$SECONDS s: $*"; }
says() { grep -qF -- "$2" "$1.out"; }
# ends JOB STATE CODE LOG: it ends so
ends() {
    wait_for 600 over "$1"
    [ "$(value "$1" JobState) $(value "$1" ExitCode)" = "$2 $3" ] ||
        fail "job $1: $(value "$1" JobState) $(value "$1" ExitCode), expected $2 $3: $(tail -n 15 "$4")"
}
# requeued JOB N: it waits for its N-th new start, which Slurm would let it do for two minutes, and starts
requeued_to() { [ "$(value "$1" JobState) $(value "$1" Reason) $(value "$1" Restarts)" = "PENDING BeginTime $2" ] || runs_again "$@"; }
runs_again() { [ "$(value "$1" Restarts)" -ge "$2" ] && started "$1"; } # the two minutes, or more starts, were over before a busy machine looked
gone_or_again() { gone "$1" || runs_again "$@"; }
started() { is "$1" RUNNING || is "$1" COMPLETED; }
start_now() { started "$1" || { scontrol update jobid="$1" StartTime=now; started "$1"; }; }
requeued() {
    wait_for 300 requeued_to "$1" "$2"
    runs_again "$1" "$2" && return
    wait_for 300 gone_or_again "$@"
    runs_again "$1" "$2" && return
    # Of a job that it has killed, slurmd refuses starts that were granted in the same second: "already killed".
    sleep 2
    wait_for 300 start_now "$1"
}
# submit NAME OPTION ...: sets $job; one part in one element, with the flags $arguments
submit() {
    job=$(sbatch --parsable --export=ALL --cpus-per-task=1 --array=1 --output="$1.out" "${@:2}" "$SOURCE/slurm/trajectory.sbatch" \
        --set "results=$1.h5" ${arguments[@]+"${arguments[@]}"})
    job=${job%;*}
}
# sweep NAME LINES: a sweep file NAME.yaml with these checkpoints, and results NAME.h5 of an undisturbed run
sweep() {
    quickstart_sweep "$2" fixed_text <<YAML
name: $1
results: $1.h5
bits: [3, 4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 4}]
run: {reproducible: true}
YAML
    mv "$work/sweep.yaml" "$1.yaml"
    mv "$work/text.txt" .
    mv "$work/trajectory.csv" "$1.csv"
    sed -i "s/trajectory.csv,/$1.csv,/" "$1.yaml"
    "$QTRAJ" run "$PWD/$1.yaml" >out 2>err || fail "undisturbed: $(cat err)"
}
sweep one '1p;9p'
sweep all '1p;2p;3p;4p;5p;6p;7p;8p;9p'
export PARTS=1

# --- elements that are disturbed: curvature that would take hours, whose state is saved everywhere ---

# begin NAME TIME: submits an element of one checkpoint, and waits until it has saved a state of its curvature
begin() {
    arguments=(--set curvature.trace=1000000 --set curvature.sequences=64 --set curvature.length=64)
    QTRAJ_SAVE=always SWEEP=$PWD/one.yaml submit "$1" --time="$2"
    wait_for 300 has_cells "$1"
    touch "$1.cells"
    wait_for 300 has_state "$1"
}
cells() { cat "$1".h5.parts/*.journal | grep -c '"type":"cell"'; }
has_cells() { [ "$(cells "$1")" = 2 ]; }
has_state() { [ -n "$(find "$1".h5.parts/*.checkpoints -name '*.[01]' -newer "$1.cells")" ]; }
continues() { [ "$(grep -c continues "$1.out")" -ge "$2" ]; }

step "the walltime begins"
begin walltime 1 # is looked at below, when its minute is over
walltime=$job

# --- jobs of the paper's 326 checkpoints ---

step "the paper's jobs"
for nodes in 16 64 256; do
    "$QTRAJ" slurm "$SOURCE/configs/scale/paper.yaml" --nodes $nodes --time 24:00:00 --rate 2000 --partition declared --anyway \
        --set results="$work/paper.h5" >jobs.sh 2>err || fail "$nodes nodes: $(cat err)"
    "$QTRAJ" plan "$SOURCE/configs/scale/paper.yaml" --rate 2000 --simulate $nodes --json >plan.json 2>err
    "$python" "$SOURCE/tests/tools/check_slurm.py" jobs.sh plan.json 24 || fail "$nodes nodes: $(head -n 6 jobs.sh)"
    SBATCH="sbatch --test-only" bash jobs.sh >out 2>&1 || fail "$nodes nodes: sbatch refuses: $(cat out)"
done

# --- submitted: an array of 8 parts and its merge; a job on two nodes. The rate only says how to divide ---

# numbers: those of the jobs that `qtraj slurm --submit` printed
numbers() { sed -n 's/^job //p' submitted | tr '\n' ' '; }
step "an array"
mkdir bare # a python3 without matplotlib comes first, here and in the jobs
echo 'raise ImportError("bare")' >bare/matplotlib.py
printf '#!/bin/sh\nPYTHONPATH=%s exec %s "$@"\n' "'$PWD/bare'" "$python" >bare/python3
chmod +x bare/python3
PATH=$PWD/bare:$PATH "$QTRAJ" slurm all.yaml --nodes 2 --time 24:00:00 --rate 0.001 --set results=parts.h5 --report "a page" \
    --submit >submitted 2>err || fail "--submit: $(cat err submitted)"
read -r array merge more <<<"$(numbers)"
[ -n "$merge" ] && [ -z "$more" ] || fail "expected an array and a merge: $(cat submitted)"
ends "$merge" COMPLETED 0:0 "qtraj-merge-$merge.out"
for k in 1 2 3 4 5 6 7 8; do ends "${array}_$k" COMPLETED 0:0 "qtraj-${array}_$k.out"; done
[ "$(find parts.h5.parts -name '*.journal' | wc -l)" = 8 ] || fail "parts: $(ls parts.h5.parts)"
compare "a sweep/all" "a sweep/parts"
[ -s "a page/report.html" ] || fail "no report: $(cat "qtraj-merge-$merge.out")"

step "two nodes"
export OMPI_MCA_rmaps_base_display_map=1 # mpirun says which rank is where
"$QTRAJ" slurm one.yaml --nodes 2 --time 01:00:00 --rate 0.0008 --set results=large.h5 --submit >submitted 2>err ||
    fail "--submit: $(cat err submitted)"
read -r array merge more <<<"$(numbers)"
ends "$merge" COMPLETED 0:0 "qtraj-merge-$merge.out"
ends "${array}_1" COMPLETED 0:0 "qtraj-${array}_1.out"
[ "$(value "${array}_1" NumNodes)" = 2 ] && [ "$(grep -c 'Data for node: n[123]' "qtraj-${array}_1.out")" = 2 ] ||
    fail "not on two nodes: $(cat "qtraj-${array}_1.out")"
compare "a sweep/one" "a sweep/large" --relative 0
unset OMPI_MCA_rmaps_base_display_map

# --- how elements end that are not done ---

step "failures"
arguments=(--set 'models[0].path=nowhere/{checkpoint}')
SWEEP=$PWD/all.yaml submit failed --time=60
failed=$job
SWEEP=$PWD/nowhere.yaml submit bad --time=60
ends "$failed" FAILED 1:0 failed.out
ends "$job" FAILED 2:0 bad.out

# --- srun starts the ranks, one of which has checkpoints fetched ---

step "staged under srun"
if srun --mpi=list 2>&1 | grep -qw pmix; then
    mkdir store
    cp "$quickstart"/trajectory/{tokenizer.json,step000100/config.json} .
    sed -e 's|tokenizer: [^,}]*|tokenizer: tokenizer.json|' -e 's/^name: .*/name: staged/; s/^results: .*/results: staged.h5/' \
        -e "s|path: \"[^\"]*\"|path: \"store/{checkpoint}\", keep: false, stage: [cp, -rT, \"$quickstart/trajectory/{checkpoint}\", \"{path}\"]|" \
        one.yaml >staged.yaml
    srun --mpi=pmix --nodes=1 --ntasks=3 --overcommit --time=60 "$QTRAJ" run "$PWD/staged.yaml" >out 2>err || fail "srun: $(cat out err)"
    grep -q "^staged quickstart step001200" err && [ -z "$(ls store)" ] || fail "staged under srun: $(cat err; ls store)"
else
    echo "no step of this test: Slurm has no PMIx here"
fi

# --- SIGUSR1: running visits are finished, the element is requeued, and the next start does the rest ---

step "SIGUSR1"
mkdir -p "$work/faults/at" "$work/faults/late"
touch "$work/faults/hold" # visits wait at their start
in_visits() { [ "$(find "$work/faults/at" -type f | wc -l)" = 2 ]; }
arguments=()
SWEEP=$PWD/all.yaml submit drained --time=60 --export="ALL,LD_PRELOAD=$FAULT,FAULTS=$work/faults"
wait_for 300 in_visits
scancel --signal=USR1 --batch "$job"
wait_for 300 says drained "no more are started"
rm "$work/faults/hold"
wait_for 300 says drained "the job is requeued; its next start continues"
! says drained "too little time" || fail "drained: it blames the time"
[ "$(cells drained)" = 4 ] || fail "drained: $(cells drained) cells, expected those of two visits"
requeued "$job" 1
ends "$job" COMPLETED 0:0 drained.out
[ "$(cells drained)" = 16 ] || fail "drained: $(cells drained) cells of 16"

step "cancelled, then submitted again"
begin other 60
scancel "$job"
wait_for 300 over "$job"
is "$job" CANCELLED || fail "scancel: $(value "$job" JobState)"
wait_for 300 says other "stopped, resumable"
wait_for 300 gone "$job"
begin other 60
wait_for 300 continues other 1

step "requeued by hand"
scontrol requeue "$job"
requeued "$job" 1
wait_for 300 continues other 2

step "the walltime has ended"
wait_for 300 says walltime "the job is requeued; its next start continues"
requeued "$walltime" 1
wait_for 300 continues walltime 1
scancel "$walltime"
wait_for 300 gone "$walltime"

step "its node is drained"
node=$(value "$job" NodeList)
scontrol update nodename="$node" state=drain reason=test
[ "$(sinfo -h -p main -n "$node" -o %T)" = draining ] || fail "drain: $(sinfo -h -p main -n "$node" -o %T)"
is "$job" RUNNING || fail "drained: $(value "$job" JobState)"
scontrol update nodename="$node" state=resume

step "its node dies"
# Its daemon, then what has started the job and would report its end, which no other job has any more.
# shellcheck disable=SC2046
kill -9 "$(cat "$work/slurm/slurmd-$node.pid")" $(named slurmstepd) $(of_job "$job")
requeued "$job" 2
[ "$(value "$job" NodeList)" != "$node" ] || fail "it is on the dead node $node again"
wait_for 300 continues other 3
grep -q 'taken over' other.out || fail "the lock: $(tail -n 20 other.out)"

step "SIGTERM"
scancel --signal=TERM --batch "$job"
ends "$job" FAILED 3:0 other.out
tail -n 5 other.out | grep -qF "stopped, resumable" || fail "SIGTERM: $(tail -n 20 other.out)"
step "the end"
[ $failures = 0 ] || tail -n 60 ./*.out "$work/slurm/slurmctld.log"
finish
