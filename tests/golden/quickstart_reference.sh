#!/usr/bin/env bash
# The quickstart's sweep against reference.json: four checkpoints at 2 bits (QTRAJ_REFERENCE='step*': all eleven), two at 3 and 4 bits,
# of both runs.
# tests/tools/compare_reference.py says what may differ, with whichever kernel the BLAS takes.
. "$SOURCE/tests/tools/lib.sh"
need_python xarray h5netcdf
[ -r $faq ] || skip "the Debian FAQ is not installed (package debian-faq)"
sum=f687d96695d667f428edb40476d0b73efc611689e030d3a0828bb76f31dc81f6
zcat $faq | sha256sum | grep -q $sum || skip "the Debian FAQ here is not that of the reference (11.1)"

# run NAME BITS CHECKPOINTS
run() {
    launch 900 3 run "$quickstart/quickstart.yaml" --set "results=$work/$1.h5" --set "bits=[$2]" --set curvature=null --set movement=null \
        --only "checkpoint=$3" || fail "$1: exit code $?: $(cat "$work/err")"
}
# compare NAME [LABEL]
compare() { "$python" "$SOURCE/tests/tools/compare_reference.py" "$work/$1.h5" "$quickstart/reference.json" "${@:2}"; }
run two 2 "${QTRAJ_REFERENCE:-step00?[257]00}"
run more 3,4 'step00?[28]00'
for name in two more; do
    compare $name >"$work/compared" || fail "the results differ from the reference: $(cat "$work/compared")"
    cat "$work/compared"
done
# test of the test: round-to-nearest must fail as GPTQ, and so must a damping of 0.011 in place of 0.01
for name in two more; do compare $name rtn >/dev/null && fail "round-to-nearest passes for GPTQ"; done
methods='[{method: rtn, symmetric: true, group_size: 64}, {method: gptq, symmetric: true, group_size: 64, damping: 0.011, order: none}]'
launch 300 3 run "$quickstart/quickstart.yaml" --set "results=$work/damped.h5" --set 'bits=[2]' --set "methods=$methods" \
    --set curvature=null --set movement=null --only model=quickstart --only checkpoint=step000900 || fail "exit code $?: $(cat "$work/err")"
compare damped >"$work/damped.txt" && fail "a damping of 0.011 passes: $(cat "$work/damped.txt")"
grep -q "^median at 2 bits gptq: off by" "$work/damped.txt" || fail "a damping of 0.011 fails by something else: $(cat "$work/damped.txt")"
finish
