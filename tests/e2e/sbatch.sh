#!/usr/bin/env bash
# slurm/sweep.sbatch: ranks and threads follow the allocation, and the job's exit code that of `qtraj launch`. Slurm and qtraj are
# stand-ins here; the codes of the real `qtraj launch` are tested by mpi.losses.
. "$SOURCE/tests/tools/lib.sh"
mkdir "$work/bin"
export PATH=$work/bin:$PATH QTRAJ=$work/bin/qtraj SWEEP=s.yaml

# stand_in NAME CODE [COMMAND]: a program that prints how it was called, runs the command and ends with the code.
stand_in() {
    printf '#!/bin/bash\necho "%s $* threads $OMP_NUM_THREADS"\n%s\nexit %s\n' "$1" "${3:-}" "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

# job CODE EXPECTED NAME=VALUE ...: the job's exit code when `qtraj launch` ends with CODE.
job() {
    local code
    stand_in qtraj "$1"
    env "${@:3}" bash "$SOURCE/slurm/sweep.sbatch" >"$work/out" 2>&1
    code=$?
    [ $code = "$2" ] || fail "launch $1: exit code $code, expected $2: $(cat "$work/out")"
}
says() { grep -qF -- "$1" "$work/out" || fail "no '$1' in: $(cat "$work/out")"; }

job 0 0 SLURM_JOB_CPUS_PER_NODE=72
says "qtraj launch -n 10 s.yaml threads 8"
job 0 0 SLURM_JOB_CPUS_PER_NODE=6
says "launch -n 2 " && says " threads 6"
job 0 0 "SLURM_JOB_CPUS_PER_NODE=128(x3),64" SLURM_JOB_NUM_NODES=4 SLURM_CPUS_PER_TASK=32
says "launch -n 9 " && says " threads 32"
job 0 0 SLURM_JOB_CPUS_PER_NODE=64 SLURM_NTASKS_PER_NODE=2 SLURM_CPUS_PER_TASK=16
says "launch -n 3 " && says " threads 16"
job 1 1 SLURM_JOB_CPUS_PER_NODE=4     # cells failed
job 3 0 SLURM_JOB_CPUS_PER_NODE=4     # drained or interrupted
says "stopped, resumable: submit again"
job 2 2 SLURM_JOB_CPUS_PER_NODE=4     # bad input
job 137 137 SLURM_JOB_CPUS_PER_NODE=4 # killed: out of memory, say

# The walltime ends: the signal reaches the run, and the script waits for it.
stand_in qtraj 0 'trap "echo drained; exit 3" USR1; echo waiting; sleep 30 & wait'
env SLURM_JOB_CPUS_PER_NODE=4 bash "$SOURCE/slurm/sweep.sbatch" >"$work/out" 2>&1 &
job=$!
until grep -q waiting "$work/out" || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
kill -USR1 $job
wait $job
code=$?
[ $code = 0 ] || fail "walltime: exit code $code: $(cat "$work/out")"
says drained && says "stopped, resumable: submit again"
finish
