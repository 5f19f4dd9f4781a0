#!/usr/bin/env bash
# On a CPU that OpenBLAS does not know it takes kernels without AVX: qtraj starts itself again with those that the CPU runs, in
# commands with and without mpirun, unless OPENBLAS_CORETYPE is set. Threads that wait sleep, unless the environment says otherwise.
. "$SOURCE/tests/tools/lib.sh"
grep -qw avx2 /proc/cpuinfo || skip "no AVX2"
unset OPENBLAS_CORETYPE
cat >"$work/corename.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
char *openblas_get_corename(void)
{
    return getenv("OPENBLAS_CORETYPE") ? ((char *(*)(void))dlsym(RTLD_NEXT, "openblas_get_corename"))() : "Prescott";
}
C
cc -shared -fPIC -o "$work/corename.so" "$work/corename.c" -ldl || { fail "cc"; finish; }
export LD_PRELOAD=$work/corename.so
wanted=Haswell
grep -qw avx512f /proc/cpuinfo && wanted=SkylakeX
name() { sed -n 's/.*"library": "OpenBLAS [^ ]* \([^"]*\)".*/\1/p' "$work/out" | head -n 1; }

"$QTRAJ" doctor --json >"$work/out" 2>"$work/err" || [ $? = 1 ] || fail "doctor ends with $?"
grep -qi "^$wanted$" <<<"$(name)" || fail "alone: $(name), not $wanted"
grep -q 'for an old CPU' "$work/out" "$work/err" && fail "a warning about kernels that are not used"
launch 60 2 doctor --json || [ $? = 1 ] || fail "doctor under mpirun ends with $?"
grep -qi "^$wanted$" <<<"$(name)" || fail "under mpirun: $(name), not $wanted"
OPENBLAS_CORETYPE=Prescott "$QTRAJ" doctor --json >"$work/out" 2>"$work/err"
[ "$(name)" = Prescott ] || fail "a kernel that is asked for: $(name)"
grep -q 'for an old CPU\|slower products' "$work/out" "$work/err" || fail "no warning about a slow kernel: $(cat "$work/err")"

# the start of OpenMP says what it has read; one further start, also where the kernels are changed
unset LD_PRELOAD OMP_WAIT_POLICY GOMP_SPINCOUNT
starts() { env "$@" OMP_DISPLAY_ENV=verbose "$QTRAJ" --version 2>&1 >/dev/null | sed -n "s/.*GOMP_SPINCOUNT = '\\(.*\\)'/\\1/p" | tr '\n' ' '; }
[[ "$(starts A=1)" =~ ^[1-9][0-9]*\ 0\ $ ]] || fail "spins of threads that wait: $(starts A=1)"
[[ "$(starts LD_PRELOAD="$work/corename.so")" =~ ^[1-9][0-9]*\ 0\ $ ]] || fail "with other kernels: $(starts LD_PRELOAD="$work/corename.so")"
[[ "$(starts OPENBLAS_CORETYPE=$wanted OMP_WAIT_POLICY=active)" =~ ^[1-9][0-9]*\ $ ]] || fail "asked to be active: $(starts OPENBLAS_CORETYPE=$wanted OMP_WAIT_POLICY=active)"
[ "$(starts OPENBLAS_CORETYPE=$wanted GOMP_SPINCOUNT=1000)" = "1000 " ] || fail "a count that is asked for: $(starts OPENBLAS_CORETYPE=$wanted GOMP_SPINCOUNT=1000)"
tries=0
sleep 30 | "$QTRAJ" tokenize "$SOURCE/configs/quickstart/trajectory/tokenizer.json" >"$work/out" &
until { grep -q 'qtraj\|exe' "/proc/$!/comm" && grep -qz OMP_WAIT_POLICY=passive "/proc/$!/environ"; } 2>/dev/null || [ $((++tries)) -gt 100 ]; do sleep 0.1; done
[ "$(cat "/proc/$!/comm")" = qtraj ] || fail "the process is called $(cat "/proc/$!/comm")"
kill $!
finish
