#!/usr/bin/env bash
# Tasks as lm-evaluation-harness makes and scores them: prompts and scores of made-up items, of real ones beside the checkout if
# they exist, and what malformed rows lead to.
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy

made=$SOURCE/tests/fixtures/tasks
shared=${QTRAJ_SHARED:-$SOURCE/../shared}
compare_tasks() { "$python" "$SOURCE/tests/golden/tasks.py" "$1" "$QTRAJ" "${@:2}" || fail "$*"; }

compare_tasks prompts "$made" "$SOURCE/tests/fixtures/tokenizers/gpt2/tokenizer.json"
compare_tasks itself "$made" "$quickstart/trajectory/step001200" "$quickstart/trajectory/tokenizer.json"
if [ -d "$shared/fixtures/tasks" ]; then
    compare_tasks prompts "$shared/fixtures/tasks" "$quickstart/trajectory/tokenizer.json"
    compare_tasks scores "$shared/fixtures/tasks" "$quickstart/trajectory/step001200"
else
    echo "skipped: real tasks, none beside the checkout"
fi

"$QTRAJ" eval "$quickstart/trajectory/step001200" --tasks piqa,mmlu --task-data "$made/inputs" --limit 2 >"$work/out" || fail "eval"
grep -q '^piqa: accuracy [01].[05]000 ± .*, normalized .*, 2 items$' "$work/out" || fail "the text: $(cat "$work/out")"
grep -q '^mmlu: accuracy' "$work/out" || fail "the mean of mmlu: $(cat "$work/out")"

# refused EXPECTED TASK [FLAG ...]: qtraj tasks ends with code 2 and a message that matches.
refused() {
    "$QTRAJ" tasks "$2" --task-data "$work/data" "${@:3}" >"$work/out" 2>"$work/err"
    local code=$?
    [ $code = 2 ] || fail "$2 ${*:3}: exit code $code"
    grep -q -- "$1" "$work/err" || fail "$2 ${*:3}: $(cat "$work/err")"
}

# The table of fields in docs/tasks.md: rows with these fields alone give the same prompts, and a row that lacks one of them is refused.
"$python" - "$QTRAJ" "$SOURCE/docs/tasks.md" "$made/inputs" "$work/fields" <<'PY' || fail "the fields in docs/tasks.md"
import json, pathlib, re, shutil, subprocess, sys
qtraj, page, inputs, folder = sys.argv[1], open(sys.argv[2]).read(), pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
folder.mkdir()

def only(row, fields):
    kept = {f: row[f] for f in fields if "." not in f}
    for outer, inner in (f.split(".") for f in fields if "." in f):
        kept.setdefault(outer, {})[inner] = row[outer][inner]
    return kept

def ask(task, where):
    return subprocess.run([qtraj, "tasks", task, "--task-data", where, "--shots", "2"], capture_output=True, text=True)

table = re.findall(r"^\| (`[^|]*) \| (`[^|]*) \|$", page.split("need these fields")[1].split("\n## ")[0], re.M)
names = [name for tasks, _ in table for name in re.findall("`([^`]*)`", tasks)]
assert len(names) == 12, names
for tasks, text in table:
    fields = re.findall("`([A-Za-z_.0-9]*[A-Za-z0-9])`", text)
    for name in re.findall("`([^`]*)`", tasks):
        task = name.replace("SUBJECT", "made_up")
        rows = {}
        for ending in (".jsonl", ".fewshot.jsonl"):
            rows[ending] = [json.loads(line) for line in open(inputs / (task + ending))]
            (folder / (task + ending)).write_text("".join(json.dumps(only(row, fields)) + "\n" for row in rows[ending]))
        whole, reduced = ask(task, inputs), ask(task, folder)
        assert whole.returncode == 0 and whole.stdout == reduced.stdout, (task, reduced.stderr)
        for field in fields:
            (folder / (task + ".jsonl")).write_text(json.dumps(only(rows[".jsonl"][0], [f for f in fields if f != field])) + "\n")
            lacks = ask(task, folder)
            assert lacks.returncode == 2 and f'"{field}"' in lacks.stderr, (task, field, lacks.returncode, lacks.stderr)
PY

