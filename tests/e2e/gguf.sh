#!/usr/bin/env bash
# GGUF files of each family give the loss that fixtures/gguf/make.py computes from the numbers that the gguf package reads in them; what is
# missing or damaged is named.
. "$SOURCE/tests/tools/lib.sh"
need_python json

models=$SOURCE/tests/fixtures/gguf
ids=$models/types.safetensors:ids
for family in llama qwen2 qwen3 olmo2 smollm3; do
    "$QTRAJ" eval "$models/$family.gguf" --ids "$ids" --json >"$work/$family.json" 2>"$work/err" || fail "$family: $(cat "$work/err")"
done
"$python" - "$models/losses.json" "$work" <<'PYTHON' || fail "losses"
import json, sys
losses, wrong = json.load(open(sys.argv[1])), 0
for family, want in losses.items():
    got = json.load(open(f"{sys.argv[2]}/{family}.json"))["loss"]
    if not abs(got - want) < 1e-6 * want:
        print(family, got, want)
        wrong = 1
sys.exit(wrong)
PYTHON

# llama.cpp's own types have the perplexity of the same weights in transformers (fixtures/gguf/make_kquants.py).
for family in llama olmo2; do
    "$QTRAJ" eval "$models/${family}_kquants.gguf" --ids "$ids" --json >"$work/$family.json" 2>"$work/err" || fail "$family: $(cat "$work/err")"
done
"$python" - "$models/kquants.json" "$work" <<'PYTHON' || fail "perplexities"
import json, sys
for family, want in json.load(open(sys.argv[1])).items():
    got = json.load(open(f"{sys.argv[2]}/{family}.json"))["perplexity"]
    assert abs(got / want - 1) < 1e-6, (family, got, want)
PYTHON

# A folder whose weights are a GGUF file, with a configuration of its own.
mkdir "$work/folder"
cp "$models/qwen3.gguf" "$work/folder/model.gguf"
cat >"$work/folder/config.json" <<'JSON'
{"model_type": "qwen3", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
 "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-5, "rope_theta": 10000, "tie_word_embeddings": true}
JSON
"$QTRAJ" eval "$work/folder" --ids "$ids" --json >"$work/out" 2>"$work/err" || fail "a folder: $(cat "$work/err")"
cmp -s "$work/out" "$work/qwen3.json" || fail "a folder has another loss: $(cat "$work/out")"

# It is quantized like any other checkpoint, and what is written is the same model.
"$QTRAJ" quantize "$models/llama.gguf" --method rtn --bits 8 --group-size 32 --evaluation-ids "$ids" --out "$work/written" --json \
    >"$work/reported" 2>"$work/err" || fail "quantize: $(cat "$work/err")"
"$QTRAJ" eval "$work/written" --ids "$ids" --json >"$work/read" 2>"$work/err" || fail "what quantize wrote: $(cat "$work/err")"
"$python" -c 'import json, sys; a, b = (json.load(open(x)) for x in sys.argv[1:]); sys.exit(abs(a["loss"] - b["loss"]) > 1e-6)' \
    "$work/reported" "$work/read" || fail "what quantize wrote has another loss: $(cat "$work/reported" "$work/read")"

# Against a reference it gives what quantize reported of it, and nothing against itself; by the reference's tokens where it has a tokenizer.
"$QTRAJ" eval "$work/written" --ids "$ids" --reference "$models/llama.gguf" --json >"$work/read" 2>"$work/err" || fail "$(cat "$work/err")"
"$QTRAJ" eval "$models/llama.gguf" --ids "$ids" --reference "$models/llama.gguf" --json >"$work/self" || fail "a reference of itself"
"$python" - "$work/reported" "$work/read" "$work/self" <<'PYTHON' || fail "reference: $(cat "$work/read")"
import json, sys
reported, read, itself = (json.load(open(x)) for x in sys.argv[1:])
assert all(abs(value - reported[key]) < 1e-12 for key, value in read["reference"].items()), reported
assert itself["reference"]["kl_divergence"] == 0 and itself["reference"]["top1_agreement"] == 1
assert set(read["reference"]) == {"loss_delta", "loss_delta_stderr", "loss_relative", "loss_relative_stderr", "kl_divergence", "top1_agreement"}
PYTHON

refuse() { # NAME PATTERN ARGUMENT...
    "$QTRAJ" eval "${@:3}" >"$work/out" 2>"$work/err" && fail "$1: accepted"
    grep -qF -- "$2" "$work/err" || fail "$1: $(cat "$work/err")"
    [ "$(grep -c error: "$work/err")" = 1 ] || fail "$1: not one error: $(cat "$work/err")"
}
echo "a text of a few words" >"$work/text"

# llama.cpp's own types as methods: rows of 32 columns get Q5_0 for q4_k, and an importance comes from calibration inputs.
"$QTRAJ" quantize "$models/llama.gguf" --method q4_k --evaluation-ids "$ids" --json >"$work/plain" 2>"$work/err" || fail "q4_k: $(cat "$work/err")"
"$QTRAJ" quantize "$models/llama.gguf" --method q4_k --importance --calibration-ids "$ids" --evaluation-ids "$ids" --json >"$work/counted" \
    2>"$work/err" || fail "importance: $(cat "$work/err")"
"$python" - "$work/plain" "$work/counted" <<'PYTHON' || fail "q4_k: $(cat "$work/plain" "$work/counted")"
import json, sys
plain, counted = (json.load(open(x)) for x in sys.argv[1:])
assert plain["bits_per_weight"] == counted["bits_per_weight"] == 5.5
assert plain["loss"] != counted["loss"]
PYTHON
cp "$models/llama.gguf" "$work/copy.gguf"
refuse "no tokenizer" "name one with the sweep file's models[].tokenizer or --tokenizer" "$work/copy.gguf" --text "$work/text"
head -c 9000 "$models/llama.gguf" >"$work/cut.gguf"
refuse "cut short" "was its download cut short?" "$work/cut.gguf" --ids "$ids"
refuse "another size" "vocabulary 256 and hidden size 64" "$models/llama.gguf" --ids "$ids" --reference "$SOURCE/tests/fixtures/models/llama"
refuse "tasks" "--reference" "$models/llama.gguf" --ids "$ids" --reference "$models/llama.gguf" --logits "$work/logits"
trajectory=$SOURCE/configs/quickstart/trajectory
"$QTRAJ" eval "$trajectory/step000500" --text "$work/text" --length 5 --reference "$trajectory/step000500" >"$work/out" 2>"$work/err" ||
    fail "a text: $(cat "$work/err")"
grep -q "top-1 agreement 1.0000" "$work/out" || fail "a text: $(cat "$work/out")"
refuse "no GGUF file" "not a GGUF file" "$models/losses.json" --ids "$ids"
finish
