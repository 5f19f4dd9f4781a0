#!/usr/bin/env bash
# A sweep with all that few bits of activations, keys and values take: one run of it is killed with kill -9 at $QTRAJ_KILLS random
# moments (10), and once behind its first cells, each time going on where it was. It must end with the cube of an undisturbed run,
# bit for bit.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
export TMPDIR=$work OMPI_MCA_btl_vader_backing_directory=$work

online='activations: {bits: 4, clip: 0.9, rotation: hadamard}, keys: {bits: 4, clip: 0.95, rotation: hadamard}, values: {bits: 4, clip: 0.95}'
quickstart_sweep '1p;2p;4p;5p;7p;9p' <<YAML
name: grids
results: undisturbed.h5
methods:
  - {method: gptq, group_size: 64, W: [16, 8, 4], A: [16, 8, 4], KV: [16, 4, 2], activations: {clip: 0.9}, keys: {rotation: hadamard}}
  - {name: static, method: none, activations: {bits: 8, granularity: static, down_bits: 4}}
  - {name: atom, method: rtn, bits: [4], group_size: 32, range_factor: 0.85, outlier_columns: 16, outlier_bits: 8, outlier_score: squares,
     activations: {bits: 4, clip: 0.9, group_size: 32, outliers: 16, outlier_bits: 8, outlier_score: squares}, keys: {bits: 4, before_rope: true}, values: {bits: 4}}
  - {name: quik, method: gptq, bits: [4], group_size: -1, narrow_range: true, range_search: 2.4, outlier_columns: 16, down_bits: 8,
     activations: {bits: 4, symmetric: false, outliers: 16, down_bits: 8}}
  - {name: quarot, method: gptq, bits: [4], group_size: -1, narrow_range: true, rotation: [R1, R2, R4], ${online/hadamard/hadamard, calibrated: true}}
  - {name: random, method: rtn, bits: [4], rotation: [Q1, R2, R4], $online}
  - {name: kivi, method: none, keys: {bits: 2, kind: channel, group: 16, residual: 32}, values: {bits: 2, residual: 32}}
  - {name: fp8, method: none, activations: {bits: 8, codes: fp8_e4m3}, keys: {bits: 8, codes: fp8_e5m2}, values: {bits: 8, codes: fp8_e5m2}}
  - {method: smoothquant, bits: [8], keys: {bits: 8}, values: {bits: 8}}
outliers: true
calibration: {text: text.txt, length: 64, samples: 4}
evaluation: [{name: own, text: text.txt, length: 64, skip: 8, samples: 4}]
YAML

start=$(date +%s%N)
launch 120 3 run "$work/sweep.yaml" || fail "undisturbed: exit code $?: $(cat "$work/err")"
took=$((($(date +%s%N) - start) / 1000000))

records() { wc -l 2>/dev/null <"$work/killed.journal"; }
has_cells() { [ "$(records)" -gt 2 ]; }

RANDOM=$$
echo "seed $$, $took ms undisturbed"
for i in $(seq "${QTRAJ_KILLS:-10}"); do
    at=$((took * (RANDOM % 1000) / 2000))
    kill_after "$(printf '%d.%03d' $((at / 1000)) $((at % 1000)))" "$work/killed.h5"
    echo "kill $i after $at ms: $(records) records"
done
kill_after 60 "$work/killed.h5" has_cells
has_cells || fail "no run came as far as a cell"
launch 120 2 run "$work/sweep.yaml" --set "results=$work/killed.h5" || fail "the last start: exit code $?: $(cat "$work/err")"
compare undisturbed killed
finish