mkdir "$work/data"
for i in piqa arc_easy winogrande mathqa; do cp "$made/inputs/$i".* "$work/data/"; done
refused 'hellaswag.jsonl: there is no such file' hellaswag --shots 0
refused 'boolq: unknown task; there are: arc_challenge, arc_easy' boolq
refused 'helaswag: unknown task, did you mean hellaswag?' helaswag
refused 'no file mmlu_SUBJECT.jsonl there' mmlu
refused 'shots: expected 0 or more' piqa --shots -1
refused 'piqa.fewshot.jsonl: 9 rows to draw 10 examples from' piqa --shots 9
sed -i '2s/"goal"/"gaol"/' "$work/data/piqa.jsonl"
refused 'piqa.jsonl:2: no field "goal"' piqa --shots 0
sed -i '2s/.*/{"goal": "a", "sol1": "b", "sol2": 3, "label": 1}/' "$work/data/piqa.jsonl"
refused 'piqa.jsonl:2: field "sol2" is not a string' piqa --shots 0
sed -i '2s/.*/{"goal": "a", "sol1": "b", "sol2": "c"}/' "$work/data/piqa.jsonl"
refused 'piqa.jsonl:2: no field "label"' piqa --shots 0
sed -i '2s/.*/[1]/' "$work/data/piqa.jsonl"
refused 'piqa.jsonl:2: not a JSON object' piqa --shots 0
sed -i '2s/.*/{"goal": /' "$work/data/piqa.jsonl"
refused 'piqa.jsonl:2: not JSON' piqa --shots 5
echo '{"question": "a", "choices": {"text": ["b", "c"], "label": ["A", "B"]}, "answerKey": "D"}' >"$work/data/arc_easy.jsonl"
refused 'arc_easy.jsonl:1: field "answerKey": "D" is none of "choices.label"' arc_easy
echo '{"question": "a", "choices": {"text": [], "label": ["A"]}, "answerKey": "A"}' >"$work/data/arc_easy.jsonl"
refused 'arc_easy.jsonl:1: no choices' arc_easy
echo '{"sentence": "no gap", "option1": "a", "option2": "b", "answer": "1"}' >"$work/data/winogrande.jsonl"
refused 'winogrande.jsonl:1: field "sentence" has no gap' winogrande --shots 0
: >"$work/data/mathqa.jsonl"
refused 'mathqa.jsonl: no rows' mathqa
# examples without a right answer cannot be shown
echo '{"Problem": "a", "options": "a ) 1 , b ) 2 , c ) 3,e ) 4", "correct": "e"}' >"$work/data/mathqa.jsonl"
for _ in 1 2 3 4 5; do cat "$work/data/mathqa.jsonl"; done >"$work/data/mathqa.fewshot.jsonl"
refused 'mathqa.fewshot.jsonl:[1-5]: an example whose right answer is none of its choices' mathqa
"$QTRAJ" tasks mathqa --task-data "$work/data" --shots 0 | grep -q '"gold":null' || fail "a gold that is none of the choices"

evaluates() { # EXPECTED FLAG ...: as refused
    "$QTRAJ" eval "$quickstart/trajectory/step001200" "${@:2}" >"$work/out" 2>"$work/err"
    local code=$?
    [ $code = 2 ] || fail "${*:2}: exit code $code"
    grep -q -- "$1" "$work/err" || fail "${*:2}: $(cat "$work/err")"
}
evaluates '--task-data FOLDER is missing' --tasks piqa
evaluates '--apart has no effect here: it goes with --tasks' --text "$SOURCE/README.md" --apart
evaluates '/nowhere/x: cannot be written' --tasks piqa --task-data "$made/inputs" --log-likelihoods /nowhere/x
evaluates 'boolq: unknown task' --tasks piqa,boolq --task-data "$made/inputs"
evaluates 'no file mmlu_SUBJECT.jsonl there' --tasks mmlu --task-data "$work/data"
evaluates 'piqa.jsonl:2: not JSON' --tasks piqa --task-data "$work/data" --shots 0
"$python" -c 'import json; print(json.dumps({"goal": "a", "sol1": "b", "sol2": "0 " * 1100, "label": 0}))' >"$work/data/piqa.jsonl"
evaluates 'piqa.jsonl:1: a choice of [0-9]* tokens, the model has 1024 positions' --tasks piqa --task-data "$work/data" --shots 0

