# Tasks of a sweep: accuracies, paired tests and log-likelihoods against Python, beside unchanged losses; for any ranks, groups, waves
# and parts; added to finished results; after a kill within a visit; with data that are malformed.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
preload=$(dirname "$QTRAJ")/libkill_at_line.so
data=$SOURCE/tests/fixtures/tasks/inputs

quickstart_sweep '1p;3p;6p' <<END_
name: tasks
results: results.h5
bits: [2]
methods:
  - {method: rtn, group_size: 64}
  - {method: gptq, group_size: 64}
calibration: {text: text.txt, length: 64, samples: 8}
evaluation: [{name: own, text: text.txt, length: 64, skip: 16, samples: 8}]
tasks: {names: [piqa, arc_easy, mmlu], data: "$data", shots: 2, log_likelihoods: true}
run: {reproducible: true}
END_
run() { # name, ranks, arguments
    if [ "$2" = 1 ]; then
        timeout -k 5 120 "$QTRAJ" run "$work/sweep.yaml" --set "results=$1.h5" "${@:3}" >"$work/out" 2>"$work/err" </dev/null
    else
        launch 120 "$2" run "$work/sweep.yaml" --set "results=$1.h5" "${@:3}"
    fi
}
expect() { run "$@" || fail "$1: exit code $?: $(cat "$work/err")"; }

expect alone 1
expect ranks 3
compare alone ranks
expect groups 4 --set run.ranks_per_group=2
compare alone groups

# --- numbers ---

for step in 000300 000900; do
    "$QTRAJ" eval "$quickstart/trajectory/step$step" --tokenizer "$quickstart/trajectory/tokenizer.json" --tasks piqa,arc_easy,mmlu \
        --task-data "$data" --shots 2 --json >"$work/eval$step.json" || fail "eval $step"
done
for task in piqa arc_easy mmlu_made_up; do
    "$QTRAJ" tasks "$task" --task-data "$data" --shots 0 >"$work/$task.items" || fail "$task"
done
"$python" - "$work" <<'END_' || fail "the accuracies"
import json
import math
import sys
import h5py
import numpy as np

work = sys.argv[1]
cube = h5py.File(work + "/alone.h5")
names = list(cube["task"].asstr())
assert names == ["piqa", "arc_easy", "mmlu"]
items = {n: [json.loads(x) for x in open(f"{work}/{n if n != 'mmlu' else 'mmlu_made_up'}.items")] for n in names}


def choices(group):
    """(checkpoint, bits, quantizer, task) -> item -> log-likelihoods"""
    out = {}
    g = {k: v.asstr()[:] if h5py.check_string_dtype(v.dtype) else v[:] for k, v in cube[group].items()}
    for i in range(len(g["row"])):
        key = (g["checkpoint_name"][i], g["bits"][i], g["quantizer"][i]) if "bits" in g else (g["checkpoint_name"][i], 0, "")
        assert g["subject"][i] == ("mmlu_made_up" if g["task"][i] == "mmlu" else g["task"][i]) and g["tokens"][i] > 0
        one = out.setdefault(key + (g["task"][i],), {}).setdefault(g["item"][i], [])
        assert len(one) == g["choice"][i]
        one.append(g["log_likelihood"][i])
    return out


def right(scores, n, norm):
    out = []
    for i, x in enumerate(items[n]):
        assert len(scores[i]) == len(x["continuations"])
        chars = [len(c) - 1 if norm else 1 for c in x["continuations"]]
        out.append(int(np.argmax([s / c for s, c in zip(scores[i], chars)]) == x["gold"]))
    return np.array(out)


def near(a, b):
    assert np.isclose(a, b, rtol=1e-12, atol=1e-15), (a, b)


