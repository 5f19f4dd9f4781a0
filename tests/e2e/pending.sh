#!/usr/bin/env bash
# A text that was added to a finished sweep and is scored of some cells only: every form of show, the status and the report say that the
# others are pending; a text that cannot be scored is a failure with its reason.
. "$SOURCE/tests/tools/lib.sh"
quickstart_sweep '1p;/step000100/p;/step001200/p' fixed_text <<'YAML'
name: pending
results: cube.h5
bits: [4]
methods: [{method: rtn, group_size: 64}, {name: plain, method: rtn}]
evaluation: [{name: first, text: text.txt, length: 64, samples: 2}]
YAML
cd "$work" || exit 2
go() { "$QTRAJ" run sweep.yaml "$@" >out 2>err </dev/null || [ $? = "${code:-0}" ] || fail "run $*: $(cat err)"; }
show() { "$QTRAJ" show "$@" >out 2>err || fail "show $*: $(cat err)"; }
go
second='evaluation=[{name: first, text: text.txt, length: 64, samples: 2}, {name: second, text: text.txt, length: 64, skip: 9, samples: 2}]'
# plain's cells, and so the checkpoints, are scored on the added text; rtn's are not.
go --set "$second" --only quantizer=plain
cp cube.h5 alone.h5
for results in cube.h5 alone.h5; do # with its journal, and without
    show $results --dataset second
    [ "$(grep -cE '^step.* …( |$)' out)" = 2 ] && grep -q '^…  pending$' out || fail "$results: pending: $(cat out)"
    grep -qi 'nan' out && fail "$results: nan: $(cat out)"
    show $results --dataset second --metric loss,kl_divergence
    [ "$(grep -cE '^step.* …( |$)' out)" = 4 ] && ! grep -qi nan out || fail "$results, --metric: $(cat out)"
    show $results --csv
    head -1 out | grep -q '^model,.*,status,' || fail "no status: $(head -1 out)"
    [ "$(grep -c 'rtn,second.*,pending,' out)" = 2 ] && [ "$(grep -c ',done,' out)" = 6 ] || fail "$results, --csv: $(cat out)"
    grep 'rtn,second' out | grep -q nan && fail "--csv: nan: $(cat out)"
    show $results --json
    [ "$(grep -c '"dataset":"second".*"quantizer":"rtn".*"status":"pending".*"loss_relative":null\|"quantizer":"rtn".*"dataset":"second".*"status":"pending".*"loss_relative":null' out)" = 2 ] ||
        fail "$results, --json: $(grep second out)"
done
"$QTRAJ" status cube.h5 >out || fail "status"
grep -qE '^quickstart +2 +4 +2 +0 +2 ' out || grep -qE '^all +.* 2 +0 +2' out || fail "status: $(cat out)"
# A text that was only planned with: the checkpoints lack it too.
third='evaluation=[{name: first, text: text.txt, length: 64, samples: 2}, {name: third, text: text.txt, length: 64, skip: 12, samples: 2}]'
cp cube.h5 third.h5 && cp cube.journal third.journal
go --set "$third" --set results=third.h5 --only quantizer=plain --only checkpoint=step000100
show third.h5 --dataset third
grep -qE '^step001200 .* … +…$|^step001200 .*…$' out && ! grep -qi nan out || fail "third: $(cat out)"
show third.h5 --kind checkpoint
grep -qE '^step001200 .*third +pending' out && ! grep -qi nan out || fail "checkpoints: $(cat out)"
# One that cannot be scored.
echo short >short.txt
code=1 go --set 'evaluation=[{name: first, text: text.txt, length: 64, samples: 2}, {name: short, text: short.txt, length: 64, samples: 2}]' --set results=third.h5
show third.h5 --dataset short
grep -q '^A  failed: .*short.txt' out && ! grep -qi nan out || fail "short: $(cat out)"
show third.h5 --csv --dataset short
grep -q 'short,.*failed,.*short.txt' out || grep -q 'failed,.*short.txt' out || fail "short, --csv: $(cat out)"

# The report's tables and the points of the fits.
need_python
PYTHONPATH=$SOURCE/analysis "$python" - alone.h5 <<'PY' || fail "the report: $(cat out err)"
import sys
from qtraj.cube.files import open as open_cube
from qtraj.cube.points import of_cube
from qtraj.report.summary import all_results
cube = open_cube(sys.argv[1])
rows = [row for table in all_results(cube, [4]) for row in table.rows]
assert sum(row.count("pending") for row in rows) == 2 and not any("not finite" in row for row in rows), rows
assert of_cube(cube)[1]["points whose loss is not finite"] == 0, of_cube(cube)[1]
PY
finish