rows() { # TASK ROW ...: the task's data; the names of what it holds otherwise are removed
    rm -f "$work/data/$1".*
    printf '%s\n' "${@:2}" >"$work/data/$1.jsonl"
}
evaluates_rows() { # EXPECTED TASK ROW ...
    rows "${@:2}"
    evaluates "$1" --tasks "$2" --task-data "$work/data" --shots 0
}
accuracy_of() { # EXPECTED TASK ROW ...: accuracy and normalized accuracy
    rows "${@:2}"
    "$QTRAJ" eval "$quickstart/trajectory/step001200" --tasks "$2" --task-data "$work/data" --shots 0 --json >"$work/out" || fail "$2"
    grep -q -- "$1" "$work/out" || fail "${*:2}: $(cat "$work/out")"
}
evaluates_rows 'piqa.jsonl:1: not UTF-8' piqa "{\"goal\": \"a$(printf '\377')\", \"sol1\": \"b\", \"sol2\": \"c\", \"label\": 0}"
evaluates_rows 'piqa.jsonl:1: not UTF-8, or .u and half of a surrogate pair' piqa '{"goal": "\ud800", "sol1": "b", "sol2": "c", "label": 0}'
# labels of another type, which the harness would take for none of the choices or fail with; an integer out of range is wrong, as there
evaluates_rows 'piqa.jsonl:1: field "label" is the string "1", which lm-evaluation-harness looks for among the texts' piqa \
    '{"goal": "a", "sol1": "b", "sol2": "c", "label": "1"}'
evaluates_rows 'piqa.jsonl:1: field "label" is not an integer' piqa '{"goal": "a", "sol1": "b", "sol2": "c", "label": 1.5}'
evaluates_rows 'winogrande.jsonl:1: field "answer" is not a string' winogrande '{"sentence": "a _ b", "option1": "c", "option2": "d", "answer": 1}'
evaluates_rows 'hellaswag.jsonl:1: field "label" is not an integer, nor a string of its digits alone' hellaswag \
    '{"activity_label": "a", "ctx_a": "b", "ctx_b": "", "endings": ["c"], "label": " 0 "}'
gold_of() { # GOLD TASK ROW: the index of the right choice in what is asked
    rows "${@:2}"
    "$QTRAJ" tasks "$2" --task-data "$work/data" --shots 0 | grep -q "\"gold\":$1,\|\"gold\":$1}" || fail "gold $*"
}
four='"question": "q", "choices": ["a", "b", "c", "d"]'
for i in 2 '"C"'; do gold_of 2 mmlu_x "{$four, \"answer\": $i}"; done
for i in 4 -1 '"E"' '"c"'; do gold_of null mmlu_x "{$four, \"answer\": $i}"; done
gold_of 1 social_iqa '{"context": "a", "question": "b", "answerA": "c", "answerB": "d", "answerC": "e", "label": "2"}'
gold_of null social_iqa '{"context": "a", "question": "b", "answerA": "c", "answerB": "d", "answerC": "e", "label": "0"}'
evaluates_rows 'hellaswag.jsonl:1: field "label" is not an integer' hellaswag \
    '{"activity_label": "a", "ctx_a": "b", "ctx_b": "", "endings": ["c"], "label": ""}'
evaluates_rows 'openbookqa.jsonl:1: the context is only white space' openbookqa \
    '{"question_stem": " ", "choices": {"text": ["a"], "label": ["A"]}, "answerKey": "A"}'
accuracy_of '"accuracy":0.0,"accuracy_stderr":null,"accuracy_norm":0.0' piqa '{"goal": "a", "sol1": "b", "sol2": "c", "label": 7}'
# the choice without characters has the log-likelihood of a blank, and divided by 0 the smallest
accuracy_of '"accuracy":1.0,"accuracy_stderr":null,"accuracy_norm":0.0' piqa \
    '{"goal": "a", "sol1": "", "sol2": "zzz zzz zzz", "label": 0}'
accuracy_of '"accuracy":1.0.*"items":1' hellaswag \
    '{"activity_label": "", "ctx_a": "", "ctx_b": "", "endings": ["", ""], "label": "0"}'
