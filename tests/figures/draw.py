"""Record and draw the pictures of the pages.

    python tests/figures/draw.py             draw all pictures from the recorded data,
                                                       those of the lesson in Japanese, too
    python tests/figures/draw.py LOGDIR FILE  draw a run of your own, written with --logdir
    python tests/figures/record.py [SEED]    learn and play, and keep the data
    python tests/figures/record.py-threads   only the data of threads.png
    python tests/figures/record.py variants DIR     keep the runs of the variants, which they
                                                       wrote with --logdir DIR/NAME

Eight threads never repeat a run, so the recorded data are kept with the pictures. Drawing needs
matplotlib but no TensorFlow: the networks are so small that NumPy computes them here. The Japanese
pictures also need matplotlib-fontja, which brings a font.
"""
import collections
import contextlib
import functools
import io
import itertools
import os
import re
import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import StrMethodFormatter

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA, PICTURES = HERE / "data", ROOT / ".github" / "pictures"
sys.path[:0] = [str(ROOT), str(HERE.parent / "exercises"), str(HERE.parent / "measurements")]
NAMES = "untrained", "halfway", "learned"  # the three networks, all of one run
HALF_WAY = 60  # mean score of the last fifty episodes
# The script has these two, too, but importing it would import TensorFlow.
GAMMA = 0.99
N_STEP_RETURN = 5
TIME_LIMIT = 200
# The mean scores that the variants have to exceed
VARIANTS = {"pendulum": -200, "memory": 199, "memory_pendulum": -200, "pong": 18}
BEFORE = 30  # steps before the end of a fall
ROLLOUTS = 40_000
FILM_STEPS = 208
PAUSE = 8  # steps for which the film shows a fallen pole


# The network and CartPole in NumPy

def forward(weights, s):
    """The policy (n, 2) and the values (n,) in the states s (n, 4)."""
    hidden_w, hidden_b, actor_w, actor_b, critic_w, critic_b = weights
    h = np.maximum(s @ hidden_w + hidden_b, 0)
    e = np.exp(h @ actor_w + actor_b)
    return e / e.sum(axis=1, keepdims=True), (h @ critic_w + critic_b)[:, 0]


def value(weights, s):
    return forward(weights, s)[1]


def cartpole(s, a):
    """One step of CartPole in n states at once. s: (n, 4). a: actions (n,).

    Returns the next states (n, 4), and whether each episode ended with a fall (n,)."""
    _, v, angle, w = s.T
    sin, cos = np.sin(angle), np.cos(angle)
    push = (np.where(a, 10.0, -10.0) + 0.05 * w ** 2 * sin) / 1.1
    w_change = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos ** 2 / 1.1))
    v_change = push - 0.05 * w_change * cos / 1.1
    s_ = s + 0.02 * np.stack([v, v_change, w, w_change], axis=1)
    return s_, (abs(s_[:, 0]) > 2.4) | (abs(s_[:, 2]) > np.radians(12))


def draw_actions(weights, s, rng):
    return rng.random(len(s)) < forward(weights, s)[0][:, 1]


def play(weights, rng):
    """One episode, with actions drawn from π. Returns its states (steps + 1, 4) and whether it
    ended with a fall."""
    s, fell = rng.uniform(-0.05, 0.05, (1, 4)), [False]
    states = [s[0]]
    while not fell[0] and len(states) <= TIME_LIMIT:
        s, fell = cartpole(s, draw_actions(weights, s, rng))
        states.append(s[0])
    return np.array(states), fell[0]


# The recorded data

def load(name):
    with np.load(DATA / f"{name}.npz") as data:
        return dict(data)


def keep(name, arrays):
    DATA.mkdir(exist_ok=True)
    np.savez_compressed(DATA / f"{name}.npz", **arrays)


def networks():
    """{name: (frames, weights)}"""
    data = load("networks")
    return {name: (int(data[f"{name} frames"]), [data[f"{name} {i}"] for i in range(6)])
            for name in NAMES}


# Recording

def learn(seed, logdir):
    """Let the lesson's script learn. Returns {name: (frames, weights)} of the three networks."""
    import a3c_cartpole as a3c
    found = {}

    class Server(a3c.ParameterServer):
        def initialize(self):
            super().initialize()
            self.keep("untrained")

        def keep(self, name):
            found[name] = self.progress.frames, self.session.run(self.weights)

    class Environment(a3c.Environment):
        def run(self):
            progress = self.progress
            with progress.changed:
                # Fewer than fifty scores don't sum up to this.
                if "halfway" not in found and sum(progress.scores) >= 50 * HALF_WAY:
                    self.agent.brain.server.keep("halfway")
            return super().run()

        def play(self, env):
            if self.progress.phase == "learned":  # the test episode begins
                self.agent.brain.server.keep("learned")
            return super().play(env)

    words = f"--render none --test-episodes 1 --seed {seed} --logdir {logdir}"
    with contextlib.redirect_stdout(io.StringIO()):
        a3c.main(words.split(), Server, environment_class=Environment)
    return found


def read_log(logdir):
    """What a run wrote with --logdir: {tag: points (n, 2)}, each its frames and its value. The
    scores of all threads are together under "score"."""
    from a3c_cartpole import tf  # it keeps TensorFlow quiet
    curves = collections.defaultdict(list)
    for path in sorted(Path(logdir).glob("events.out.tfevents.*")):
        for event in tf.train.summary_iterator(str(path)):
            for point in event.summary.value:
                tag = "score" if point.tag.startswith("score/") else point.tag
                curves[tag].append((event.step, point.simple_value))
    return {tag: np.array(sorted(points)) for tag, points in curves.items()}


def falls(weights, n, rng):
    """The last 50 steps of n falls: states (n, 51, 4), the fallen one last. Shorter episodes don't
    count."""
    found = []
    while len(found) < n:
        states, fell = play(weights, rng)
        if fell and len(states) > 50:
            found.append(states[-51:])
    return np.array(found, np.float32)


