#!/usr/bin/env bash
# qtraj doctor: its findings are correct, and each deliberate problem gets a warning with a remedy.
. "$SOURCE/tests/tools/lib.sh"
need_python json

# doctor NAME COMMAND...: runs it, stores NAME.json; the exit code must be 1 if and only if there are warnings.
doctor() {
    local name=$1 code=0
    shift
    "$@" >"$work/$name.json" 2>"$work/$name.err" || code=$?
    "$python" - "$work/$name.json" "$code" <<'PY' || fail "$name: $(cat "$work/$name.err")"
import json, sys
d = json.load(open(sys.argv[1]))
assert int(sys.argv[2]) == (1 if d["warnings"] else 0), sys.argv[2]
for w in d["warnings"]:
    assert w["about"] and w["text"] and w["remedy"], w
f = d["findings"]
for section, name in (("versions", "qtraj"), ("versions", "mpi"), ("versions", "hdf5"), ("blas", "library"),
                      ("blas", "scalapack_calls"), ("ranks", "threads_a_rank"), ("memory", "limit_from"),
                      ("limits", "open_files"), ("products", "integers_by"), ("results", "sync_ms"), ("scratch", "folder"), ("locale", "locale")):
    if not (section == "results" and name not in f[section] and d["warnings"]):
        assert name in f[section], (section, name)
for rate in ("sgemm_gflops", "dgemm_gflops_a_thread", "scalapack_dgemm_gflops_a_thread"):
    assert f["blas"][rate] > 0.05, rate
p = f["products"]
assert p["f32_gflops"] > 0.05 and p["bf16_gflops"] > 0.05 and p["auto_takes"] in ("f32", "bf16x3"), p
assert ("because" in p) == (p["bf16_by"] == "terms in f32"), p
PY
}

# has NAME ABOUT TEXT: checks that there is a warning about ABOUT that contains TEXT.
has() {
    "$python" - "$work/$1.json" "$2" "$3" <<'PY' || fail "$1: no warning about $2 with \"$3\""
import json, sys
d = json.load(open(sys.argv[1]))
sys.exit(not any(w["about"] == sys.argv[2] and sys.argv[3] in w["text"] for w in d["warnings"]))
PY
}

cd "$work" || exit 1
mkdir scratch
doctor plain env -u OMP_NUM_THREADS "$QTRAJ" doctor --json --scratch scratch
! grep -q "threads wait" plain.json || fail "plain: a warning about threads that nobody set"
doctor threads env OMP_NUM_THREADS=4096 "$QTRAJ" doctor --json --scratch scratch
has threads ranks "512 threads"
grep -q "more than BLAS can serve" threads.err || fail "threads: not cut to what BLAS can serve"
doctor old env ONEDNN_MAX_CPU_ISA=AVX2 "$QTRAJ" doctor --json --scratch scratch
grep -q '"integers_by": "simulated"' old.json || fail "old: $(cat old.json)"
grep -q '"bf16_by": "terms in f32"' old.json && grep -q '"auto_takes": "f32"' old.json || fail "old: $(cat old.json)"
grep -Eq '"because": "(oneDNN may use no instructions for bf16|this build has no oneDNN 2)' old.json || fail "old: no reason: $(cat old.json)"
if grep -q avx512_bf16 /proc/cpuinfo; then # which are not used: a warning and its remedy
    has old products "this CPU has instructions for bf16, but"
    grep -Eq '"remedy": "(unset ONEDNN_MAX_CPU_ISA|install oneDNN 2)' old.json || fail "old: no remedy: $(cat old.json)"
fi
cat >load.c <<'C'
int getloadavg(double *out, int n);
int getloadavg(double *out, int n)
{
    return *out = LOAD, n > 0;
}
C
for load in 0 4097; do
    cc -shared -fPIC -DLOAD=$load -o load.so load.c || fail "cc"
    doctor load$load env LD_PRELOAD="$work/load.so" "$QTRAJ" doctor --json --scratch scratch