accuracy_of '"items":1,"items_truncated":1' openbookqa "{\"question_stem\": \"$(printf 'word %.0s' {1..3000})\", \"choices\": {\"text\": [\"a\", \"b\"], \"label\": [\"A\", \"B\"]}, \"answerKey\": \"A\"}"
printf '%s' '{"goal": "a", "sol1": "b", "sol2": "c", "label": 0}' | gzip | head -c 40 >"$work/data/piqa.jsonl.gz"
rm "$work/data/piqa.jsonl"
evaluates 'piqa.jsonl.gz: gzip: the file ends too early' --tasks piqa --task-data "$work/data" --shots 0
rows piqa '{"goal": "a", "sol1": "b", "sol2": "c", "label": 0}'
cp "$work/data/piqa.jsonl" "$work/data/piqa.fewshot.jsonl"
evaluates 'piqa.fewshot.jsonl: 1 rows to draw 9223372036854775807 examples from' --tasks piqa --task-data "$work/data" \
    --shots 9223372036854775807

# subjects: each once, whatever its file is called and however the list names it, and all in the mean
mkdir "$work/subjects [1]"
for i in a b; do cp "$made/inputs/mmlu_made_up.jsonl" "$work/subjects [1]/mmlu_$i.jsonl"; done
gzip -k "$work/subjects [1]/mmlu_a.jsonl"
cp "$work/data/piqa.jsonl" "$work/subjects [1]/"
: >"$work/subjects [1]/mmlu_c.jsonl.part"
"$QTRAJ" eval "$quickstart/trajectory/step001200" --tasks mmlu_a,piqa,mmlu --task-data "$work/subjects [1]" --shots 0 --json \
    >"$work/out" || fail "subjects in two places of the list"
"$python" -c '
import json, sys
tasks = json.load(sys.stdin)["tasks"]
assert list(tasks) == ["mmlu_a", "piqa", "mmlu_b", "mmlu"], tasks
assert tasks["mmlu"]["items"] == 2 * tasks["mmlu_a"]["items"], tasks
' <"$work/out" || fail "subjects: $(cat "$work/out")"

"$QTRAJ" tasks mmlu --task-data "$work/subjects [1]" --shots 0 --limit 1 >"$work/out" || fail "prompts of all subjects"
[ "$(grep -o '"task":"mmlu_[ab]","item":0' "$work/out" | wc -l)" = 2 ] || fail "prompts of all subjects: $(cat "$work/out")"

# the names under which the data are exported, with a stand-in for the package that fetches them
mkdir "$work/fake" "$work/exported"
cat >"$work/fake/datasets.py" <<'PY'
import json


class Rows(list):
    def to_json(self, path):
        path.write_text("".join(json.dumps(x) + "\n" for x in self))


def load_dataset(data, configuration, split):
    return Rows([{"data": data, "configuration": configuration, "split": split}])


def get_dataset_config_names(data):
    return ["all", "anatomy", "virology"]
PY
PYTHONPATH=$work/fake "$python" "$SOURCE/jobs/export_tasks.py" "$work/exported" >"$work/out" || fail "export_tasks.py"
"$QTRAJ" tasks --json | "$python" -c '
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
expected = []
for task in json.load(sys.stdin):
    names = ["mmlu_anatomy", "mmlu_virology"] if task["name"] == "mmlu" else [task["name"]]
    for name in names:
        for part, of in ((".jsonl", 0), (".fewshot.jsonl", 1)):
            row = json.loads((folder / (name + part)).read_text())
            splits = task["data"].split(", ")[-1].split("; examples: ")
            assert row["split"] == splits[of] and row["data"] in task["data"], (task, row)
            assert (row["configuration"] or "") in task["data"] or name.endswith(row["configuration"]), (task, row)
            expected.append(name + part)
assert sorted(expected) == sorted(x.name for x in folder.iterdir()), expected
' "$work/exported" || fail "the exported files"

# compressed data; rows may have blank lines between them
"$QTRAJ" tasks arc_challenge --task-data "$made/inputs" >"$work/plain"
sed 's/$/\n/' "$made/inputs/arc_challenge.jsonl" | gzip >"$work/data/arc_challenge.jsonl.gz"
cp "$made/inputs/arc_challenge.fewshot.jsonl" "$work/data/"
"$QTRAJ" tasks arc_challenge --task-data "$work/data" | cmp - "$work/plain" || fail "gzip"
[ "$("$QTRAJ" tasks --json | "$python" -c 'import json, sys; print(len(json.load(sys.stdin)))')" = 12 ] || fail "the table"
finish
