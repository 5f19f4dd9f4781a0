# Sourced by the tests of training, behind lib.sh: a tiny run with a branch, in seconds.
# shellcheck shell=bash
for i in $(seq 300); do echo "{\"text\": \"Document $i says $((i * i % 97)) and $((i * 7 % 31)), in words as plain as these.\"}"; done >"$work/text.jsonl"

# runs_file FILE [LINE ...]
runs_file() {
    cat >"$1" <<YAML
name: tiny
output: out
model: {family: llama, hidden: 16, layers: 1, heads: 2, init: plainlm}
tokenizer: $SOURCE/tests/fixtures/tokenizers/gpt2/tokenizer.json
data: {text: $work/text.jsonl, field: text, validation: 300, seed: 5, separator: <|endoftext|>}
batch: {sequences: 6, length: 16, micro: 2}
schedule: {kind: wsd, peak: 1e-2, warmup: 2, decay: 25%}
steps: 24
checkpoints: {every: 6}
branches:
  - {name: 'cool-{from}', from: [9], steps: 5}
run: {save: 0s}
YAML
    printf '%s\n' "${@:2}" >>"$1"
}

# same_training A B: all that two folders of runs hold is the same, but for times.
same_training() {
    local file other
    (cd "$1" && find . -type f ! -name '*.lock' ! -name texts.json | sort) >"$work/files.a"
    (cd "$2" && find . -type f ! -name '*.lock' ! -name texts.json | sort) >"$work/files.b"
    cmp -s "$work/files.a" "$work/files.b" || { fail "$1, $2: $(diff "$work/files.a" "$work/files.b")"; return 1; }
    while read -r file; do
        other=$2/$file
        case $file in
        */steps.csv) cmp -s <(cut -d, -f1-7 "$1/$file") <(cut -d, -f1-7 "$other") ;;
        *) cmp -s "$1/$file" "$other" ;;
        esac || { fail "$file differs"; return 1; }
    done <"$work/files.a"
}