full, cells, flips = choices("baseline_task_choices"), choices("task_choices"), 0
steps = list(cube["checkpoint_name"].asstr()[0])
for c, step in enumerate(steps):
    evaluated = json.load(open(f"{work}/eval{step[4:]}.json"))["tasks"]
    for t, n in enumerate(names):
        before = right(full[step, 0, "", n], n, False)
        k, at = len(before), (0, c, t)
        for field in ("accuracy", "accuracy_stderr", "accuracy_norm", "accuracy_norm_stderr"):
            x = evaluated[n][field]
            assert cube["baseline_" + field][at] == x or x is None and np.isnan(cube["baseline_" + field][at]), (n, field)
        assert cube["baseline_items"][at] == k == evaluated[n]["items"]
        assert cube["baseline_items_truncated"][at] == evaluated[n]["items_truncated"] == 0
        near(cube["baseline_accuracy"][at], before.mean())
        for q, quantizer in enumerate(cube["quantizer"].asstr()):
            at, scores = (0, c, 0, q, t), cells[step, 2, quantizer, n]
            after = right(scores, n, False)
            lost, gained = int((before > after).sum()), int((after > before).sum())
            flips += lost + gained
            near(cube["accuracy"][at], after.mean())
            near(cube["accuracy_stderr"][at], after.std(ddof=1) / math.sqrt(k))
            if n != "mmlu":
                near(cube["accuracy_norm"][at], right(scores, n, True).mean())
            near(cube["accuracy_delta"][at], (after - before).mean())
            near(cube["accuracy_delta_stderr"][at], (after - before).std(ddof=1) / math.sqrt(k))
            near(cube["accuracy_degradation"][at], (before.mean() - after.mean()) / (1 - before.mean()))
            assert (cube["items_lost"][at], cube["items_gained"][at], cube["items"][at]) == (lost, gained, k)
            less = sum(math.comb(lost + gained, i) for i in range(min(lost, gained) + 1))
            near(cube["mcnemar_p"][at], min(1, 2 * less / 2 ** (lost + gained)))
    for q in range(2):
        at = (0, c, 0, q)
        near(cube["accuracy_mean"][at], np.mean(cube["accuracy"][at]))
        near(cube["accuracy_delta_mean_stderr"][at], np.linalg.norm(cube["accuracy_delta_stderr"][at]) / 3)
        near(cube["accuracy_degradation_mean"][at], np.mean(cube["accuracy_degradation"][at]))
    near(cube["baseline_accuracy_mean_stderr"][0, c], np.linalg.norm(cube["baseline_accuracy_stderr"][0, c]) / 3)
assert flips >= 4, flips
assert len(full) == 6 and len(cells) == 12
END_
"$QTRAJ" show "$work/alone.h5" --metric accuracy_mean >"$work/out"
grep -Eq '^step000900 .* 0\.[0-9]+ ± 0\.' "$work/out" || fail "accuracy_mean: $(cat "$work/out")"
"$QTRAJ" show "$work/alone.h5" --metric accuracy --task piqa --quantizer gptq >"$work/out"
[ "$(grep -Ec '^step000[39]00 .* gptq +piqa +[01]\.[0-9]+ ± 0\.' "$work/out")" = 2 ] || fail "accuracy: $(cat "$work/out")"

only_bits

# --- added to finished results, which stay as they are ---

cp "$work/sweep.yaml" "$work/with.yaml"
sed '/^tasks:/d' "$work/with.yaml" >"$work/sweep.yaml"
expect added 1
cp "$work/added.h5" "$work/plain.h5"
cp "$work/with.yaml" "$work/sweep.yaml"
expect added 1 --set 'tasks.names=[mmlu]'
grep -q '^2 visits, 0 cells to do' "$work/err" && grep -q '^6 accuracies on tasks to do' "$work/err" || fail "mmlu: $(cat "$work/err")"
lines=$(wc -l <"$work/added.journal")
expect added 1
grep -q '^12 accuracies on tasks to do' "$work/err" || fail "two more tasks: $(cat "$work/err")"
compare alone added
tail -n "+$((lines + 1))" "$work/added.journal" | grep -Eq '"type":"(cell|checkpoint|completion)"' && fail "losses were measured again"
"$python" - "$work/plain.h5" "$work/added.h5" <<'END_' || fail "losses beside tasks"
import sys
import h5py
import numpy as np
plain, added = map(h5py.File, sys.argv[1:])
for group in ("cells", "checkpoints", "sequences"):
    for name, x in plain[group].items():
        if not x.attrs.get("volatile", 0):
            assert np.array_equal(x[()], added[group][name][()], equal_nan=x.dtype.kind == "f"), name
assert not [n for n in plain if "task" in n or "accuracy" in n]
END_

# --- parts, and a kill between two records and within a visit ---

