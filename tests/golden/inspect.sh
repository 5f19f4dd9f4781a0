#!/usr/bin/env bash
# qtraj inspect of published models from config.json only: parameters with and without embeddings, and the stages of a
# block, whose shapes must add up to the same numbers; what attention sees.
. "$SOURCE/tests/tools/lib.sh"
need_python json

cat >"$work/inspect.py" <<'PY'
import json, pathlib, subprocess, sys

binary, work = sys.argv[1], pathlib.Path(sys.argv[2])
LLAMA = ["q q_proj", "q k_proj", "q v_proj", "o o_proj", "m gate_proj", "m up_proj", "d down_proj"]
NEOX = ["q query_key_value", "o dense", "m dense_h_to_4h", "d dense_4h_to_h"]
# the published config (without keys that do not affect shapes), parameters without embedding and head, all parameters,
# and the linears of a block: linears of one stage share a letter
MODELS = {
    "pythia-1b": ({"architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "hidden_size": 2048,
                   "intermediate_size": 8192, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
                   "model_type": "gpt_neox", "num_attention_heads": 8, "num_hidden_layers": 16, "rotary_emb_base": 10000,
                   "rotary_pct": 0.25, "tie_word_embeddings": False, "torch_dtype": "float16",
                   "use_parallel_residual": True, "vocab_size": 50304}, 805736448, 1011781632, NEOX),
    "olmo-1b": ({"architectures": ["OlmoForCausalLM"], "attention_bias": False, "clip_qkv": None, "hidden_act": "silu",
                 "hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 2048, "model_type": "olmo",
                 "num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 16, "rope_scaling": None,
                 "rope_theta": 10000.0, "tie_word_embeddings": True, "vocab_size": 50304},
                1073741824, 1176764416, LLAMA),
    "olmo2-32b": ({"architectures": ["Olmo2ForCausalLM"], "attention_bias": False, "hidden_act": "silu",
                   "hidden_size": 5120, "intermediate_size": 27648, "max_position_embeddings": 4096, "model_type": "olmo2",
                   "num_attention_heads": 40, "num_hidden_layers": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
                   "rope_theta": 500000, "tie_word_embeddings": False, "vocab_size": 100352},
                  31206675456, 32234279936, LLAMA),
    "olmo3-7b": ({"architectures": ["Olmo3ForCausalLM"], "attention_bias": False, "dtype": "bfloat16", "hidden_act": "silu",
                  "hidden_size": 4096, "intermediate_size": 11008,
                  "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"] * 8,
                  "max_position_embeddings": 65536, "model_type": "olmo3", "num_attention_heads": 32,
                  "num_hidden_layers": 32, "num_key_value_heads": 32, "rms_norm_eps": 1e-06,
                  "rope_scaling": {"attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
                                   "original_max_position_embeddings": 8192, "rope_type": "yarn"},
                  "rope_theta": 500000, "sliding_window": 4096, "tie_word_embeddings": False, "vocab_size": 100278},
                 6476533760, 7298011136, LLAMA),
    "smollm3-3b": ({"architectures": ["SmolLM3ForCausalLM"], "hidden_act": "silu", "hidden_size": 2048,
                    "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "smollm3",
                    "no_rope_layers": [int((i + 1) % 4 != 0) for i in range(36)], "num_attention_heads": 16,
                    "num_hidden_layers": 36, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 50000.0,
                    "sliding_window": None, "use_sliding_window": False, "tie_word_embeddings": True,
                    "vocab_size": 128256}, 2812430336, 3075098624, LLAMA),
    "apertus-8b": ({"architectures": ["ApertusForCausalLM"], "hidden_act": "xielu", "hidden_size": 4096,
                    "intermediate_size": 21504, "max_position_embeddings": 4096, "model_type": "apertus",
                    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "qk_norm": True,
                    "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": False, "vocab_size": 131072},
                   6979596352, 8053338176, [line for line in LLAMA if "gate" not in line]),
    "amber": ({"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
               "intermediate_size": 11008, "max_position_embeddings": 2048, "model_type": "llama",
               "num_attention_heads": 32, "num_hidden_layers": 32, "rms_norm_eps": 1e-06, "tie_word_embeddings": False,
               "vocab_size": 32000}, 6476271616, 6738415616, LLAMA),
    "qwen3-0.6b": ({"architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": 128, "hidden_act": "silu",
                    "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 32768,
                    "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
                    "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None,
                    "tie_word_embeddings": True, "use_sliding_window": False, "vocab_size": 151936},
                   440467456, 596049920, LLAMA),
    "opensci-1.7b": ({"architectures": ["OpensciForCausalLM"], "attention_bias": True, "head_dim": 64, "hidden_act": "silu",
                      "hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 4096, "mlp_bias": True,
                      "model_type": "opensci", "num_attention_heads": 32, "num_hidden_layers": 24,
                      "num_key_value_heads": 32, "qk_layernorm": True, "rms_norm_eps": 1e-05, "rope_theta": 100000,
                      "tie_word_embeddings": True, "vocab_size": 50304}, 1611355136, 1714377728, LLAMA),
}

