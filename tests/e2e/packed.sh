#!/usr/bin/env bash
# qtraj quantize --out --format: packed folders give the loss that was reported, whatever the method, options and family; what a format
# cannot hold is refused before any work. That the packed tensors have the bytes of the formats' own programs: unit test test_packed;
# that these programs load the folders: tests/golden/load_export.py, by hand (tests/README.md).
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy

models=$SOURCE/tests/fixtures/models

# With biases on all linears and as many key heads as query heads, so that AWQ's scales are absorbed by norms, rows and biases.
"$python" - "$models/llama" "$work/biased" <<'PYTHON' || fail "a model with biases"
import json, os, struct, sys
import numpy as np

source, out = sys.argv[1:]
data = open(source + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
random, tensors = np.random.default_rng(1), {}
for name, t in json.loads(data[8:8 + n]).items():
    if name == "__metadata__":
        continue
    assert t["dtype"] == "F32"
    x = np.frombuffer(data[8 + n:][slice(*t["data_offsets"])], np.float32).reshape(t["shape"])
    if "k_proj" in name or "v_proj" in name:
        x = np.concatenate([x, 0.7 * x[::-1]]).astype(np.float32)
    if name.endswith("norm.weight"):
        x = (x * random.uniform(0.3, 3, x.shape)).astype(np.float32)
    tensors[name] = x
    if "_proj" in name:
        tensors[name.replace(".weight", ".bias")] = (0.1 * random.standard_normal(len(x))).astype(np.float32)
header, at = {}, 0
for name, x in tensors.items():
    header[name] = {"dtype": "F32", "shape": x.shape, "data_offsets": [at, at + x.nbytes]}
    at += x.nbytes
text = json.dumps(header).encode()
os.mkdir(out)
with open(out + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(x.tobytes() for x in tensors.values()))
config = json.load(open(source + "/config.json"))
config.update(attention_bias=True, mlp_bias=True, num_key_value_heads=4)
json.dump(config, open(out + "/config.json", "w"))
PYTHON

# export_of NAME BASE FORMAT METHOD BITS FLAG...: quantizes, writes OUT, evaluates it; the losses are compared at the end.
export_of() {
    local name=$1 base=$2 format=$3 method=$4 bits=$5 ids calibration=()
    shift 5
    case $base in */biased) ids=$models/llama ;; *) ids=$base ;; esac
    ids=$ids/reference.safetensors:input_ids
    [ "$method" = rtn ] || calibration=(--calibration-ids "$ids")
    "$QTRAJ" quantize "$base" --method "$method" --bits "$bits" "${calibration[@]}" --evaluation-ids "$ids" --json \
        --format "$format" --out "$work/$name" "$@" >"$work/$name.reported.json" 2>"$work/err" || fail "$name: $(cat "$work/err")"
    tail -n 1 "$work/$name/README.md" | grep -qE '^\| [^|]+ \| [0-9.]+ \| [0-9.]+ \| ' || fail "$name: losses: $(cat "$work/$name/README.md")"
    "$QTRAJ" eval "$work/$name" --ids "$ids" --json >"$work/$name.read.json" 2>"$work/err" || fail "$name: eval: $(cat "$work/err")"
}

f16=(--scale-dtype f16)
for bits in 2 3 4 8; do
    export_of "gptq$bits" "$models/llama" gptq gptq $bits "${f16[@]}" --group-size 32
    export_of "gptq$bits-asymmetric" "$models/llama" gptq gptq $bits "${f16[@]}" --group-size 32 --asymmetric --order activation
done
export_of order-group "$models/llama" gptq gptq 4 "${f16[@]}" --group-size 32 --order group
export_of order-static "$models/llama" gptq gptq 4 "${f16[@]}" --group-size 32 --order activation --static-groups
export_of order-rows "$models/llama" gptq gptq 3 "${f16[@]}" --group-size -1 --order activation
export_of f16-packed "$models/llama" gptq gptq 4 --scale-dtype f16-packed --group-size 32
export_of gptaq "$models/llama" gptq gptaq 4 "${f16[@]}" --group-size 32 --symmetric-grid gptaq
export_of rtn-rows "$models/llama" gptq rtn 4 "${f16[@]}" --group-size -1
export_of rtn-awq "$models/llama" awq rtn 4 "${f16[@]}" --group-size 16 --asymmetric
export_of gptq-awq "$models/llama" awq gptq 4 "${f16[@]}" --group-size 32 --order group
export_of rtn-f32 "$models/llama" compressed-tensors rtn 5 --group-size 32
export_of gptq-f32 "$models/llama" compressed-tensors gptq 3 --group-size -1 --asymmetric
for base in "$models/gpt_neox_sequential" "$models/olmo2" "$models/qwen2" "$work/biased"; do
    export_of "awq-$(basename "$base")" "$base" awq awq 4 "${f16[@]}" --group-size 16
