#!/usr/bin/env bash
# A CPU without units for bf16 (oneDNN is told so), and with them: what asks for products in bf16 says once, before anything else, that
# they are multiplied in f32 and why, and computes them; auto, which is f32 there, and f32 say nothing.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy

quickstart_sweep '1p;4p' fixed_text <<'YAML'
name: without
results: results.h5
bits: [3]
methods:
  - {method: rtn, group_size: 64}
evaluation:
  - {name: docs, text: text.txt, length: 64, samples: 4}
YAML
step=$quickstart/trajectory/step000500
"$QTRAJ" doctor --json --scratch "$work" >"$work/doctor.json" 2>"$work/err"
native=1
! grep -q '"bf16_by": "terms in f32"' "$work/doctor.json" || native=0

# as_old COMMAND ...: as on a CPU without units for bf16
as_old() { ONEDNN_MAX_CPU_ISA=AVX2 "$@"; }

# warns WHAT KIND WARNINGS: of $work/err, and what each of them says
warns() {
    local text="products in $2 are multiplied in f32 here, to the same accuracy, and take .*as long as those of f32: "
    [ "$(grep -c 'multiplied in f32' "$work/err")" = "$3" ] || fail "$1 in $2: not $3 warnings: $(cat "$work/err")"
    [ "$3" = 0 ] || head -n 1 "$work/err" | grep -Eq "^qtraj: warning: $text(this build has no oneDNN 2|oneDNN (may use|finds) no instructions)" ||
        fail "$1 in $2: $(head -n 1 "$work/err")"
}

# with CPU KIND WARNINGS: plans and runs the sweep, alone and on three ranks
with() {
    local run=() name=$1-$2
    [ "$1" = here ] || run=(as_old)
    "${run[@]}" "$QTRAJ" plan "$work/sweep.yaml" --set "run.products=$2" >"$work/out" 2>"$work/err" || fail "plan: exit code $?: $(cat "$work/err")"
    warns plan "$2" "$3"
    for ranks in 1 3; do
        "${run[@]}" launch 120 $ranks run "$work/sweep.yaml" --set "results=$name-$ranks.h5" --set "run.products=$2" --set run.threads=1 ||
            fail "$name, $ranks ranks: exit code $?: $(cat "$work/err")"
        warns "run, $ranks ranks," "$2" "$3"
    done
}

for kind in f32 bf16x3 bf16x2 bf16 auto; do
    expected=1
    case $kind in f32 | auto) expected=0 ;; esac
    with old $kind $expected
done
with here bf16 $((1 - native))
with here f32 0

# the commands of one checkpoint; SWITCH KIND is added
single() { # COMMAND SWITCH ARGUMENT ...
    for kind in f32 bf16; do
        as_old "$QTRAJ" "$1" "$step" --tokenizer "$quickstart/trajectory/tokenizer.json" --length 64 "${@:3}" "$2" $kind \
            >"$work/out" 2>"$work/err" || fail "$1 in $kind: exit code $?: $(cat "$work/err")"
        warns "$1" $kind $([ $kind = f32 ] && echo 0 || echo 1)
    done
}
single eval --products --text "$work/text.txt" --samples 1
single quantize --products --method gptq --bits 4 --calibration-text "$work/text.txt" --calibration-samples 1
single curvature --products-in --text "$work/text.txt" --samples 1 --sharpness power --products 1

"$python" - "$work" "$native" <<'PY' || fail "losses or fingerprints"
import sys
import h5py
import numpy as np

def read(name, ranks=1):
    with h5py.File(f"{sys.argv[1]}/{name}-{ranks}.h5") as f:
        return f["loss"][:].astype(float).ravel(), str(f["cells/fingerprint"].asstr()[:].ravel()[0])

f32 = read("old-f32")[0]
assert np.isfinite(f32).all() and len(f32) > 0, f32
assert np.array_equal(read("old-auto")[0], f32), "auto is not f32"
assert np.abs(read("here-f32")[0] / f32 - 1).max() < 1e-6, "f32 differs"
for kind, least, most in (("bf16x3", 0, 1e-6), ("bf16x2", 0, 2e-6), ("bf16", 1e-6, 1e-2)):
    (loss, fingerprint), parallel = read(f"old-{kind}"), read(f"old-{kind}", 3)[0]
    off = np.abs(loss / f32 - 1).max()
    print(kind, off)
    assert least <= off < most and np.array_equal(loss, parallel), (kind, off)
    assert f"products {kind}, terms in f32" in fingerprint, fingerprint
assert ("oneDNN" in read("here-bf16")[1]) == (sys.argv[2] == "1"), read("here-bf16")[1]
PY
finish
