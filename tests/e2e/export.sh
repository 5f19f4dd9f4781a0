#!/usr/bin/env bash
# qtraj quantize --out: a folder that loads, with the loss that was reported, for every family and format of checkpoint.
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy

models=$SOURCE/tests/fixtures/models
step=$quickstart/trajectory/step000500
own_text "$work/text.txt"

# loss JSON [KEY]: a number of the output of a command, with all its digits.
loss() { "$python" -c 'import json, sys; print(repr(json.load(open(sys.argv[1]))[sys.argv[2]]))' "$1" "${2:-loss}"; }

# tensors A B: every tensor of A is in B with its shape, and those that are no block's matrices have the same type and bits.
tensors() {
    "$python" - "$SOURCE" "$@" <<'PYTHON' || fail "tensors of $2"
import glob, json, struct, sys

def read(folder):
    out = {}
    for path in glob.glob(folder + "/*.safetensors"):
        if path.endswith(("reference.safetensors", "derivatives.safetensors")):
            continue
        data = open(path, "rb").read()
        n = struct.unpack("<Q", data[:8])[0]
        for name, t in json.loads(data[8:8 + n]).items():
            if name == "__metadata__":
                assert t == {"format": "pt"} or "reference" not in path, (path, t)
                continue
            begin, end = t["data_offsets"]
            out[name] = t["dtype"], t["shape"], data[8 + n + begin:8 + n + end]
    return out

before, after = read(sys.argv[2]), read(sys.argv[3])
assert before.keys() == after.keys(), before.keys() ^ after.keys()
changed = [n for n in before if before[n][2] != after[n][2]]
assert changed and all(".layers." in n and len(before[n][1]) == 2 for n in changed), changed
assert all(after[n][0] == "F32" and after[n][1] == before[n][1] for n in changed)
same = [n for n in before if n not in changed]
assert any("embed" in n for n in same) and any("norm" in n or len(before[n][1]) == 2 for n in same), same
assert all(before[n][:2] == after[n][:2] for n in same)
PYTHON
}

