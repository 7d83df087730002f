"""Draw learning curves: python .github/curves.py OUT.png LOGDIR[=BAR]...

Needs matplotlib. Each LOGDIR holds what one run wrote with --logdir. A panel for each, against the
frames of all threads: scores of each thread's episodes (thin), the mean of the last fifty of
all threads (bold), the BAR for the mean score, 199 if none is given (dashed).
"""
import collections
import sys
from pathlib import Path

import matplotlib
import tensorflow.compat.v1 as tf

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

out, *runs = sys.argv[1:]
figure, panels = plt.subplots(1, len(runs), figsize=(4 * len(runs), 3.2), squeeze=False,
                              layout="constrained")
for panel, run in zip(panels[0], runs):
    folder, _, bar = run.partition("=")
    threads = collections.defaultdict(list)
    all_episodes = []
    for path in sorted(Path(folder).glob("events.out.tfevents.*")):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag.startswith("score/"):
                    threads[value.tag].append((event.step, value.simple_value))
                    all_episodes.append((event.step, value.simple_value))
    for points in threads.values():
        panel.plot(*zip(*points), linewidth=0.5, alpha=0.6)
    frames, scores = zip(*sorted(all_episodes))
    means = [sum(scores[max(0, i - 50):i]) / min(i, 50) for i in range(1, len(scores) + 1)]
    panel.plot(frames, means, color="black", linewidth=2.5)
    panel.axhline(float(bar or 199), color="black", linestyle="--", linewidth=0.8)
    panel.set(title=Path(folder).name, xlabel="frames of all threads")
    panel.ticklabel_format(axis="x", style="plain")
    panel.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
panels[0][0].set_ylabel("score of an episode")
figure.savefig(out, dpi=110)
