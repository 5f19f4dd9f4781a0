#!/usr/bin/env bash
# What commands print: errors last, numbers with units, no "nan" for what a method does not have, one table of options.
. "$SOURCE/tests/tools/lib.sh"
need_python json
checkpoint=$quickstart/trajectory/step001200

# last CODE "LINE" ARGUMENT...: the exit code, and the last line of stderr, which is all that a typo gets.
last() {
    local code=0
    "$QTRAJ" "${@:3}" >"$work/out" 2>"$work/err" || code=$?
    [ $code = "$1" ] && [ "$(tail -n 1 "$work/err")" = "$2" ] && [ "$(wc -l <"$work/err")" -le 1 ] ||
        fail "${*:3}: exit code $code, $(cat "$work/err")"
}
last 2 "qtraj: error: staus: unknown command, did you mean status?" staus x
last 2 "qtraj: error: --sampels: unknown flag, did you mean --samples? (qtraj eval --help lists them)" eval x --sampels 3
last 2 "qtraj: error: --method aqlm: unknown; there are: $("$QTRAJ" methods --json | "$python" -c '
import json, sys
print(", ".join(m["name"] for m in json.load(sys.stdin)))')" quantize x --method aqlm
last 2 "qtraj: error: --method gtpq: unknown, did you mean gptq?" quantize x --method gtpq
mpirun -n 3 "$QTRAJ" rum >"$work/out" 2>"$work/err"
[ "$(grep -c "unknown command, did you mean run?" "$work/err")" = 1 ] || fail "three ranks: $(cat "$work/err")"
"$QTRAJ" eval --help >"$work/out"
grep -qE -- "^  --(padding|pad-id|batch|name) " "$work/out" && fail "keys of calibration in eval: $(cat "$work/out")"
grep -q -- "^  --sort " "$work/out" || fail "keys of a text in eval: $(cat "$work/out")"

# on a terminal of 72 columns help has lines of at most 72
"$python" - "$QTRAJ" <<'PY' || fail "help on a terminal"
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 72, 0, 0))
    os.execv(sys.argv[1], [sys.argv[1], "help", "quantize"])
text = b""
try:
    while chunk := os.read(fd, 4096):
        text += chunk
except OSError:  # the end, on Linux
    pass
lines = text.decode().split("\r\n")
assert os.waitpid(pid, 0)[1] == 0 and len(lines) > 50, text
assert 66 <= max(map(len, lines)) <= 72, max(lines, key=len)
PY

# scripts have a help as well, before they install anything
for script in jobs/quickstart.sh jobs/install.sh tests/run.sh; do
    bash "$SOURCE/$script" -h >"$work/out" 2>&1 && grep -qi "missing packages" "$work/out" && [ "$(wc -l <"$work/out")" -le 4 ] ||
        fail "$script -h: $(cat "$work/out")"
done

# the options table: every key of the text form, with the types of their defaults and ranges
"$QTRAJ" options --json >"$work/options.json" || fail "options --json"
"$python" - "$work/options.json" <<'PY' || fail "options --json"
import json, sys
keys = {o["key"]: o for o in json.load(open(sys.argv[1]))}
assert len(keys) > 100
for o in keys.values():
    assert set(o) == {"key", "type", "expected", "unit", "required", "default", "otherwise", "range", "special", "choices", "doc"}, o
    assert (o["choices"] is not None) == (o["type"] == "choice") and o["doc"], o
assert keys["methods[].group_size"]["default"] == 128 and keys["methods[].group_size"]["unit"] == "columns"
assert keys["methods[].damping"]["range"] == [0, 1] and keys["methods[].symmetric"]["default"] is True
assert keys["run.threads"]["range"] == [1, 512] and keys["run.threads"]["special"] == ["auto"]
assert keys["models[].trajectory[].learning_rate"]["default"] is None
assert keys["curvature.data.text"]["type"] == "paths" and keys["results"]["required"] is True
PY

# the same of the files that qtraj train reads
"$QTRAJ" options --train --json >"$work/options.json" || fail "options --train --json"
"$QTRAJ" options --train >"$work/options.txt" || fail "options --train"
"$python" - "$work/options.json" "$work/options.txt" "$SOURCE/configs/controlled/paper.yaml" <<'PY' || fail "options --train"
import json, re, sys
keys = {o["key"]: o for o in json.load(open(sys.argv[1]))}
for o in keys.values():
    assert set(o) == {"key", "type", "expected", "unit", "required", "default", "otherwise", "range", "special", "choices", "doc"}, o
