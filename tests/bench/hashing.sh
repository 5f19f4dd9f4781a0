#!/usr/bin/env bash
# Share of a visit's processor time that hashing takes (below 1 %), by samples of perf in libxxhash, on one thread: quickstart, two
# variants of a checkpoint of a million parameters; large, one variant of a random one with 135 million on two sequences of 256.
#   BUILD=build/dev tests/bench/hashing.sh
# PYTHON needs numpy. Samples depend little on what else the machine does. PAIRS=5: besides, five paired runs of each, as they are and
# with a libxxhash that looks at 64 bytes of what it is given, in alternation: the ratio of their processor seconds (user).
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${BUILD:-$here/build/dev}") python=${PYTHON:-python3} quickstart=$here/configs/quickstart
work=$(mktemp -d "${FOLDER:-/tmp}/hashing.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
"$python" "$here/tests/bench/make_checkpoint.py" "$build/qtraj" "$work/large" --family llama --hidden 576 --layers 30 --heads 9 \
    --kv-heads 3 --intermediate 1536 --vocab 49152 >/dev/null
"$python" "$here/tests/bench/make_ids.py" ids.safetensors 49152 evaluation=2,256 >/dev/null
printf 'checkpoint\nlarge\n' >large.csv
head -2 "$quickstart/trajectory.csv" >quickstart.csv

sweep() { # NAME FOLDER BITS EVALUATION MORE_OF_THE_MODEL MORE_METHODS
    printf 'name: %s\nresults: %s.h5\nmodels: [{name: m, trajectory: %s.csv, path: "%s/{checkpoint}"%s}]\nbits: %s
methods: [{method: rtn, group_size: 64}%s]\nevaluation: [{name: e, %s}]\nrun: {threads: 1}\n' \
        "$1" "$1" "$1" "$2" "$5" "$3" "$6" "$4" >"$1.yaml"
}
text="text: /usr/share/doc/debian/FAQ/debian-faq.en.txt.gz, layout: packed, length: 256"
sweep large . "[4]" "ids: \"ids.safetensors:evaluation\"" "" ""
sweep quickstart "$quickstart/trajectory" "[3]" "$text, skip: 64, samples: 64" ", tokenizer: $quickstart/trajectory/tokenizer.json" \
    ", {method: gptq, group_size: 64}"
echo "calibration: {$text, samples: 64}" >>quickstart.yaml
for name in large quickstart; do
    perf record -q -e cpu-clock:u -F 999 -o perf.data "$build/qtraj" run "$name.yaml" 2>log >&2 || { cat log >&2 && exit 1; }
    perf report -i perf.data --stdio --no-children -q -n --sort dso 2>/dev/null |
        awk -v name="$name" '/%/ {all += $2} /libxxhash/ {hash += $2} END {
            printf "%-10s %d of %d samples: %.2f %%\n", name, hash, all, 100 * hash / all; exit !(all > 0 && hash < 0.01 * all)}'
done

pairs=${PAIRS:-0}
[ "$pairs" -gt 0 ] || exit 0
cc -O2 -shared -fPIC -o cheap.so -x c - <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <xxhash.h>
#define CHEAP(n) ((n) < 64 ? (n) : 64)
#define REAL(f) (__typeof__(&f))dlsym(RTLD_NEXT, #f)
XXH128_hash_t XXH3_128bits(const void *data, size_t n) { return (REAL(XXH3_128bits))(data, CHEAP(n)); }
XXH_errorcode XXH3_128bits_update(XXH3_state_t *h, const void *data, size_t n) { return (REAL(XXH3_128bits_update))(h, data, CHEAP(n)); }
C
user() { # PRELOAD NAME: processor seconds of the whole command
    rm -rf "$2".h5* "$2".journal*
    (TIMEFORMAT=%U && time LD_PRELOAD=$1 "$build/qtraj" run "$2.yaml" >log 2>&1) 2>&1
}
for name in large quickstart; do
    for _ in $(seq "$pairs"); do echo "$(user "" $name) $(user "$work/cheap.so" $name)"; done >seconds
    sort -n <(awk '{print $1 / $2}' seconds) | awk -v name="$name" '{ratio[NR] = $1}
        END {printf "%s: %d pairs, with over without: median %.4f, %.4f to %.4f\n", name, NR, ratio[int((NR + 1) / 2)], ratio[1], ratio[NR]}'
done
