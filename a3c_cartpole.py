"""Asynchronous Advantage Actor-Critic (A3C) on CartPole, in one file.

`python a3c_cartpole.py` learns to balance a pole, films it and, where a window can open, shows it.

For readers who know DQN: A3C (arXiv:1602.01783) has no Q, no replay memory and no target network.
Its network has two heads. The actor gives the policy π(a|s), the probability of each action, and
the critic gives V(s), the discounted sum of rewards to expect from state s. Successive steps of an
episode are very similar, which is why DQN draws old steps from its replay memory at random. A3C
lets several threads play different episodes instead, and each thread repeats:
    pull    copy the shared network's weights into its own copy
    play    up to ten steps, with actions drawn from π
    update  compute the gradient of the loss with its copy, and apply it to the shared network
The loss compares two things: what followed a step (five rewards, and what the critic expects after
them) and what the critic expected before. The difference estimates the advantage. For step 0:
    A = r₀ + γ·r₁ + γ²·r₂ + γ³·r₃ + γ⁴·r₄ + γ⁵·V(s₅) - V(s₀)
A > 0 pushes the probability of the action in s₀ up, and A < 0 pushes it down. V(s₀) is pulled a
little towards the sum of the first six terms. If the episode ends within these five steps, the sum
stops there, and V(s₅) is left out.

To follow one step, begin with `Environment.run`, which plays an episode and learns from it. Read
`Agent`, `LocalBrain` and `ParameterServer` as it calls them. `Worker_thread`, `Progress` and `main`
run the threads, and nothing after `main` is A3C. Except for `Progress`, these classes have the
names and the order of the Japanese tutorial that this file follows; § marks its sections:
https://qiita.com/sugulu/items/acbc909dd9b74b043e45

Some things come from the tutorial and not from the paper: five rewards in a return (the paper takes
as many as are left until the next update), random actions with probability ε, rewards of 0, 1 and
-1, a loss averaged over samples, and a time limit that counts as an end. The main addition to the
tutorial is the evaluation that decides when to stop.
"""
import argparse
import collections
import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

# These settings make the imports quiet and fast. The A3C part begins with the constants below.
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # here Ctrl-C ends Python without a traceback
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # few messages from TensorFlow's C++ code
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # no message; "1" is faster in large networks
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # loading Keras 3 would take half a second
gc.disable()  # collecting garbage during the imports would take half a second
import numpy as np
from tensorflow.core.protobuf.config_pb2 import CallableOptions
import tensorflow.compat.v1 as tf
try:
    import gymnasium as gym
except ModuleNotFoundError:
    import gym  # version 0.26 works too
gc.enable()
gc.freeze()  # never look for garbage among what exists so far
tf.disable_eager_execution()
tf.get_logger().setLevel("FATAL")
gym.logger.min_level = gym.logger.ERROR  # hides advice to use v1; the tutorial uses v0

# The task
ENV = "CartPole-v0"
NUM_STATES = 4  # cart position and velocity, pole angle and angular velocity
NUM_ACTIONS = 2  # push the cart to the left or to the right
TIME_LIMIT_IS_END = True  # so V counts as 0 after the time limit; False: expect more rewards
GOOD_STEPS = 199  # as in the tutorial: after this many steps the last reward is 1, otherwise -1
# The method
Tmax = 10  # steps between two updates of a thread, at most (the tutorial's name)
N_STEP_RETURN = 5  # rewards that are summed before the critic's estimate of the rest
GAMMA = 0.99  # discount γ: a reward one step later counts 0.99 times as much
HIDDEN_UNITS = 16
LEARNING_RATE = 5e-3
RMSPROP_DECAY = 0.99
LOSS_V = 0.5  # weight of the critic's loss; the actor's has weight 1
LOSS_ENTROPY = 0.01  # weight of the entropy bonus, which favours a policy that stays undecided
EPS_START = 0.5  # ε, the chance of a random action (drawing from π explores, too)
EPS_END = 0.0  # ε falls linearly to this
EPS_STEPS = 1600  # over this many frames
# The threads
N_WORKERS = 8  # threads that learn, here called learners
SHARE_ONE_CORE = True  # run all learners on one CPU core; `share_one_core` says why
MAX_FRAMES = 1_000_000  # frames before the learners give up; a frame is a step of any learner
LEARNED_MEAN = 199  # mean score to exceed, in training and then in an evaluation; the best is 200
THRESHOLD_MEAN = None  # the mean to exceed in training, if not LEARNED_MEAN
THRESHOLD_EPISODES = 10  # the mean in training is over the latest ten episodes of all learners
EVALUATION_EPISODES = 10  # an evaluation is ten episodes played by another thread, the test thread
PRINT_EPISODES = 50  # print a line every fifty episodes, with their mean score
GRACE_SECONDS = 1.5  # how long to wait for a thread that may hang in its environment


