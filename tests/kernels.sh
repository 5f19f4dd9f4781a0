#!/usr/bin/env bash
# tests/kernels.sh [CTEST ARGUMENT ...]: runs the tests of the preset dev (all, or those that the arguments select) once with each
# kernel of OpenBLAS that this CPU runs, with the one that OpenBLAS chooses by itself, and, as "avx2", as on a CPU without AVX-512:
# OpenBLAS, oneDNN and qtraj's own kernels are held to AVX2. Exits 0 only if all tests passed.
set -u
. "$(dirname "$0")/../jobs/lib.sh"

# NAME INSTRUCTIONS: the words that /proc/cpuinfo must have.
kernels="Haswell avx2 fma
Zen avx2 fma
SkylakeX avx512f avx512dq avx512bw avx512vl
Cooperlake avx512f avx512dq avx512bw avx512vl avx512_bf16"

kernels_here() {
    local name words word flags
    flags=" $(grep -m 1 '^flags' /proc/cpuinfo) "
    while read -r name words; do
        for word in $words; do
            case "$flags" in *" $word "*) ;; *) continue 2 ;; esac
        done
        echo "$name"
    done <<<"$kernels"
}

# with KERNEL COMMAND ...: KERNEL "chosen" is the one that OpenBLAS chooses.
with() {
    local kernel=$1
    shift
    case $kernel in
        chosen) env -u OPENBLAS_CORETYPE "$@" ;;
        avx2) OPENBLAS_CORETYPE=Haswell ONEDNN_MAX_CPU_ISA=AVX2 QTRAJ_KERNELS=avx2 "$@" ;;
        *) OPENBLAS_CORETYPE=$kernel "$@" ;;
    esac
}

# The kernel that OpenBLAS takes; it ignores names that it does not know.
taken() {
    with "$1" build/dev/qtraj doctor --json 2>/dev/null | sed -n 's/.*"library": "OpenBLAS [^ ]* \([^"]*\)".*/\1/p' | head -n 1
}

# The names from ctest's closing list of failed tests.
failed_tests() {
    sed -n '/tests FAILED/,$s/^[ \t]*[0-9]* - \([^ ]*\) .*/\1/p' "$1" | paste -sd ' '
}

# test_kernel KERNEL CTEST-ARGUMENT ...: adds a line to $table.
test_kernel() {
    local kernel=$1 log=build/dev/kernels-$1.log found seconds=$SECONDS
    shift
    found=$(taken "$kernel")
    if [[ $kernel != chosen && $kernel != avx2 && ${found,,} != "${kernel,,}" ]]; then
        table+="$kernel: skipped, the BLAS takes ${found:-no kernel of OpenBLAS}"$'\n'
        return 0
    fi
    if ! with "$kernel" ctest --preset dev -R '^math.test_gemm' >"$log" 2>&1; then
        table+="$kernel ($found): not tested, the BLAS computes wrong products with it ($log)"$'\n'
        return 1
    fi
    if with "$kernel" ctest --preset dev --no-compress-output "$@" >"$log" 2>&1; then
        table+="$kernel ($found): $(grep 'tests passed' "$log"), $((SECONDS - seconds)) s"$'\n'
    else
        table+="$kernel ($found): failed: $(failed_tests "$log") ($log)"$'\n'
        return 1
    fi
}

mpi_environment
cmake_find
build_preset dev || exit
failures=0 table=
for kernel in ${QTRAJ_BLAS_KERNELS:-chosen $(kernels_here) avx2}; do
    test_kernel "$kernel" "$@" || failures=$((failures + 1))
    printf '%s' "$table" | tail -n 1
done
[ $failures = 0 ]
