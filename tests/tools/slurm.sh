#!/usr/bin/env bash
# Sourced: a Slurm of its own on this machine, for tests: munged, slurmctld and two slurmd (nodes n1 and n2), as root, without
# systemd, cgroups and database; and nodes f1 to f300 of 64 cores and 256 GiB that are only declared (partition declared).
# slurm_start FOLDER sets SLURM_CONF and leaves everything in the folder, or says why it cannot; slurm_stop ends what was started.
# shellcheck shell=bash

# slurm_missing: prints what is missing
slurm_missing() {
    local program
    [ "$(id -u)" = 0 ] || { echo "only root can start one here"; return; }
    for program in munged slurmctld slurmd sbatch scontrol; do
        PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null || { echo "$program is not installed"; return; }
    done
}

# Free ports: those of this process.
slurm_conf() {
    local host port memory
    host=$(hostname -s)
    port=$((20000 + $$ % 20000))
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
MinJobAge=600
MaxArraySize=1001
SlurmdTimeout=5
SlurmdParameters=config_overrides
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=INFINITE
PrivateData=cloud
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2 RealMemory=$memory
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2 RealMemory=$memory
NodeName=f[1-300] NodeAddr=127.0.0.1 CPUs=64 RealMemory=262144 State=CLOUD
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
PartitionName=declared Nodes=f[1-300] MaxTime=INFINITE State=UP
EOF
}

slurm_idle() { [ "$(sinfo -h -p main -N -o %t | grep -c idle)" = 2 ]; }

slurm_start() {
    local folder=$1 node
    export PATH=$PATH:/usr/sbin:/sbin
    export SLURM_CONF=$folder/slurm.conf
    mkdir -p "$folder/state" "$folder/spool/n1" "$folder/spool/n2"
    chmod 755 "$folder" "$(dirname "$folder")"
    dd if=/dev/urandom of="$folder/key" bs=1024 count=1 status=none && chmod 400 "$folder/key"
    munged --force --key-file="$folder/key" --socket="$folder/munge.sock" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/seed" --num-threads=2 >"$folder/start.log" 2>&1 || return 1
    slurm_conf "$folder" >"$SLURM_CONF"
    slurmctld >>"$folder/start.log" 2>&1 || return 1
    for node in n1 n2; do slurmd -N $node >>"$folder/start.log" 2>&1 || return 1; done
    wait_for 60 slurm_idle
}

# slurm_end PIDFILE: ends that process
slurm_end() { [ -s "$1" ] && kill "$(cat "$1")" 2>/dev/null; }

slurm_stop() {
    local folder=${SLURM_CONF%/*} file
    scancel --user=root 2>/dev/null
    for file in "$folder"/slurmd-n1.pid "$folder"/slurmd-n2.pid "$folder"/slurmctld.pid "$folder"/munged.pid; do slurm_end "$file"; done
}