assert keys["model.vocab"]["otherwise"] and keys["batch.length"]["required"] and keys["branches[].from"]["type"] == "integers"
assert keys["optimizer.eps"]["default"] == 1e-8 and keys["grid"]["type"] == "mapping" and "schedule.kind" in keys
text = open(sys.argv[2]).read()
assert all(re.search(rf"^(  )?{key.split('.')[-1]}\b", text, re.M) for key in keys), text
assert max(map(len, text.split("\n"))) <= 80, text
for line in open(sys.argv[3]):
    assert line[0] in " #\n" or line.split(":")[0] in keys, line
PY

# quantize: what a method does not have is not printed as nan
"$QTRAJ" quantize "$checkpoint" --method rtn --bits 3 --group-size 64 >"$work/rtn" 2>&1 || fail "rtn: $(cat "$work/rtn")"
! grep -qi nan "$work/rtn" || fail "rtn: $(cat "$work/rtn")"
head -n 1 "$work/rtn" | grep -qE '^layer +distance *$' || fail "rtn: $(head -n 2 "$work/rtn")"
own_text "$work/text.txt"
"$QTRAJ" quantize "$checkpoint" --method gptq --bits 3 --group-size 64 --calibration-text "$work/text.txt" \
    --calibration-length 64 --calibration-samples 8 --tokenizer "$quickstart/trajectory/tokenizer.json" >"$work/gptq" 2>&1 ||
    fail "gptq: $(cat "$work/gptq")"
head -n 1 "$work/gptq" | grep -qE '^layer +distance +error +relative$' || fail "gptq: $(head -n 2 "$work/gptq")"

# plan: small models and single visits
quickstart_sweep '1p;$p' <<EOS
name: small
results: $work/small.h5
bits: [4]
methods: [{method: rtn}]
evaluation: [{text: $work/text.txt, length: 64, samples: 8}]
EOS
"$QTRAJ" plan "$work/sweep.yaml" --rate 50 >"$work/plan" 2>&1 || fail "plan: $(cat "$work/plan")"
grep -q "^small: 1 visit, 1 cell " "$work/plan" || fail "plan: $(cat "$work/plan")"
grep -qE "^quickstart +1 +1\.05M +2\.1MB " "$work/plan" || fail "plan: $(cat "$work/plan")"
grep -qE "; left: 1 visit, [0-9.]+ s$" "$work/plan" || fail "plan: $(cat "$work/plan")"

# --- flags that have no effect beside the others are errors that name them as they are typed, before any work ---
models=$SOURCE/tests/fixtures/models/llama
ids=$models/reference.safetensors:input_ids
for option in --lqer-rank --outlier-columns; do # by these rtn calibrates
    "$QTRAJ" quantize "$models" --method rtn --bits 3 $option 4 --calibration-ids "$ids" >"$work/out" 2>"$work/err" || fail "rtn $option: $(cat "$work/err")"
done
: >"$work/tried"
# idle FLAG COMMAND ARGUMENT...: the command refuses the flag (its first word).
idle() {
    local flag=$1
    shift
    echo "$1 ${flag%% *}" >>"$work/tried"
    # shellcheck disable=SC2086 # flag and value
    "$QTRAJ" "$@" $flag >/dev/null 2>"$work/err"
    [ $? = 2 ] || fail "$* $flag: not refused"
    grep -qE -- "error: ${flag%% *} (has no effect here: it goes with |and --json: expected one of them)" "$work/err" ||
        fail "$* $flag: $(cat "$work/err")"
}
of_text=("field x" "layout packed" "layout document" "length 64" special-tokens no-special-tokens "separator eos" "documents 3" "bytes 9" "draw 3" "follow 2")
of_both=("min-length 3" "skip 1" "samples 2" "tokens 9" "cut 8" "sort length" within-positions)
quantize=(quantize "$models" --method rtn --bits 3)
for key in "${of_text[@]}"; do
    idle "--$key" eval "$models" --ids "$ids"
    idle "--$key" curvature "$models" --ids "$ids"
    idle "--evaluation-$key" "${quantize[@]}" --evaluation-ids "$ids"
    idle "--calibration-$key" quantize "$models" --method gptq --bits 3 --calibration-ids "$ids"
done
for key in "${of_text[@]}" "${of_both[@]}" "text x" "ids $ids"; do
    idle "--$key" average "$work/never" "$models" "$models"
    idle "--calibration-$key" average "$work/never" "$models" "$models" --greedy --ids "$ids"
    idle "--calibration-$key" "${quantize[@]}"
done
for flag in "--judge rtn" "--bits 3"; do
    idle "$flag" average "$work/never" "$models" "$models"
done
for flag in "--group-size 64" "--calibration-batch 2" "--calibration-padding masked" "--calibration-pad-id 2"; do
    idle "$flag" average "$work/never" "$models" "$models" --greedy --ids "$ids"
