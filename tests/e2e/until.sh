#!/usr/bin/env bash
# A run whose time is limited: what cannot end in it is not begun, what can be resumed is begun and told to stop in time, and the
# run ends with code 3, alone and under mpirun. The parts of a visit that fit are done. `launch --requeue` asks scontrol, here a
# stand-in, to start the job again, unless nothing was gained.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
mkdir "$work/bin"
printf '#!/bin/bash\necho "$@" >>%q\n[ "$*" != "requeue 8" ] || echo "Job is not allowed"\n' "$work/asked" >"$work/bin/scontrol"
chmod +x "$work/bin/scontrol"
# An mpirun that believes to be in a job of Slurm lingers at its end.
export PATH=$work/bin:$PATH OMPI_MCA_ras=^slurm OMPI_MCA_plm=^slurm

quickstart_sweep '1p;9p' fixed_text <<YAML
name: until
results: whole.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 4}]
curvature: {trace: 2, sequences: 64, length: 64}
YAML
# Curvature that would take hours and cannot be resumed: too long for 10 minutes on any machine.
long=(--set curvature.trace=1000000 --set run.checkpoints=off)

# says TEXT, in what the last run printed
says() { grep -qF -- "$1" "$work/err" || fail "no '$1' in: $(cat "$work/err")"; }
# recorded NAME TYPE N: whether so many are in the journal
recorded() {
    local n
    n=$(grep -c "\"type\":\"$2\"" "$work/$1.journal")
    [ "$n" = "$3" ] || fail "$1: $n records $2, expected $3"
}

launch 120 1 run "$work/sweep.yaml" || fail "undisturbed: exit code $?: $(cat "$work/err")"
for ranks in 1 3; do
    launch 300 $ranks run "$work/sweep.yaml" --set "results=$work/fits$ranks.h5" "${long[@]}" --until 10m
    code=$?
    [ $code = 3 ] || fail "$ranks ranks: exit code $code: $(cat "$work/err")"
    says "the time ends in 10 min" && says "too little time was left for the rest; the shortest of it is expected to take"
    says "1 of 1 cells done, 0 failed, 0 pending; stopped, resumable"
    recorded fits$ranks cell 1 && recorded fits$ranks curvature 0
    # without a limit it goes on where it was
    launch 120 $ranks run "$work/sweep.yaml" --set "results=$work/fits$ranks.h5" || fail "$ranks ranks, again: exit code $?"
    recorded fits$ranks cell 1 && recorded fits$ranks curvature 1
    compare whole fits$ranks
done

# What can be resumed is begun, told to stop shortly before the end, and continued.
for ranks in 1 3; do
    QTRAJ_SAVE=always launch 300 $ranks run "$work/sweep.yaml" --set "results=$work/resumes$ranks.h5" \
        --set curvature.trace=1000000 --until 12s
    code=$?
    [ $code = 3 ] || fail "resumable, $ranks ranks: exit code $code: $(cat "$work/err")"
    [ "$(ls -A "$work/resumes$ranks.h5.checkpoints")" ] || fail "resumable, $ranks ranks: no state was saved: $(cat "$work/err")"
    [ ! -e "$work/resumes$ranks.journal.lock" ] || fail "resumable, $ranks ranks: the lock is left"
done
QTRAJ_SAVE=always launch 300 1 run "$work/sweep.yaml" --set "results=$work/resumes1.h5" --set curvature.trace=1000000 --until 4s
says "continues"

# Bad input, and a moment that is over.
for bad in 5x 2026-13-01T00:00 @ 2000-01-01T00:00 @1000 0s; do
    launch 60 1 run "$work/sweep.yaml" --until $bad --set "results=$work/bad.h5"
    code=$?
    [ $code = 2 ] || fail "--until $bad: exit code $code"
    says "--until $bad: "
done

# In a Slurm job: its end counts; the job is requeued if something was gained, and if Slurm refuses, that is said.
inside() { # NAME JOB SECONDS ARGUMENT ...
    SLURM_JOB_ID=$2 SLURM_JOB_END_TIME=$(($(date +%s) + $3)) timeout -k 5 300 "$QTRAJ" launch -n 2 --requeue "$work/sweep.yaml" \
        --set "results=$work/$1.h5" "${@:4}" >"$work/out" 2>"$work/err" </dev/null
    code=$?
}
export SLURM_ARRAY_JOB_ID=5 SLURM_ARRAY_TASK_ID=2
inside job 7 600 "${long[@]}"
unset SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID
[ $code = 3 ] || fail "in a job: exit code $code: $(cat "$work/err")"
says "the job is requeued; its next start continues"
[ "$(grep requeue "$work/asked")" = "requeue 5_2" ] || fail "scontrol was asked: $(cat "$work/asked")"
inside job 7 600 "${long[@]}"
says "the job is not requeued: in its time no result was finished and no state saved"
inside refused 8 600 "${long[@]}"
says "the job is not requeued (scontrol requeue: Job is not allowed)"
inside job 7 600
[ $code = 0 ] || fail "the last start: exit code $code: $(cat "$work/err")"
[ "$(grep -c requeue "$work/asked")" = 2 ] || fail "scontrol was asked: $(cat "$work/asked")"
compare whole job
finish
