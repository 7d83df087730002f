"""Draw the pictures of the pages from the recorded data, and print the numbers that they quote."""
import argparse
from pathlib import Path

import film
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import recorded_data
import compare
import measure_exercises as exercises
from film import BLUE, GREEN, GREY, ORANGE, PINK, VERMILION, image
from recorded_data import ROOT, SMALL, load, networks, smooth
from reference import forward
from run_statistics import column
from translate import FONTS, translate

PICTURES = ROOT / ".github" / "pictures"
WIDTH, DPI = 8, 200  # inches; GitHub shows 1,600 pixels as 800, which is 100 for each inch
STYLE = {
    "axes.titlesize": 10.5, "axes.titlelocation": "left", "axes.spines.top": False,
    "axes.spines.right": False, "xtick.labelsize": 9, "ytick.labelsize": 9,
    "legend.fontsize": 9.5, "legend.frameon": False, "figure.constrained_layout.use": True}
THOUSANDS = "{x:,.0f}"  # how the frames on an axis are written
ABOVE = {"loc": "outside upper left", "handletextpad": 0.4, "columnspacing": 1.4}  # a legend
# With it, both runs are typical of fifty, by when they are good in both worlds and by later scores
TYPICAL_SEED = 43
BOX = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 2}


def save(figure, path, language):
    """As a PNG of 256 colours, which is less than half as large."""
    for text in figure.findobj(matplotlib.text.Text):
        text.set_text(translate(text.get_text(), language))
        if language == "ja":
            text.set_weight("normal")  # its font has no other
    image(figure, DPI).quantize(256).save(path, optimize=True)
    plt.close(figure)


def draw_run():
    """Scores, evaluations and losses of one run."""
    curves = load("run")  # each (n, 2): frames and values
    evaluations, threshold = curves["evaluation"], curves["threshold"][0, 1]
    figure, panels = plt.subplots(3, figsize=(WIDTH, 5.8), sharex=True, height_ratios=[3.2, 1, 1])
    top, actor, critic = panels
    top.plot(*curves["score"].T, ".", color=BLUE, markersize=4, alpha=0.5, markeredgewidth=0)
    top.plot([], ".", color=BLUE, markersize=9, label="one episode")
    top.plot(*curves["mean"].T, color="black", linewidth=2, label="mean of the last 50")
    top.axhline(threshold, color=GREY, linestyle="--", linewidth=0.8, label="threshold")
    passed = evaluations[:, 1] > threshold
    for chosen, color, word in (~passed, VERMILION, "failed"), (passed, GREEN, "passed"):
        top.plot(*evaluations[chosen].T, "D", color=color, markeredgecolor="black",
                 markersize=7, zorder=3, label=f"evaluation {word}")
    top.xaxis.set_major_formatter(THOUSANDS)
    for panel, name in (actor, "actor"), (critic, "critic"):
        points = curves[f"loss/{name}"]
        panel.plot(*points.T, color="0.75", linewidth=0.4)
        panel.plot(*smooth(points), color=PINK, linewidth=2)
        panel.axhline(0, color="black", linewidth=0.6)
        limit = 1.5 * abs(smooth(points)[1]).max()
        panel.set(ylim=(-limit if name == "actor" else 0, limit), ylabel=f"{name}'s\nloss")
    frames, loss = smooth(curves["loss/critic"])
    for panel in panels:
        for x, _ in evaluations:
            panel.axvline(x, color=GREY, linewidth=0.8)
        panel.fill_between(frames, 0, 1, where=loss < SMALL, transform=panel.get_xaxis_transform(),
                           color=PINK, alpha=0.2, linewidth=0,
                           label=f"critic's mean loss below {SMALL}")
    for frames, mean in evaluations:
        top.annotate(f"{mean:.1f}", (frames, mean), (-7, -7), textcoords="offset points",
                     ha="right", va="top", bbox=BOX)
    top.set_ylabel("score")
    actor.set_title("losses of single updates (grey, up to ±1) and their mean over 200 updates")
    critic.set_xlabel("frames of all threads")
    figure.legend(*top.get_legend_handles_labels(), ncols=3, **ABOVE)
    return figure


def draw_hundred():
    """How many of a hundred runs have learned, and the mean scores of those still learning."""
    learned = column(exercises.load_runs()["0"], "frames")
    frames, means = exercises.GRID[1:], exercises.load_curves()[:, 1:]
    most = frames < np.median(learned)  # are still learning
    figure, (top, bottom) = plt.subplots(2, figsize=(WIDTH, 4.2), sharex=True,
                                         height_ratios=[1, 2])
    top.step(np.sort(learned), range(1, 101), where="post", color=GREEN, linewidth=2.2)
    top.set(ylabel="runs that\nhave learned", ylim=(0, 104), yticks=[0, 50, 100])
    bottom.plot(frames, means.T, color=BLUE, linewidth=0.5, alpha=0.35)
    bottom.plot([], color=BLUE, linewidth=0.8, label="one run, until it has learned")
    bottom.plot(frames[most], np.nanmedian(means[:, most], axis=0), color="black",
                linewidth=2.2, label="median of those still learning, until half have learned")
    bottom.set(xlabel="frames of all threads", ylabel="mean score of\nthe last 50 episodes",
               xlim=(0, 80_000), ylim=(0, 205))
    bottom.xaxis.set_major_formatter(THOUSANDS)
    figure.legend(ncols=2, **ABOVE)
    return figure


