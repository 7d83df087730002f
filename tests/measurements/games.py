"""Let a policy that pong.py or memory_pong.py has saved play thirty games.

The policy is fixed, and so is the game, so that many games may be the same. With sticky actions
each action is repeated by chance, one time in four.
"""
import argparse
import collections
import statistics
from pathlib import Path

import paths  # so that the variants are found
import pong  # first, because it chooses a setting of TensorFlow's
import memory
import memory_pong
from script import a3c

PROGRAMS = {"pong": (pong, a3c.LocalBrain, a3c.Agent),
            "memory_pong": (memory_pong, memory_pong.Brain, memory.Agent)}
Game = collections.namedtuple("Game", "score actions")


def play(program, brain_class, agent_class, game, folder, number):
    """Returns the games that a saved policy plays."""
    games, actions = [], []

    class Agent(agent_class):
        def act_greedily(self, s):
            action = super().act_greedily(s)
            actions.append(action)
            return action

    class Environment(program.Environment):
        def play(self, env):
            actions.clear()
            score = super().play(env)
            games.append(Game(score, tuple(actions)))
            return score

    program.configure()
    a3c.ENV = game
    words = f"--play --render none --test-episodes {number} --seed 0 --checkpoint".split()
    a3c.main([*words, folder], program.Server, brain_class, Agent, Environment)
    return games


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", metavar="PROGRAM", type=Path, help="pong.py or memory_pong.py")
    parser.add_argument("folder", metavar="DIR", help="its --checkpoint")
    parser.add_argument("--games", type=int, default=30, metavar="N")
    args = parser.parse_args()
    for actions, game in ("as chosen", "PongNoFrameskip-v4"), ("sticky", "PongNoFrameskip-v0"):
        games = play(*PROGRAMS[args.program.stem], game, args.folder, args.games)
        scores = [game.score for game in games]
        print(f"{game}, actions {actions}: "
              f"mean {statistics.mean(scores):.1f}, worst {min(scores):.0f}, "
              f"{len(set(games))} different games of {len(games)}")


if __name__ == "__main__":
    main()
