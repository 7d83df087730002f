"""Memory and continuous actions together: Pendulum without its velocity.

This program combines memory.py, which remembers with an LSTM, and pendulum.py, whose actions are
torques. The network sees where the pendulum points, cos θ and sin θ, but not how fast it turns.
Actor and critic each have an LSTM. The layers after it also see x, so that the LSTMs only have to
remember. MorvanZhou's A3C_RNN.py, too, has a recurrent network on Pendulum, but it sees the
velocity.

What to look at: the score rises, with setbacks, for about 600,000 frames. With --no-memory the
network is pendulum.py's, and no run learned the task.
"""
import clipped
import memory
import pendulum
from script import a3c, tf


class PlainServer(clipped.FallingRate, pendulum.Server):
    """With pendulum.py's network, which doesn't remember."""
    anneal_frames = 1_000_000
    epsilon = 1e-5
    max_norm = 0.5  # so small a norm can do harm in clipped.py; here none was seen
    state_scale = 1, 1  # cos θ and sin θ need none
    seen = 2
    remembered = 0


class Server(PlainServer):
    cells = 64  # of each LSTM
    remembered = 4 * cells

    def _build_model(self):
        remember_for_actor = memory.lstm("actor/lstm", self.seen, self.cells)
        remember_for_critic = memory.lstm("critic/lstm", self.seen, self.cells)
        actor = pendulum.network("actor", self.seen + self.cells, a3c.NUM_ACTIONS)
        critic = pendulum.network("critic", self.seen + self.cells, 1)
        sizes = [self.seen] + 4 * [self.cells]

        def forward(s):
            """From successive states (T, 258) to p = [μ, σ, c', h'] (T, 258), and V (T,)."""
            x, c_actor, c_critic, h_actor, h_critic = tf.split(s, sizes, axis=1)
            c_actor, h_actor = remember_for_actor(x, c_actor[:1], h_actor[:1])
            c_critic, h_critic = remember_for_critic(x, c_critic[:1], h_critic[:1])
            p = self.mean_and_spread(actor(tf.concat([x, h_actor], axis=1)))
            v = tf.squeeze(critic(tf.concat([x, h_critic], axis=1)), axis=1)
            return tf.concat([p, c_actor, c_critic, h_actor, h_critic], axis=1), v
        return forward


class Brain(memory.Brain, pendulum.Brain):
    """In this order: memory.py takes [μ, σ] out of p, advantages.py sums the advantage, and
    pendulum.py has the loss."""


class Agent(memory.Agent, pendulum.Agent):
    """memory.py's state for pendulum.py's actions."""


class Environment(memory.Positions, pendulum.Environment):
    positions = [0, 1]  # cos θ and sin θ


def configure(server_class=Server):
    a3c.configure(**pendulum.TASK, **memory.SETTINGS, HIDDEN_UNITS=64, LEARNING_RATE=7e-4,
                  NUM_STATES=server_class.seen + server_class.remembered, LOSS_ENTROPY=0.003,
                  GAMMA=0.9)


def main(argv=None):
    with_memory, words = memory.parse(argv, "Learn Pendulum without its velocity, by remembering.")
    server_class = Server if with_memory else PlainServer
    configure(server_class)
    return a3c.main(words, server_class, Brain, Agent, Environment)


if __name__ == "__main__":
    a3c.run_program(main)