class ParameterServer:
    """The network that all threads share, and its optimizer (§3.5).

    TensorFlow 1 works in two steps. Methods with `build` in their names only describe computations,
    as a graph. Later a session, which holds the values of all variables, runs parts of the graph,
    and a `GraphCall` makes such a part look like a Python function.
    """
    def __init__(self, session, progress):
        self.session = session
        self.progress = progress
        with tf.variable_scope("parameter_server"):  # prefixes the variables' names
            self._build_model()  # only its variables matter: the server itself predicts nothing
        self.weights = tf.trainable_variables("parameter_server/")
        self.optimizer = self.build_optimizer()  # all threads share it, and its running averages

    def _build_model(self):
        """Make the variables of one network (§2.2). Returns its forward pass: a function from
        states s (batch, 4) to the policy p (batch, 2) and the values v (batch,)."""
        hidden = layer("hidden", NUM_STATES, HIDDEN_UNITS)
        actor = layer("actor", HIDDEN_UNITS, NUM_ACTIONS)
        critic = layer("critic", HIDDEN_UNITS, 1)

        def forward(s):
            h = tf.nn.relu(tf.nn.xw_plus_b(s, *hidden))  # s·w + b: (batch, 16)
            p = tf.nn.softmax(tf.nn.xw_plus_b(h, *actor))  # (batch, 2)
            v = tf.squeeze(tf.nn.xw_plus_b(h, *critic), axis=1)  # (batch, 1) -> (batch,)
            return p, v
        return forward

    def build_optimizer(self):
        return tf.train.RMSPropOptimizer(LEARNING_RATE, RMSPROP_DECAY)

    def build_update(self, gradients):
        """Returns the operation that moves the shared weights, given a gradient for each.

        No thread waits for the gradients of others. TensorFlow locks a weight array and its
        RMSProp average while it changes them, so no update is lost. But a pull may catch some
        arrays before other threads' updates and some after them, and a gradient may be stale,
        because other threads may have moved the weights since its thread last pulled. A3C accepts
        both, as Hogwild! does (arXiv:1106.5730)."""
        # The slash reopens the scope instead of making parameter_server_1. So an optimizer's own
        # variables, such as Adam's, get the prefix by which a checkpoint finds them.
        with tf.name_scope("parameter_server/"):
            pairs = zip(gradients, self.weights, strict=True)
            return self.optimizer.apply_gradients(pairs, name="update")

    def initialize(self):
        """Give all variables their first values, or a checkpoint's. The graph must be complete."""
        self.session.run(tf.global_variables_initializer())
        self.checkpoint = Checkpoint(self)
        self.checkpoint.restore()


def layer(name, *shape):
    """The variables of one layer, [weights, biases]. shape: the weights' shape, outputs last."""
    w = tf.get_variable(name + "/weights", shape)  # random (Glorot uniform); 0 in a LocalBrain
    b = tf.get_variable(name + "/biases", shape[-1:], initializer=tf.zeros_initializer())
    return [w, b]