def v_in_falls(weights, states):
    """V 30 steps before the last step of each of these falls, and V in the last step."""
    return value(weights, states[:, -2 - BEFORE]), value(weights, states[:, -2])


def sinking(weights, states):
    """In how many of these falls V is lower in the last step than 30 steps before."""
    before, last = v_in_falls(weights, states)
    return int(sum(last < before))


def scenes(weights, rng):
    """What the film shows of a network: episodes one after another. Each row holds a state, its
    step number, and whether the pole or the cart has just fallen; a fallen state stays a while."""
    rows = []
    while len(rows) < FILM_STEPS:
        states, fell = play(weights, rng)
        rows += [(*s, step, 0) for step, s in enumerate(states)]
        rows[-1] = (*rows[-1][:5], int(fell))
        rows += [rows[-1]] * PAUSE
    return np.array(rows[:FILM_STEPS], np.float32)


def record_networks(first_seed):
    """Learn until the halfway network passes its check, then play with the three networks."""
    for seed in itertools.count(first_seed):
        rng = np.random.default_rng(seed)
        with tempfile.TemporaryDirectory() as logdir:
            found = learn(seed, logdir)
        weights = found["halfway"][1]
        states = falls(weights, 100, rng)
        print(f"Seed {seed}: V sinks in {sinking(weights, states)} of 100 falls")
        if sinking(weights, states) >= 95:
            break
    episodes, arrays = {"falls": states}, {"seed": seed}
    for name, (frames, weights) in found.items():
        arrays[f"{name} frames"] = frames
        arrays.update({f"{name} {i}": w for i, w in enumerate(weights)})
        visited = np.concatenate([play(weights, rng)[0] for _ in range(20)])
        some = rng.choice(len(visited), 350, replace=False)
        episodes[f"visited {name}"] = visited[some, 2:].astype(np.float32)
        episodes[f"film {name}"] = scenes(weights, rng)
    keep("networks", arrays)
    keep("episodes", episodes)


def record_run():
    """A run in which an evaluation fails before one passes."""
    for seed in itertools.count():
        with tempfile.TemporaryDirectory() as logdir:
            learn(seed, logdir)
            curves = read_log(logdir)
        print(f"Seed {seed}: evaluations {curves['evaluation'][:, 1].round(1)}")
        if len(curves["evaluation"]) == 2:
            break
    names = "score", "mean", "evaluation", "threshold", "loss/actor", "loss/critic"
    keep("run", {"seed": seed} | {name: curves[name].astype(np.float32) for name in names})


def stretch(events, seconds):
    """A typical stretch: its updates a second, its part of fresh gradients and its mean age are
    about those of the whole recording. Each thread makes an update with an old gradient. Each
    thread's last pull before the stretch comes first. events: see `timeline.record`."""
    def chosen(start):
        later = events[:, 0] - start
        pulls = events[(later <= 0) & (events[:, 3] == 0)]
        before = [pulls[pulls[:, 1] == thread][-1] for thread in range(3)]
        found = np.concatenate([before, events[(later > 0) & (later < seconds)]])
        found[:, 0] -= start
        return found

    def measures(found, seconds):
        updates = found[found[:, 3] > 0]
        ages = updates[:, 3] - 1 - updates[:, 2]
        return np.array([len(ages) / seconds, np.mean(ages == 0), np.mean(ages)])

    usual = measures(events, np.ptp(events[:, 0]))

    def unusual(found):
        old = found[(found[:, 3] - 1 > found[:, 2]) & (found[:, 0] < 0.9 * seconds)]
        seen = len(set(old[:, 1]))
        return 3 - seen + abs(measures(found, seconds) / usual - 1).sum() if seen else np.inf
    return min((chosen(start) for start in events[50:-50, 0]), key=unusual)


def record_threads():
    import timeline
    arrays = {"cores": os.cpu_count()}
    for name, share, seconds in ("all cores", False, 0.0035), ("one core", True, 0.015):
        events, _ = timeline.record(3, 20_000, share)
        arrays[name] = stretch(events, seconds)
        arrays[f"ages {name}"] = timeline.ages(events).astype(np.uint16)
    keep("threads", arrays)


def rollouts(weights, s, step, n, rng):
    """Play n episodes on from the state s (4,) of this step. Returns the first five actions (n, 5)
    and the length of the whole episode (n,)."""
    states, actions = np.repeat(s[np.newaxis], n, axis=0), []
    lengths = np.full(n, TIME_LIMIT)
    alive = np.ones(n, bool)
    while step < TIME_LIMIT and alive.any():
        a = draw_actions(weights, states, rng)
        actions.append(a)
        states, fell = cartpole(states, a)
        step += 1
        lengths[alive & fell] = step
        alive &= ~fell
    return np.stack(actions[:N_STEP_RETURN], axis=1), lengths


def pushes(weights, s, step, actions, lengths):
    """The three estimates of how far a sample pushes the log-odds of "right": (a - π(right))·X.
    Returns {name: (n,)}; X is the return, the return - V(s), or the script's A."""
    reward = np.where(lengths < TIME_LIMIT - 1, -1.0, 1.0)  # only the last step has one
    returns = GAMMA ** (lengths - step - 1) * reward
    states = np.repeat(s[np.newaxis], len(actions), axis=0)
    for a in actions.T:
        states, _ = cartpole(states, a)
    bootstrapped = GAMMA ** N_STEP_RETURN * value(weights, states)  # nobody falls so early here
    p, [v] = forward(weights, s[np.newaxis])
    score = actions[:, 0] - p[0, 1]  # the derivative of log π(a|s) by the log-odds
    return {"return": score * returns, "return − V(s)": score * (returns - v),
            "5 rewards + γ⁵V(s_) − V(s), the script's A": score * (bootstrapped - v)}