done
export_of awq-gptq "$work/biased" gptq awq 3 "${f16[@]}" --group-size 32 --no-zero-point
export_of awq-compressed "$work/biased" compressed-tensors awq 4 --group-size 32
export_of awq-none "$work/biased" compressed-tensors awq 4 --group-size 32 --scaled none

# Codes and scales are those that were measured; AWQ's factors are absorbed by other tensors, which rounds once more.
"$python" - "$work" <<'PYTHON' || fail "losses"
import glob, json, os, sys

wrong = 0
for path in sorted(glob.glob(sys.argv[1] + "/*.reported.json")):
    name = os.path.basename(path)[:-len(".reported.json")]
    reported, read = json.load(open(path)), json.load(open(path.replace("reported", "read")))
    config = json.load(open(f"{sys.argv[1]}/{name}/config.json"))
    quantization = config["quantization_config"]
    if quantization["quant_method"] == "gptq":
        form = "gptq" if quantization["sym"] else "gptq_v2"
        assert quantization["checkpoint_format"] == form, name
        assert json.load(open(f"{sys.argv[1]}/{name}/quantize_config.json")) == quantization, name
    allowed = 2e-6 if name.startswith("awq-") and name != "awq-none" else 0
    if not abs(reported["loss"] - read["loss"]) <= allowed or reported["loss"] == reported["baseline_loss"]:
        print(f"{name}: loss {read['loss']!r} of the folder, reported {reported['loss']!r}")
        wrong += 1
assert wrong == 0
PYTHON

# --- what a format cannot hold ---
# refuse NAME PATTERN FLAG...: exit code 2 and one error line; nothing is written.
refuse() {
    local name=$1 pattern=$2 got
    shift 2
    "$QTRAJ" quantize "${model:-$models/llama}" --out "$work/never" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ $got = 2 ] || fail "$name: exit code $got: $(cat "$work/err")"
    [ "$(grep -c 'error:' "$work/err")" = 1 ] || fail "$name: expected one error line: $(cat "$work/err")"
    grep -qF -- "$pattern" "$work/err" || fail "$name: '$(cat "$work/err")' does not say '$pattern'"
    [ -z "$(find "$work" -name 'never*')" ] || fail "$name: left $(find "$work" -name 'never*')"
}
refuse "awq at 3 bits" "format awq cannot hold 3 bits; it holds 4 bits" --format awq --method rtn --bits 3 "${f16[@]}"
refuse "scales of 32 bits" "format gptq cannot hold scales of 32 bits" --format gptq --method rtn --bits 4
refuse "5 bits" "format gptq cannot hold 5 bits" --format gptq --method rtn --bits 5 "${f16[@]}"
refuse "groups" "with groups of 48 of its 64 columns" --format awq --method rtn --bits 4 "${f16[@]}" --group-size 48
refuse "nf4" "format gptq cannot hold it: the weights of method nf4 are no codes of integer grids" --format gptq --method nf4
refuse "hqq" "the weights of method hqq are no codes of integer grids" --format compressed-tensors --method hqq --bits 4
refuse "scales that nothing absorbs" "only foldable and none can be packed" --format gptq --method awq --bits 4 "${f16[@]}" --scaled free \
    --calibration-ids "$models/llama/reference.safetensors:input_ids"
# Weights of some millions: their scales are beyond 16 bits.
"$python" - "$models/llama" "$work/large" <<'PYTHON' || fail "a model with large weights"
import json, os, struct, sys
import numpy as np

source, out = sys.argv[1:]
data = bytearray(open(source + "/model.safetensors", "rb").read())
n = struct.unpack("<Q", data[:8])[0]
a, b = json.loads(data[8:8 + n])["model.layers.1.mlp.up_proj.weight"]["data_offsets"]
x = np.frombuffer(bytes(data[8 + n + a:8 + n + b]), np.float32) * np.float32(1e8)
data[8 + n + a:8 + n + b] = x.tobytes()
os.mkdir(out)
open(out + "/model.safetensors", "wb").write(data)
open(out + "/config.json", "w").write(open(source + "/config.json").read())
PYTHON
model=$work/large refuse "a scale beyond 16 bits" "up_proj.weight: quantizing row 0 gave a number that is not finite: a scale is above 65504" --format gptq \
    --method rtn --bits 4 "${f16[@]}" --group-size 32
"$QTRAJ" quantize "$models/llama" --method rtn --bits 4 --format gptq "${f16[@]}" 2>"$work/err" && fail "a format without --out"
grep -qF -- "--format has no effect here: it goes with --out" "$work/err" || fail "a format without --out: $(cat "$work/err")"
finish