done
for key in "${of_text[@]}" "${of_both[@]}"; do
    idle "--$key" eval "$models" --tasks mmlu --task-data "$work"
    idle "--evaluation-$key" "${quantize[@]}"
done
for flag in "--task-data $work" "--shots 3" "--limit 2" "--log-likelihoods $work/never" --apart "--count-tokens $work" "--tokenizer nosuch"; do
    idle "$flag" eval "$models" --ids "$ids"
done
idle "--logits $work/never" eval "$models" --tasks mmlu --task-data "$work"
for flag in "--tokenizer nosuch" "--field x" "--length 5" "--format gptq" "--mixing-seed 3"; do
    idle "$flag" "${quantize[@]}" --evaluation-ids "$ids"
done
for flag in "--products bf16" "--rounding bf16"; do
    idle "$flag" "${quantize[@]}"
done
for flag in "--calibration-batch 2" "--calibration-pad-id 2"; do
    idle "$flag" quantize "$models" --method gptq --bits 3 --calibration-ids "$ids"
done
for flag in --true-sequential --no-true-sequential; do
    idle "$flag" quantize "$models" --method gptq --bits 3 --calibration-ids "$ids" --hessian shared
done
for flag in "--judged linear" --duo-scaling; do
    idle "$flag" quantize "$models" --method awq --bits 3 --calibration-ids "$ids" --scaled none
done
for flag in "--stop residual" "--tolerance 0.1" "--products 3" --smallest "--trace-error 0.1" "--trace-most 9" "--density-runs 2" \
    "--seed 3" "--tokenizer nosuch"; do
    idle "$flag" curvature "$models" --ids "$ids"
done
for flag in "--shots 3" "--limit 3" "--tokenizer nosuch" "--task-data $work"; do
    idle "$flag" tasks
done
idle "--rate 3" train "$work/none.yaml"
idle "--simulate 3" train "$work/none.yaml"
idle "--group 2" plan "$work/sweep.yaml"
idle --brief plan "$work/sweep.yaml" --json
idle --csv show "$work/none.h5" --json
[ ! -e "$work/never" ] || fail "a refused command wrote"

# Every flag of every command is above, or here: those that always have an effect. Of a method's options those that another method
# has are errors (qtraj methods says which).
cat >"$work/always" <<'END'
run --set --only --part --retry --redo --until --adopt --so-far
launch --set --only --part --retry --redo --until -n --mpirun --requeue --meet --adopt --so-far
watch --set --only --part --retry --redo --until -n --mpirun --requeue --meet --adopt --so-far --every --idle --limit
slurm --set --nodes --time --rate --node-cores --node-memory --partition --account --report --retry --submit --anyway
plan --set --only --part --redo --rate --simulate --json
stage --set --only --part --retry --redo --until --no-wait --adopt --so-far
status --json --exit-code
show --kind --metric --only --model --checkpoint --bits --quantizer --dataset --task --json
merge --ignore-damaged
eval --products --rounding --reference --tasks --json --text --ids
quantize --method --preset --bits --out --weights --json --calibration-padding --evaluation-text --evaluation-ids
curvature --probe --products-in --json --subset --sharpness --trace --hutchpp --together --density --memory --text --ids
curvature --min-length --skip --samples --tokens --cut --within-positions --sort
inspect --tensors --json
train --set --only --until --plan
average --weights --ema --greedy --dtype --tokenizer
init --text --out --tokenizer --force
tasks --json
tokenize --special-tokens --json
options --json --train
variables --json
methods --json
architectures --json
doctor --results --scratch --json
help --json
END
"$python" - "$QTRAJ" "$work/tried" "$work/always" <<'PY' || fail "flags of which nothing is known"
import json, re, subprocess, sys

program, tried, always = sys.argv[1:]
known = {tuple(line.split()) for line in open(tried)}
for line in open(always):
    command, *flags = line.split()
    known |= {(command, flag) for flag in flags}
text = lambda *words: subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout
methods = json.loads(text("methods", "--json"))
known |= {(c, "--" + name.replace("_", "-")) for c in ("quantize", "average") for m in methods for name in m["options"].split()}
commands = re.findall(r"^  ([a-z]+) ", text("help"), re.M)
flags = {(c, flag) for c in commands for flag in re.findall(r"^  (--?[a-z][-a-z]*)", text("help", c), re.M) if flag != "--help"}
assert len(commands) > 15 and len(flags) > 150, (commands, len(flags))
assert flags <= known, sorted(flags - known)
gone = {pair for pair in known - flags if not pair[1].startswith(("--no-", "--calibration-no-", "--evaluation-no-"))}
assert not gone, sorted(gone)
PY
finish
