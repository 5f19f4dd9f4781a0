#!/usr/bin/env bash
# The quickstart's sweep, three of its eleven checkpoints (all with QTRAJ_REFERENCE_ALL=1), against reference.json.
. "$SOURCE/tests/tools/lib.sh"
need_python xarray h5netcdf
[ -r $faq ] || skip "the Debian FAQ is not installed (package debian-faq)"
sum=f687d96695d667f428edb40476d0b73efc611689e030d3a0828bb76f31dc81f6
zcat $faq | sha256sum | grep -q $sum || skip "the Debian FAQ here is not that of the reference (11.1)"

checkpoints='step000[589]00' # the stable run at 500 and 900, the end of the cooldown at 800
[ "${QTRAJ_REFERENCE_ALL:-0}" = 0 ] || checkpoints='*'
# why GPTQ runs thrice: see tests/tools/compare_reference.py
gptq='method: gptq, group_size: 64'
methods="[{method: rtn, group_size: 64}, {$gptq}, {$gptq, name: a, damping: 0.0100002}, {$gptq, name: b, damping: 0.0100004}]"
launch 600 3 run "$SOURCE/configs/quickstart/quickstart.yaml" --set "results=$work/cube.h5" --set 'bits=[2, 3, 4]' \
    --set "methods=$methods" --only "checkpoint=$checkpoints" || fail "exit code $?: $(cat "$work/err")"

compare() { "$python" "$SOURCE/tests/tools/compare_reference.py" "$work/cube.h5" "$SOURCE/configs/quickstart/reference.json" "$@"; }
compare gptq,a,b || fail "the results differ from the reference"
# the test of the test: round-to-nearest must not pass for GPTQ
compare rtn >/dev/null && fail "round-to-nearest passes for GPTQ"
finish
