#!/usr/bin/env bash
# Staging in a space of two checkpoints, with movement and averages. First, three parts at once, which are killed (kill -9) at random
# moments and started again; then, one run that is killed before a file operation in the folders of results and checkpoints. At all times
# what is on disk fits into the space, and the cube is that of a run without staging, bit for bit.
# QTRAJ_STAGING="ROUNDS KILLS OPERATIONS" ("1 3 8"): rounds of three parts, kills in each, and file operations ("all").
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
read -r rounds kills operations <<<"${QTRAJ_STAGING:-1 3 8}"

mkdir "$work/sweep" && cd "$work/sweep" || exit 2
fixed_text text.txt
cp "$quickstart"/{trajectory.csv,trajectory/tokenizer.json,trajectory/step000100/config.json} .
mapfile -t names < <(tail -n +2 trajectory.csv | cut -d , -f 1)
bytes=$(cat "$quickstart/trajectory/${names[0]}"/* | wc -c)
space=$((2 * bytes + bytes / 2))

# fetch NAME FOLDER: copies, and notes how many bytes are on disk then.
cat >fetch <<'FETCH'
#!/usr/bin/env bash
unset LD_PRELOAD
cd "$(dirname "$0")" || exit 2
cp "$QUICKSTART/trajectory/$1"/* "$2/"
echo "$1 $(find area/store -type f -printf '%s\n' 2>/dev/null | awk '{s += $1} END {print s}')" >>diary
FETCH
chmod +x fetch
export QUICKSTART=$quickstart

cat >sweep.yaml <<YAML
name: staging
results: area/results.h5
models:
  - {name: small, trajectory: trajectory.csv, path: "area/store/{checkpoint}", tokenizer: tokenizer.json,
     stage: [./fetch, "{revision}", "{path}"], keep: false,
     averages: [{name: ends, of: [${names[0]}, ${names[5]}]}, {name: middle, of: [${names[2]}, ${names[3]}]},
                {name: late, of: [${names[1]}, ${names[6]}]}]}
bits: [3, 4]
methods: [{method: rtn, group_size: 64}]
movement: rtn
evaluation: [{name: text, text: text.txt, length: 64, samples: 2}]
run: {threads: 1, stage_pause: 0.05, stage_space: $space}
YAML
sed '/stage: /s/stage: .*keep: false,//; s|area/store/|'"$quickstart"'/trajectory/|; s|, stage_pause.*|}|' sweep.yaml >plain.yaml
"$QTRAJ" run plain.yaml --set results=plain.h5 2>err || fail "without staging: $(cat err)"

anew() { rm -rf area diary; mkdir -p area/store; }
# ends WHAT CUBE: what must hold when all is done
ends() {
    "$python" "$SOURCE/tests/tools/compare_cubes.py" plain.h5 "$2" | grep -v '^provenance/config: \| 1 differences$' >differences &&
        fail "$1: $(cat differences)"
    [ -z "$(ls -A area/store)" ] || fail "$1: left on disk: $(ls -A area/store)"
    local most
    most=$(cut -d ' ' -f 2 diary | sort -n | tail -1)
    [ "$most" -le $((space + 1000)) ] || fail "$1: $most bytes on disk in a space of $space"
    # each visit of a checkpoint reads it and, but for the first, the one before, three averages two; each kill costs what it had
    [ "$(wc -l <diary)" -le $((2 * ${#names[@]} + 6 + 2 * $3)) ] || fail "$1: $(wc -l <diary) fetches"
}

# --- three parts ---
begin() { QTRAJ_TRACE=stage "$QTRAJ" run sweep.yaml --part "$1/3" 2>>"err$1" & pid[$1]=$!; }
export QTRAJ_LEASE=20
RANDOM=1
for ((round = 1; round <= rounds; round++)); do
    anew
    rm -f err1 err2 err3
    left=$kills
    for k in 1 2 3; do begin $k; done
    while [ $left -gt 0 ]; do
        sleep "0.$((RANDOM % 900 + 100))"
        k=$((RANDOM % 3 + 1))
        kill -9 "${pid[$k]}" 2>/dev/null && left=$((left - 1))
        wait "${pid[$k]}" 2>/dev/null
        begin $k
    done
    for k in 1 2 3; do
        wait "${pid[$k]}" || fail "part $k: exit code $?: $(tail -5 "err$k")"
    done
    "$QTRAJ" merge merged.h5 area/results.h5.parts 2>err || fail "merge: $(cat err)"
    ends "round $round" merged.h5 "$kills"
    echo "round $round: $(wc -l <diary) fetches of ${#names[@]} checkpoints, $kills kills; visits waited" \
        "$(cat err? | sed -n 's/.*waited \([0-9.]*\) s.*/\1/p' | awk '{n++; s += $1} END {printf "%.1f s in %d visits", s, n}')"
    rm -f merged.*
done

# --- one run, killed before an operation ---
export FAULT_CALLS=open,write,sync,rename FAULT_FOLDER=$PWD/area FAULT_REPORT=$PWD/report FAULT_DO=kill
anew
FAULT_AT=0 LD_PRELOAD=$FAULT_LIBRARY "$QTRAJ" run sweep.yaml 2>err || fail "counting: $(cat err)"
ends "one run" area/results.h5 0

n=$(grep -o '[0-9]*' report | sort -n | tail -1)
step=1
[ "$operations" = all ] || step=$(((n + operations - 1) / operations))
killed=0
for ((at = 1 + step / 2; at <= n; at += step)); do
    anew
    rm -f report
    { FAULT_AT=$at LD_PRELOAD=$FAULT_LIBRARY "$QTRAJ" run sweep.yaml 2>err; } 2>/dev/null
    [ -s report ] || continue # the looks at the ledger differ from run to run
    killed=$((killed + 1))
    "$QTRAJ" run sweep.yaml 2>err || fail "after $(cat report): $(cat err)"
    ends "after $(cat report)" area/results.h5 1
done
echo "$killed runs killed before one of $n operations"
[ $killed -gt 0 ] || fail "no run was killed"
finish
