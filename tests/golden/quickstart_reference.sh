#!/usr/bin/env bash
# The quickstart's sweep at 2, 3 and 4 bits, all eleven checkpoints, against reference.json.
# tests/tools/compare_reference.py says what may differ, with whichever kernel the BLAS takes.
. "$SOURCE/tests/tools/lib.sh"
need_python xarray h5netcdf
[ -r $faq ] || skip "the Debian FAQ is not installed (package debian-faq)"
sum=f687d96695d667f428edb40476d0b73efc611689e030d3a0828bb76f31dc81f6
zcat $faq | sha256sum | grep -q $sum || skip "the Debian FAQ here is not that of the reference (11.1)"

launch 900 3 run "$SOURCE/configs/quickstart/quickstart.yaml" --set "results=$work/cube.h5" --set 'bits=[2, 3, 4]' \
    --set curvature=null --only 'checkpoint=step*' ||
    fail "exit code $?: $(cat "$work/err")"

compare() { "$python" "$SOURCE/tests/tools/compare_reference.py" "$work/cube.h5" "$SOURCE/configs/quickstart/reference.json" "$@"; }
compare || fail "the results differ from the reference"
# test of the test: round-to-nearest must fail as GPTQ
compare rtn >/dev/null && fail "round-to-nearest passes for GPTQ"
finish
