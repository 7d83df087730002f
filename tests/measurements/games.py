"""Thirty games of a policy that pong.py or memory_pong.py has saved in the folder DIR:

    python tests/measurements/games.py PROGRAM DIR

The policy is fixed, and so is the game, so that many games may be the same. With sticky actions
each action is repeated by chance, one time in four.
"""
import importlib
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = str(ROOT), str(ROOT / "tests" / "variants")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, folder = Path(sys.argv[1]), sys.argv[2]
    pong, games = importlib.import_module(program.stem), []  # each game's score and actions
    a3c = pong.a3c
    choose, play, make = a3c.Agent.act_greedily, a3c.Environment.play, a3c.gym.make

    def act_greedily(self, s):
        self.actions.append(choose(self, s))
        return self.actions[-1]

    def play_and_keep(self, env):
        self.agent.actions = []
        score = play(self, env)
        games.append((score, *self.agent.actions))
        return score
    a3c.Agent.act_greedily, a3c.Environment.play = act_greedily, play_and_keep

    for actions, env in ("as chosen", "PongNoFrameskip-v4"), ("sticky", "PongNoFrameskip-v0"):
        games.clear()
        a3c.gym.make = lambda _, env=env, **kwargs: make(env, **kwargs)
        words = "--play --render none --test-episodes 30 --seed 0 --checkpoint".split()
        pong.main([*words, folder])
        scores = [score for score, *_ in games]
        print(f"{env}, actions {actions}: "
              f"mean {statistics.mean(scores):.1f}, worst {min(scores):.0f}, "
              f"{len(set(games))} different games of {len(games)}")


if __name__ == "__main__":
    main()
