"""Options of a sweep that change its numbers."""

NEUTRAL = (None, False, 0, "none", "", "auto", "own", "integer", [])
CALIBRATED = "order damping damping_increment block_size static_groups range_search hessian_per_token scale_dtype last_resort"
OUTLIERS = "range_factor outlier_columns outlier_bits outlier_score outlier_least outlier_relative down_bits"
MIXED = "damping hessian true_sequential incoherence incoherence_seed feedback"
USED = {algorithm: set(names.split()) for algorithm, names in {
    "rtn": f"group_size symmetric narrow_range range_search scale_dtype mixing mixing_seed codes scale_rows {OUTLIERS} lqer_rank",
    "gptq": f"group_size symmetric narrow_range {CALIBRATED} true_sequential hessian mixing mixing_seed codes scale_rows {OUTLIERS} lqer_rank",
    "gptaq": f"group_size symmetric {CALIBRATED} alpha consistent symmetric_grid",
    "awq": "group_size scale_dtype mixing mixing_seed scaled judged duo_scaling zero_point clip",
    "hqq": "group_size optimize_steps error_norm round_zero", "nf4": "absmax_block double_quant", "fp4": "absmax_block double_quant",
    "mxfp4": "", "nvfp4": "", "int8_weight": "", "int8": "outlier_threshold", "codebook": "hessian true_sequential scale_dtype sparse sensitive",
    "smoothquant": "granularity migration smoothed", "q8_0": "", "trellis": f"{MIXED} trellis_window trellis_code", "e8p": MIXED,
    "billm": "damping damping_increment block_size hessian_per_token last_resort scale_dtype feedback true_sequential hessian",
    **dict.fromkeys(("q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q4_0", "iq4_nl"), "importance"),
    **dict.fromkeys(("noise", "permuted", "flipped"), f"group_size symmetric {CALIBRATED} true_sequential hessian change_of change_seed"),
}.items()}  # as `qtraj methods` lists them
OWN = {"stored": {"path"}, "none": set()}  # of methods that `qtraj methods` does not list
LEARNED = ("rotation_seed", "rotation_steps", "rotation_sequences", "rotation_rate")
IDLE = {"batch", "together", "memory", "name", "text", "ids", "log_likelihoods"}  # say how, not what, is computed


def words(options, leave_out=()):
    """Options as words: names and values; what is switched off is left out."""
    kept = {k: v for k, v in options.items() if k not in leave_out and v not in NEUTRAL and not isinstance(v, dict)}
    return ", ".join(k.replace("_", " ") if v is True else f"{k.replace('_', ' ')} {v}" for k, v in kept.items())


def of_method(entry):
    """Those that the method uses, its preset and its replicates."""
    used = OWN[entry["method"]] if entry.get("method") in OWN else USED.get(entry.get("method"), set(entry) - {"bits", "name", "method", "replicates"}) | {"preset"}
    if entry.get("codes", "integer") == "integer":
        used = used - {"scale_rows"}
    if not entry.get("outlier_columns"):
        used = used - {"outlier_bits", "outlier_score", "outlier_least", "outlier_relative"}
    used = used - {name for name, value in (("range_factor", 1), ("down_bits", "same")) if entry.get(name, value) == value}
    options = {k: v for k, v in entry.items() if k in used}
    if entry.get("symmetric") is False and "symmetric" in used:
        options = {"asymmetric": True} | options
    if entry.get("rotation"):
        options |= {"rotation": " ".join(entry["rotation"])} | {name: entry.get(name) for name in LEARNED[:4 if entry.get("rotation_steps") else 1]}
    if entry.get("replicates", 1) > 1:
        options["replicates"] = entry["replicates"]
    computed = [f"{part}: {words(entry[part])}" for part in ("activations", "keys", "values") if entry.get(part)]  # quantized too, when losses are measured
    return "; ".join([text for text in [words(options)] if text] + computed)
