"""CartPole in two worlds: a task made to ask whether several threads help.

In world 1 everything is as usual. In world -1 left and right are exchanged, so that what is right
in one world is wrong in the other. The state has a fifth number, the world, and one network can
learn both.

A learner changes its world after every EPISODES episodes of its own, and draws the first one. If it
learns alone, the network sees one world for a long time, and may forget the other. Of eight
learners some are nearly always in each world. The episodes of an evaluation take turns, and it
passes only if the policy is good in both.

What to look at: with `--workers 1` many evaluations fail, because the threshold only tells how good
the policy is in the thread's own world. With eight threads few do.
"""
from script import a3c, np

EPISODES = 200  # of a learner in a world, before it changes


class World(a3c.gym.Wrapper):
    """A CartPole in the world `unwrapped.world`, 1 or -1, which is the fifth number of a state."""
    def reset(self, **options):
        s, info = self.env.reset(**options)
        return self.state(s), info

    def step(self, a):
        s, *others = self.env.step(a if self.unwrapped.world == 1 else 1 - a)
        return self.state(s), *others

    def state(self, s):
        return np.append(s, np.float32(self.unwrapped.world))


class Environment(a3c.Environment):
    def __init__(self, agent, progress):
        super().__init__(agent, progress)
        self.world = agent.rng.choice((1, -1))  # of this thread
        self.episodes = 0  # from which this thread has learned

    def make(self, render_mode=None):
        return World(super().make(render_mode))

    def reset(self, env):
        env.unwrapped.world = self.world
        return super().reset(env)

    def run(self):
        score = super().run()
        self.episodes += 1
        if self.episodes % EPISODES == 0:
            self.world = -self.world
        return score

    def play(self, env):
        self.world = -self.world  # take turns
        return super().play(env)


def configure():
    a3c.configure(NUM_STATES=5, HIDDEN_UNITS=32)


def main(argv=None):
    configure()
    return a3c.main(argv, environment_class=Environment)


if __name__ == "__main__":
    a3c.run_program(main)