done
has load4097 ranks "load average is 4.1e+03 on $(getconf _NPROCESSORS_ONLN) CPUs"
! grep -q "load average is" load0.json || fail "load0: a warning about an idle machine"
doctor nowhere "$QTRAJ" doctor --json --results "$work/missing/x.h5" --scratch "$work/absent"
has nowhere results "cannot write there"
has nowhere scratch "not a folder"
if [ -d /dev/shm ] && [ -w /dev/shm ]; then
    doctor memory "$QTRAJ" doctor --json --results /dev/shm --scratch scratch
    has memory results "is in memory"
fi
doctor file "$QTRAJ" doctor --json --results "$work/x.h5" --scratch scratch
grep -qF "\"folder\": \"$work\"" "$work/file.json" || fail "results in a folder: $(cat "$work/file.json")"
doctor files bash -c "ulimit -n 100; exec '$QTRAJ' doctor --json --scratch scratch"
has files limits "open_files is limited to 100"
doctor small env SLURM_MEM_PER_NODE=1024 "$QTRAJ" doctor --json --scratch scratch
has small memory SLURM_MEM_PER_NODE
doctor latin env LC_ALL=de_DE.ISO-8859-1 "$QTRAJ" doctor --json --scratch scratch
has latin locale "no UTF-8"
if [ "$(nproc)" -gt 1 ]; then
    doctor bound taskset -c 0 "$QTRAJ" doctor --json --scratch scratch
    has bound ranks "bound to 1 of"
fi
if [ "$(nproc)" -gt 1 ]; then
    doctor limit env -u OMP_NUM_THREADS OMP_THREAD_LIMIT=1 "$QTRAJ" doctor --json --scratch scratch
    has limit ranks "OpenMP starts 1 of"
fi
# with several ranks the first one only waits: the others get its share of the node
doctor ranks mpirun -n 2 --oversubscribe "$QTRAJ" doctor --json --scratch scratch
if grep -q avx512_bf16 /proc/cpuinfo && ! grep -q "terms in f32" plain.json; then # nodes of two kinds
    doctor mixed mpirun --oversubscribe -n 2 "$QTRAJ" doctor --json --scratch scratch : \
        -n 1 env ONEDNN_MAX_CPU_ISA=AVX2 "$QTRAJ" doctor --json --scratch scratch
    grep -q '"bf16_workers": 1' mixed.json || fail "mixed: $(cat mixed.json)"
fi
grep -q '"ranks": 2' ranks.json && grep -q '"workers": 1' ranks.json || fail "ranks: not two, one of which works"
! grep -q "wait for each other" ranks.json || fail "ranks: the master counts as a worker"
bytes() { sed -n 's/.*"rank_bytes": \([0-9]*\).*/\1/p' "$1.json"; }
[ "$(bytes ranks)" = "$(bytes plain)" ] || fail "ranks: a worker has $(bytes ranks) bytes, alone $(bytes plain)"
doctor many mpirun -n $((2 + 2 * $(nproc))) --oversubscribe "$QTRAJ" doctor --json --scratch scratch
has many ranks "threads for each core"
doctor wander mpirun -n $((1 + $(nproc))) --oversubscribe "$QTRAJ" doctor --json --scratch scratch
if [ "$(nproc)" = 1 ] || [ ! -e /sys/devices/system/node/node1 ]; then # of one socket, all memory is as near
    ! grep -q "threads wander" wander.json || fail "wander: $(cat wander.json)"
else
    has wander ranks "threads wander"
fi
for kernels in plain avx2; do
    grep -q avx512vl /proc/cpuinfo || break
    doctor kernels env QTRAJ_KERNELS=$kernels "$QTRAJ" doctor --json --scratch scratch
    has kernels versions "the $kernels kernels"
done
if "$QTRAJ" doctor --json --scratch scratch | grep -q '"library": "OpenBLAS' && grep -q avx512vl /proc/cpuinfo; then
    doctor old env OPENBLAS_CORETYPE=Haswell "$QTRAJ" doctor --json --scratch scratch
    has old blas "OPENBLAS_CORETYPE=Haswell"
fi
"$QTRAJ" doctor --scratch scratch >text.txt
grep -q "scalapack_calls" text.txt || fail "text: no scalapack"
finish
