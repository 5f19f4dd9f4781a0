#!/usr/bin/env bash
# All tests: the dev build (warnings are errors) with everything, then the unit tests under the address and
# undefined-behaviour sanitizers. Installs missing packages first. Ends with ctest's summaries, failed ones last;
# the exit code is 0 only if every test of both passed. On a CPU with AVX-512, what compares bits runs once more with kernels held
# to AVX2 (tests/kernels.sh).
set -u
. "$(dirname "$0")/../jobs/lib.sh"

install() {
    install_packages build products text analysis tests
    python_find
}

# test_preset NAME: prints ctest's report and writes it to a log.
test_preset() {
    ctest --preset "$1" --parallel "$(cores)" --no-compress-output 2>&1 | tee "build/$1/ctest.log"
    return "${PIPESTATUS[0]}"
}

summary() {
    local log=build/$1/ctest.log
    [ "$1" = avx2 ] && log=build/dev/kernels-avx2.log
    sed -n '/tests passed,/,$p' "$log"
}

mpi_environment
timed installing install || exit
passed=() failed=()
for preset in dev asan; do
    timed "build $preset" build_preset $preset || exit
    if timed "test $preset" test_preset $preset; then passed+=("$preset"); else failed+=("$preset"); fi
done

bits='^((linalg|model|quant)\.test_|eval\.test_head|curvature\.test_hvp|mpi\.(ranks|tasks)$)'
if grep -qw avx512f /proc/cpuinfo && ! timed "test avx2" env QTRAJ_BLAS_KERNELS=avx2 tests/kernels.sh -R "$bits"; then
    failed+=(avx2)
fi

printf '\n%s' "$times"
for preset in "${passed[@]}" "${failed[@]}"; do
    printf '\n%s:\n' "$preset"
    summary "$preset"
done
[ ${#failed[@]} = 0 ]