class LocalBrain:
    """A thread's own copy of the network (§3.6). It predicts π and computes gradients."""
    action_type, action_shape = tf.int32, ()  # an action is one whole number

    def __init__(self, name, parameter_server):
        self.name = name
        self.server = parameter_server
        self.train_queue = []  # samples for the next update (`train_push`)
        # The thread's name is a scope: it prefixes names, as in local_thread1/hidden/biases.
        with tf.variable_scope(name, initializer=tf.zeros_initializer()):  # 0 until the first pull
            self.forward = self._build_model()
        self.weights = tf.trainable_variables(name + "/")
        with tf.name_scope(name + "/"):
            self._build_graph()

    def _build_model(self):
        return self.server._build_model()  # the same layers, but new variables, under my name

    def build_loss(self, p, v, a, target):
        """The three terms of the loss (§2.2), each (batch,). A = target - V(s) is the advantage.

            actor: -log π(a|s)·A    critic: LOSS_V·A²    entropy: LOSS_ENTROPY·Σ π·log π

        p: the policy (batch, 2). v: V(s) (batch,). a: the actions taken (batch,).
        target: R + discount·V(s_) (batch,)."""
        advantage = target - v  # (batch,)
        p_taken = tf.reduce_sum(p * tf.one_hot(a, NUM_ACTIONS), axis=1)  # π(a|s): (batch,)
        log_p_taken = tf.log(p_taken + 1e-10)  # without 1e-10, log 0 would be -∞
        # In the actor's term A is a constant; otherwise minimizing the term would raise V(s), too.
        actor_loss = -log_p_taken * tf.stop_gradient(advantage)
        critic_loss = LOSS_V * tf.square(advantage)
        # Minus the entropy, so minimizing this raises the entropy and keeps the policy undecided.
        entropy_loss = LOSS_ENTROPY * tf.reduce_sum(p * tf.log(p + 1e-10), axis=1)
        return actor_loss, critic_loss, entropy_loss

    def _build_graph(self):
        # The inputs are a batch of samples (`train_push`).
        s = tf.placeholder(tf.float32, (None, NUM_STATES), "s")
        a = tf.placeholder(self.action_type, (None, *self.action_shape), "a")
        R = tf.placeholder(tf.float32, (None,), "R")
        s_ = tf.placeholder(tf.float32, (None, NUM_STATES), "s_")
        discount = tf.placeholder(tf.float32, (None,), "discount")

        p, v = self.forward(s)  # (batch, 2) and (batch,)
        _, v_ = self.forward(s_)  # (batch,)
        # The target counts as a constant; otherwise the loss would push V(s_), too.
        target = tf.stop_gradient(R + discount * v_)  # (batch,)
        with tf.name_scope("loss"):
            terms = self.build_loss(p, v, a, target)
            loss = tf.reduce_mean(tf.add_n(terms))  # mean over the batch

        # The heart of A3C: the gradient is with respect to MY weights, but moves the SERVER'S.
        # ("zero": for a weight that a subclass's loss doesn't use.)
        gradients = tf.gradients(loss, self.weights, name="gradient", unconnected_gradients="zero")
        gradients, norm = finite(gradients)
        update = self.build_update(gradients, s)

        pairs = list(zip(self.weights, self.server.weights, strict=True))
        pull = [mine.assign(shared, read_value=False) for mine, shared in pairs]
        push = [shared.assign(mine, read_value=False) for mine, shared in pairs]
        session = self.server.session  # feeds go in, fetches come out, targets just run
        self._predict = GraphCall(session, feeds=[s], fetches=[p])
        self._update = GraphCall(session, feeds=[s, a, R, s_, discount], targets=[update],
                                 fetches=[*terms, norm])
        self._pull = GraphCall(session, targets=pull)
        self._push = GraphCall(session, targets=push)

    def build_update(self, gradients, s):
        """Returns the operation that hands a batch's gradients to the server. s: the batch's
        states, for subclasses."""
        return self.server.build_update(gradients)

    def pull_parameter_server(self):
        """Copy the server's weights into mine."""
        self._pull()

    def push_parameter_server(self):
        """Copy my weights to the server. Only the test thread does so, once every learner has ended
        or hung. (`train_push` pushes something else: a sample.)"""
        self._push()

    def update_parameter_server(self):
        """Compute the gradient for all queued samples, and apply it to the server's weights. If the
        gradient's norm isn't finite, raises tf.errors.InvalidArgumentError and moves no weight."""
        if not self.train_queue:
            return  # no sample is complete yet, which happens if N_STEP_RETURN exceeds Tmax
        s, a, R, s_, discount = zip(*self.train_queue)
        self.train_queue.clear()
        actor, critic, entropy, norm = self._update(s, a, R, s_, discount)
        self.server.progress.add_to_curves({"loss/actor": actor, "loss/critic": critic,
                                            "loss/entropy": entropy, "gradient": norm})

    def predict_p(self, s):
        """The policy in the states s (batch, 4): the probability of each action, (batch, 2)."""
        return self._predict(s)[0]

    def train_push(self, s, a, R, s_, discount):
        """Queue a sample for the next update. s: state (4,). a: action. R: discounted sum of n
        rewards. s_: the state n steps later (4,). discount: what V(s_) is multiplied by, γⁿ or 0.
        """
        self.train_queue.append((s, a, R, s_, discount))


class Agent:
    """Chooses actions and computes n-step returns (§3.4). rng: the thread's own random.Random."""
    def __init__(self, brain, rng):
        self.brain = brain
        self.rng = rng
        self.memory = collections.deque()  # the latest steps (s, a, r), which still lack rewards

    def act(self, s, frame):
        """The action that a learner takes in state s (4,). frame: the number of frames so far."""
        return self.explore(self.policy(s), frame)

    def act_greedily(self, s):
        """The most likely action in state s (4,)."""
        p = self.policy(s)
        return p.index(max(p))

    def policy(self, s):
        """The probability of each action in state s (4,), as a list."""
        return self.brain.predict_p(s[np.newaxis])[0].tolist()  # a batch of one state

    def explore(self, p, frame):
        """A random action with probability ε, and otherwise one drawn from the policy p (2,)."""
        epsilon = EPS_START + (EPS_END - EPS_START) * min(frame / EPS_STEPS, 1.0)
        if self.rng.random() < epsilon:
            return self.rng.randrange(NUM_ACTIONS)
        return self.rng.choices(range(NUM_ACTIONS), weights=p)[0]

    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        """Remember one step, and queue the samples whose returns are now complete (§2.1; by
        "advantage" the tutorial means looking n steps ahead). At the first update of a long episode
            steps 0 1 2 3 4 5   are queued, each with five rewards
            steps 6 7 8 9       still lack rewards, and wait for the next update
        By then the weights are newer than those that chose these four actions.
        The paper avoids this: there, the last steps' returns have fewer rewards.

        s: state (4,). a: action. r: reward. s_: next state (4,). done: whether the episode is over.
        terminal: whether V(s_) counts as 0, because no rewards are expected after s_."""
        self.memory.append((s, a, r))
        if len(self.memory) == N_STEP_RETURN:
            self.queue_oldest(s_, terminal)
        # At the end no more rewards will come, so the remaining steps get shorter returns.
        while done and self.memory:
            self.queue_oldest(s_, terminal)

    def queue_oldest(self, s_, terminal):
        """Turn the oldest step in memory into a sample. s_: the state after the latest step (4,).
        terminal: whether V(s_) counts as 0."""
        n = len(self.memory)  # steps from the oldest state to s_: 5, or fewer at the end
        R = 0.0
        for _, _, r in reversed(self.memory):
            R = r + GAMMA * R  # after the loop, R is r₀ + γ·r₁ + γ²·r₂ + ...
        s, a, _ = self.memory.popleft()
        self.brain.train_push(s, a, R, s_, 0.0 if terminal else GAMMA ** n)