def record_rollouts():
    rng = np.random.default_rng(0)
    weights = networks()["halfway"][1]
    step, p = 20, 0.0
    while not 0.6 < p < 0.75:  # a state in which both actions are tried often, but not equally
        states, _ = play(weights, rng)
        if len(states) > step:
            s = states[step]
            p = forward(weights, s[np.newaxis])[0][0, 1]
    actions, lengths = rollouts(weights, s, step, ROLLOUTS, rng)
    assert lengths.min() > step + N_STEP_RETURN
    keep("rollouts", {"state": s, "step": step, "actions": np.packbits(actions),
                      "lengths": lengths.astype(np.uint8)})


def record_variants(folder):
    arrays = {}
    for name in VARIANTS:
        curves = read_log(Path(folder, name))
        for tag in "score", "mean", "evaluation":
            points = curves[tag]
            if tag != "evaluation":
                points = points[::len(points) // 1000 + 1]  # a picture can't show more
            arrays[f"{name} {tag}"] = points.astype(np.float32)
    keep("variants", arrays)


# Drawing

JAPANESE = {  # # stands for a number
    "untrained": "学習前",
    "halfway": "学習途中",
    "learned": "学習後",
    "# frames": "# フレーム",
    "step #": "# ステップ",
    "fallen": "転倒",
    "time limit": "時間切れ",
    "π(left)": "π(左)",
    "π(right)": "π(右)",
    "evaluation\nfailed: #": "評価\n不合格：#",
    "evaluation\npassed: #": "評価\n合格：#",
    "losses near #,\nmean score\n# to #": "損失がほぼ #\n平均スコアは\n#〜#",
    "score": "スコア",
    "one episode": "1 エピソード",
    "mean of the last #": "直近 # エピソードの平均",
    "actor's\nloss": "actor の\n損失",
    "critic's\nloss": "critic の\n損失",
    "losses of single updates (grey) and their mean over # updates":
        "1 回ごとの更新の損失（灰色）と、# 回の平均（ピンク）",
    "frames of all threads": "全スレッドのフレーム数",
    "runs": "学習を終えた回数",
    "# of # runs": "中央の # 回（# 回中）",
    "median of # runs": "# 回の中央値",
    "runs that have learned (right axis)": "学習を終えた回数（右の軸）",
    "no bias, much noise\nstandard deviation #\nmean # ± #":
        "バイアスなし、ノイズ大\n標準偏差 #\n平均 # ± #",
    "no bias, less noise\nstandard deviation #\nmean # ± #":
        "バイアスなし、ノイズ小\n標準偏差 #\n平均 # ± #",
    "least noise, but a bias\nstandard deviation #\nmean # ± #":
        "ノイズ最小、バイアスあり\n標準偏差 #\n平均 # ± #",
    "right\ndrawn\n(#%)": "右を\n選択\n(#%)",
    "left drawn": "左を選択",
    "X = return": "X = 収益",
    "X = return − V(s)": "X = 収益 − V(s)",
    "X = # rewards + γ⁵V(s_) − V(s), the script's A":
        "X = 報酬 # つ + γ⁵V(s_) − V(s)（スクリプトの A）",
    "return": "収益",
    "return − V(s)": "収益 − V(s)",
    "# samples": "# サンプル",
    "samples in an average": "平均するサンプル数",
    "error of the average": "平均の誤差（二乗平均平方根）",
    "% of samples": "サンプルの割合（%）",
    "push on the log-odds of right by one sample:\n"
    "(a − π(right))·X, with a = # for right, # for left":
        "1 サンプルが右の対数オッズを動かす量：\n(a − π(右))·X　（a は、右なら #、左なら #）",
    "server": "サーバー",
    "thread #": "スレッド #",
    "milliseconds": "ミリ秒",
    "three threads on # cores": "3 本のスレッド、# コア",
    "three threads on one core, as the script does on Linux":
        "3 本のスレッド、1 コア（Linux でのスクリプトの動き）",
    "update": "更新",
    "its age": "勾配の古さ",
    "older weights": "古い重み",
    "newer": "中間",
    "newest": "最新の重み",
    "falling right": "右へ倒れていく",
    "falling left": "左へ倒れていく",
    "push right": "右へ押す",
    "push left": "左へ押す",
    "a fall is near": "もうすぐ倒れる",
    "angular velocity (rad/s)": "角速度（rad/s）",
    "pole angle (°)": "棒の角度（°）",
    "untrained\n# frames": "学習前\n# フレーム",
    "halfway\n# frames": "学習途中\n# フレーム",
    "learned\n# frames": "学習後\n# フレーム",
    "π(right) = ½": "π(右) = ½",
    "the pole in one of the falls, every fourth step":
        "100 回のうちの 1 回の棒の様子、4 ステップごと",
    "the return that followed": "実際の収益",
    "V(s), mean of # falls": "V(s)、# 回の平均",
    "V(s) in each of them": "各回の V(s)",
    "still up: better than expected": "倒れていない：期待を上回る",
    "about to fall:\nworse than expected": "もうすぐ倒れる：\n期待を下回る",
    "steps until the fall": "ステップ（0 で倒れる）",
    "mean advantage A": "アドバンテージ A の平均",
}

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"  # Okabe and Ito's palette
PINK, GREY = "#CC79A7", "#767676"
LEFT_RIGHT = matplotlib.colors.LinearSegmentedColormap.from_list("", [BLUE, "white", RED])
BOX = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 2}
WIDTH, DPI = 8, 200  # inches; GitHub shows 1,600 pixels as 800, which is 100 for each inch

plt.rcParams.update({
    "font.size": 10, "axes.titlesize": 10.5, "axes.labelsize": 10, "legend.fontsize": 9.5,
    "xtick.labelsize": 9, "ytick.labelsize": 9, "axes.spines.top": False,
    "axes.spines.right": False, "figure.constrained_layout.use": True})


