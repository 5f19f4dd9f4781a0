"""check_slurm.py JOBS PLAN HOURS: what `qtraj slurm` has printed fits the plan (qtraj plan --simulate --json): no element is longer
than the walltime, the 32B checkpoints are on several nodes, and the node-hours are within a tenth of the simulation's."""
import json
import re
import sys

text = open(sys.argv[1]).read()
plan = json.load(open(sys.argv[2]))
limit = float(sys.argv[3])
hours = float(re.search(r"parts?, ([\d.e+]+) node-hours", text)[1])
unit = {"s": 1 / 3600, "min": 1 / 60, "h": 1, "days": 24}
arrays = re.findall(r"^# (\d+) elements? on (\d+) nodes? each: [\d.e+]+ node-hours, the longest ([\d.]+) (\w+)", text, re.M)
assert arrays, text
for n, nodes, longest, u in arrays:
    assert float(longest) * unit[u] <= limit, f"an element on {nodes} nodes takes {longest} {u}"
cost = plan["cost"]
simulated = cost["simulations"][0]
work = simulated["seconds"] * simulated["nodes"] * (1 - simulated["idle"]) / 3600
assert abs(hours / work - 1) <= 0.1, f"{hours} node-hours, {work} in the simulation"
large = sum(m["visits"] for m in cost["models"] if "32B" in m["model"])
together = sum(int(n) for n, nodes, *_ in arrays if int(nodes) > 1)
assert large and together >= large, f"{together} elements on several nodes, {large} checkpoints of 32B"
print(f"{hours:.0f} node-hours, simulated {work:.0f}; {together} elements on several nodes")