class Environment:
    """A thread's own CartPole and the agent that plays it (§3.3)."""
    def __init__(self, agent, progress):
        self.agent = agent
        self.progress = progress
        self.env = self.make()
        n = getattr(self.env.action_space, "n", None)  # None: the actions aren't discrete
        if n not in (NUM_ACTIONS, None):
            raise ValueError(f"{ENV} has {n} actions, but NUM_ACTIONS is {NUM_ACTIONS}")

    def make(self, render_mode=None):
        """A new CartPole. render_mode is "rgb_array_list" for a film."""
        return gym.make(ENV, render_mode=render_mode, disable_env_checker=True)  # faster

    def reset(self, env):
        """Start an episode in env, seeded by this thread. Returns its first state (4,)."""
        return env.reset(seed=self.agent.rng.randrange(2 ** 31))[0]

    def reward(self, s, a, r, s_, step, done):
        """The reward to learn from. CartPole's own r is always 1. The tutorial's is 0 until the
        episode ends, and then 1 if it lasted at least GOOD_STEPS steps, otherwise -1. Other
        environments need a different reward, usually r itself."""
        if not done:
            return 0.0
        return 1.0 if step >= GOOD_STEPS else -1.0

    def run(self):
        """Play one episode, and learn from it. Returns the score, which is the sum of the
        environment's own rewards: on CartPole, the number of steps."""
        s = self.reset(self.env)
        step, score, done = 0, 0.0, False
        while not done:
            frame = self.progress.next_frame()  # may wait, or end the thread
            if step % Tmax == 0:
                self.agent.brain.pull_parameter_server()
            a = self.agent.act(s, frame)
            s_, r, terminated, truncated, _ = self.env.step(a)
            step += 1
            score += r
            done = terminated or truncated
            terminal = terminated or (truncated and TIME_LIMIT_IS_END)
            reward = self.reward(s, a, r, s_, step, done)
            self.agent.advantage_push_local_brain(s, a, reward, s_, done, terminal)
            if done or step % Tmax == 0:
                self.agent.brain.update_parameter_server()
            s = s_
        return score

    def play(self, env):
        """Play one episode in env with the most likely actions. Returns the score."""
        s = self.reset(env)
        score, done = 0.0, False
        while not done:
            self.progress.raise_if_stopped()
            s, r, terminated, truncated, _ = env.step(self.agent.act_greedily(s))
            score += r
            done = terminated or truncated
        return score


class Worker_thread:
    """The work of one thread (§3.2). A "learning" thread plays and learns. The "test" thread
    evaluates the policy and, once the task is learned (or with --play), shows it."""
    def __init__(self, name, thread_type, environment, progress):
        self.name = name
        self.thread_type = thread_type
        self.environment = environment
        self.progress = progress

    def run(self):
        """Do this thread's work. If it fails, `progress` keeps the error for `main`."""
        try:
            if self.thread_type == "learning":
                self.learn()
            else:
                self.test()
                self.progress.stop()  # the run is over when the test thread has finished
        except Stopped:
            pass
        except BaseException as error:  # even the SystemExit of sys.exit
            if isinstance(error, OSError):  # Ctrl-C also ends ffmpeg, whose error may come first
                self.progress.wait_for_stop(0.1)
            if not self.progress.interrupted:
                self.progress.stop(error, self.name)
        finally:
            self.progress.thread_ended(self.name)

    def learn(self):
        share_one_core()
        while True:  # until `next_frame` raises Stopped
            score = self.environment.run()
            episodes, mean = self.progress.episode_ended(score)
            if episodes % PRINT_EPISODES == 0:
                say(f"{self.progress.seconds():.1f} s, {self.progress.frames} frames, "
                    f"{episodes} episodes: mean {mean:.1f} of the last {PRINT_EPISODES}")
            self.progress.add_to_curves({f"score/{self.name}": score, "mean": mean})

    def test(self):
        progress = self.progress
        while progress.phase != "learned":
            if not progress.wait_for_evaluation():
                say(f"Not learned after {progress.frames} frames")
                return
            self.evaluate()
        show_episodes(self.environment, progress.options)

    def evaluate(self):
        """Pull the server's weights and play episodes with the most likely actions. If their mean
        score is high enough, push these weights back: a learner may have moved the server's."""
        progress, environment = self.progress, self.environment
        brain = environment.agent.brain
        say(f"Threshold reached: mean {np.mean(progress.recent):.1f} of the last "
            f"{THRESHOLD_EPISODES} episodes")
        brain.pull_parameter_server()
        mean = np.mean([environment.play(environment.env) for _ in range(EVALUATION_EPISODES)])
        say(f"Evaluation: mean {mean:.1f} of {EVALUATION_EPISODES} episodes")
        progress.add_to_curves({"evaluation": mean, "threshold": LEARNED_MEAN})
        passed = mean > LEARNED_MEAN
        progress.evaluated(passed)
        if passed:
            progress.wait_until(lambda: not progress.learning_threads, GRACE_SECONDS)
            brain.push_parameter_server()
            brain.server.checkpoint.save()
            progress.raise_if_stopped()  # saving may have failed
            say(f"Learned after {progress.frames} frames, {progress.episodes} episodes, "
                f"{progress.seconds():.1f} s")