for k in 1 2; do run parts 1 --part $k/2 || fail "part $k: $(cat "$work/err")"; done
"$QTRAJ" merge "$work/parts.h5" "$work"/parts.h5.parts/*.journal >"$work/out" 2>&1 || fail "merge: $(cat "$work/out")"
compare alone parts
"$QTRAJ" rebuild "$work/rebuilt.h5" "$work/alone.journal" && compare alone rebuilt
head -n "$(grep -n '"type":"task"' "$work/alone.journal" | sed -n '2s/:.*//p')" "$work/alone.journal" >"$work/resumed.journal"
expect resumed 1
grep -q '^1[0-9] accuracies on tasks to do' "$work/err" || fail "what is left: $(cat "$work/err")"
compare alone resumed
if [ -e "$preload" ]; then
    KILL_COUNT=4 KILL_TEXT='trace saved' QTRAJ_SAVE=always QTRAJ_TRACE=saved LD_PRELOAD=$preload run killed 1 && fail "not killed"
    [ "$(grep -c '"type":"task"' "$work/killed.journal")" -lt 12 ] || fail "nothing was left when it was killed"
    QTRAJ_SAVE=always QTRAJ_TRACE=saved expect killed 1
    grep -q 'blocks are done' "$work/err" || fail "the saved state was not used: $(cat "$work/err")"
    compare alone killed
fi

# --- the example: items of a text, and its plan ---

cat "$SOURCE"/docs/*.md >"$work/prose.txt"
"$python" "$SOURCE/configs/quickstart/make_items.py" "$work/prose.txt" "$work/items" 40 || fail "make_items.py"
"$QTRAJ" plan "$SOURCE/configs/quickstart/tasks.yaml" --set "tasks.data=$work/items" --set "results=$work/none.h5" >"$work/out" 2>"$work/err"
[ $? -le 2 ] || fail "the example: $(cat "$work/err")" # 2: its text is not installed here
grep -q '^texts: evaluation [0-9]* tokens in [0-9]* sequences; tasks [0-9]* tokens in ' "$work/out" || fail "the plan's tokens: $(cat "$work/out")"
grep -q '^accuracies: 44 ' "$work/out" && [ "$(cat "$work/items/hellaswag.jsonl" "$work/items/piqa.jsonl" | wc -l)" = 80 ] ||
    fail "the example: $(cat "$work/out")"

# --- data that are not as they should be: nothing runs ---

mkdir "$work/data" && cp "$data"/piqa.* "$data"/arc_easy.* "$data"/mmlu* "$work/data/"
refused() { # EXPECTED, arguments of a run that ends with 2 and leaves no journal
    run bad 1 "${@:2}"
    [ $? = 2 ] && grep -q -- "$1" "$work/err" && [ ! -e "$work/bad.journal" ] || fail "${*:2}: $(cat "$work/err")"
}
sed -i '3s/"goal"/"gaol"/' "$work/data/piqa.jsonl"
refused 'tasks: .*/data/piqa.jsonl:3: no field "goal"' --set "tasks.data=$work/data"
"$QTRAJ" plan "$work/sweep.yaml" --set "tasks.data=$work/data" >"$work/out" 2>&1
grep -q 'piqa.jsonl:3: no field "goal"' "$work/out" || fail "plan: $(cat "$work/out")"
refused 'tasks: boolq: unknown task; there are: arc_challenge' --set 'tasks.names=[boolq]'
refused 'hellaswag.jsonl: there is no such file' --set 'tasks.names=[hellaswag]' --set "tasks.data=$work/data"
refused 'tasks.names: piqa is named twice' --set 'tasks.names=[piqa, mmlu, piqa]'
refused 'tasks.shots: expected an integer from 0' --set tasks.shots=-1
# a choice that is too long for the model is known when its tokens are: the accuracies fail, the losses do not
"$python" -c 'import json; print(json.dumps({"goal": "a", "sol1": "b", "sol2": "0 " * 1100, "label": 0}))' >"$work/data/piqa.jsonl"
run long 1 --set "tasks.data=$work/data" --only checkpoint=step000300
[ $? = 1 ] || fail "a long choice: $(cat "$work/err")"
"$QTRAJ" status "$work/long.h5" >"$work/out"
grep -Eq '^quickstart +2 +4 +2 +0' "$work/out" && grep -q '^accuracies: 0 done, 6 failed' "$work/out" &&
    grep -q 'piqa.jsonl:1: a choice of [0-9]* tokens, the model has 1024 positions' "$work/out" || fail "a long choice: $(cat "$work/out")"
finish
