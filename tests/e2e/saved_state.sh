#!/usr/bin/env bash
# Visits that save their state at every block and between products, killed again and again: each run continues where the
# last one was, repeats less than one block, and the cube is that of an undisturbed run, bit for bit. A state of other
# ranks or inputs, or a damaged one, is ignored with a line that says so. Nothing is left at the end.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
preload=$(dirname "$QTRAJ")/libkill_at_line.so
[ -e "$preload" ] || skip "no $preload"
# files that a killed Open MPI job leaves behind are removed with the scratch folder
export TMPDIR=$work OMPI_MCA_btl_vader_backing_directory=$work QTRAJ_TRACE=visit,saved ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
blocks=4 # of the model

quickstart_sweep '1p;4p' <<YAML
name: saved
results: results.h5
bits: [2]
methods:
  - {method: gptq, group_size: 64}
  - {method: gptq, name: shared, group_size: 64, hessian: shared}
  - {method: rtn, group_size: 64, outlier_columns: 64}
calibration: {text: text.txt, length: 64, samples: 8}
evaluation: [{name: own, text: text.txt, length: 64, skip: 16, samples: 8}]
outliers: true
YAML

# run NAME RANKS ARGUMENT ...: RANKS 1: one process, without mpirun, which takes longer than the visit
run() {
    local name=$1 ranks=$2
    shift 2
    set -- run "$work/sweep.yaml" --set "results=$work/$name.h5" "$@"
    if [ "$ranks" = 1 ]; then
        timeout -k 5 120 "$QTRAJ" "$@" >"$work/out" 2>"$work/err" </dev/null
    else
        launch 120 "$ranks" "$@"
    fi
}
# die COUNT TEXT NAME RANKS ARGUMENT ...: the same, saving everywhere; killed before the COUNT-th line with TEXT. Its log is
# added to $work/NAME.log.
die() {
    local count=$1 text=$2 name=$3
    shift 2
    KILL_COUNT=$count KILL_TEXT=$text QTRAJ_SAVE=always LD_PRELOAD=$preload run "$@"
    code=$?
    cat "$work/err" >>"$work/$name.log"
    return $code
}
# in_turns COUNT TEXT NAME RANKS ARGUMENT ...: runs that are killed, until one is not; sets $kills
in_turns() {
    kills=0
    until die "$@"; do
        kills=$((kills + 1))
        [ $kills -le 60 ] || { fail "$3: no progress: $(cat "$work/err")" && return; }
    done
    grep -q "4 of 4 cells done\|3 of 3 cells done" "$work/err" || fail "$3: $(cat "$work/err")"
    [ ! -e "$work/$3.h5.checkpoints" ] || fail "$3: files are left: $(ls "$work/$3.h5.checkpoints")"
}

# --- alone: between blocks and between the variants of each ---

variants=3
run whole 1 || fail "undisturbed: $(cat "$work/err")"
grep -q 'trace saved' "$work/err" && fail "a short visit saves its state"
# alone NAME COUNT TEXT REPEATED: each kill may repeat the work of REPEATED blocks of variants
alone() {
    local name=$1 lines most
    in_turns "$2" "$3" "$name" 1
    [ $kills -ge $((blocks - 1)) ] || fail "$name: killed only $kills times"
    lines=$(grep -c 'trace visit: block' "$work/$name.log")
    [ "$3" = 'trace saved' ] || lines=$((lines + kills)) # the one that was killed before it wrote its line
    most=$((blocks * variants + kills * $4))
    echo "$name: killed $kills times; $lines blocks of variants computed, at most $most, $((blocks * variants)) undisturbed"
    [ "$lines" -le $most ] || fail "$name: too many"
    compare whole "$name"
}
alone between 2 'trace visit: block' 1       # after each variant of a block, before the state is saved
alone end $variants 'trace visit: block' 1   # after one of a block and one of the next
alone boundary 1 'trace saved' 0             # when it is saved
grep -q "$blocks of $blocks blocks are done" "$work/err" || fail "after the last block: $(cat "$work/err")"
grep -q 'trace visit: block' "$work/err" && fail "a block was computed twice"

# Variants that share statistics and try scales out: the statistics of a block that was begun are summed again.
awq=(--set 'methods=[{method: awq, group_size: 64, bits: [2, 3, 4]}, {method: gptq, group_size: 64, hessian: shared}]')
run tried 1 "${awq[@]}" || fail "awq: $(cat "$work/err")"
in_turns 2 'trace visit: block' triedturns 1 "${awq[@]}"
[ $kills -ge $((3 * blocks)) ] || fail "awq: killed only $kills times"
compare tried triedturns