class Stopped(Exception):
    """Ends a thread: the task is learned, the frames are used up, or all threads are to stop."""


class Progress:
    """What the threads tell each other. In the tutorial some of this is global.

    A run begins in the phase "training" (with --play, "learned"). At the threshold it becomes
    "evaluating": the learners wait while the test thread evaluates the policy. Then it is
    "learned", or "training" again.

    Even `frames += 1` is a read, an addition and a write, and another thread may get in between.
    So a thread holds the lock `changed` while it changes these values, or needs several of them at
    once. It releases the lock while it waits for a change. Reading one value needs no lock.
    """
    def __init__(self, options):
        self.options = options
        self.changed = threading.Condition()  # a thread that holds it may take it again
        self.phase = "learned" if options.play else "training"
        # The names of the learning threads that haven't ended
        self.learning_threads = {f"local_thread{i + 1}" for i in range(options.workers)}
        self.stopped = False  # whether all threads have to end
        self.interrupted = False  # whether Ctrl-C or `kill` is the reason
        self.failure = None  # the first error, and the name of what failed, if anything did
        self.frames = 0  # steps of all learners
        self.max_frames = options.max_frames
        self.episodes = 0  # of all learners
        self.scores = collections.deque(maxlen=PRINT_EPISODES)  # of the latest episodes
        self.recent = collections.deque(maxlen=THRESHOLD_EPISODES)  # since the last evaluation
        self.curves = None  # with --logdir, a file for TensorBoard
        self.start_time = time.perf_counter()

    def seconds(self):
        return time.perf_counter() - self.start_time

    def next_frame(self):
        """Each step of a learner begins with this call. It waits during an evaluation, counts the
        step, and returns how many came before. Raises Stopped when nothing is left to do."""
        with self.changed:
            if self.phase == "evaluating":
                self.wait_until(lambda: self.phase != "evaluating")
            if self.stopped or self.phase == "learned" or self.frames >= self.max_frames:
                raise Stopped
            self.frames += 1
            return self.frames - 1

    def episode_ended(self, score):
        """Count a learner's episode, and begin an evaluation if the last THRESHOLD_EPISODES exceed
        the threshold on average. Returns the number of episodes, and the mean score of the last
        PRINT_EPISODES."""
        with self.changed:
            self.episodes += 1
            self.scores.append(score)
            if self.phase == "training":
                self.recent.append(score)
                full = len(self.recent) == THRESHOLD_EPISODES
                threshold = LEARNED_MEAN if THRESHOLD_MEAN is None else THRESHOLD_MEAN
                if full and sum(self.recent) / THRESHOLD_EPISODES > threshold:
                    self.phase = "evaluating"
                    self.changed.notify_all()
            return self.episodes, sum(self.scores) / len(self.scores)

    def evaluated(self, passed):
        """End an evaluation. If the policy has passed, the learners stop. If not, they go on, and
        ten more episodes have to end before they can reach the threshold again."""
        with self.changed:
            self.phase = "learned" if passed else "training"
            self.recent.clear()
            self.changed.notify_all()

    def wait_until(self, condition, seconds=None):
        """Wait, for at most `seconds`, until condition() holds. Raises Stopped if all threads
        are to stop."""
        with self.changed:
            self.changed.wait_for(lambda: self.stopped or condition(), seconds)
            self.raise_if_stopped()

    def wait_for_evaluation(self):
        """Wait until an evaluation is due. Returns False if there won't be one, because no learner
        can go on."""
        self.wait_until(lambda: self.phase == "evaluating" or self.frames >= self.max_frames
                        or not self.learning_threads)
        # The learners' last episodes may still reach the threshold.
        self.wait_until(lambda: self.phase == "evaluating" or not self.learning_threads,
                        GRACE_SECONDS)
        return self.phase == "evaluating"

    def raise_if_stopped(self):
        if self.stopped:
            raise Stopped

    def stop(self, error=None, name=None):
        """Make all threads raise Stopped. error: what was raised, if anything failed. name: what
        failed, a thread or "saving"."""
        with self.changed:
            self.stopped = True
            if error is not None and self.failure is None:
                self.failure = error, name
            self.changed.notify_all()

    def interrupt(self):
        """Stop, because of Ctrl-C or `kill`. Once the run is over, this changes nothing."""
        with self.changed:
            if not self.stopped:
                self.interrupted = True
                self.stop()

    def wait_for_stop(self, seconds):
        """Wait, for at most `seconds`, until all threads are to stop. Returns whether they are."""
        with self.changed:
            return self.changed.wait_for(lambda: self.stopped, seconds)

    def thread_ended(self, name):
        with self.changed:
            self.learning_threads.discard(name)
            self.changed.notify_all()

    def add_to_curves(self, numbers):
        """Add a point to TensorBoard's curves, which are plotted against frames.
        numbers: {name of a curve: a number, or an array, whose mean is plotted}."""
        if self.curves is not None:
            values = [tf.Summary.Value(tag=name, simple_value=np.mean(number))
                      for name, number in numbers.items()]
            try:
                self.curves.add_summary(tf.Summary(value=values), self.frames)
            except tf.errors.OpError as error:
                raise OSError(reason(error)) from error  # the disk is full, say


