#!/usr/bin/env bash
# All tests: the dev build (warnings are errors) with everything, then the unit tests under the sanitizers (preset asan); on a CPU with
# AVX-512, what compares bits once more with kernels held to AVX2. Installs missing packages first; failed tests are listed last, and
# the exit code is 0 only if all passed. tests/run.sh --quick: unit tests, lint and one sweep that is killed, without the sanitizers.
# tests/run.sh ARGUMENT ...: the tests of the dev build that these arguments of ctest select, as in tests/run.sh -R gptq
set -u
. "$(dirname "$0")/../jobs/lib.sh"

install() {
    install_packages build products text analysis tests
    python_find
}

# Three places a core: a test that waits leaves its core to another. Tests that compute take more than one (tests.cmake).
places=$((3 * $(cores)))
beside=(--parallel $((places + 4)) --resource-spec-file "$qtraj_root/build/places.json")
printf '{"version": {"major": 1, "minor": 0}, "local": [{"places": [{"id": "0", "slots": %d}]}]}\n' $places >build/places.json

# test_preset NAME [ARGUMENT ...]: prints ctest's report and writes it to a log.
test_preset() {
    ctest --preset "$1" "${beside[@]}" --no-compress-output "${@:2}" 2>&1 | tee "build/$1/ctest.log"
    return "${PIPESTATUS[0]}"
}

summary() {
    local log=build/$1/ctest.log
    [ "$1" = avx2 ] && log=build/dev/kernels-avx2.log
    sed -n '/tests passed,/,$p' "$log"
}

presets="dev asan" selected=()
if [ "${1:-}" = --quick ]; then
    presets=dev selected=(-L '^(unit|lint|quick)$' "${@:2}")
elif [ $# -gt 0 ]; then
    presets=dev selected=("$@")
fi

mpi_environment
timed installing install || exit
passed=() failed=()
for preset in $presets; do
    timed "build $preset" build_preset $preset || exit
    if timed "test $preset" test_preset $preset "${selected[@]}"; then passed+=("$preset"); else failed+=("$preset"); fi
done

# What rounds to f32 or compares bits. The dev build itself ran the tests that choose AVX2, and those without oneDNN. That memory changes no bit
# is seen in mpi.groups.
bits='^((math|model|quant|curvature|engine|measures)\.test_|eval\.test_head|e2e\.kill_resume$'
bits+='|mpi\.(curvature|groups|groups_curvature|movement|products|ranks|replicates|surfaces|tasks)$)'
if [ "$presets" != dev ] && grep -qw avx512f /proc/cpuinfo && ! timed "test avx2" env QTRAJ_BLAS_KERNELS=avx2 QTRAJ_ONLY_BITS=1 tests/kernels.sh "${beside[@]}" \
    -R "$bits" -E '_f64$|_avx2$|_without$|\.np[256]$|^measures\.test_failures'; then
    failed+=(avx2)
fi

printf '\n%s' "$times"
for preset in "${passed[@]}" "${failed[@]}"; do
    printf '\n%s:\n' "$preset"
    summary "$preset"
done
[ ${#failed[@]} = 0 ]