# --- every family, from ids, and stored as a PyTorch file ---
for model in "$models"/*/ "$SOURCE"/tests/fixtures/checkpoints/*_bin/; do
    name=$(basename "$model")
    ids=$models/${name%_bin}/reference.safetensors:input_ids
    if grep -q quantization_config "$model/config.json"; then
        "$QTRAJ" quantize "$model" --method rtn --bits 3 --evaluation-ids "$ids" --out "$work/$name" >"$work/out" 2>"$work/err" &&
            fail "$name: written"
        { grep -q "its linears are ternary" "$work/err" && [ ! -e "$work/$name" ]; } || fail "$name: $(cat "$work/err")"
        continue
    fi
    "$QTRAJ" quantize "$model" --method rtn --bits 3 --group-size -1 --evaluation-ids "$ids" --json --out "$work/$name" \
        >"$work/quantize.json" 2>"$work/err" || fail "$name: $(cat "$work/err")"
    "$QTRAJ" eval "$work/$name" --ids "$ids" --json >"$work/eval.json" 2>"$work/err" || fail "$name: eval: $(cat "$work/err")"
    [ "$(loss "$work/quantize.json")" = "$(loss "$work/eval.json")" ] ||
        fail "$name: loss $(loss "$work/eval.json") of the folder, reported $(loss "$work/quantize.json")"
    [ "$(loss "$work/quantize.json")" != "$(loss "$work/quantize.json" baseline_loss)" ] || fail "$name: nothing was quantized"
    case $name in *_bin) ;; *) tensors "$model" "$work/$name" ;; esac
done
grep -q '^| reference | ' "$work/llama/README.md" || fail "the card does not name the text: $(cat "$work/llama/README.md")"
grep -q '"torch_dtype": "float32"' "$work/llama/config.json" || fail "config.json of a folder in float32 does not say so"

# --- GPT-NeoX whose output matrix has the name of other families' ---
mkdir "$work/renamed"
cp "$models/gpt_neox_parallel/"*.json "$work/renamed/"
LC_ALL=C sed 's/"embed_out.weight"/"lm_head.weight"  /' "$models/gpt_neox_parallel/model.safetensors" >"$work/renamed/model.safetensors"
cmp -s "$models/gpt_neox_parallel/model.safetensors" "$work/renamed/model.safetensors" && fail "nothing was renamed"
for i in "$models/gpt_neox_parallel" "$work/renamed"; do
    "$QTRAJ" quantize "$i" --method rtn --bits 3 --evaluation-ids "$models/gpt_neox_parallel/reference.safetensors:input_ids" --json \
        --out "$work/neox-${i##*/}" >"$work/${i##*/}.json" 2>"$work/err" || fail "$i: $(cat "$work/err")"
done
cmp "$work/gpt_neox_parallel.json" "$work/renamed.json" || fail "another loss with lm_head.weight"
tensors "$work/renamed" "$work/neox-renamed"

# --- GPTQ on a text; the tokenizer lies in the folder above, and goes along ---
text=(--calibration-text "$work/text.txt" --evaluation-text "$work/text.txt" --evaluation-skip 8 --evaluation-samples 4 --length 64)
"$QTRAJ" quantize "$step" --method gptq --bits 3 --group-size 64 "${text[@]}" --calibration-samples 8 --json --out "$work/gptq/" \
    >"$work/quantize.json" 2>"$work/err" || fail "gptq: $(cat "$work/err")"
"$QTRAJ" eval "$work/gptq" --text "$work/text.txt" --skip 8 --samples 4 --length 64 --json >"$work/eval.json" || fail "eval of gptq"
for number in loss perplexity bits_per_byte; do
    [ "$(loss "$work/quantize.json" $number)" = "$(loss "$work/eval.json" $number)" ] || fail "gptq: another $number than reported"
done
cmp "$quickstart/trajectory/tokenizer.json" "$work/gptq/tokenizer.json" || fail "the tokenizer did not go along"
grep -q '"tokenizer_class": "PreTrainedTokenizerFast"' "$work/gptq/tokenizer_config.json" ||
    fail "AutoTokenizer may take another class for the tokenizer"

# --- nothing is written over, and nothing is left of what failed ---
# refuse NAME CODE PATTERN COMMAND ...: one error line that names what the user gave, no temporary file.
refuse() {
    local name=$1 code=$2 pattern=$3 got
    shift 3
    "$QTRAJ" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ $got = "$code" ] || fail "$name: exit code $got, expected $code: $(cat "$work/err")"
    [ "$(grep -c 'error:' "$work/err")" = 1 ] || fail "$name: expected one error line: $(cat "$work/err")"
    grep -qF -- "$pattern" "$work/err" || fail "$name: '$(cat "$work/err")' does not name '$pattern'"
    ! grep -qF .tmp. "$work/err" || fail "$name: a temporary name: $(cat "$work/err")"
    [ -z "$(find "$work" -name '*.tmp.*')" ] || fail "$name: left $(find "$work" -name '*.tmp.*')"
}
rtn=(quantize "$step" --method rtn --bits 3 --group-size 64)
before=$(ls -l "$work/gptq")
refuse "a folder that is there" 2 "$work/gptq: exists already" "${rtn[@]}" --out "$work/gptq"
[ "$before" = "$(ls -l "$work/gptq")" ] || fail "the folder was changed"
refuse "a folder in none" 2 "$work/absent/x: there is no folder $work/absent" "${rtn[@]}" --out "$work/absent/x"
refuse "weights in no folder" 2 "$work/absent/x.safetensors: No such file" "${rtn[@]}" --weights "$work/absent/x.safetensors"
refuse "logits in no folder" 2 "$work/absent/logits" eval "$step" --text "$work/text.txt" --length 64 --samples 1 --logits "$work/absent/logits"
refuse "no calibration text" 2 "$work/absent.txt" quantize "$step" --method gptq --bits 3 --calibration-text "$work/absent.txt" --out "$work/never"
refuse "no checkpoint" 2 "$work/nothing" quantize "$work/nothing" --method rtn --bits 3 --out "$work/never"
mkdir "$work/disk"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=2m qtraj-test "$work/disk" 2>/dev/null; then
    trap 'umount "$work/disk"; rm -rf "$work"' EXIT
    refuse "a full disk" 3 "$work/disk/out/model.safetensors: No space left" "${rtn[@]}" --out "$work/disk/out"
    [ -z "$(ls "$work/disk")" ] || fail "half a folder: $(ls "$work/disk")"
fi
[ ! -e "$work/never" ] || fail "half a folder: $(ls "$work/never")"
finish