def main(argv=None, server_class=ParameterServer, brain_class=LocalBrain, agent_class=Agent,
         environment_class=Environment, worker_class=Worker_thread):
    """Learn, then show the policy (§3.1, whose steps are M0 to M3). argv: the words of a command
    line, by default this program's. Returns the exit status: 0 learned, 1 not learned, 130
    interrupted by Ctrl-C or `kill`. Raises SystemExit after --help, for a wrong option, or if a
    thread fails with an OSError (a file can't be written, say). Any other failure of a thread
    raises RuntimeError.

    For another task or method, change this module's constants and pass subclasses."""
    options = parse(argv)
    progress = Progress(options)
    with signals_stop(progress):
        prepare_films(progress)

        # M0. What all threads share
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            tf.set_random_seed(options.seed)
            server = server_class(open_session(), progress)

            # M1. For each thread a worker, with its own environment, agent and copy of the network
            workers = []
            for name in [*sorted(progress.learning_threads), "test_thread"]:
                brain = brain_class(name, server)
                agent = agent_class(brain, random.Random(f"{options.seed} {name}"))
                environment = environment_class(agent, progress)
                thread_type = "learning" if name in progress.learning_threads else "test"
                workers.append(worker_class(name, thread_type, environment, progress))
            server.initialize()
            open_curves(server)
            graph.finalize()  # no changes from here on: they aren't safe while threads use it

        # M2. Start the threads (daemon: one that hangs can't keep Python from ending)
        if not options.play:
            say(f"Seed {options.seed}, {options.workers} learning threads")
        threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True)
                   for worker in workers]
        progress.start_time = time.perf_counter()
        for thread in threads:
            thread.start()

        # M3. Wait until the test thread has finished or a thread has failed; save now and then
        next_save = SAVE_SECONDS
        while not progress.wait_for_stop(1):  # on Windows, Ctrl-C only works between these calls
            if progress.seconds() > next_save:
                server.checkpoint.save()
                next_save = progress.seconds() + SAVE_SECONDS
        end = progress.seconds() + GRACE_SECONDS
        for thread in threads:
            thread.join(max(0.0, end - progress.seconds()))
        server.checkpoint.save()

    if progress.failure is not None:
        error, name = progress.failure
        if isinstance(error, OSError):  # the disk is full, say
            sys.exit(f"{name} failed: {reason(error)}")
        raise RuntimeError(f"{name} failed: {type(error).__name__}: {reason(error)}") from error
    if progress.interrupted:
        print(f"Stopped after {progress.frames} frames", file=sys.stderr)
        return 130
    return int(progress.phase != "learned")


# -------------------------------------------------------------------------------------------------
# The rest isn't A3C: calls to the graph, the shared core, files, films and the command line.

FILMS = "movie/A3C"  # each run makes a new folder here
SAVE_SECONDS = 60  # time between two saves


class GraphCall:
    """A part of the graph as a Python function. Its arguments fill `feeds`; it returns `fetches`,
    as a list of arrays; `targets` run only for their effects. The first call prepares the
    function with a private method of the session, because `Session.run` and `Session.make_callable`
    take many times as long for a prediction."""
    def __init__(self, session, feeds=(), fetches=(), targets=()):
        names = [[part.name for part in parts] for parts in (feeds, fetches, targets)]
        self.options = CallableOptions(feed=names[0], fetch=names[1], target=names[2])
        self.types = [tensor.dtype.as_numpy_dtype for tensor in feeds]
        self.session = session
        self.function = None

    def __call__(self, *arrays):
        if self.function is None:
            self.function = self.session._make_callable_from_options(self.options)
        # The prepared call doesn't check types: float64 where float32 is expected may crash Python.
        feeds = [np.asarray(x, dtype) for x, dtype in zip(arrays, self.types, strict=True)]
        return self.function(*feeds)


