#!/usr/bin/env bash
# slurm/sweep.sbatch: ranks and threads follow the allocation, and the job's exit code the verdict of `qtraj status`. Slurm, mpirun
# and qtraj are stand-ins here; the codes of the real `qtraj status --exit-code` are tested by progress.sh.
. "$SOURCE/tests/tools/lib.sh"
mkdir "$work/bin"
export PATH=$work/bin:$PATH QTRAJ=$work/bin/qtraj SWEEP=s.yaml

# stand_in NAME CODE [COMMAND]: a program that prints how it was called, runs the command and ends with the code.
stand_in() {
    printf '#!/bin/bash\necho "%s $* threads $OMP_NUM_THREADS"\n%s\nexit %s\n' "$1" "${3:-}" "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

# job CODE VERDICT EXPECTED NAME=VALUE ...: the job's exit code when mpirun ends with CODE and `qtraj status` with VERDICT.
job() {
    local code
    stand_in mpirun "$1"
    stand_in qtraj "$2"
    env "${@:4}" bash "$SOURCE/slurm/sweep.sbatch" >"$work/out" 2>&1
    code=$?
    [ $code = "$3" ] || fail "mpirun $1, verdict $2: exit code $code, expected $3: $(cat "$work/out")"
}
says() { grep -qF -- "$1" "$work/out" || fail "no '$1' in: $(cat "$work/out")"; }

job 0 0 0 SLURM_JOB_CPUS_PER_NODE=72
says "mpirun -n 10 " && says " threads 8" && says "qtraj status --exit-code s.yaml"
job 0 0 0 SLURM_JOB_CPUS_PER_NODE=6
says "mpirun -n 2 " && says " threads 6"
job 0 0 0 "SLURM_JOB_CPUS_PER_NODE=128(x3),64" SLURM_JOB_NUM_NODES=4 SLURM_CPUS_PER_TASK=32
says "mpirun -n 9 " && says " threads 32"
job 0 0 0 SLURM_JOB_CPUS_PER_NODE=64 SLURM_NTASKS_PER_NODE=2 SLURM_CPUS_PER_TASK=16
says "mpirun -n 3 " && says " threads 16"
job 1 1 1 SLURM_JOB_CPUS_PER_NODE=4     # cells failed
job 1 3 0 SLURM_JOB_CPUS_PER_NODE=4     # mpirun was interrupted
says "stopped, resumable: submit again"
job 3 3 0 SLURM_JOB_CPUS_PER_NODE=4     # drained
job 2 0 2 SLURM_JOB_CPUS_PER_NODE=4     # bad input is no verdict
job 4 3 4 SLURM_JOB_CPUS_PER_NODE=4
job 137 3 137 SLURM_JOB_CPUS_PER_NODE=4 # killed: out of memory, say

# The walltime ends: the signal reaches mpirun, and the script waits for it.
stand_in mpirun 0 'trap "echo drained; exit 1" USR1; echo waiting; sleep 30 & wait'
stand_in qtraj 3
env SLURM_JOB_CPUS_PER_NODE=4 bash "$SOURCE/slurm/sweep.sbatch" >"$work/out" 2>&1 &
job=$!
until grep -q waiting "$work/out" || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
kill -USR1 $job
wait $job
code=$?
[ $code = 0 ] || fail "walltime: exit code $code: $(cat "$work/out")"
says drained && says "stopped, resumable: submit again"
finish
