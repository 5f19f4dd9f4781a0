#!/usr/bin/env bash
# Sourced after lib.sh: a Slurm of its own on this machine, for tests: munged, slurmctld and three slurmd (nodes n1 to n3), as root,
# without systemd, cgroups and database; and nodes f1 to f300 of 64 cores and 256 GiB that are only declared (partition declared). Jobs of partition short may take 5 minutes.
# slurm_start FOLDER sets SLURM_CONF and leaves everything in the folder, or fails. All that it starts, and what that starts in
# turn, ends with the script, however that ends.
# shellcheck shell=bash

slurm_nodes="n1 n2 n3"

# slurm_missing: prints what is missing
slurm_missing() {
    local program
    [ "$(id -u)" = 0 ] || { echo "only root can start one here"; return; }
    for program in munged slurmctld slurmd sbatch scontrol sinfo srun; do
        PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null ||
            { echo "$program is not installed (packages slurmctld, slurmd, munge)"; return; }
    done
}

# free_ports: prints the first of four free ports, below those that systems give to connections
free_ports() {
    local port i taken
    for _ in $(seq 50); do
        port=$((20000 + RANDOM % 10000))
        taken=0
        for i in 0 1 2 3; do ! (: <>"/dev/tcp/127.0.0.1/$((port + i))") 2>/dev/null || taken=1; done
        [ $taken = 1 ] || { echo $port; return; }
    done
    return 1
}

slurm_conf() {
    local host port memory node
    host=$(hostname -s)
    port=$(free_ports) || return
    memory=$(awk '/MemTotal/ {print int($2 / 1024 / 2)}' /proc/meminfo)
    cat <<EOF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$1/munge.sock
CredType=cred/munge
SlurmctldPort=$port
StateSaveLocation=$1/state
SlurmdSpoolDir=$1/spool/%n
SlurmctldPidFile=$1/slurmctld.pid
SlurmdPidFile=$1/slurmd-%n.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdLogFile=$1/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=5,sched_min_interval=100000,bf_interval=5,batch_sched_delay=0
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=3600
MaxArraySize=1001
SlurmdTimeout=5
SlurmdParameters=config_overrides
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=INFINITE
PrivateData=cloud
NodeName=f[1-300] NodeAddr=127.0.0.1 CPUs=64 RealMemory=262144 State=CLOUD
PartitionName=main Nodes=${slurm_nodes// /,} Default=YES MaxTime=INFINITE State=UP
PartitionName=declared Nodes=f[1-300] MaxTime=INFINITE State=UP
PartitionName=short Nodes=n1,n2 MaxTime=5 State=UP
EOF
    for node in $slurm_nodes; do
        echo "NodeName=$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port += 1)) CPUs=2 RealMemory=$memory"
    done
}

# slurm_processes FOLDER [NAME=VALUE]: the processes of that Slurm and of its jobs, which all have its SLURM_CONF; those with the variable
slurm_processes() {
    local process
    for process in $(env -u SLURM_CONF grep -slzxF "SLURM_CONF=$1/slurm.conf" /proc/[0-9]*/environ | cut -d / -f 3); do
        [ -z "${2:-}" ] || env -u SLURM_CONF grep -sqzxF "$2" "/proc/$process/environ" || continue
        echo "$process"
    done
}

slurm_end() {
    local left
    for _ in $(seq 200); do
        left=$(slurm_processes "$1")
        [ -n "$left" ] || return
        # shellcheck disable=SC2086
        kill -9 $left 2>/dev/null
        sleep 0.1
    done
}

# The daemons are nobody's children: this process, which is nobody's either, ends them when the script was killed.
slurm_guard() {
    (env -u SLURM_CONF setsid bash -c '. "$1"; tail --pid=$2 -f /dev/null; slurm_end "$3"; rm -rf "$4"' guard \
        "${BASH_SOURCE[0]}" $$ "$1" "$work" </dev/null >/dev/null 2>&1 &)
}

slurm_idle() { [ "$(sinfo -h -p main -N -o %t | grep -c idle)" = 3 ]; }

slurm_start() {
    local folder=$1 node
    export PATH=$PATH:/usr/sbin:/sbin
    for node in $slurm_nodes; do mkdir -p "$folder/state" "$folder/spool/$node" || return; done
    chmod 755 "$folder" "$(dirname "$folder")"
    slurm_guard "$folder"
    export SLURM_CONF=$folder/slurm.conf
    dd if=/dev/urandom of="$folder/key" bs=1024 count=1 status=none && chmod 400 "$folder/key"
    munged --force --key-file="$folder/key" --socket="$folder/munge.sock" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/seed" --num-threads=2 >"$folder/start.log" 2>&1 || return
    slurm_conf "$folder" >"$SLURM_CONF" || return
    slurmctld >>"$folder/start.log" 2>&1 || return
    for node in $slurm_nodes; do slurmd -N "$node" >>"$folder/start.log" 2>&1 || return; done
    comes 60 slurm_idle && timeout 60 srun --nodes=3 --time=1 true >>"$folder/start.log" 2>&1
}
