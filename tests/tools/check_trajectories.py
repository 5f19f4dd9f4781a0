"""Compares steps, tokens, rates and phases of checkpoints with what the publications say.

usage: check_trajectories.py SOURCES

Each line of POINTS names a spec file of configs/trajectories (and :table, if it makes several), a checkpoint and where its
values come from. Rates are written as the source prints them, or as arithmetic on the source's numbers, independently of
jobs/schedules.py; `close` is the relative tolerance: 1e-5, since tables have six digits, or more where the source rounds. A
checkpoint need not be in the committed table."""

import csv
import io
import os
import subprocess
import sys
from math import cos, pi, sqrt

T12 = 1e12
SMOL = "github.com/huggingface/smollm text/pretraining/smollm3/"
OLMO = "github.com/allenai/OLMo configs/"
CORE = "github.com/allenai/OLMo-core src/scripts/official/"
NEOX = "github.com/EleutherAI/pythia models/, gpt-neox megatron/learning_rates.py before August 2023"
SCI = "training log quoted in the plotting scripts of open-sci-ref-0.01"

# spec, checkpoint, step, tokens, rate, close, phase, source
POINTS = [
    # SmolLM3: 2e-4 after 2000 steps, linear to 0 from 4198001 over 522000; 192 x 3 x 4096 tokens a step
    ("smollm3-3b", "stage1-step-1000", 1000, 2359296000, 1e-4, 1e-5, "warmup", SMOL + "stage1_8T.yaml"),
    ("smollm3-3b", "stage1-step-40000", 40000, 94371840000, 2e-4, 1e-5, "stable", SMOL + "stage1_8T.yaml"),
    ("smollm3-3b", "stage2-step-3480000", 3480000, 8210350080000, 2e-4, 1e-5, "stable", SMOL + "stage2_8T_9T.yaml"),
    ("smollm3-3b", "stage3-step-4600000", 4600000, 10852761600000, 2e-4 * 120001 / 522000, 1e-5, "decay", SMOL + "stage3_9T_11T.yaml"),
    ("smollm3-3b", "stage3-step-4720000", 4720000, 11135877120000, 2e-4 / 522000, 1e-5, "decay", SMOL + "stage3_9T_11T.yaml"),
    ("smollm3-3b", "lc-4k-to-32k-step-1000", 4721000, 4721000 * 2359296, 2e-5, 1e-5, "long-context-32k", SMOL + "long_context_4k_to_32k.yaml"),
    ("smollm3-3b", "lc-4k-to-32k-step-20000", 4740000, 4740000 * 2359296, 0, 0, "long-context-32k", SMOL + "long_context_4k_to_32k.yaml"),
    # OLMo 1: warmup from a tenth of the peak
    ("olmo-1b", "step1000-tokens4B", 1000, 4194304000, 4e-5 + 3.6e-4 / 2, 1e-5, "warmup", OLMO + "official-0724/OLMo-1B.yaml, olmo/optim.py"),
    ("olmo-1b", "step2000-tokens8B", 2000, 8388608000, 4e-4, 1e-5, "decay", OLMO + "official-0724/OLMo-1B.yaml"),
    ("olmo-1b", "step370000-tokens1552B", 370000, 1551892480000,
     4e-5 + 3.6e-4 * (1 + cos(pi * 368000 / 737328)) / 2, 1e-5, "decay", OLMO + "official-0724/OLMo-1B.yaml; tokens: the revision's name"),
    ("olmo-1b", "step739328-tokens3101B", 739328, 3100966387712, 4e-5, 1e-5, "decay", OLMO + "official-0724/OLMo-1B.yaml: max_duration, alpha_f"),
    ("olmo-7b", "step1000-tokens4B", 1000, 4423680000, 3e-5 + 2.7e-4 / 5, 1e-5, "warmup", OLMO + "official-0724/OLMo-7B.yaml, olmo/optim.py"),
    ("olmo-7b", "step5000-tokens22B", 5000, 22118400000, 3e-4, 1e-5, "decay", OLMO + "official-0724/OLMo-7B.yaml; tokens: 2160 x 2048"),
    ("olmo-7b", "step557000-tokens2464B", 557000, 2463989760000, 0, 0, "decay", "arXiv 2402.00838: decayed to 0 in the final 1000 steps"),
    # OLMo 2: the rates at which stage 2 starts are printed in its configurations
    ("olmo2-1b", "stage1-step2000-tokens5B", 2000, 4194304000, 2e-4, 1e-5, "warmup", OLMO + "official-0425/OLMo2-1B-stage1.yaml"),
    ("olmo2-1b", "stage1-step954000-tokens2001B", 954000, 954000 * 2097152,
     4e-5 + 3.6e-4 * (1 + cos(pi * (954000 * 2097152 - 8388608000) / (5 * T12 - 8388608000))) / 2, 1e-5, "decay", OLMO + "official-0425/OLMo2-1B-stage1.yaml"),
    ("olmo2-1b", "stage1-step1907359-tokens4001B", 1907359, 1907359 * 2097152, 7.448728958032132e-05, 1e-5, "decay",
     OLMO + "annealing/peteish1-anneal-from-1907359-*.yaml: learning_rate"),
    ("olmo2-1b:olmo2-1b-ingredient3", "stage2-ingredient3-step23852-tokens51B", 1931211, 4050043011072, 0, 0, "ingredient3",
     OLMO + "official-0425/OLMo2-1B-stage2-seed42.yaml: alpha_f 0, stop_at"),
    ("olmo2-7b", "stage1-step1000-tokens5B", 1000, 4194304000, 1.5e-4, 1e-5, "warmup", OLMO + "official-1124/OLMo2-7B-stage1.yaml"),
    ("olmo2-7b", "stage1-step477000-tokens2001B", 477000, 2000683008000, 0.00020707, 2e-5, "decay",
     OLMO + "annealing/peteish7-anneal-from-477000-*.yaml: learning_rate"),
    ("olmo2-7b", "stage1-step928000-tokens3893B", 928000, 3892314112000, 0.000061499, 2e-5, "decay",
     OLMO + "official-1124/OLMo2-7B-stage2-seed42.yaml: learning_rate"),
    ("olmo2-7b:olmo2-7b-ingredient2", "stage2-ingredient2-step5960-tokens25B", 934606, 3895023632384 + 5960 * 4194304, 0.000061499 / 2, 1e-5, "ingredient2",
     OLMO + "official-1124/OLMo2-7B-stage2-seed42069.yaml: half of 11920 steps"),
    ("olmo2-7b:olmo2-7b-soup", "main", 940577, 3945065873408, 0, 0, "soup", "model card of OLMo-2-1124-7B: average of the three ends of stage 2"),
    ("olmo2-13b", "stage1-step500-tokens5B", 500, 4194304000, 4.5e-4, 1e-5, "warmup", "github.com/allenai/OLMo scripts/augusta/peteish13.sh"),
    ("olmo2-13b", "stage1-step1000-tokens9B", 1000, 8388608000, 9e-4, 1e-5, "decay", "github.com/allenai/OLMo scripts/augusta/peteish13.sh"),
    ("olmo2-13b", "stage1-step596057-tokens5001B", 596057, 5000088518656, 9e-5, 1e-5, "decay",
     OLMO + "official-1124/OLMo2-13B-stage2-seed1110-100B.yaml: learning_rate"),
    ("olmo2-13b:olmo2-13b-ingredient4", "stage2-ingredient4-step35773-tokens300B", 631830, 5300174192640, 0, 0, "ingredient4",
     OLMO + "official-1124/OLMo2-13B-stage2-seed2662-300B.yaml: stop_at"),
    ("olmo2-32b", "stage1-step1000-tokens9B", 1000, 8388608000, 3e-4, 1e-5, "warmup", CORE + "OLMo2/OLMo-2-0325-32B-train.py"),
    ("olmo2-32b", "stage1-step401000-tokens3364B", 401000, 3363831808000,
     6e-5 + 5.4e-4 * (1 + cos(pi * (3363831808000 - 16777216000) / (6.5 * T12 - 16777216000))) / 2, 1e-5, "decay",
     CORE + "OLMo2/OLMo-2-0325-32B-train.py"),
    ("olmo2-32b:olmo2-32b-ingredient1", "stage2-ingredient1-step11921-tokens101B", 733822, 733822 * 8388608, 0, 0, "ingredient1", CORE + "OLMo2/README.md, OLMo-2-0325-32B-anneal.py"),
    # OLMo 3: stage 2 starts at what the first cosine has at 2e12 tokens
    ("olmo3-7b", "stage1-step1000", 1000, 4194304000, 1.5e-4, 1e-5, "warmup", CORE + "OLMo3/OLMo-3-1025-7B-pretrain-1.py"),
    ("olmo3-7b", "stage1-step476837", 476837, 1999999336448, 0.00020712352850360292, 5e-6, "decay", CORE + "OLMo3/OLMo-3-1025-7B-midtrain.py: LR"),
    ("olmo3-7b", "stage1-step597046", 597046, 2504192425984, 1.65e-4, 1e-5, "decay", CORE + "OLMo3/OLMo-3-1025-7B-pretrain-2.py: half way down"),
    ("olmo3-7b", "stage2-step23842", 1437656, 5929965715456 + 23842 * 2097152, 0.00020712352850360292 / 2, 1e-5, "midtraining", CORE + "OLMo3/OLMo-3-1025-7B-midtrain.py"),
    ("olmo3-7b", "stage3-step11921", 1473419, 6079966609408, 0, 0, "long-context", CORE + "OLMo3/OLMo-3-1025-7B-long-context.py"),
    ("olmo3-32b", "stage1-step1000", 1000, 8388608000, 3e-4, 1e-5, "warmup", CORE + "OLMo3/OLMo-3-1025-32B-pretrain.py"),
    ("olmo3-32b", "stage1-step679000", 679000, 5695864832000, 6.210e-5, 3e-4, "decay", "arXiv 2512.13961: the rate where the run was stopped"),
    ("olmo3-32b:olmo3-32b-soups", "stage2-ingredient1+2-step23842", 679842, 5502926848000 + 23842 * 4194304, 0, 0, "soup", CORE + "OLMo3/README.md"),
    # Apertus: WSD with the decay 1-sqrt
    ("apertus-8b", "step2000-tokens8B", 2000, 8388608000, 5.5e-5, 1e-5, "warmup", "github.com/swiss-ai/pretrain-code submit_apertus_8b.sh: 4096000 samples"),
    ("apertus-8b", "step1000000-tokens4200B", 1000000, 4194304000000, 1.1e-4, 1e-5, "stable", "submit_apertus_8b.sh: lr"),
    ("apertus-8b", "step1700000-tokens7232B", 1700000, 7038042112000 + 22000 * 8388608, 1.1e-4, 1e-5, "stable", "submit_apertus_8b.sh: rampup-batch-size"),
    ("apertus-8b", "step2550000-tokens14372B", 2550000, 7038042112000 + 872000 * 8388608, 1.1e-4 - 9.9e-5 * sqrt(120080 / 197219), 1e-5, "decay",
     "submit_apertus_8b.sh: 197219 iterations"),
    ("apertus-8b", "step2627139-tokens15T", 2627139, 14999997120512, 1.1e-5, 1e-5, "decay", "submit_apertus_8b.sh: min-lr; tokens: the revision's name"),
    # Amber: chunks of 762 steps
    ("amber-7b", "ckpt_000", 762, 3495886848, 3e-4 * 762 / 2000, 1e-5, "warmup", "github.com/LLM360/amber-train main.py"),
    ("amber-7b", "ckpt_179", 137160, 180 * 3495886848, 3e-5 + 2.7e-4 * (1 + cos(pi * 135160 / 272320)) / 2, 1e-5, "decay", "amber-train main_utils.py"),
    ("amber-7b", "main", 274320, 1258519265280, 3e-5, 1e-5, "decay", "amber-train main.py: END_LEARNING_RATE"),
    # open-sci-ref: rates printed in the log
    ("opensci-1.7b", "iter_0000050", 50, 206438400, 8.000000e-06, 1e-5, "warmup", SCI),
    ("opensci-1.7b", "iter_0000350", 350, 1445068800, 5.600000e-05, 1e-5, "warmup", SCI),
    ("opensci-1.7b", "iter_0073700", 73700, 304290201600, 4.000000e-03, 1e-5, "stable", SCI),
    ("opensci-1.7b", "iter_0217984", 217984, 217984 * 4128768, 2e-3, 1e-5, "decay", SCI + ": half of 48440 iterations"),
    ("opensci-1.7b", "iter_0242204", 242204, 1000004124672, 0, 0, "decay", SCI + ": min-lr 0"),
    ("opensci-1.3b", "iter_0072661", 72661, 300000411648, 0, 0, "decay", "arXiv 2509.09009: 300B tokens, WSD to 0"),
    # Pythia: half a cosine to zero, at least a tenth of the peak
    ("pythia:pythia-160m", "step512", 512, 1073741824, 6e-4 * 512 / 1430, 1e-5, "warmup", NEOX),
    ("pythia:pythia-1b", "step71000", 71000, 148897792000, 2.5e-4 * (1 + cos(pi * 69570 / 143000)) / 2, 1e-5, "decay", NEOX),
    ("pythia:pythia-12b", "step98000", 98000, 205520896000, 1.2e-4 * (1 + cos(pi * 96570 / 143000)) / 2, 1e-5, "decay", NEOX),
    ("pythia:pythia-410m", "step143000", 143000, 299892736000, 3e-5, 1e-5, "decay", NEOX + ": min_lr"),
    # The ablation: the anneals' first rates are printed
    ("olmo2-7b-learning-rates:olmo2-7b-lr-6e-4", "peteish7-medlr-step477000", 477000, 2000683008000, 0.00041414, 2e-5, "decay",
     OLMO + "annealing/peteish7-medlr-anneal-from-477000-*.yaml: learning_rate"),
    ("olmo2-7b-learning-rates:olmo2-7b-lr-6e-4-anneal", "peteish7-medlr-anneal-from-477000-100B-step23852", 500852, 2100725547008, 0, 0, "anneal",
     OLMO + "annealing/peteish7-medlr-anneal-from-477000-*.yaml: stop_at"),
    ("olmo2-7b-learning-rates:olmo2-7b-lr-9e-4", "peteish7-highlr-step1000", 1000, 4194304000, 4.5e-4, 1e-5, "warmup",
     "peteish7-google.yaml with learning_rate 9.0e-4 (scripts of github.com/allenai/OLMo)"),
]


