#!/usr/bin/env bash
# On a CPU that OpenBLAS does not know it takes kernels without AVX: qtraj starts itself again with those that the CPU runs, in
# commands with and without mpirun, unless OPENBLAS_CORETYPE is set.
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
finish