def finite(gradients):
    """Returns the same gradients, and their norm. If the norm isn't finite, every operation that
    uses a returned gradient fails, so no weight moves."""
    norm = tf.check_numerics(tf.global_norm(gradients), "the gradient's norm isn't finite")
    return tf.tuple(gradients, control_inputs=[norm]), norm


def open_session():
    """A session for small calls: the thread that makes a call runs it, without helper threads
    (unless the process has opened another session before)."""
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.device_count["GPU"] = 0
    config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"  # no queues for its operations
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # it delays the start
    return tf.Session(config=config)


def share_one_core():
    """Keep the calling thread on the core that all learners share (on Linux only). A graph call
    releases Python's lock, the GIL, while it computes. Meanwhile a thread on another core could
    take the lock and delay this one. Processes started by this thread stay on its core."""
    if SHARE_ONE_CORE and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        core = cores[os.getpid() % len(cores)]  # two runs at once may get different cores
        os.sched_setaffinity(0, {core})


def say(line):
    print(line + "\n", end="", flush=True)  # in one piece, so that threads don't mix lines


SIGNALS = signal.SIGINT, signal.SIGTERM  # Ctrl-C, and what `kill` sends


@contextlib.contextmanager
def signals_stop(progress):
    """Let signals stop the threads; otherwise Python might end while it is saving. At the end,
    put back the old handlers and the environment variables. (Python allows handlers only in its
    main thread, so `main` has to run there.)"""
    variables = dict(os.environ)
    handlers = {number: signal.signal(number, lambda *_: progress.interrupt())
                for number in SIGNALS}
    try:
        yield
    finally:
        progress.stop()  # if starting a thread has failed, the others must not go on
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.environ.clear()
        os.environ.update(variables)


def run_program(main):
    """Run main(), and end Python with its exit status. Within `signals_stop`, main() reacts to
    signals. Before and after that they are ignored; late ones would disturb Python's shutdown."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(main())


class Checkpoint:
    """Saves the server's variables in the folder of --checkpoint, and continues from a checkpoint
    found there. Without the option it does nothing."""
    def __init__(self, server):
        self.session, self.progress = server.session, server.progress
        self.folder, self.play = self.progress.options.checkpoint, self.progress.options.play
        self.lock = threading.Lock()  # both `main` and the test thread save
        self.variables = tf.global_variables("parameter_server/")  # with RMSProp's averages
        if self.folder is not None:
            self.saver = tf.train.Saver(self.variables, save_relative_paths=True)

    def restore(self):
        """Continue from the latest checkpoint, if there is one. The frames played before it count
        for ε, but not for --max-frames."""
        if self.folder is None:
            return
        try:
            files = os.listdir(self.folder)
            saved = any(file.startswith(("checkpoint", "model-")) for file in files)
            if not self.play and not saved:
                return
            latest = tf.train.latest_checkpoint(self.folder)
            if latest is None:
                raise ValueError("there is no checkpoint that can be read")
            shapes = tf.train.load_checkpoint(latest).get_variable_to_shape_map()
            if any(shapes.get(v.op.name) != v.shape for v in self.variables):
                raise ValueError("the checkpoint is from another network or optimizer")
            self.saver.restore(self.session, latest)
            self.progress.frames = int(latest.rpartition("-")[2])
        except Exception as error:  # a damaged file can make TensorFlow raise anything
            refuse(f"argument --checkpoint: {self.folder!r}: {reason(error)}")
        self.progress.max_frames += self.progress.frames
        if not self.play:
            say(f"Continuing after {self.progress.frames} frames")

    def save(self):
        """Save. If that fails, the run ends."""
        if self.folder is None or self.play:
            return
        path = os.path.join(self.folder, "model")
        try:
            with self.lock:
                self.saver.save(self.session, path, self.progress.frames, write_meta_graph=False)
        except Exception as error:  # the disk is full, say
            self.progress.stop(OSError(reason(error)), "saving")


def open_curves(server):
    """Open a file for TensorBoard if --logdir is given, and write the graph."""
    session, progress = server.session, server.progress
    if progress.options.logdir is not None:
        # Given a session, FileWriter writes at once, and raises an error in the thread that writes.
        progress.curves = tf.summary.FileWriter(progress.options.logdir, session.graph,
                                                max_queue=0, session=session)


def prepare_folder(option, folder):
    """Make the folder that an option names, if need be. Refuse it if files can't be written there,
    or if TensorFlow can't find it, as when the path has brackets."""
    try:
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        if not tf.gfile.Glob(folder):
            raise OSError(f"TensorFlow can't use a folder named {folder!r}")
    except (OSError, tf.errors.OpError) as error:
        refuse(f"argument {option}: {reason(error)}")