# States on scratch in bf16, in one wave; then in memory, in waves of one variant.
tight() { # NAME EXPECTED COUNT ARGUMENT ...: with hardly more memory than the least, as the message about too little says
    local name=$1 expected=$2 count=$3 least
    shift 3
    run "$name" 1 "$@" --set evaluation[0].samples=100 --set run.memory_per_rank=10M
    least=$(sed -n 's/.*it takes \([0-9]*\) MiB.*/\1/p' "$work/err" | head -1)
    set -- "$@" --set evaluation[0].samples=100 --set "run.memory_per_rank=$((least + 2))M"
    QTRAJ_TRACE=memory run "$name" 1 --redo "$@" || fail "$name: $(cat "$work/err")"
    grep -q "$expected" "$work/err" || fail "$name: $(cat "$work/err")"
    in_turns "$count" 'trace visit: block' "${name}turns" 1 "$@"
    compare "$name" "${name}turns"
}
tight scratch "states in $work" $((variants + 2)) --set run.activations=bf16
tight waves '3 waves of 1 variants' 3 --set run.scratch=off

die 1 'state 3' touched 1
touch "$work/text.txt"
run touched 1 || fail "a touched input: $(cat "$work/err")"
grep -q 'continues from' "$work/err" || fail "a touched input: $(cat "$work/err")"
compare whole touched

# --- what cannot be used ---

mkdir -p "$work/copy/step000500"
cp "$quickstart"/trajectory/step000500/* "$work/copy/step000500/"
copy=(--set "models[0].path=$work/copy/{checkpoint}")
die 1 'state 3' weights 1 "${copy[@]}"
cp --remove-destination "$quickstart"/trajectory/step000900/* "$work/copy/step000500/"
run weights 1 "${copy[@]}" || fail "other weights: $(cat "$work/err")"
grep -q 'the saved state is ignored: an input file has changed' "$work/err" || fail "other weights: $(cat "$work/err")"

if [ "$(uname -m)" = x86_64 ]; then # another fingerprint
    OPENBLAS_CORETYPE=Nehalem die 1 'state 3' kernel 1
    run kernel 1 || fail "another BLAS kernel: $(cat "$work/err")"
    grep -q 'the saved state is ignored: another build of qtraj, another BLAS kernel or' "$work/err" || fail "another BLAS kernel: $(cat "$work/err")"
fi
# products of f32's accuracy share keys: as run.products: auto on another CPU
die 1 'state 3' products 1 --set run.products=bf16x3
run products 1 || fail "other products: $(cat "$work/err")"
grep -q 'the saved state is ignored: .* or another kind of products saved it' "$work/err" || fail "other products: $(cat "$work/err")"
compare whole products

die 1 'state 3' variants 1
run variants 1 --set bits='[2, 3]' || fail "more variants: $(cat "$work/err")"
grep -q 'continues from' "$work/err" && fail "a state of other variants is used"
[ ! -e "$work/variants.h5.checkpoints" ] || fail "the state of other variants is left"

die 1 'state 3' torn 1
for file in "$work"/torn.h5.checkpoints/*; do truncate -s -100 "$file"; done
run torn 1 || fail "a torn state: $(cat "$work/err")"
grep -q 'the saved state is ignored: it is damaged' "$work/err" || fail "a torn state: $(cat "$work/err")"
compare whole torn

die 1 'state 2' off 1 --set run.checkpoints=off
grep -q 'trace saved' "$work/err" && fail "off: it saves"
die 1 'state 6' elsewhere 1 --set "run.checkpoints=$work/elsewhere" && fail "elsewhere: not killed"
# `plan` counts two states, of which one is there; sums and the file's end, a few kilobytes, are not counted.
size=$(cat "$work"/elsewhere/*/* | wc -c)
planned=$("$QTRAJ" plan "$work/sweep.yaml" --json 2>"$work/err" | "$python" -c 'import json, sys; print(json.load(sys.stdin)["cost"]["models"][0]["memory"]["saved"] // 2)')
[ "$size" -ge "$planned" ] && [ "$size" -le $((planned + 65536)) ] || fail "a state of $size bytes, planned $planned"
run elsewhere 1 --set "run.checkpoints=$work/elsewhere" || fail "elsewhere: $(cat "$work/err")"
grep -q '2 of 4 blocks are done' "$work/err" || fail "elsewhere: $(cat "$work/err")"
[ -z "$(ls "$work/elsewhere/")" ] || fail "left elsewhere: $(ls "$work/elsewhere/")"
compare whole elsewhere

# --- a group of two ranks; one of them is killed ---

group=(--set run.ranks_per_group=2)
run pair 3 "${group[@]}" || fail "a group: $(cat "$work/err")"
# Twice: a third loss of a rank in one visit would fail it.
for count in 1 2; do
    die $((variants + count)) 'trace visit [2]: block' pairturns 3 "${group[@]}" && fail "a group: not killed"
done
QTRAJ_SAVE=always run pairturns 3 "${group[@]}" || fail "a group: $(cat "$work/err")"
grep -q '2 of 4 blocks are done' "$work/err" || fail "a group: $(cat "$work/err")"
compare pair pairturns
die 1 'trace saved [1]: quickstart step000500 (cells): state 3' size 3 "${group[@]}" && fail "not killed"
run size 1 || fail "another size: $(cat "$work/err")"
grep -q 'the saved state is ignored: it is that of 2 ranks' "$work/err" || fail "another size: $(cat "$work/err")"
compare whole size

