#!/usr/bin/env python3
"""Writes a config.json for every model of a table of shapes, so that `qtraj plan` works without the checkpoints.

    jobs/make_shapes.py configs/shapes/shapes.csv DIR       makes DIR/FOLDER/config.json for each row

The files name what qtraj reads, no more: they are no replacement for those of the checkpoints."""

import argparse
import csv
import json
import os
import sys

NUMBERS = {"hidden": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads", "intermediate": "intermediate_size",
           "vocabulary": "vocab_size", "positions": "max_position_embeddings"}


def rope_layers(layers):
    """SmolLM3: every fourth layer is without RoPE; 1 means with."""
    return [0 if layer % 4 == 3 else 1 for layer in range(layers)]


def layer_types(layers):
    """OLMo 3: every fourth layer has full attention."""
    return ["full_attention" if layer % 4 == 3 else "sliding_attention" for layer in range(layers)]


def family_keys(row, config):
    """What differs between families, beside the numbers of the table."""
    llama = {"hidden_act": "silu", "attention_bias": False, "rms_norm_eps": 1e-6}
    return {
        "llama": lambda: {**llama, "mlp_bias": False},
        "qwen2": lambda: {"hidden_act": "silu", "rms_norm_eps": 1e-6},
        "olmo": lambda: {"hidden_act": "silu", "attention_bias": False, "clip_qkv": None},
        "olmo2": lambda: llama,
        "olmo3": lambda: {**llama, "sliding_window": 4096, "layer_types": layer_types(config["num_hidden_layers"])},
        "smollm3": lambda: {**llama, "mlp_bias": False, "no_rope_layer_interval": 4,
                            "no_rope_layers": rope_layers(config["num_hidden_layers"])},
        "apertus": lambda: {**llama, "hidden_act": "xielu", "rms_norm_eps": 1e-5},
        "opensci": lambda: {**llama, "attention_bias": True, "mlp_bias": True, "qk_layernorm": True, "rms_norm_eps": 1e-5,
                            "layer_norm_eps": 1e-5, "head_dim": config["hidden_size"] // config["num_attention_heads"]},
        "gpt_neox": lambda: {"hidden_act": "gelu", "attention_bias": True, "layer_norm_eps": 1e-5, "rotary_pct": 0.25,
                             "use_parallel_residual": True},
    }[row["family"]]()


def config_of(row):
    config = {key: int(row[column]) for column, key in NUMBERS.items()}
    theta = float(row["rope_theta"])
    if row["family"] == "gpt_neox":
        config["rotary_emb_base"] = theta
    else:
        config.update(rope_theta=theta, num_key_value_heads=int(row["kv_heads"]))
    config.update(model_type=row["family"], tie_word_embeddings=row["tied"] == "yes", torch_dtype=row["dtype"])
    return {**config, **family_keys(row, config)}


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TABLE.csv", help="one row a model, lines that begin with # are skipped")
    parser.add_argument("out", metavar="DIR", help="where the folders go")
    options = parser.parse_args(argv)
    with open(options.table, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    for row in rows:
        os.makedirs(os.path.join(options.out, row["folder"]), exist_ok=True)
        with open(os.path.join(options.out, row["folder"], "config.json"), "w", encoding="utf-8") as file:
            json.dump(config_of(row), file, indent=1, sort_keys=True)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
