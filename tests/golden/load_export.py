"""Loads what `qtraj quantize --out --format` writes with the programs that own the formats, and compares the loss with the reported one.

usage: load_export.py QTRAJ MODEL_DIR [AUTOAWQ_DIR]

MODEL_DIR: a folder of tests/fixtures/models with reference.safetensors, for example llama. Needs torch, transformers, optimum, gptqmodel and
compressed-tensors on the CPU (pip install them into an environment of their own); no network. AUTOAWQ_DIR: a copy of casper-hansen/AutoAWQ,
whose packing_utils then unpack the awq folders. A format whose program is not installed is named as not run. By hand: tests/README.md.

gptqmodel multiplies scales and codes in f16, whatever the type of the model, so that its losses agree to 1e-3 only. That this rounding is
the whole difference is checked too: each of its weights is the reported one rounded to f16, and a model of plain f32 linears with these
weights has gptqmodel's loss.
"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TORCHDYNAMO_DISABLE"] = "1"  # gptqmodel compiles each shape otherwise, for minutes
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, CompressedTensorsConfig, GPTQConfig

program, model = sys.argv[1], Path(sys.argv[2])
autoawq = Path(sys.argv[3]) if len(sys.argv) > 3 else None
reference = model / "reference.safetensors"
ids = load_file(reference)["input_ids"].long()
failed = 0


def export(out, method, bits, fmt, *flags):
    """The loss that qtraj reports for the folder that it writes."""
    data = f"{reference}:input_ids"
    command = [program, "quantize", model, "--method", method, "--bits", bits, "--format", fmt, "--out", out, "--json"]
    if method in ("gptq", "gptaq", "awq"):
        command += ["--calibration-ids", data]
    run = subprocess.run([*map(str, command), "--evaluation-ids", data, *flags], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)["loss"]


def load(out, **options):
    return AutoModelForCausalLM.from_pretrained(out, device_map={"": "cpu"}, **options).eval()


def loss(loaded):
    with torch.no_grad():
        logits = loaded(ids).logits.double()
    return -torch.log_softmax(logits[:, :-1], -1).gather(2, ids[:, 1:, None]).mean().item()


def loss_of(out, **options):
    return loss(load(out, **options))


def check(name, reported, got, allowed):
    global failed
    failed += not abs(got - reported) <= allowed
    print(f"{name:40} reported {reported:.8f} loaded {got:.8f} difference {got - reported:+.1e} (allowed {allowed:.0e})", flush=True)


def check_rounding(name, packed, dense):
    """dense: the folder of the same weights, dequantized. Their rounding to f16 explains the loss of the packed model that was loaded."""
    global failed
    plain, linears, others = load(dense, dtype=torch.float32), 0, 0
    for module_name, module in packed.named_modules():
        if hasattr(module, "dequantize_weight"):
            weight = plain.get_submodule(module_name).weight
            others += not torch.equal(module.dequantize_weight().t(), weight.half())
            weight.data = weight.data.half().float()
            linears += 1
    failed += linears == 0 or others > 0
    print(f"{name}: {linears} linears, {others} of other weights than the reported ones in f16")
    check(f"{name}, f32 with weights in f16", loss(plain), loss(packed), 1e-6)


def has(*modules):
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        print(f"not run, no module {', '.join(missing)}")
    return not missing


f16 = ("--scale-dtype", "f16")
with tempfile.TemporaryDirectory() as folder:
    folders = (f"{folder}/{i}" for i in range(1000))
    for method, bits, flags in (("rtn", 3, ()), ("gptq", 4, ("--asymmetric",)), ("awq", 4, ())):
        out = next(folders)
        reported = export(out, method, bits, "dequantized", "--group-size", "32", *flags)
        check(f"dequantized {method} {bits}", reported, loss_of(out, dtype="auto"), 1e-4)
    if has("compressed_tensors"):
        for method, bits, flags in (("rtn", 3, ()), ("gptq", 4, ()), ("awq", 4, ("--no-zero-point",)), ("gptq", 8, ("--asymmetric",)),
                                    ("awq", 4, ())):
            out = next(folders)
            reported = export(out, method, bits, "compressed-tensors", "--group-size", "32", *flags)
            # transformers 5.23 with compressed-tensors 0.20 takes packed zeros only when it dequantizes at once.
            asymmetric = "--asymmetric" in flags or (method == "awq" and not flags)
            options = {"quantization_config": CompressedTensorsConfig(dequantize=True)} if asymmetric else {}
            check(f"compressed-tensors {method} {bits} {' '.join(flags)}", reported, loss_of(out, dtype="auto", **options), 1e-4)
    if has("gptqmodel", "optimum"):
        for bits in (2, 3, 4, 8):
            for flags in (("--symmetric",), ("--asymmetric",)):
                out = next(folders)
                order = ("--order", "activation") if bits == 3 else ()
                reported = export(out, "gptq", bits, "gptq", "--group-size", "32", *f16, *flags, *order)
                # Plain torch: the default kernel compiles itself for minutes.
                packed = load(out, dtype=torch.float32, quantization_config=GPTQConfig(bits=bits, backend="torch"))
                name, dense = f"gptq {bits} {' '.join(flags + order)}", next(folders)
                check(name, reported, loss(packed), 1e-3)
                export(dense, "gptq", bits, "dequantized", "--group-size", "32", *f16, *flags, *order)
                check_rounding(name, packed, dense)
        out = next(folders)
        reported = export(out, "awq", 4, "awq", "--group-size", "32", *f16)
        check("awq 4", reported, loss_of(out, dtype=torch.float32), 1e-3)
    if autoawq:
        spec = importlib.util.spec_from_file_location("packing_utils", autoawq / "awq/utils/packing_utils.py")
        packing = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(packing)
        for method, flags in (("rtn", ("--asymmetric",)), ("gptq", ())):
            out, dense, size = next(folders), next(folders), 32
            for where, fmt in ((out, "awq"), (dense, "dequantized")):
                export(where, method, 4, fmt, "--group-size", str(size), *f16, *flags)
            tensors, weights = load_file(f"{out}/model.safetensors"), load_file(f"{dense}/model.safetensors")
            stems = [name[:-len(".qweight")] for name in tensors if name.endswith(".qweight")]
            for stem in stems:
                parts = [tensors[f"{stem}.{part}"] for part in ("qweight", "qzeros", "scales")]
                unpacked = packing.dequantize_gemm(parts[0], parts[1], parts[2].float(), 4, size).t()
                failed += not torch.equal(unpacked, weights[f"{stem}.weight"])
            print(f"awq {method} {' '.join(flags)}: {len(stems)} linears unpacked by AutoAWQ, {failed} failures so far")
sys.exit(failed > 0)
