#!/usr/bin/env bash
# The quickstart's sweep, three of its eleven checkpoints (all with QTRAJ_REFERENCE_ALL=1), against reference.json.
. "$SOURCE/tests/tools/lib.sh"
need_python xarray h5netcdf
[ -r $faq ] || skip "the Debian FAQ is not installed (package debian-faq)"

checkpoints='step000[589]00' # the stable run at 500 and 900, the end of the cooldown at 800
[ "${QTRAJ_REFERENCE_ALL:-0}" = 0 ] || checkpoints='*'
launch 600 3 run "$SOURCE/configs/quickstart/quickstart.yaml" --set "results=$work/cube.h5" --set 'bits=[2, 3, 4]' \
    --only "checkpoint=$checkpoints" || fail "exit code $?: $(cat "$work/err")"

compare() { "$python" "$SOURCE/tests/tools/compare_reference.py" "$work/cube.h5" "$SOURCE/configs/quickstart/reference.json" "$@"; }
compare || fail "the results differ from the reference"
# the test of the test: round-to-nearest must not pass for GPTQ
compare rtn >/dev/null && fail "round-to-nearest passes for GPTQ"
finish