# The master's disk is full when the cells arrive: their visit has ended on its rank, which must not have removed its state yet.
full=$(readlink -f "$work")/full.journal
: >"$full"
die 1 'state 4' full 2 && fail "not killed"
FAULT_REPORT=$work/fault FAULT_CALLS=write FAULT_AT=2 FAULT_DO=ENOSPC FAULT_STAYS=1 FAULT_FOLDER=$full FAULT_RANK=0 LD_PRELOAD=$FAULT_LIBRARY QTRAJ_SAVE=always \
    run full 2
[ $? = 3 ] || fail "a full disk under the journal: $(cat "$work/err")"
run full 2 || fail "after a full disk: $(cat "$work/err")"
grep -q "$blocks of $blocks blocks are done" "$work/err" || fail "after a full disk: $(cat "$work/err")"
compare whole full

# No room for the states: a warning, and the visit goes on.
FAULT_REPORT=$work/fault FAULT_CALLS=write FAULT_AT=3 FAULT_DO=ENOSPC FAULT_STAYS=1 FAULT_FOLDER=$(readlink -f "$work")/room.h5.checkpoints LD_PRELOAD=$FAULT_LIBRARY \
    QTRAJ_SAVE=always run room 1 || fail "no room for states: $(cat "$work/err")"
grep -q 'its state cannot be saved, an interruption will lose its work: .*No space left' "$work/err" || fail "no room for states: $(cat "$work/err")"
grep -c 'cannot be saved' "$work/err" | grep -qx 1 || fail "no room for states: $(cat "$work/err")"
compare whole room

# --- curvature: after each product ---

curvature=(--set 'curvature={sharpness: lanczos, products: 4, tolerance: 1e-6, trace: 3, density: 2, sequences: 2, length: 64}'
    --set methods='[{method: rtn}]' --set bits='[4]')
for ranks in 1 3; do
    arguments=("${curvature[@]}" --set run.ranks_per_group=$((ranks > 1 ? 2 : 1)))
    run "curved$ranks" $ranks "${arguments[@]}" || fail "curvature: $(cat "$work/err")"
    times=0 most=$((ranks > 1 ? 2 : 40))
    until [ $((times += 1)) -gt $most ] || die $ranks "(curvature): state" "curved${ranks}turns" $ranks "${arguments[@]}"; do :; done
    [ $ranks = 1 ] || run "curved${ranks}turns" $ranks "${arguments[@]}" || fail "curvature: $(cat "$work/err")"
    cat "$work/err" >>"$work/curved${ranks}turns.log"
    compare "curved$ranks" "curved${ranks}turns"
    [ "$(grep -c 'continues from the state saved' "$work/curved${ranks}turns.log")" -ge $((ranks > 1 ? 2 : 5)) ] ||
        fail "curvature: $(cat "$work/curved${ranks}turns.log")"
    [ ! -e "$work/curved${ranks}turns.h5.checkpoints" ] || fail "files are left"
done

if [ "$(uname -m)" = x86_64 ]; then # another fingerprint, which is among the settings
    OPENBLAS_CORETYPE=Nehalem die 1 "(curvature): state" build 1 "${curvature[@]}"
    run build 1 "${curvature[@]}" || fail "curvature, another BLAS kernel: $(cat "$work/err")"
    grep -q '(curvature): the saved state is ignored: another build of qtraj, another BLAS kernel or' "$work/err" ||
        fail "curvature, another BLAS kernel: $(cat "$work/err")"
fi

# --- visits that have a state come first, the second of two here, also if only its curvature is left ---

sed -n '1p;4,5p' "$quickstart/trajectory.csv" >"$work/trajectory.csv"
curvature=(--set 'curvature={sharpness: power, products: 3, tolerance: 1e-9, sequences: 1, length: 32}' --set methods='[{method: rtn}]')
second=$(sed -n 3p "$work/trajectory.csv" | cut -d, -f1)
for text in '(cells): state 2' '(curvature): state 2'; do
    name=first${#text}
    die 1 "$text" $name 1 "${curvature[@]}" --only "checkpoint=$second" && fail "$text: not killed"
    # paths as another folder names them
    (cd "$work" && QTRAJ_SAVE=always timeout -k 5 120 "$QTRAJ" run sweep.yaml --set results=$name.h5 "${curvature[@]}") >"$work/out" 2>"$work/err" ||
        fail "$text: $(cat "$work/err")"
    grep -m 1 'trace saved' "$work/err" | grep -q "$second (.*state" || fail "$text: not first: $(cat "$work/err")"
    grep -q "$second ${text% state*} continues from" "$work/err" || fail "$text: $(cat "$work/err")"
done
sed -i 2q "$work/trajectory.csv"

# --- second order of a cell: between the passes of its tensors ---

second=(--set 'curvature={second_order: layers, sequences: 1, length: 32}' --set methods='[{method: rtn, group_size: 64}]' --set bits='[4]')
run second 1 "${second[@]}" || fail "second order: $(cat "$work/err")"
times=0
until die 9 '(second order): state' secondturns 1 "${second[@]}" || [ $((times += 1)) -gt 10 ]; do :; done
[ "$(grep -c '(second order): continues from the state saved' "$work/secondturns.log")" -ge 2 ] || fail "second order: $(cat "$work/secondturns.log")"
compare second secondturns
finish