language = "en"  # of the pictures, see `draw`
NUMBER = r"\d+(?:[.,]\d+)*"


def translated(text):
    """The text in the language of the pictures. Its numbers stay, in their order."""
    if language == "en" or not re.search("[a-z]{3}", text):
        return text
    numbers = iter(re.findall(NUMBER, text))
    japanese = JAPANESE[re.sub(NUMBER, "#", text)]
    return re.sub("#", lambda _: next(numbers), japanese)


def save(figure, path):
    """As a PNG of 256 colours, which is a third as large."""
    for text in figure.findobj(matplotlib.text.Text):
        text.set_text(translated(text.get_text()))
        if language == "ja":
            text.set_weight("normal")  # its font has no other
    pixels = io.BytesIO()
    figure.savefig(pixels, dpi=DPI)
    plt.close(figure)
    Image.open(pixels).convert("RGB").quantize(256).save(path, optimize=True)


def smooth(points, n=200):
    """The mean of n points at a time."""
    n = min(n, len(points))
    window = np.ones(n) / n
    return [np.convolve(column, window, "valid") for column in points.T]


def settled(curves):
    """Where both losses are near 0 for the first time, where the mean score passes 35, and the
    mean scores between."""
    (frames, actor), (_, critic) = smooth(curves["loss/actor"]), smooth(curves["loss/critic"])
    small = (abs(actor) < 0.01) & (critic < 0.01)
    start = frames[small.argmax()] if small.any() else np.inf
    frames, mean = curves["mean"].T
    end = frames[(mean > 35).argmax()] if mean.max() > 35 else 0
    return start, end, mean[(frames >= start) & (frames <= end)]


def draw_run(curves, path):
    """Scores, evaluations and losses of one run. curves: see `read_log`."""
    figure, (top, actor, critic) = plt.subplots(
        3, figsize=(WIDTH, 5.8), sharex=True, height_ratios=[3.2, 1, 1])
    top.plot(*curves["score"].T, ".", color=BLUE, markersize=4, alpha=0.5, markeredgewidth=0,
             label="one episode")
    top.plot(*curves["mean"].T, color="black", linewidth=2, label="mean of the last 50")
    evaluations = zip(curves.get("evaluation", ()), curves.get("threshold", ()))
    for (frames, mean), (_, threshold) in evaluations:
        top.axhline(threshold, color=GREY, linestyle="--", linewidth=0.8)
        word, color = ("passed", GREEN) if mean > threshold else ("failed", RED)
        for panel in top, actor, critic:
            panel.axvline(frames, color=color, linewidth=1)
        top.plot(frames, mean, "D", color=color, markeredgecolor="black", markersize=8, zorder=3)
        top.annotate(f"evaluation\n{word}: {mean:.1f}", (frames, 0.05), (-5, 0), color=color,
                     xycoords=top.get_xaxis_transform(), textcoords="offset points", ha="right",
                     va="bottom", bbox=BOX)
    top.set_ylabel("score")
    top.legend(loc="upper left", bbox_to_anchor=(0, 0.96), frameon=False, markerscale=3)
    for panel, name in (actor, "actor"), (critic, "critic"):
        points = curves[f"loss/{name}"]
        panel.plot(*points.T, color="0.75", linewidth=0.4)
        panel.plot(*smooth(points), color=PINK, linewidth=2)
        panel.axhline(0, color="black", linewidth=0.6)
        limit = 1.5 * abs(smooth(points)[1]).max()  # single updates reach farther
        panel.set_ylim(-limit if name == "actor" else 0, limit)
        panel.set_ylabel(f"{name}'s\nloss")
    actor.set_title("losses of single updates (grey) and their mean over 200 updates", loc="left")
    start, end, scores = settled(curves)
    if start < end:
        for panel in top, actor, critic:
            panel.axvspan(start, end, color=PINK, alpha=0.2, linewidth=0)
        words = f"losses near 0,\nmean score\n{scores.min():.0f} to {scores.max():.0f}"
        top.text((start + end) / 2, 0.57, words, ha="center", va="center", bbox=BOX,
                 transform=top.get_xaxis_transform())
    critic.set_xlabel("frames of all threads")
    critic.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    save(figure, path)


def draw_variants(path):
    """Scores and evaluations of one run of each variant."""
    data = load("variants")
    figure, panels = plt.subplots(2, 2, figsize=(WIDTH, 5))
    for panel, (name, threshold) in zip(panels.flat, VARIANTS.items()):
        panel.plot(*data[f"{name} score"].T, ".", color=BLUE, markersize=3, alpha=0.5,
                   markeredgewidth=0, label="one episode")
        panel.plot(*data[f"{name} mean"].T, color="black", linewidth=1.8,
                   label="mean of the last 50")
        panel.axhline(threshold, color=GREY, linestyle="--", linewidth=0.8, label="threshold")
        for word, color in ("failed", RED), ("passed", GREEN):
            points = [(frames, mean) for frames, mean in data[f"{name} evaluation"]
                      if (mean > threshold) == (word == "passed")]
            panel.plot(*np.reshape(points, (-1, 2)).T, "D", color=color, markeredgecolor="black",
                       markersize=6, zorder=3, label=f"evaluation {word}")
        panel.set_title(f"{name}.py", loc="left", weight="bold")
        panel.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5))
        panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    for panel in panels[:, 0]:
        panel.set_ylabel("score")
    for panel in panels[1]:
        panel.set_xlabel("frames of all threads")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=5,
                  frameon=False, handletextpad=0.3, columnspacing=1.2)
    save(figure, path)


EXERCISES = {
    "1": "one reward in a return", "6": "twenty rewards", "18": "the paper's return", "19": "GAE",
    "7": "update after five samples", "8": "one update per episode", "9": "time limit isn't an end",
    "4": "critic the actor can change", "10": "no entropy term", "11": "moving target",
    "12": "gradient descent", "13": "learning rate × 10", "14": "learning rate ÷ 10",
    "15": "RMSProp from 0", "16": "no ε", "3": "all cores", "17": "drawn evaluations",
    "5": "no evaluation", "5+17": "5 and 17 together"}