# positions, window, layers with one, layers without RoPE, type and factor of each RoPE; and words of the text
ATTENTION = {
    "olmo3-7b": (65536, 4096, [i for i in range(32) if i % 4 != 3], [], [("yarn", 8), ("default", 1)],
                 "within windows RoPE default, theta 500000; a window of 4096 tokens in 24 of 32 layers (0, 1, 2, 4, "),
    "smollm3-3b": (4096, 0, [], list(range(3, 36, 4)), [("default", 1)], "no RoPE in 9 of 36 layers (3, 7, "),
    "olmo2-32b": (4096, 0, [], [], [("default", 1)], "  4096 positions; RoPE default, theta 500000\n"),
}


def inspect(path, *flags):
    done = subprocess.run([binary, "inspect", path, *flags], capture_output=True, text=True)
    assert done.returncode == 0, (path, done.returncode, done.stderr)
    return done.stdout


def elements(tensors):
    total = 0
    for tensor in tensors:
        if tensor["name"].endswith((".beta", ".eps")):
            continue  # xIELU's constants: stored, not trained
        size = 1
        for n in tensor["shape"]:
            size *= n
        total += size
    return total


failures = 0
for name, (config, non_embedding, parameters, linears) in MODELS.items():
    file = work / name / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps(config))
    got = json.loads(inspect(file, "--json"))
    seen = {}
    for tensor in got["block"]:
        if "stage" in tensor:
            seen.setdefault(tensor["stage"], []).append(tensor["name"].split(".")[-2])
    want = {}
    for line in linears:
        stage, tensor = line.split()
        want.setdefault(stage, []).append(tensor)
    text = inspect(file)
    checks = {
        "architecture": got["architecture"] == config["model_type"],
        "parameters": got["parameters"] == parameters,
        "without embeddings": got["parameters_non_embedding"] == non_embedding,
        "sum of shapes": elements(got["block"]) * got["layers"] + elements(got["outside"]) == parameters,
        "stages": [sorted(s) for s in seen.values()] == [sorted(s) for s in want.values()],
        "text": f"  {parameters} parameters, {non_embedding} without embedding and head\n" in text,
    }
    if name in ATTENTION:
        *numbers, words = ATTENTION[name]
        a = got["attention"]
        seen = [a["positions"], a["window"], a["window_layers"], a["no_rope_layers"],
                [(rope["type"], rope["factor"]) for rope in a["rope"]]]
        checks["attention"] = seen == numbers and words in text
    for what, good in checks.items():
        if not good:
            failures += 1
            print(f"FAIL: {name}: {what}: {json.dumps(got)[:2000]}")
    folder = subprocess.run([binary, "inspect", file.parent], capture_output=True, text=True)  # no weights: a warning
    if folder.returncode != 0 or folder.stdout.split("\n")[1:] != text.split("\n")[1:]:
        failures += 1
        print(f"FAIL: {name}: a folder without weights: {folder.returncode} {folder.stderr}{folder.stdout}")
sys.exit(failures > 0)
PY
"$python" "$work/inspect.py" "$QTRAJ" "$work" || fail "inspect"
finish
