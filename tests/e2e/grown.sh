#!/usr/bin/env bash
# A sweep that is changed after it was run says what that does: results under another name, averages that are counted back from a longer
# table, texts added in front, a limit of memory that was too low, a cube that is read while a run goes on.
. "$SOURCE/tests/tools/lib.sh"
quickstart_sweep '1p;2,6p' fixed_text <<'YAML'
name: grown
results: cube.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: first, text: text.txt, length: 64, samples: 2}]
movement: rtn
YAML
sed -i 's/  - {name: quickstart,/&averages: [{name: lawa, window: 2, stride: 2}], /' "$work/sweep.yaml"
cd "$work" || exit 2
cp trajectory.csv all.csv
sed -i '$d' trajectory.csv # four checkpoints
# go CODE COMMAND ARGUMENT ...; says TEXT, in a line or in lines that were broken
go() {
    "$QTRAJ" "$2" sweep.yaml "${@:3}" >out 2>err </dev/null
    local code=$?
    [ $code = "$1" ] || fail "${*:2}: exit code $code, expected $1: $(cat err out)"
}
says() { cat out err | tr -s '\n ' ' ' | grep -q -- "$1" || fail "does not say \"$1\": $(cat out err)"; }
silent() { cat out err | tr -s '\n ' ' ' | grep -q -- "$1" && fail "says \"$1\": $(cat out err)"; }

# too little memory: tried again when there is more
go 1 run --set run.memory_per_rank=2M
says "is too little for this checkpoint"
go 1 run --set run.memory_per_rank=2M
says "nothing to do"
go 1 plan --brief --rate 10 --set run.memory_per_rank=2M
says "cells: 6 failed, as qtraj status .* says, and a run tries them again with --retry failed, or when .* the limit of memory was raised"
go 0 plan --brief --rate 10
says "6 visits, 6 cells to do"
silent "retry"
go 0 run
says "6 of 6 cells done, 0 failed, 0 pending"

# results elsewhere
go 2 run --set "results=$work/none/deeper/cube.h5"
says "results: folder $work/none/deeper does not exist"
[ ! -e none ] || fail "a mistyped folder was made"
go 1 plan --brief --rate 10 --set "results=$work/none/deeper/cube.h5"
says "results: folder $work/none/deeper does not exist"
go 0 plan --brief --rate 10 --set results=made/cube.h5
says "made/cube.h5 is new, and 6 of these 6 cells are finished in .*cube.h5, which the sweep file names"
go 0 run --set results=made/cube.h5 --only checkpoint=step000100
says "is new, and 6 of these 6 cells are finished"
go 0 run --set results=made/cube.h5 --only checkpoint=step000100
silent "is new"

# a text in front: the cells are done, and lack its scores
second='evaluation=[{name: second, text: text.txt, length: 64, skip: 9, samples: 2}, {name: first, text: text.txt, length: 64, samples: 2}]'
cp cube.h5 texts.h5 && cp cube.journal texts.journal
go 0 run --set "$second" --set results=texts.h5 --only checkpoint=step000100
"$QTRAJ" status texts.h5 >out 2>err || fail "status: $(cat err)"
says "5 of the pending cells are finished but for scores on added texts"
go 0 plan --brief --rate 10 --redo
says "6 cells to do, 6 of them finished before"

# averages between others: these come after another one
go 0 plan --brief --rate 10 --set 'models[0].averages[0].stride=1'
says "movement is pending again where another checkpoint comes before: that of lawa@step000700 is one"

# a longer table moves the averages
cp all.csv trajectory.csv
go 0 plan --brief --rate 10
says "2 finished averages lawa of quickstart are no longer part of this sweep: with stride 2 they are counted back from the last checkpoint"
go 0 run
says "2 finished averages lawa"
go 0 plan --brief --rate 10
silent "no longer part"

# while a run goes on, the cube is what it was
"$QTRAJ" run sweep.yaml --redo --set run.products=f32 --set evaluation[0].samples=2000 >/dev/null 2>&1 </dev/null &
run=$!
wait_for 60 test -e cube.journal.lock
"$QTRAJ" show cube.h5 >out 2>err || fail "show: $(cat err)"
says "a run goes on: what it has finished since this cube is in .*cube.journal"
kill -TERM $run
wait $run
"$QTRAJ" show cube.h5 >out 2>err || fail "show: $(cat err)"
silent "a run goes on"
finish