def draw_exercises(path):
    """A row for each exercise: the ratio of its median of frames to the unchanged script's."""
    import measure as exercises
    results = exercises.load()
    compared = exercises.compare(results)
    middle = np.median(exercises.column(results["0"], exercises.FRAMES))
    limit = exercises.LIMIT / middle
    figure, panel = plt.subplots(figsize=(WIDTH, 6.4))
    panel.axvline(1, color="black", linewidth=0.8)
    spread = np.random.default_rng(0)
    for row, number in enumerate(EXERCISES):
        frames = exercises.column(results[number], exercises.FRAMES) / middle
        height = row + spread.uniform(-0.25, 0.25, len(frames))
        panel.plot(frames, height, ".", color=GREY, alpha=0.35, markeredgewidth=0, markersize=7)
        panel.plot(np.where(np.isinf(frames), limit, np.nan), height, "x", color=GREY, alpha=0.6,
                   markersize=5)
        ratio, low, high, p = compared[number, exercises.FRAMES]
        color = (GREEN if ratio < 1 else RED) if p < 0.05 else "black"
        if np.isinf(ratio):
            continue
        panel.plot([low, min(high, limit)], [row, row], color=color, linewidth=2.5)
        panel.plot(ratio, row, "o", color=color, markersize=7)
    for color, words in (("black", "no difference shown"), (RED, "slower"), (GREEN, "faster")):
        if color != GREEN or any(ratio < 1 and p < 0.05 for (_, i), (ratio, _, _, p)
                                 in compared.items() if i == exercises.FRAMES):
            panel.plot([], "o-", color=color, linewidth=2.5, label=words)
    panel.plot([], ".", color=GREY, markersize=7, label="a run")
    panel.plot([], "x", color=GREY, markersize=5, label="didn't learn")
    names = [f"{number}  {words}" for number, words in EXERCISES.items()]
    panel.set_yticks(range(len(names)), names)
    panel.tick_params(axis="y", length=0)
    panel.set(xscale="log", xlabel="frames until learned, divided by the unchanged script's median",
              ylim=(len(names) - 0.4, -0.6))
    panel.xaxis.set_major_locator(matplotlib.ticker.FixedLocator([0.5, 1, 2, 5, 10]))
    panel.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    figure.legend(loc="outside upper left", ncols=5, frameon=False, handletextpad=0.3)
    save(figure, path)


def draw_hundred(path):
    """The mean scores of a hundred runs against the frames: their median, and the middle 80%."""
    import measure as exercises
    means, frames = load("hundred")["means"].astype(float), exercises.GRID
    runs = exercises.column(exercises.load()["0"], exercises.FRAMES)
    low, middle, high = np.nanpercentile(means[:, 1:], (10, 50, 90), axis=0)
    figure, panel = plt.subplots(figsize=(WIDTH, 3))
    panel.fill_between(frames[1:], low, high, color=BLUE, alpha=0.25, linewidth=0,
                       label="80 of 100 runs")
    panel.plot(frames[1:], middle, color=BLUE, linewidth=2.2, label="median of 100 runs")
    panel.plot(frames[1:], 2 * np.mean(runs <= frames[1:, np.newaxis], axis=1) * 100, "--",
               color=GREEN, linewidth=1.8, label="runs that have learned (right axis)")
    right = panel.secondary_yaxis("right", functions=(lambda x: x / 2, lambda x: x * 2))
    right.set_ylabel("runs")
    panel.set(xlabel="frames of all threads", ylabel="score", xlim=(0, frames[-1]), ylim=(0, 205))
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    save(figure, path)


def draw_knows(path):
    """π and V of the three networks over the pole's angle and angular velocity."""
    angles, speeds = np.linspace(-12, 12, 121), np.linspace(-2, 2, 121)
    x, y = np.meshgrid(angles, speeds)
    s = np.zeros((x.size, 4))
    s[:, 2], s[:, 3] = np.radians(x.ravel()), y.ravel()
    figure, panels = plt.subplots(2, 3, figsize=(WIDTH, 5.6), sharex=True, sharey=True)
    maps = [[z.reshape(x.shape) for z in (forward(w, s)[0][:, 1], value(w, s))]
            for _, w in networks().values()]
    low, high = min(v.min() for _, v in maps), max(v.max() for _, v in maps)
    for (upper, lower), (p, v), (name, (frames, _)) in zip(panels.T, maps, networks().items()):
        upper.set_title(f"{name}\n{frames:,} frames")
        pi = upper.pcolormesh(x, y, p, cmap=LEFT_RIGHT, vmin=0, vmax=1, rasterized=True)
        upper.contour(x, y, p, [0.5], colors="black", linewidths=1.8)
        values = lower.pcolormesh(x, y, v, cmap="cividis", vmin=low, vmax=high, rasterized=True)
        lines = lower.contour(x, y, v, np.arange(-10, 10) / 5, colors="white",
                              linewidths=0.8)
        form = StrMethodFormatter("{x:.1f}")
        for label in lower.clabel(lines, lines.levels[::2], fontsize=9, fmt=form):
            label.set_visible(abs(label.get_position()[1]) < 1.8)  # the edge would cut it
        visited = load("episodes")[f"visited {name}"]
        for panel, color in (upper, "black"), (lower, "white"):
            panel.plot(np.degrees(visited[:, 0]), visited[:, 1], ".", color=color, markersize=3.5,
                       alpha=0.6, markeredgewidth=0, zorder=1.5)
            panel.set(xlim=(-12, 12), ylim=(-2, 2), xticks=[-10, 0, 10])
        lower.set_xlabel("pole angle (°)")
    for panel, right, left in ((panels[0, 0], "falling right", "falling left"),
                               (panels[0, 2], "push right", "push left")):
        panel.text(11, 1.75, right, ha="right", va="top", bbox=BOX)
        panel.text(-11, -1.75, left, va="bottom", bbox=BOX)
    panels[0, 1].annotate("π(right) = ½", (-9, 0.05), (-10.5, 1.35), bbox=BOX,
                          arrowprops={"arrowstyle": "-", "relpos": (0.12, 0)})
    panels[1, 1].text(11, 1.75, "a fall is near", ha="right", va="top", bbox=BOX)
    for row in panels:
        row[0].set_ylabel("angular velocity (rad/s)")
    figure.colorbar(pi, ax=panels[0], label="π(right)", ticks=[0, 0.5, 1])
    figure.colorbar(values, ax=panels[1], label="V")
    save(figure, path)