def rows_of(sources, trajectory, names):
    """The rows that fetch_trajectory.py makes of the names, by checkpoint."""
    spec, _, table = trajectory.partition(":")
    command = [sys.executable, os.path.join(sources, "jobs", "fetch_trajectory.py"),
               os.path.join(sources, "configs", "trajectories", f"{spec}.ini"), "--table", table or spec, "--names", "-"]
    run = subprocess.run(command, input="\n".join(names), capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{trajectory}: {run.stderr}")
    lines = [line for line in run.stdout.splitlines() if not line.startswith("#")]
    return {row["checkpoint"]: row for row in csv.DictReader(io.StringIO("\n".join(lines)))}


def differences(row, point):
    """What differs between a row and a point, as text."""
    _, _, step, tokens, rate, close, phase, _ = point
    found = []
    if int(row["step"]) != step:
        found.append(f"step {row['step']}, published {step}")
    if int(row["tokens"]) != tokens:
        found.append(f"tokens {row['tokens']}, published {tokens}")
    if abs(float(row["learning_rate"]) - rate) > close * rate:
        found.append(f"learning rate {row['learning_rate']}, published {rate:.6g}")
    if row["phase"] != phase:
        found.append(f"phase {row['phase']}, expected {phase}")
    return found


def main(sources):
    failures = 0
    trajectories = sorted({point[0] for point in POINTS})
    for spec in trajectories:
        points = [point for point in POINTS if point[0] == spec]
        rows = rows_of(sources, spec, [point[1] for point in points])
        for point in points:
            for text in differences(rows[point[1]], point):
                print(f"{spec} {point[1]}: {text} ({point[7]})")
                failures += 1
    phases = {point[6] for point in POINTS}
    assert len(POINTS) >= 40 and len(trajectories) >= 12 and {"warmup", "stable", "decay"} <= phases
    print(f"{len(POINTS)} checkpoints of {len(trajectories)} trajectories: {failures} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
