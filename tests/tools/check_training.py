"""Compares a run of qtraj train with torch and transformers: python3 check_training.py OUTPUT/RUN OUTPUT/tokens-....i32 [--train N]

The validation loss of every checkpoint, in float32; with --train, the losses of the first N steps that torch makes from the same
initial weights in the same order of tokens. Prints the largest differences; exits with 1 if they are too large."""
import argparse, csv, json, os
import torch, torch.nn.functional as F
from held_out import sequences
from transformers import AutoModelForCausalLM

a = argparse.ArgumentParser(description=__doc__)
a.add_argument("run")
a.add_argument("tokens")
a.add_argument("--train", type=int, default=0)
a.add_argument("--limit", type=float, default=4e-6, help="of a validation loss; if above 2e-5, of the first ten steps too")
a = a.parse_args()
settings = json.load(open(os.path.join(a.run, "run.json")))
steps = list(csv.DictReader(open(os.path.join(a.run, "steps.csv"))))
length, batch = settings["batch"]["length"], settings["batch"]["sequences"]

chunks, held = sequences(a.run, a.tokens)
chunks = torch.from_numpy(chunks)
held_out, train = chunks[:held], chunks[held:]


def loss_of(model, x, reduction="mean"):
    logits = model(input_ids=x[:, :-1], use_cache=False).logits.float()
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), x[:, 1:].reshape(-1), reduction=reduction)


worst = 0
for row in steps:
    folder = os.path.join(a.run, f"step{int(row['step']):06d}")
    if not row["validation_loss"] or not os.path.isdir(folder):
        continue
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        total = sum(float(loss_of(model, held_out[i : i + 1], "sum").double()) for i in range(held))
    difference = abs(total / (held * length) - float(row["validation_loss"]))
    worst = max(worst, difference)
print(f"{a.run}: validation loss in transformers: largest difference {worst:.2e}")
failed = not worst <= a.limit

if a.train:
    model = AutoModelForCausalLM.from_pretrained(os.path.join(a.run, "step000000"), dtype=torch.float32, attn_implementation="eager").train()
    o = settings["optimizer"]
    parameters = list(model.parameters())
    groups = [dict(params=[p for p in parameters if p.dim() > 1], weight_decay=o["weight_decay"]),
              dict(params=[p for p in parameters if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, betas=tuple(o["betas"]), eps=o["eps"])
    differences = []
    for k in range(min(a.train, len(train) // batch)): # within the first epoch
        for group in optimizer.param_groups:
            group["lr"] = float(steps[k]["learning_rate"])
        optimizer.zero_grad()
        loss = loss_of(model, train[k * batch : (k + 1) * batch])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, o["clip"])
        optimizer.step()
        differences.append(abs(float(loss) - float(steps[k]["loss"])))
    print(f"{len(differences)} steps in torch: difference of the loss at step 1 {differences[0]:.2e}, largest in the first 10 {max(differences[:10]):.2e}, "
          f"in all {max(differences):.2e}, mean {sum(differences) / len(differences):.2e}")
    failed = failed or not max(differences[:10]) <= max(2e-5, a.limit)
raise SystemExit(failed)