def returns_and_advantages(v):
    """Of a fall's steps. v: V of its states, the fallen one last (steps + 1,)."""
    steps = len(v) - 1
    returns = -GAMMA ** np.arange(steps - 1, -1, -1)
    target = returns.copy()  # near the end, where the return is complete after five rewards
    target[:-N_STEP_RETURN] = GAMMA ** N_STEP_RETURN * v[N_STEP_RETURN:-1]
    return returns, target - v[:-1]


def draw_fall(path):
    """A hundred falls of the halfway network: V and the return, and the mean of the advantages."""
    weights, states = networks()["halfway"][1], load("episodes")["falls"]
    all_v = np.array([value(weights, s) for s in states])
    returns = returns_and_advantages(all_v[0])[0]
    advantages = np.mean([returns_and_advantages(v)[1] for v in all_v], axis=0)
    steps = np.arange(-len(returns), 0)
    figure, (pole, middle, bottom) = plt.subplots(
        3, figsize=(WIDTH, 5.8), sharex=True, height_ratios=[0.9, 1.7, 1.5])

    pole.set_title("the pole in one of the falls, every fourth step", loc="left")
    for step, angle in list(zip(range(-50, 1), states[0][:, 2]))[2::4]:
        pole.plot([step - 0.8, step + 0.8], [0, 0], color="black", linewidth=5,
                  solid_capstyle="butt")
        pole.plot([step, step + 3.2 * np.sin(2 * angle)], [0, np.cos(2 * angle)], color=ORANGE,
                  linewidth=3)
    pole.set_ylim(-0.1, 1.1)
    pole.axis("off")

    middle.plot(steps, all_v[:, :-1].T, color="0.82", linewidth=0.6)
    middle.plot(steps, returns, "--", color="black", label="the return that followed")
    middle.plot(steps, all_v[:, :-1].mean(axis=0), color=BLUE, linewidth=2.5,
                label="V(s), mean of 100 falls")
    middle.plot([], color="0.75", label="V(s) in each of them")
    middle.set(ylabel="V(s)", ylim=(-1.45, -0.25))
    middle.legend(loc="lower left", frameon=False)

    bottom.bar(steps, advantages, color=np.where(advantages < 0, RED, GREEN), width=0.8)
    bottom.axhline(0, color="black", linewidth=0.8)
    bottom.text(-50.5, 0.032, "still up: better than expected", color=GREEN)
    bottom.text(-19, -0.06, "about to fall:\nworse than expected", color=RED, ha="right")
    bottom.set(ylabel="mean advantage A", xlabel="steps until the fall", xlim=(-50.8, 2.2),
               ylim=(-0.1, 0.05))
    save(figure, path)


def draw_threads(path):
    """The server and three threads as lanes. The colour of a copy tells its version."""
    data = load("threads")
    figure, panels = plt.subplots(2, figsize=(WIDTH, 5.4))
    titles = (f"three threads on {data['cores']} cores",
              "three threads on one core, as the script does on Linux")
    names = "all cores", "one core"
    for panel, name, seconds, title in zip(panels, names, (0.0035, 0.015), titles):
        lanes(panel, data[name], seconds)
        panel.set_title(title, loc="left")
        panel.set_xlabel("milliseconds")
    panels[0].plot([], "|", color="black", markersize=11, label="update")
    panels[0].plot([], marker="$2$", color=RED, linestyle="", label="its age")
    for version, label in enumerate(("older weights", "newer", "newest")):
        panels[0].plot([], "s", color=plt.cm.viridis(version / 2), markersize=10, label=label)
    figure.legend(loc="outside upper left", ncols=5, frameon=False, handletextpad=0.2)
    save(figure, path)


def lanes(panel, events, seconds):
    """Draw one stretch of pulls and updates. Its first three events are the pulls before it."""
    updates = events[events[:, 3] > 0]
    versions = np.unique([*events[:, 2], updates[0, 3] - 1, *updates[:, 3]]).tolist()

    def color(version):
        return plt.cm.viridis(versions.index(version) / (len(versions) - 1))

    def bar(lane, start, end, version):
        start, end = np.clip([start, end], 0, seconds) * 1e3
        panel.barh(lane, end - start, 0.62, start, color=color(version), edgecolor="none")

    changes = [0, *updates[:, 0], seconds]
    for start, end, version in zip(changes, changes[1:], [updates[0, 3] - 1, *updates[:, 3]]):
        bar(0, start, end, version)
    for thread in range(3):
        own = events[events[:, 1] == thread]
        pulls = own[own[:, 3] == 0]
        for start, end, version in zip(pulls[:, 0], [*pulls[1:, 0], seconds], pulls[:, 2]):
            bar(thread + 1, start, end, version)
        for at, _, version, update in own[own[:, 3] > 0]:
            age = int(update - 1 - version)
            panel.plot([at * 1e3] * 2, [thread + 0.69, thread + 1.31], color="black", linewidth=1)
            if age or seconds < 0.01:  # on one core the fresh ones stand too close together
                panel.text(at * 1e3, thread + 1.34, age, ha="center", va="top", fontsize=9,
                           color=RED if age else GREY, weight="bold" if age else "normal")
    panel.set(xlim=(0, seconds * 1e3), ylim=(3.75, -0.45))
    panel.set_yticks(range(4), map(translated, ("server", "thread 1", "thread 2", "thread 3")))
    panel.tick_params(axis="y", length=0)
    panel.spines[["left"]].set_visible(False)