def draw_threads():
    """The server and three threads as lanes. The colour of a copy tells its version."""
    data = load("threads")
    figure, panels = plt.subplots(2, figsize=(WIDTH, 5.4))
    titles = (f"three threads on {data['cores']} cores",
              "three threads on one core, as in the script on Linux")
    for panel, title, (name, seconds) in zip(panels, titles, recorded_data.SECONDS.items()):
        draw_lanes(panel, [recorded_data.Event(*event) for event in data[name]], seconds)
        panel.set(title=title, xlabel="milliseconds")
    panels[0].plot([], "|", color="black", markersize=11, label="update")
    panels[0].plot([], marker="$2$", color=VERMILION, linestyle="", label="its age")
    for shade, label in (0.0, "older weights"), (0.5, "newer"), (1.0, "newest"):
        panels[0].plot([], "s", color=plt.cm.viridis(shade), markersize=10, label=label)
    figure.legend(ncols=5, **ABOVE)
    return figure


def draw_lanes(panel, events, seconds):
    """Draw one stretch, see `timeline.record`. Each thread's last pull before it comes first."""
    pulls = [event for event in events if not event.made]
    updates = [event for event in events if event.made]
    on_server = [updates[0].made - 1, *(update.made for update in updates)]
    versions = np.unique([*(pull.pulled for pull in pulls), *on_server])

    def draw_copies(lane, starts, shown):
        """From each of these times on, the lane has this version of the weights."""
        starts = np.maximum(starts, 0) * 1e3
        shades = np.searchsorted(versions, shown) / (len(versions) - 1)
        panel.barh(lane, np.diff([*starts, seconds * 1e3]), 0.62, starts,
                   color=plt.cm.viridis(shades), edgecolor="none")
    draw_copies(0, [0, *(update.seconds for update in updates)], on_server)
    for thread in range(3):
        mine = [pull for pull in pulls if pull.thread == thread]
        draw_copies(thread + 1, [pull.seconds for pull in mine], [pull.pulled for pull in mine])
    for update in updates:
        time, lane, age = update.seconds * 1e3, update.thread + 1, update.made - 1 - update.pulled
        panel.plot([time, time], [lane - 0.31, lane + 0.31], color="black", linewidth=1)
        if age or seconds < 0.01:  # on one core the fresh ones stand too close together
            panel.text(time, lane + 0.34, f"{age:.0f}", ha="center", va="top", fontsize=9,
                       color=VERMILION if age else GREY, weight="bold" if age else "normal")
    for lane, name in enumerate(["server", "thread 1", "thread 2", "thread 3"]):
        panel.text(-0.01, lane, name, ha="right", va="center", fontsize=9,
                   transform=panel.get_yaxis_transform())
    panel.set(xlim=(0, seconds * 1e3), ylim=(3.75, -0.45), yticks=[])
    panel.spines.left.set_visible(False)


def draw_baseline():
    """Three estimates of the same gradient: how much single episodes scatter."""
    figure, panels = plt.subplots(3, figsize=(WIDTH, 4.8), sharex=True)
    remarks = "no bias, much noise", "no bias, less noise", "least noise, but a bias"
    for panel, (name, push), color, remark in zip(
            panels, recorded_data.pushes().items(), (GREY, GREEN, BLUE), remarks):
        panel.hist(push, np.arange(-0.4, 0.8, 0.01), color=color,
                   weights=np.full(len(push), 100 / len(push)))
        panel.axvline(0, color="black", linewidth=0.8)
        panel.plot(push.mean(), 47, "v", color="black", markersize=7)
        panel.set_title(f"X = {name}", color=color, weight="bold")
        panel.text(0.99, 0.95, f"{remark}\nstandard deviation {push.std():.3f}\n"
                   f"▼ mean {push.mean():.4f}, standard error {push.std() / len(push) ** 0.5:.4f}",
                   ha="right", va="top", transform=panel.transAxes)
        panel.set(xlim=(-0.42, 0.9), ylim=(0, 50), xticks=[-0.4, -0.2, 0, 0.2, 0.4, 0.6, 0.8])
    _, weights = networks()["partly trained"]
    [[_, right]], _ = forward(weights, load("rollouts")["state"][np.newaxis])
    panels[0].text(-0.24, 11, f"right drawn\n({100 * right:.0f}%)", ha="center")
    panels[0].text(0.52, 5, "left drawn", ha="center")
    panels[1].set_ylabel("% of episodes")
    panels[2].set_xlabel("push on the log-odds of right by the first action:\n"
                         "(a − π(right))·X, with a = 1 for right, 0 for left")
    return figure


