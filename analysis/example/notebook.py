# SPDX-License-Identifier: BSD-2-Clause
"""A notebook as a file of cells: the latency of each request of a run, beside the commits of its file system.

Each `# %%` begins a cell. Open this file in an editor that runs cells (Jupyter with jupytext, VS Code,
Spyder, PyCharm), with .venv/bin/python started in Seekmeter's tree. Or run it as a whole:

    .venv/bin/python -m analysis.example.notebook runs/latest latency.png
"""

# %% What is needed
import sys

import matplotlib.pyplot as plt
import seaborn as sns

from analysis import frames
from analysis.figures.style import CLASS

RUN, PICTURE = sys.argv[1:] if len(sys.argv) == 3 else ("runs/latest", "latency.png")

# %% Load tables. docs/TABLES.md has their columns; times are ns, and t0 is the start of the workload
tables = frames.tables(RUN)
t0 = frames.start_ns(RUN)
block = tables["block"].dropna(subset="complete_ns")  # without requests whose completion was not seen

# %% Compute: seconds from the workload's start, and from queue to completion (Q2C)
block["seconds"] = (block["queue_ns"] - t0) / 1e9
block["latency_ms"] = ((block["complete_ns"] - block["queue_ns"]) / 1e6).astype(float)
print(block.groupby(["op", "class"], observed=True)["latency_ms"].describe())

# %% Draw: a point is a request; commits of the journal or log are grey stripes
axes = sns.scatterplot(
    block, x="seconds", y="latency_ms", hue="class", style="op", palette=CLASS, s=20, linewidth=0
)
axes.set(
    yscale="log", xlabel="seconds from the workload's start (grey: commits)", ylabel="Q2C in ms", title=RUN
)
if "event" in tables:
    events = tables["event"]
    commits = events[events["kind"].str.contains("commit|log_force")]
    for begin, end in ((commits[["start_ns", "end_ns"]] - t0) / 1e9).to_numpy():
        axes.axvspan(begin, end, color="0.85", zorder=0)
sns.move_legend(axes, "upper left", bbox_to_anchor=(1, 1), frameon=False)

# %% Keep it
plt.savefig(PICTURE, dpi=120, bbox_inches="tight")