@functools.cache
def recorded_pushes():
    """See `pushes`."""
    data = load("rollouts")
    actions = np.unpackbits(data["actions"])[:ROLLOUTS * N_STEP_RETURN].reshape(ROLLOUTS, -1)
    weights = networks()["halfway"][1]
    return pushes(weights, data["state"], int(data["step"]), actions, data["lengths"].astype(int))


def standard_error(push):
    return push.std() / len(push) ** 0.5


def errors(n):
    """How far an average of n pushes is from the true gradient (root mean square), for each kind.
    The mean of return − V(s) is the best estimate of the true gradient, because only A is biased.
    """
    pushes = recorded_pushes()
    unbiased, bootstrapped = list(pushes)[1:]
    bias = pushes[bootstrapped].mean() - pushes[unbiased].mean()
    return {name: np.sqrt(push.var() / n + (bias ** 2 if name == bootstrapped else 0))
            for name, push in pushes.items()}


def crossing():
    """How many samples an average needs until A's bias costs more than its lower noise saves."""
    n = np.arange(1, 1000)
    _, unbiased, bootstrapped = errors(n).values()
    return n[bootstrapped < unbiased].max()


def draw_baseline(path):
    """Three estimates of the same gradient: how much single samples scatter, and how far their
    averages are from the truth."""
    figure, panels = plt.subplot_mosaic([[0, "error"], [1, "error"], [2, "error"]],
                                        figsize=(WIDTH, 4.6), width_ratios=[1.7, 1])
    for panel in panels[0], panels[1]:
        panel.sharex(panels[2])
        panel.tick_params(labelbottom=False)
    pi = statistics()["π(right) of the state"]
    n = np.geomspace(1, 1000, 100)
    remarks = "no bias, much noise", "no bias, less noise", "least noise, but a bias"
    for i, (name, push) in enumerate(recorded_pushes().items()):
        panel, color = panels[i], (GREY, GREEN, BLUE)[i]
        panel.hist(push, np.arange(-0.4, 0.8, 0.01), color=color,
                   weights=np.full(len(push), 100 / len(push)))
        panel.set_title(f"X = {name}", loc="left", color=color, weight="bold")
        panel.text(0.99, 0.95, f"{remarks[i]}\nstandard deviation {push.std():.3f}\n"
                   f"mean {push.mean():.4f} ± {standard_error(push):.4f}",
                   ha="right", va="top", transform=panel.transAxes)
        panel.axvline(0, color="black", linewidth=0.8)
        panels["error"].plot(n, errors(n)[name], color=color, linewidth=2.2)
    top = panels[0].get_ylim()[1]
    panels[0].text(-0.17, 0.45 * top, f"right\ndrawn\n({100 * pi:.0f}%)")
    panels[0].text(0.52, 0.34 * top, "left drawn", ha="center")
    panels[2].set(xlim=(-0.42, 1.35), xticks=[-0.4, -0.2, 0, 0.2, 0.4, 0.6])
    panels[1].set_ylabel("% of samples")
    panels[2].set_xlabel("push on the log-odds of right by one sample:\n"
                         "(a − π(right))·X, with a = 1 for right, 0 for left")
    error = panels["error"]
    error.plot(crossing(), errors(crossing())["return − V(s)"], "o", color="black")
    error.annotate(f"{crossing()} samples", (crossing(), errors(crossing())["return − V(s)"]),
                   (0.4, 0.12), textcoords="axes fraction", ha="right", va="center",
                   arrowprops={"arrowstyle": "-"})
    for name, color, place in (("return", GREY, (2.2, 0.29)), ("return − V(s)", GREEN, (2.2, 0.05)),
                               ("A", BLUE, (1.3, 0.013))):
        error.text(*place, name, color=color, weight="bold")
    error.set(xscale="log", yscale="log", xlabel="samples in an average",
              title="error of the average")
    error.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    error.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    save(figure, path)


def draw_film(path):
    """The three networks side by side, at half speed."""
    episodes = load("episodes")
    shown = [(name, frames, weights, episodes[f"film {name}"])
             for name, (frames, weights) in networks().items()]
    frames = [film_frame(shown, step) for step in range(0, FILM_STEPS, 2)]
    palette = frames[-1].quantize(48, Image.Quantize.MAXCOVERAGE)  # this method keeps white white
    frames = [x.quantize(palette=palette, dither=Image.Dither.NONE) for x in frames]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=80, loop=0)


def film_frame(shown, now):
    """One picture of the film, 800 by 300. It is drawn twice as large, for smooth lines."""
    picture = Image.new("RGB", (1600, 600), "white")
    draw = ImageDraw.Draw(picture)
    for i, (name, frames, weights, rows) in enumerate(shown):
        film_panel(draw, 30 + 530 * i, name, f"{frames:,} frames", rows, weights, now)
    return picture.resize((800, 300), Image.Resampling.BOX)


def font(size, bold=False):
    weight = "bold" if bold and language == "en" else "normal"
    family = plt.rcParams["font.family"][0]
    return of_family(family, weight, size)


@functools.cache
def of_family(family, weight, size):
    looked_for = matplotlib.font_manager.FontProperties(family=family, weight=weight)
    return ImageFont.truetype(matplotlib.font_manager.findfont(looked_for), size)