def draw_errors():
    """How far updates are from the true gradient, by the number of rewards before V: medians of
    forty states, with their quartiles."""
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.4), sharey=True)
    for panel, (kind, found) in zip(panels, recorded_data.load_errors().items()):
        for target, color, words in (0, "black", "n rewards, then V"), (1, ORANGE, "GAE with λ"):
            low, middle, high = np.quantile(found.size[:, target], [0.25, 0.5, 0.75], axis=0)
            panel.plot(middle, "o-", color=color, label=words)
            panel.fill_between(range(len(low)), low, high, color=color, alpha=0.15, linewidth=0)
        panel.plot(np.median(abs(found.bias[:, 0]), axis=0), ":", color="black",
                   label="size of the bias of n rewards, then V")
        panel.set(title=kind, ylim=(0, None), xlabel="n and, below it, λ = 1 − 1/n")
        panel.set_xticks(range(len(low)), [f"{n:g}\n{1 - 1 / n:g}".replace("inf", "∞")
                                           for n in recorded_data.REWARDS])
    panels[0].set_ylabel("error (root mean square)")
    figure.legend(*panels[0].get_legend_handles_labels(), ncols=3, **ABOVE)
    return figure


def draw_worlds():
    """Scores in two worlds, of one seed with one thread and with eight; and how many of all runs
    have passed an evaluation in both."""
    data = np.load(ROOT / "tests" / "measurements" / "data" / "forgetting.npz")
    frames = data["frames"]
    one, eight, same = (f"{name}, 200 episodes" for name in
                        ("1 thread", "8 threads", "8 in the same world"))
    figure = plt.figure(figsize=(WIDTH, 4.4))
    panels = figure.subplot_mosaic([[one, "all"], [eight, "all"]], sharex=True)
    for case in one, eight:
        run, panel = data[case][TYPICAL_SEED].astype(float), panels[case]
        panel.set_title(f"{case.split(',')[0]}, one run")
        share = run[[0, *range(len(run))], 2]  # of episodes in world 1; one more for frame 0
        middle = 212 + 16 * share  # where the strip is divided
        for i, color, bounds in (0, BLUE, (212, middle)), (1, ORANGE, (middle, 228)):
            panel.plot(frames, run[:, i], color=color, linewidth=1.8)
            panel.fill_between([0, *frames], *bounds, color=color, step="pre", linewidth=0)
        panel.set(ylim=(0, 232), yticks=[0, 100, 200])
    panels[one].plot([], color=BLUE, label="score in world 1 (strip: episodes in it)")
    panels[one].plot([], color=ORANGE, label="score in world −1 (strip: episodes in it)")
    runs, grid = compare.load_runs("every_ten"), np.arange(0, 100_001, 100)
    for case, color in (one, "black"), (eight, GREEN), (same, VERMILION):
        passed = np.sort(column(runs[f"two worlds: {case}"], "frames"))
        panels["all"].plot(grid, np.searchsorted(passed, grid, side="right"), color=color,
                           linewidth=2.2, label=case.split(",")[0])
    panels["all"].set_title("runs that have passed an evaluation, of 50")
    panels["all"].legend(loc="lower right")
    panels["all"].set(xlim=(0, 100_000), ylim=(0, 51), xticks=[0, 50_000, 100_000])
    panels["all"].xaxis.set_major_formatter(THOUSANDS)
    figure.supxlabel("frames of all threads", size=10)
    figure.legend(*panels[one].get_legend_handles_labels(), ncols=2, **ABOVE)
    return figure


def draw_all(folder=PICTURES):
    import matplotlib_fontja  # noqa: F401  # it brings the Japanese font
    for language, target in ("en", Path(folder)), ("ja", Path(folder, "ja")):
        target.mkdir(exist_ok=True)
        with plt.rc_context({"font.family": FONTS[language]}):
            film.draw(target / "film.gif", language)
            plt.rcParams.update(STYLE)
            drawn = {"baseline": draw_baseline, "worlds": draw_worlds, "threads": draw_threads}
            if language == "en":  # their pages are only in English
                drawn |= {"run": draw_run, "errors": draw_errors, "hundred": draw_hundred}
            for name, draw in drawn.items():
                save(draw(), target / f"{name}.png", language)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    matplotlib.use("Agg")  # no window
    draw_all()
    for name, numbers in recorded_data.statistics().items():
        print(f"{name}:", *(f"{number:.4g}" for number in np.atleast_1d(numbers)))


if __name__ == "__main__":
    main()
