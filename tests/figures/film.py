"""The film of the three networks, side by side and at half speed, as a GIF."""
import io

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from recorded_data import load, networks
from reference import forward
from translate import translate

# Okabe and Ito's palette
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PINK, GREY = "#CC79A7", "#767676"
STEPS = 208  # of an episode, at most 200, and of the pause after it


def image(figure, dpi):
    file = io.BytesIO()
    figure.savefig(file, dpi=dpi)
    return Image.open(file).convert("RGB")


def draw(path, language):
    figure, panels = plt.subplots(3, 3, figsize=(8, 3), height_ratios=[14, 3, 9])
    figure.subplots_adjust(0.02, 0.02, 0.98, 0.98, wspace=0.1, hspace=0.05)
    columns = [Column(*panels.T[i], name, language) for i, name in enumerate(networks())]
    pictures = []
    for now in range(0, STEPS, 2):
        for column in columns:
            column.show(now)
        pictures.append(image(figure, 100))
    plt.close(figure)
    palette = pictures[-1].quantize(48, Image.Quantize.MAXCOVERAGE)  # this keeps white white
    pictures = [x.quantize(palette=palette, dither=Image.Dither.NONE) for x in pictures]
    # A picture shows for 80 ms. Its two steps would take 40 ms at full speed.
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=80, loop=0)


class Column:
    """What the film shows of one network: the cart, π and V."""
    def __init__(self, cart, policy, values, name, language):
        rows = load("episodes")[f"film {name}"]  # see `film_rows` in record.py
        self.states, self.steps, self.fallen = rows[:, :4], rows[:, 4], rows[:, 5] > 0
        frames, weights = networks()[name]
        self.p, self.v = forward(weights, self.states)
        self.language = language
        bold = "bold" if language == "en" else "normal"  # the Japanese font has no other
        for panel in cart, policy, values:
            panel.axis("off")
        cart.set(xlim=(-1, 1), ylim=(-0.08, 1.1))
        cart.text(-1, 1.1, translate(name, language), size=12, weight=bold, va="top")
        cart.text(-1, 0.94, translate(f"{frames:,} frames", language), size=9, color=GREY, va="top")
        self.words = cart.text(1, 1.1, "", ha="right", va="top")
        cart.axhline(0, color="black", linewidth=1)
        [self.ground] = cart.plot([], [], "|", color="black", markersize=5)
        cart.plot([-0.18, 0.18], [0.07, 0.07], color="black", linewidth=11, solid_capstyle="butt")
        [self.pole] = cart.plot([], [], color=ORANGE, linewidth=5, solid_capstyle="butt")

        policy.set(xlim=(-0.5, 1.5), ylim=(-1, 1))
        policy.text(-0.5, 0, translate("π(left)", language), color=BLUE, va="center")
        policy.text(1.5, 0, translate("π(right)", language), color=VERMILION, va="center",
                    ha="right")
        self.bars = policy.barh([0, 0], [1, 1], color=[VERMILION, BLUE], height=1)
        policy.plot([0.5, 0.5], [-0.8, 0.8], color="black", linewidth=1.2)  # one half

        values.set(xlim=(-30, STEPS), ylim=(-1.5, 0.6))
        values.text(-30, -0.5, "V", weight=bold, va="center")
        for v, label in (0, "0"), (-1, "−1"):
            values.plot([0, STEPS], [v, v], color="0.75", linewidth=0.8)
            values.text(-4, v, label, size=9, color=GREY, va="center", ha="right")
        [self.curve] = values.plot([], [], color=BLUE, linewidth=1.8)
        [self.crosses] = values.plot([], [], "x", color="black", markersize=6, markeredgewidth=1.8)

    def show(self, now):
        """Show this step. The cart stays in the middle, and the ground moves."""
        position, _, angle, _ = self.states[now]
        marks = np.arange(-3.2, 3.3, 0.4) - position
        self.ground.set_data(marks, np.full(len(marks), -0.04))
        self.pole.set_data([0, 0.6 * np.sin(angle)], [0.13, 0.13 + 0.6 * np.cos(angle)])
        end = "fallen" if self.fallen[now] else "time limit" if self.steps[now] == 200 else ""
        self.words.set_text(translate(f"step {self.steps[now]:.0f}\n{end}", self.language))
        for bar in self.bars:
            bar.set_visible(not self.fallen[now])
        self.bars[1].set_width(self.p[now, 0])
        moves = np.diff(self.steps, prepend=-1) != 0  # between episodes the film pauses
        self.curve.set_data(range(now), np.where(moves & ~self.fallen, self.v, np.nan)[:now])
        [falls] = np.nonzero(np.diff(self.fallen[:now + 1].astype(int)) > 0)
        self.crosses.set_data(falls, self.v[falls])