def film_panel(draw, x, name, words, rows, weights, now):
    """One network in the film, 480 wide from x on."""
    states, steps, fallen = rows[:, :4], rows[:, 4], rows[:, 5] > 0
    position, _, angle, _ = states[now]
    draw.text((x, 8), translated(name), "black", font(32, bold=True))
    draw.text((x, 48), translated(words), GREY, font(25))
    draw.text((x + 480, 8), translated(f"step {steps[now]:.0f}"), "black", font(27), anchor="ra")
    if fallen[now]:
        draw.text((x + 480, 48), translated("fallen"), "black", font(27, bold=True), anchor="ra")
    elif steps[now] == TIME_LIMIT:
        words = translated("time limit")
        draw.text((x + 480, 48), words, GREEN, font(27, bold=True), anchor="ra")

    middle, ground = x + 240, 270  # the cart stays in the middle and the ground moves
    draw.line([x, ground, x + 480, ground], "black", 3)
    for mark in np.arange(-3.2, 3.3, 0.4):
        at = middle + (mark - position) * 250
        if x < at < x + 480:
            draw.line([at, ground, at, ground + 12], "black", 3)
    draw.rectangle([middle - 44, ground - 32, middle + 44, ground - 3], "black")
    tip = middle + 150 * np.sin(angle), ground - 32 - 150 * np.cos(angle)
    draw.line([middle, ground - 32, *tip], ORANGE, 13)

    draw.text((x, 320), translated("π(left)"), BLUE, font(27), anchor="lm")
    draw.text((x + 480, 320), translated("π(right)"), RED, font(27), anchor="rm")
    if not fallen[now]:
        right = forward(weights, states[now:now + 1])[0][0, 1]
        edge = x + 110 + 240 * (1 - right)
        draw.rectangle([x + 110, 306, edge, 336], BLUE)
        draw.rectangle([edge, 306, x + 350, 336], RED)
    draw.line([x + 230, 298, x + 230, 344], "black", 3)  # one half

    v = value(weights, states)
    points = [(x + 60 + 420 * i / FILM_STEPS, 420 - 110 * v[i]) for i in range(FILM_STEPS)]
    for label in (0, -1):
        at = 420 - 110 * label
        draw.line([x + 60, at, x + 480, at], "#bbbbbb", 2)
        draw.text((x + 50, at), f"{label}".replace("-", "−"), GREY, font(25), anchor="rm")
    draw.text((x, 475), "V", "black", font(27, bold=True), anchor="lm")
    for i in range(1, now + 1):
        if not fallen[i] and steps[i] > steps[i - 1]:
            draw.line([points[i - 1], points[i]], BLUE, 5)
        elif fallen[i] and not fallen[i - 1]:
            a, b = points[i - 1]
            draw.line([a - 9, b - 9, a + 9, b + 9], "black", 5)
            draw.line([a - 9, b + 9, a + 9, b - 9], "black", 5)


def statistics():
    """The numbers that the pages quote."""
    found = {}
    for name, push in recorded_pushes().items():
        found[f"{name}: standard deviation"] = push.std()
        found[f"{name}: mean"] = push.mean()
        found[f"{name}: standard error"] = standard_error(push)
        found[f"{name}: error of an average of ten"] = errors(10)[name]
    found["samples up to which A is closer"] = crossing()
    weights, states = networks()["halfway"][1], load("episodes")["falls"]
    data = load("rollouts")
    p, v = forward(weights, data["state"][np.newaxis])
    found["π(right) of the state"], found["V of the state"] = p[0, 1], v[0]
    advantages = np.mean([returns_and_advantages(value(weights, s))[1] for s in states], axis=0)
    found["steps before the end from which the mean advantage is negative"] = (
        len(advantages) - 1 - np.flatnonzero(advantages >= 0).max())
    found["lowest mean advantage"] = advantages.min()
    found["steps before the end of the lowest mean"] = len(advantages) - advantages.argmin()
    found["mean advantage of the last step"] = advantages[-1]
    found["falls in which V sinks"] = sinking(weights, states)
    before, last = v_in_falls(weights, states)
    found["V 30 steps before the end"] = before.mean()
    found["V in the last step"], found["lowest V in the last step"] = last.mean(), last.min()
    for name, old in load("threads").items():
        if name.startswith("ages"):
            found[f"{name}: mean"] = old.mean()
            found[f"{name}: fresh"] = (old == 0).mean()
    return {name: float(number) for name, number in found.items()}


def draw(folder=PICTURES):
    """Draw all pictures from the recorded data, and those of the lesson in Japanese, too."""
    global language
    folder = Path(folder)
    draw_variants(folder / "variants.png")
    draw_exercises(folder / "exercises.png")
    draw_lesson(folder)
    try:
        import matplotlib_fontja  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(f"{error}: run  python -m pip install matplotlib-fontja")
    plt.rcParams["font.family"] = "IPAexGothic", "DejaVu Sans"
    language = "ja"
    (folder / "ja").mkdir(exist_ok=True)
    draw_lesson(folder / "ja")


def draw_lesson(folder):
    draw_film(folder / "film.gif")
    draw_run(load("run"), folder / "run.png")
    draw_hundred(folder / "hundred.png")
    draw_baseline(folder / "baseline.png")
    draw_threads(folder / "threads.png")
    draw_knows(folder / "knows.png")
    draw_fall(folder / "fall.png")


def main(words):
    if words[:1] == ["record"] and len(words) < 3:
        record_networks(*map(int, words[1:]))
        record_run()
        record_threads()
        record_rollouts()
    elif words == ["record-threads"]:
        record_threads()
    elif words == ["draw"]:
        draw()
        for name, number in statistics().items():
            print(f"{name}: {number:.4g}")
    elif len(words) == 3 and words[0] == "run":
        curves = read_log(words[1])
        if "mean" not in curves:
            sys.exit(f"{words[1]}: no run has written its curves there")
        draw_run(curves, words[2])
    elif len(words) == 2 and words[0] == "variants":
        record_variants(words[1])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