def prepare_films(progress):
    """Find out, before anything is learned, whether films can be made and whether a window can
    open. If not, SDL, which pygame draws with, gets a driver that needs no screen."""
    options = progress.options
    options.window = False
    if options.render == "none":
        return
    try:
        import moviepy.config
        import pygame
        subprocess.run([moviepy.config.FFMPEG_BINARY, "-version"], check=True, capture_output=True)
    except Exception as error:  # a package or ffmpeg is missing
        if progress.interrupted:
            return  # Ctrl-C in a terminal also ends ffmpeg
        refuse(f"argument --render: {reason(error)} (see requirements.txt, or try none)")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # without a sound card ALSA may complain
    os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")  # OpenGL may crash with TensorFlow
    drivers = {"linux": "x11", "win32": "windows"}  # macOS opens windows only in the main thread
    if options.render != "video" and sys.platform in drivers:
        os.environ.setdefault("SDL_VIDEODRIVER", drivers[sys.platform])
        with contextlib.suppress(pygame.error):
            pygame.display.init()
            options.window = True
        pygame.display.quit()
    if not options.window:
        os.environ["SDL_VIDEODRIVER"] = "dummy"
        if options.render == "human":
            refuse("argument --render: no window can open here; try video")
    prepare_folder("--render", FILMS)


def show_episodes(environment, options):
    """Play the test episodes with the server's weights, film them and show them."""
    environment.agent.brain.pull_parameter_server()
    film = options.render != "none"
    if film:
        folder = os.path.join(FILMS, time.strftime(f"%Y%m%d-%H%M%S-seed{options.seed}"))
        os.makedirs(folder)  # fails if it exists, so no film is overwritten
        say(f"Films: {folder}")
    for episode in range(1, options.test_episodes + 1):
        env = environment.make("rgb_array_list" if film else None)
        if film:
            env = gym.wrappers.RecordVideo(env, folder, name_prefix=f"test-{episode}")
        if options.window:
            env = gym.wrappers.HumanRendering(env)
        try:
            score = environment.play(env)
        finally:
            env.close()  # this writes the film
        say(f"Test episode {episode}: score {score:g}")


def parse(argv):
    """Returns the command-line options as attributes. A wrong option ends the program."""
    parser = argparse.ArgumentParser(description=f"Learn {ENV} with A3C, and show the policy.",
                                     allow_abbrev=False,
                                     usage=argparse.SUPPRESS)  # so that an error is one line
    add = parser.add_argument
    add("--workers", type=int, default=N_WORKERS, metavar="N",
        help="learning threads (default: %(default)s)")
    add("--seed", type=int, default=random.randrange(2 ** 32), metavar="N",
        help="makes runs repeatable, but only with --workers 1")
    add("--max-frames", type=int, default=MAX_FRAMES, metavar="N",
        help="give up after N frames of this run (default: %(default)s)")
    add("--render", choices=("auto", "human", "video", "none"), default="auto",
        help="video: film test episodes; human: also show them; auto: human if possible")
    add("--test-episodes", type=int, default=3, metavar="N",
        help="episodes to play at the end (default: %(default)s)")
    add("--checkpoint", metavar="DIR", help="save in DIR, and continue from what it holds")
    add("--play", action="store_true", help="don't learn, only show what --checkpoint holds")
    add("--logdir", metavar="DIR", help="write graph and curves for TensorBoard")
    options = parser.parse_args(argv)
    if min(options.workers, options.max_frames, options.test_episodes) < 1 or options.seed < 0:
        parser.error("--workers, --max-frames and --test-episodes must be at least 1, and --seed "
                     "at least 0")
    if options.play:
        options.workers = 0
        if options.checkpoint is None:
            parser.error("argument --play: needs --checkpoint DIR")
    elif options.checkpoint is not None:
        prepare_folder("--checkpoint", options.checkpoint)
    if options.logdir is not None:
        prepare_folder("--logdir", options.logdir)
    return options


def refuse(message):
    """End the program because of wrong input."""
    argparse.ArgumentParser(usage=argparse.SUPPRESS).error(message)


def reason(error):
    """What an error says, in one line; TensorFlow's and ffmpeg's have many."""
    return " ".join(str(error).split()) or repr(error)


def constants():
    """The constants of this file that are numbers, strings or None: {name: value}."""
    return {name: value for name, value in globals().items()
            if isinstance(value, (int, float, str, np.generic, type(None))) and name[0] != "_"}


def configure(**values):
    """Undo the previous call, and give the named constants new values, so that several programs
    can run in one Python process."""
    globals().update(CONFIGURED)
    CONFIGURED.clear()
    CONFIGURED.update({name: globals()[name] for name in values})
    globals().update(values)


CONFIGURED = {}  # the values that `configure` has replaced

if __name__ == "__main__":
    run_program(main)
