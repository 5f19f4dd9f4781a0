#!/usr/bin/env bash
# `stage` at the top of a sweep, with jobs/stage_hf.sh and the real `hf download`, from a local server that acts like the hub: each
# model's repository and revisions, downloads that break off, what is fetched of a revision, and one that is not there.
. "$SOURCE/tests/tools/lib.sh"
need_python
command -v hf >/dev/null || skip "no hf on PATH (pip install huggingface_hub)"
hub=$work/hub
for name in small other; do
    for step in step000100 step001200; do
        mkdir -p "$hub/owner/$name/$step"
        cp "$quickstart/trajectory/$step"/* "$quickstart/trajectory/tokenizer.json" "$hub/owner/$name/$step"
        echo "# a model card" >"$hub/owner/$name/$step/README.md"
        echo "no weights" >"$hub/owner/$name/$step/optimizer.pt"
    done
done
"$python" "$SOURCE/tests/tools/hub_server.py" "$hub" "$work/port" "$work/log" 2>"$work/server.err" &
server=$!
trap 'kill $server; rm -rf "$work"' EXIT
wait_for 60 test -s "$work/port"
HF_ENDPOINT=http://127.0.0.1:$(cat "$work/port")
export HF_ENDPOINT HF_HOME=$work/home HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_PROGRESS_BARS=1 HF_HUB_DISABLE_XET=1
fixed_text "$work/text.txt"
cp "$quickstart"/trajectory/{tokenizer.json,step000100/config.json} "$work"
printf 'checkpoint,step,revision\nfirst,100,step000100\nstep001200,1200,\n' >"$work/rows.csv"
sweep() { # NAME [STAGE]
    cat <<YAML
name: hub
results: $1.h5
${2:-}
models:
  - {name: a, trajectory: rows.csv, path: "$1/a/{checkpoint}", tokenizer: tokenizer.json${3:-}}
  - {name: b, trajectory: rows.csv, path: "$1/b/{checkpoint}", tokenizer: tokenizer.json${4:-}}
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 2}]
run: {reproducible: true}
YAML
}
for model in a b; do
    mkdir -p "$work/disk/$model"
    cp -r "$quickstart/trajectory/step000100" "$work/disk/$model/first"
    cp -r "$quickstart/trajectory/step001200" "$work/disk/$model"
done
sweep disk >"$work/disk.yaml"
sweep hub "stage: [$SOURCE/jobs/stage_hf.sh, \"{hub}\", \"{revision}\", \"{path}\"]" ", hub: owner/small, keep: false" ", hub: owner/other" |
    sed "s|path: \"hub/|path: \"fetched/|; \$s/true/true, stage_pause: 0.1/" >"$work/hub.yaml"
"$QTRAJ" run "$work/disk.yaml" >"$work/out" 2>"$work/err" || fail "from disk: $(cat "$work/err")"
"$QTRAJ" run "$work/hub.yaml" >"$work/out" 2>"$work/err" || fail "from the hub: $(cat "$work/err" "$work"/hub.h5.stage/*.log "$work/log" "$work/server.err")"
"$QTRAJ" show "$work/disk.h5" --metric loss >"$work/a" 2>/dev/null
"$QTRAJ" show "$work/hub.h5" --metric loss >"$work/b" 2>/dev/null
cmp "$work/a" "$work/b" || fail "other losses: $(diff "$work/a" "$work/b")"
[ ! -e "$work/fetched/a/first" ] && [ -e "$work/fetched/b/first/model.safetensors" ] || fail "kept: $(ls "$work"/fetched/*)"
cmp "$work/fetched/b/first/model.safetensors" "$hub/owner/other/step000100/model.safetensors" || fail "another file"
grep -qE 'GET .*(optimizer|README)' "$work/log" && fail "too much is fetched: $(cat "$work/log")"
grep -q 'GET /owner/small/resolve/.*/model.safetensors' "$work/log" && grep -q 'GET /owner/other/resolve' "$work/log" || fail "repositories: $(cat "$work/log")"

# A revision that is not there fails its own cells; a model without a repository is refused.
sed -i 's/step000100/absent/' "$work/rows.csv"
"$QTRAJ" run "$work/hub.yaml" --set results="$work/absent.h5" --set run.stage_tries=1 --set "models[1].path=$work/none/{checkpoint}" \
    >"$work/out" 2>"$work/err"
[ $? = 1 ] && grep -q "2 of 4 cells done, 2 failed" "$work/err" "$work/out" || fail "an absent revision: $(cat "$work/err")"
"$QTRAJ" run "$work/hub.yaml" --set 'models[0].hub=null' >"$work/out" 2>"$work/err"
[ $? = 2 ] && grep -q 'hub: missing: stage names {hub}' "$work/err" || fail "no hub: $(cat "$work/err")"
finish
