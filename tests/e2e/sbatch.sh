#!/usr/bin/env bash
# The scripts in slurm/: ranks and threads follow the allocation, parts the element, and a job ends with the exit code of `qtraj
# launch`. qtraj and Slurm are stand-ins here.
. "$SOURCE/tests/tools/lib.sh"
mkdir "$work/bin"
export PATH=$work/bin:$PATH QTRAJ=$work/bin/qtraj SWEEP=s.yaml

# stand_in NAME CODE [COMMAND]: a program that prints how it was called, runs the command and ends with the code.
stand_in() {
    printf '#!/bin/bash\necho "%s $* threads $OMP_NUM_THREADS"\n%s\nexit %s\n' "$1" "${3:-}" "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

# job SCRIPT CODE NAME=VALUE ...: the job ends with CODE when `qtraj launch` does.
job() {
    local code
    stand_in qtraj "$2"
    env "${@:3}" bash "$SOURCE/slurm/$1.sbatch" --set a=b >"$work/out" 2>&1
    code=$?
    [ $code = "$2" ] || fail "$1: exit code $code, expected $2: $(cat "$work/out")"
}
says() { grep -qF -- "$1" "$work/out" || fail "no '$1' in: $(cat "$work/out")"; }

job trajectory 0 PARTS=16 SLURM_ARRAY_TASK_ID=3 SLURM_CPUS_ON_NODE=72
says "qtraj launch -n 10 --requeue --part 3/16 --set a=b s.yaml threads 8"
job trajectory 3 PARTS=16 SLURM_ARRAY_TASK_ID=3 SLURM_CPUS_ON_NODE=6
says "launch -n 2 " && says " threads 6"
job trajectory 1 PARTS=16 SLURM_ARRAY_TASK_ID=3 SLURM_CPUS_ON_NODE=64 SLURM_NTASKS_PER_NODE=2 SLURM_CPUS_PER_TASK=32
says "launch -n 3 " && says " threads 32"
job large 0 "SLURM_JOB_CPUS_PER_NODE=128(x3),64" SLURM_JOB_NUM_NODES=4
says "launch -n 5 " && says "--requeue --set a=b s.yaml threads 64"
job large 3 "SLURM_JOB_CPUS_PER_NODE=128(x4)" SLURM_JOB_NUM_NODES=4 SLURM_CPUS_PER_TASK=32 "SLURM_NTASKS_PER_NODE=4(x4)" PARTS=5 SLURM_ARRAY_TASK_ID=2
says "launch -n 17 " && says "--part 2/5 " && says " threads 32"
job large 137 SLURM_JOB_CPUS_PER_NODE=4 # killed: out of memory, say
for script in trajectory large merge; do
    env -u SWEEP bash "$SOURCE/slurm/$script.sbatch" >"$work/out" 2>&1 && fail "$script does not need its variables"
    says "set "
done

# Without QTRAJ: the qtraj in PATH, else that of the checkout of the script, which Slurm copies and tells; else a message before mpirun.
mkdir -p "$work/other/slurm" "$work/other/build/release" "$work/spool"
cp "$SOURCE"/slurm/*.sbatch "$work/other/slurm"
stand_in mpirun 0 'shift 5; exec "$@"'
for script in trajectory large merge measure train; do
    cp "$work/other/slurm/$script.sbatch" "$work/spool/slurm_script"
    stand_in scontrol 0 "echo 'JobId=7 Command=$work/other/slurm/$script.sbatch --set a=b WorkDir=/'"
    start() { (cd "$work" && env -u QTRAJ RUNS=r PARTS=1 RESULTS=r.h5 RATE_FILE=rate SLURM_JOB_ID=7 SLURM_ARRAY_TASK_ID=1 SLURM_CPUS_ON_NODE=1 "$@" bash spool/slurm_script) >"$work/out" 2>&1; }
    stand_in qtraj 0 'echo in PATH'
    start || [ $script = measure ] || fail "$script in PATH: $(cat "$work/out")"
    [ $script = measure ] || says "in PATH"
    mv "$work/bin/qtraj" "$work/other/build/release"
    start A=1
    grep -q "no program" "$work/out" && fail "$script: the checkout: $(cat "$work/out")"
    rm "$work/other/build/release/qtraj"
    start A=1 && fail "$script without qtraj"
    says "no program qtraj $work/other/slurm/../build/release/qtraj" && says "set QTRAJ to it"
done
rm "$work/bin/scontrol" "$work/bin/mpirun"

# The code of the status counts; a merge that fails ends the job.
stand_in qtraj 3 '[ "$1" = status ] || exit 0'
RESULTS=r.h5 bash "$SOURCE/slurm/merge.sbatch" >"$work/out" 2>&1
[ $? = 3 ] || fail "merge: $(cat "$work/out")"
says "merge r.h5 r.h5.parts" && says "status --exit-code r.h5"
# The report is made, and its failure changes nothing.
stand_in python3 5
# A python3 that lacks modules is passed over, wherever it is on PATH.
"$("$SOURCE/slurm/python.sh" json)" -c 'import json' || fail "slurm/python.sh: $("$SOURCE/slurm/python.sh" json 2>&1)"
"$SOURCE/slurm/python.sh" no_module 2>"$work/out" && fail "slurm/python.sh finds what does not exist"
says 'no Python here has the modules no_module' && says "pip' install no_module"
# That of the checkout's .venv is the first, and it is said why another is taken.
mkdir -p "$work/tree/slurm" "$work/tree/.venv/bin"
cp "$SOURCE/slurm/python.sh" "$work/tree/slurm/"
(PATH=${PATH#*:} && ln -s "$("$SOURCE/slurm/python.sh" json)" "$work/tree/.venv/bin/python")
[ "$("$work/tree/slurm/python.sh" json 2>"$work/out")" = "$work/tree/.venv/bin/python" ] && [ ! -s "$work/out" ] || fail ".venv: $(cat "$work/out")"
PYTHON=python3 "$work/tree/slurm/python.sh" json >/dev/null 2>"$work/out"
says "Python: $work/tree/.venv/bin/python, since python3 lacks modules"
RESULTS=r.h5 REPORT="a page" REPORT_PY=/x/report.py PYTHON=python3 bash "$SOURCE/slurm/merge.sbatch" >"$work/out" 2>&1
[ $? = 3 ] || fail "report: $(cat "$work/out")"
says "python3 /x/report.py r.h5 --out a page" && says "its report in a page is not"
rm "$work/bin/python3"
stand_in qtraj 1
RESULTS=r.h5 bash "$SOURCE/slurm/merge.sbatch" >"$work/out" 2>&1
[ $? = 1 ] || fail "merge with conflicts: $(cat "$work/out")"

# A signal for the script reaches qtraj.
stand_in qtraj 0 'trap "echo drained; exit 3" USR1; echo waiting; sleep 30 & wait'
PARTS=2 SLURM_ARRAY_TASK_ID=1 bash "$SOURCE/slurm/trajectory.sbatch" >"$work/out" 2>&1 &
job=$!
until grep -q waiting "$work/out" || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
kill -USR1 $job
wait $job
code=$?
[ $code = 3 ] || fail "USR1: exit code $code: $(cat "$work/out")"
says drained
finish
