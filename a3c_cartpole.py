"""Asynchronous Advantage Actor-Critic (A3C) on CartPole, in one file.

`python a3c_cartpole.py` learns to balance a pole and then films the learned policy. Where a window
can open, you can also watch it live. `--help` lists the options. The file follows sugulu's tutorial
(in Japanese), and a § refers to one of its sections:
https://qiita.com/sugulu/items/acbc909dd9b74b043e45

If you know DQN: A3C (arXiv:1602.01783) has no Q, no replay memory and no target network. Its
network has two heads. The actor gives π(a|s), the probability of each action. The critic gives
V(s), the expected return from state s. The advantage A says how much the return after an action
exceeded V(s); training makes actions with a positive A more likely. Successive steps of one episode
are very similar. DQN mixes old steps in its replay memory; in A3C several threads play different
episodes. Each thread copies the shared network, plays up to ten steps, computes a gradient with its
copy, applies the gradient to the shared network, and starts over.

TensorFlow 1 works in two steps. The methods called `_build_…` and `build_…` only describe
computations, as a graph. Later a session, which holds the values of all variables, runs parts of
the graph. A `GraphCall` wraps such a part in a Python function. A scope is a prefix for names in
the graph, so that each thread can have a network of its own.

The classes appear in the tutorial's order. To follow one step of the pole through the program, read
Environment.run, Agent, LocalBrain, ParameterServer, Worker_thread, Progress and main. The code
after `main` isn't part of A3C. The programs in tests/variants replace parts with subclasses, for
example through `brain_class`.

Changes from the tutorial:
- It runs on today's packages, without Keras. The graph is complete before the threads start.
- An episode is what the tutorial calls a trial (試行).
- The threads share their state in `Progress`, not in globals. If one thread fails, TensorFlow's
  Coordinator stops them all.
- Each return is summed from scratch. Each sample holds the factor that multiplies V(s_), γⁿ or 0.
  This replaces GAMMA_N, NONE_STATE and a mask.
- The threshold applies to the mean of the last ten episodes of all learners, not of one thread.
  When training reaches it, the learners wait while the test thread plays ten episodes with a copy
  of the network, always taking the most likely action. Only this evaluation decides whether the
  task is learned.
- On Linux all learners share one CPU core, because that is faster (see `share_one_core`).
"""
import argparse
import collections
import gc
import importlib.util
import os
import random
import sys
import threading
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # oneDNN slows down matrices this small
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # so TensorFlow doesn't import Keras 3
os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")  # OpenGL and TensorFlow crash together
gc.disable()  # the imports create so many objects that garbage collection would take 0.4 s
try:
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.core.protobuf.config_pb2 import CallableOptions
    try:
        import gymnasium as gym
    except ModuleNotFoundError:
        import gym  # version 0.26 works too
except ModuleNotFoundError as error:
    sys.exit(f"{error}: run  pip install -r requirements.txt")
gc.enable()
gc.freeze()  # the imported objects stay, so the garbage collector can skip them

tf.disable_eager_execution()
tf.get_logger().setLevel("FATAL")
gym.logger.min_level = gym.logger.ERROR  # hides advice to use v1; the tutorial uses v0

ENV = "CartPole-v0"
NUM_STATES = 4  # cart position x, its velocity v, pole angle θ, its velocity ω
NUM_ACTIONS = 2  # push the cart to the left or to the right
TIME_LIMIT_IS_END = True  # V(s_) doesn't count at the time limit; if False, it does
LEARNED_MEAN = 199  # the two mean scores below must exceed this; a score is at most 200
THRESHOLD_EPISODES = 10  # episodes in the first mean: the last ones of all learners, in training
EVALUATION_EPISODES = 10  # episodes in the second mean: the test thread's, in an evaluation
TEST_EPISODES = 3  # episodes to film and show at the end
MAX_FRAMES = 1_000_000  # steps of all learners together before they give up
N_WORKERS = 8  # learning threads
SHARE_ONE_CORE = True  # run all learners on one CPU core
Tmax = 10  # steps a thread plays between two updates, at most
MIN_BATCH = 5  # an update waits for this many samples; on CartPole it never has to
HIDDEN_UNITS = 16
LEARNING_RATE = 5e-3
RMSPROP_DECAY = 0.99
LOSS_V = 0.5  # weight of the critic's loss; the actor's has weight 1
LOSS_ENTROPY = 0.01  # weight of the entropy bonus
GAMMA = 0.99  # discount γ: a reward one step later is multiplied by 0.99
N_STEP_RETURN = 5  # rewards in a return
EPS_START = 0.5  # ε, the chance of a random action (drawing from π explores, too)
EPS_END = 0.0  # ε falls linearly to this
EPS_STEPS = 1600  # over this many frames of all learners together
SAVE_SECONDS = 60  # time between two saves while learning


class ParameterServer:
    """The shared network and its optimizer (§3.5).

    It also holds everything else that the threads share: the session, `progress`, `log` and
    `checkpoint`. options: what `parse` returns.

    Learners don't take turns. TensorFlow locks an array and its RMSProp average while an update
    changes them, so no update is lost. But there is no lock around the whole network: a pull may
    mix old arrays with new ones. And a gradient may be stale: other threads may have moved the
    server's weights since its thread last pulled. A3C accepts both, as Hogwild! does
    (arXiv:1106.5730).
    """
    def __init__(self, options):
        self.options = options
        self.progress = self.make_progress(options)
        self.log = Log(options, self.progress)
        self.session = self.open_session()
        self.helpers = []  # a subclass can add more threads: objects with `name` and `run()`
        with tf.variable_scope("parameter_server"):
            self.forward = self._build_model()
            self.optimizer = self.build_optimizer()  # all threads share its averages
        self.weights = tf.trainable_variables("parameter_server/")
        self.checkpoint = Checkpoint(options, self)

    def make_progress(self, options):
        return Progress(options.workers, options.max_frames)

    def open_session(self):
        # Calls this small are fastest inside the thread that makes them, without helper threads.
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config.device_count["GPU"] = 0
        config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        return tf.Session(config=config)  # many threads may use it at once

    def _build_model(self):
        """Make the variables of one network (§2.2) in the current variable scope. Returns its
        forward pass, a function from states s (batch, 4) to two tensors: p (batch, 2), the
        probability of each action, and v (batch,), the values."""
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
        """Returns the operation that moves the server's weights. gradients: one for each array in
        self.weights, of the same shape."""
        return self.optimizer.apply_gradients(zip(gradients, self.weights), name="update")

    def initialize(self):
        """Give all variables their first values. Call it once, when the graph is complete."""
        self.session.run(tf.global_variables_initializer())


class LocalBrain:
    """A thread's own copy of the network (§3.6). It predicts π and computes gradients.

    name: the thread's name, which is also the scope of everything built here.
    """
    action_type, action_shape = tf.int32, ()  # an action is one number

    def __init__(self, name, parameter_server):
        self.name = name
        self.server = parameter_server
        self.train_queue = []  # samples (s, a, R, s_, gamma_n), see `train_push`
        # The new variables are called name/hidden/weights and so on. The first pull fills them.
        with tf.variable_scope(name, initializer=tf.zeros_initializer()):
            self._build_model()
        with tf.name_scope(name + "/"):  # the slash opens the same scope again, not name_1
            self._build_graph()

    def _build_model(self):
        self.forward = self.server._build_model()
        self.weights = tf.trainable_variables(self.name + "/")

    def build_loss(self, p, v, a, target):
        """The three terms of the loss (§2.2), each (batch,). A = target - V(s) is the advantage.

            actor: -log π(a|s)·A    critic: LOSS_V·A²    entropy: LOSS_ENTROPY·Σ π·log π

        p: the policy (batch, 2). v: V(s) (batch,). a: the actions taken (batch,).
        target: R + γⁿ·V(s_) (batch,)."""
        advantage = target - v  # (batch,)
        p_taken = tf.reduce_sum(p * tf.one_hot(a, NUM_ACTIONS), axis=1)  # π(a|s): (batch,)
        # The actor's term treats A as a constant; otherwise it would lower A by raising V(s).
        actor = -tf.log(p_taken + 1e-10) * tf.stop_gradient(advantage)
        critic = LOSS_V * tf.square(advantage)
        # This is minus the entropy. Minimizing it keeps the policy from becoming certain too early.
        entropy = LOSS_ENTROPY * tf.reduce_sum(p * tf.log(p + 1e-10), axis=1)
        return actor, critic, entropy

    def _build_graph(self):
        # The inputs are a batch of samples.
        s = tf.placeholder(tf.float32, (None, NUM_STATES), "s")
        a = tf.placeholder(self.action_type, (None, *self.action_shape), "a")
        R = tf.placeholder(tf.float32, (None,), "R")
        s_ = tf.placeholder(tf.float32, (None, NUM_STATES), "s_")
        gamma_n = tf.placeholder(tf.float32, (None,), "gamma_n")  # what multiplies V(s_)

        p, v = self.forward(s)
        _, v_ = self.forward(s_)
        self._predict = GraphCall(self.server.session, feeds=[s], fetches=[p])

        # The target counts as a constant; otherwise V(s_) would move towards V(s), too.
        target = tf.stop_gradient(R + gamma_n * v_)  # (batch,)
        with tf.name_scope("loss"):
            terms = self.build_loss(p, v, a, target)
            loss = tf.reduce_mean(tf.add_n(terms))  # mean over the batch

        # The heart of A3C: the gradient belongs to MY weights, but it moves the SERVER'S weights.
        gradients = tf.gradients(loss, self.weights, name="gradient")
        statistics = [*terms, tf.global_norm(gradients)]  # for the log
        with tf.name_scope("parameter_server/"):  # so checkpoints include RMSProp's averages
            update = self.server.build_update(gradients)
        self._update = GraphCall(self.server.session, [s, a, R, s_, gamma_n], statistics, [update])

        self._pull = self._build_copy("pull", self.server.weights, self.weights)
        self._push = self._build_copy("push", self.weights, self.server.weights)

    def _build_copy(self, name, sources, copies):
        with tf.name_scope(name):
            assign = [copy.assign(x, read_value=False) for copy, x in zip(copies, sources)]
        return GraphCall(self.server.session, targets=assign)

    def pull_parameter_server(self):
        """Copy the server's weights into mine."""
        self._pull()

    def push_parameter_server(self):
        """Copy my weights to the server. Only the test thread does this, after all learners have
        ended."""
        self._push()

    def update_parameter_server(self):
        """Compute the gradient for all queued samples, and apply it to the server's weights."""
        if len(self.train_queue) >= MIN_BATCH:
            s, a, R, s_, gamma_n = zip(*self.train_queue)
            self.train_queue.clear()
            statistics = self._update(s, a, R, s_, gamma_n)
            self.server.log.update(statistics)

    def predict_p(self, s):
        """The policy in the states s (batch, 4): the probability of each action, (batch, 2)."""
        return self._predict(s)[0]

    def train_push(self, s, a, R, s_, gamma_n):
        """Queue a sample for the next update. s: state (4,). a: action. R: return of n rewards.
        s_: the state n steps later (4,). gamma_n: the factor that multiplies V(s_)."""
        self.train_queue.append((s, a, R, s_, gamma_n))


class Agent:
    """Chooses actions and computes n-step returns (§3.4). rng: the thread's random.Random."""
    brain_class = LocalBrain  # a subclass may name another

    def __init__(self, name, parameter_server, rng):
        self.progress = parameter_server.progress
        self.rng = rng
        self.brain = self.brain_class(name, parameter_server)
        self.memory = collections.deque()  # steps (s, a, r) whose returns aren't complete

    def act(self, s, greedy=False):
        """The action for state s (4,). If greedy, it is the most likely one. If not, it is random
        with probability ε, and otherwise drawn from π."""
        if not greedy and self.rng.random() < self.epsilon():
            return self.rng.randrange(NUM_ACTIONS)
        [p] = self.brain.predict_p(s[np.newaxis]).tolist()  # (4,) -> (1, 4) -> (1, 2) -> (2,)
        if greedy:
            return p.index(max(p))
        return self.rng.choices(range(NUM_ACTIONS), weights=p)[0]

    def epsilon(self):
        """ε, the chance of a random action. It falls linearly over the first EPS_STEPS frames."""
        return EPS_START + (EPS_END - EPS_START) * min(self.progress.frames / EPS_STEPS, 1.0)

    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        """Remember one step, and queue the samples whose returns are now complete (§2.1; by
        "advantage" the tutorial means looking n steps ahead). If an episode goes on after its first
        ten steps, they have given six samples; the last four steps need more rewards.

        s: state (4,). a: action. r: reward. s_: next state (4,). done: whether the episode is over.
        terminal: whether it ended in s_, so that V(s_) doesn't count."""
        self.memory.append((s, a, r))
        if len(self.memory) == N_STEP_RETURN:
            self.queue_oldest(s_, terminal)
        # At the end no more rewards will come, so the remaining steps get shorter returns.
        while done and self.memory:
            self.queue_oldest(s_, terminal)

    def queue_oldest(self, s_, terminal):
        """Turn the oldest step in memory into a sample. s_, terminal: see above."""
        n = len(self.memory)  # steps from the oldest state to s_: 5, or fewer at the end
        R = 0.0
        for _, _, r in reversed(self.memory):
            R = r + GAMMA * R  # after the loop, R is r₀ + γ·r₁ + γ²·r₂ + ...
        s, a, _ = self.memory.popleft()
        self.brain.train_push(s, a, R, s_, 0.0 if terminal else GAMMA ** n)


class Environment:
    """A thread's own CartPole and the agent that plays it (§3.3).

    thread_type: "learning" or "test". Ends the program if NUM_STATES or NUM_ACTIONS doesn't fit
    the environment.
    """
    agent_class = Agent

    def __init__(self, name, thread_type, parameter_server):
        self.learning = thread_type == "learning"
        self.progress = parameter_server.progress
        self.rng = random.Random(f"{parameter_server.options.seed} {name}")  # its own
        self.env = self.make()
        states, actions = self.env.observation_space.shape, self.env.action_space
        if states != (NUM_STATES,) or getattr(actions, "n", NUM_ACTIONS) != NUM_ACTIONS:
            refuse(f"NUM_STATES or NUM_ACTIONS is wrong for {ENV}: {states}, {actions}")
        self.agent = self.agent_class(name, parameter_server, self.rng)

    def make(self, render_mode=None):
        """A new CartPole. render_mode is "rgb_array_list" for a film."""
        return gym.make(ENV, render_mode=render_mode, disable_env_checker=True)  # for speed

    def reward(self, r, step, done):
        """The reward to learn from, instead of CartPole's own r, which is 1 for every step. It is
        0 until the episode ends. The last reward is -1 if the episode ended before step 199, and
        otherwise 1, as in the tutorial. Override this method for another environment."""
        if not done:
            return 0.0
        return -1.0 if step < 199 else 1.0

    def run(self, env=None):
        """Play one episode in `env`, or in the thread's own environment. A learner learns from it.
        The test thread takes the most likely actions and changes nothing.

        Returns the score, which is the sum of the environment's own rewards: on CartPole, the
        number of steps. Raises Stopped if the thread has to end."""
        env = env or self.env
        s, _ = env.reset(seed=self.rng.randrange(2 ** 31))
        step, score, done = 0, 0.0, False
        while not done:
            if self.learning and step % Tmax == 0:
                self.agent.brain.pull_parameter_server()
            a = self.agent.act(s, greedy=not self.learning)
            self.progress.next_frame(self.learning)
            s_, r, terminated, truncated, _ = env.step(a)
            step += 1
            score += r
            done = terminated or truncated
            if self.learning:
                r = self.reward(r, step, done)
                terminal = terminated or (truncated and TIME_LIMIT_IS_END)
                self.agent.advantage_push_local_brain(s, a, r, s_, done, terminal)
                if done or step % Tmax == 0:
                    self.agent.brain.update_parameter_server()
            s = s_
        return score


class Worker_thread:
    """The work of one thread (§3.2). A "learning" thread plays and learns. The "test" thread
    evaluates the policy and, once the task is learned, shows it."""
    environment_class = Environment

    def __init__(self, thread_name, thread_type, parameter_server):
        self.name = thread_name
        self.learning = thread_type == "learning"
        self.server = parameter_server
        self.progress = parameter_server.progress
        self.log = parameter_server.log
        self.environment = self.environment_class(thread_name, thread_type, parameter_server)

    def run(self):
        """Do this thread's work. If it fails, the coordinator catches the exception, keeps it for
        `main` and tells all threads to stop."""
        with self.progress.coordinator.stop_on_exception():
            try:
                self.work()
            except Stopped:
                pass
            except Exception as error:
                raise RuntimeError(f"{self.name} failed: {error!r}") from error
        if self.learning:
            self.progress.learner_ended()

    def work(self):
        if self.learning:
            self.learn()
        else:
            self.test()

    def learn(self):
        if SHARE_ONE_CORE:
            share_one_core()
        while True:  # until Stopped is raised
            score = self.environment.run()
            self.log.episode(self.name, score)
            self.progress.episode_ended(score)

    def test(self):
        while not self.progress.learned:  # with --play it is learned from the start
            if not self.progress.wait_for_threshold():
                self.log.not_learned()
                return
            self.log.threshold()
            self.evaluate()
        show_episodes(self.environment, self.server.options, self.log)

    def evaluate(self):
        """Pull the server's weights and play greedy episodes with them. If the mean score is high
        enough, push them back, because a learner may have finished an update after the pull."""
        brain = self.environment.agent.brain
        brain.pull_parameter_server()
        scores = [self.environment.run() for _ in range(EVALUATION_EPISODES)]
        mean = sum(scores) / len(scores)
        self.log.evaluation(mean)
        self.progress.verdict(mean > LEARNED_MEAN)
        if self.progress.learned:
            brain.push_parameter_server()  # safe, because all learners have ended
            self.server.checkpoint.save()
            self.log.learned()


class Stopped(Exception):
    """Ends a thread: the task is learned, the frames are used up, or all threads have to stop."""


class Progress:
    """What the threads tell each other. In the tutorial these values are globals.

    Counters and scores change under `lock`, because `+= 1` reads, adds and writes, and Python
    doesn't promise that no other thread runs in between. A flag needs no lock, because no thread
    can see a half-finished assignment.

    learners: how many there are. max_frames: how many steps they may play in total.
    """
    def __init__(self, learners, max_frames):
        self.lock = threading.Lock()
        self.frames = 0  # steps of all learners
        self.max_frames = max_frames
        self.learners = learners  # learning threads that haven't ended
        self.scores = collections.deque(maxlen=THRESHOLD_EPISODES)  # the latest of all learners
        self.evaluating = False  # the threshold is reached, and the learners wait
        self.learned = False  # an evaluation was passed, or none is needed (--play)
        self.coordinator = tf.train.Coordinator()  # any thread can ask it to stop all of them

    def resume(self, frames, learned):
        """Continue after earlier runs. Their frames count for ε, but not for max_frames."""
        self.frames = frames
        self.max_frames += frames
        self.learned = learned

    def next_frame(self, learning):
        """Call this before each step. It counts a learner's step, and makes learners wait while the
        policy is evaluated. Raises Stopped if the thread has to end."""
        if self.coordinator.should_stop():
            raise Stopped
        if learning:
            if self.evaluating:
                self.wait_until(lambda: not self.evaluating)
            with self.lock:
                if self.learned or self.frames >= self.max_frames:
                    raise Stopped
                self.frames += 1

    def episode_ended(self, score):
        """Call this when a learner has finished an episode. It may raise the mean score above the
        threshold."""
        with self.lock:
            if not self.evaluating:
                self.scores.append(score)
                full = len(self.scores) == THRESHOLD_EPISODES
                self.evaluating = full and self.mean_score() > LEARNED_MEAN

    def mean_score(self):
        return sum(self.scores) / len(self.scores)

    def wait_for_threshold(self):
        """The test thread waits here. Returns whether training has reached the threshold. If not,
        all learners have ended."""
        self.wait_until(lambda: self.evaluating or not self.learners)
        return self.evaluating

    def verdict(self, passed):
        """The test thread has evaluated the policy. If it passed, wait until all learners have
        ended. If not, they go on, and after ten more episodes the threshold can be reached
        again."""
        self.learned = passed
        self.scores.clear()  # safe without the lock: nobody adds a score while `evaluating`
        self.evaluating = False  # must come last: learners go on now, and look at `learned`
        if passed:
            self.wait_until(lambda: not self.learners)

    def wait_until(self, condition):
        """Wait until condition() holds. Raises Stopped if all threads have to stop."""
        while not condition() and not self.coordinator.should_stop():
            self.coordinator.wait_for_stop(0.01)
        if self.coordinator.should_stop():  # the stop itself may have made the condition true
            raise Stopped

    def learner_ended(self):
        with self.lock:
            self.learners -= 1


def main(argv=None, server_class=ParameterServer, worker_class=Worker_thread):
    """Learn, then show the policy (§3.1). argv: a list of command-line arguments, or None
    for the program's own.

    Returns the exit status: 0 learned, 1 not learned, 130 interrupted by Ctrl-C. If a thread fails,
    its exception is raised here."""
    options = parse(argv)
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        # M0. What all threads share
        tf.set_random_seed(options.seed)
        server = server_class(options)
        progress, log, checkpoint = server.progress, server.log, server.checkpoint

        # M1. A worker for each thread, with its own part of the graph
        learners = [worker_class(f"local_thread{i + 1}", "learning", server)
                    for i in range(options.workers)]
        tester = worker_class("test_thread", "test", server)
        server.initialize()
        checkpoint.load()
        graph.finalize()  # no changes from here on: they aren't safe while threads use the graph

    threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True)
               for worker in [tester, *learners, *server.helpers]]
    test_thread = threads[0]
    interrupted = False
    try:
        # M2. Start the threads
        checkpoint.save()
        log.begin(graph)
        for thread in threads:
            thread.start()

        # M3. Wait until the test thread has finished or a thread has failed; save now and then
        next_save = time.monotonic() + SAVE_SECONDS
        while test_thread.is_alive() and not progress.coordinator.should_stop():
            test_thread.join(0.1)
            if progress.learners and time.monotonic() > next_save:
                log.progress_line()
                checkpoint.save()
                next_save = time.monotonic() + SAVE_SECONDS
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.coordinator.request_stop()
        # If a thread failed, this raises its exception, and what follows is skipped.
        progress.coordinator.join(threads, stop_grace_period_secs=1.5, ignore_live_threads=True)

    checkpoint.save()  # skipped after a failure: the weights may be bad, so the last save is kept
    log.end()
    if interrupted:
        print(f"Stopped after {progress.frames} frames", file=sys.stderr)
        return 130
    return int(not progress.learned)


class GraphCall:
    """A function that runs a part of the graph. Its arguments fill the inputs `feeds`, and it
    returns the `fetches` as a list of arrays. `targets` run only for their effects, such as
    assigning weights.

    It does the same as `Session.run` in a tenth of the time, because a private method of the
    session prepares the call once, at its first use.
    """
    def __init__(self, session, feeds=(), fetches=(), targets=()):
        names = [[part.name for part in parts] for parts in (feeds, fetches, targets)]
        self.options = CallableOptions(feed=names[0], fetch=names[1], target=names[2])
        self.types = [tensor.dtype.as_numpy_dtype for tensor in feeds]
        self.session = session
        self.function = None

    def __call__(self, *arrays):
        if self.function is None:
            self.function = self.session._make_callable_from_options(self.options)
        # The prepared call doesn't check types: float64 for float32 would crash the process.
        return self.function(*map(np.asarray, arrays, self.types))


def layer(name, *shape):
    """The variables of one layer, [weights, biases]. shape: the weights' shape, outputs last."""
    w = tf.get_variable(name + "/weights", shape)  # Glorot uniform, unless the scope says otherwise
    b = tf.get_variable(name + "/biases", shape[-1:], initializer=tf.zeros_initializer())
    return [w, b]


def share_one_core():
    """Keep the calling thread on the core that all learners share. It works only on Linux.

    Only one thread at a time can run Python, because of Python's lock (the GIL). A graph call
    releases the lock for a few microseconds. Meanwhile a thread on another core could take the
    lock, and the caller would have to wait. On one core the call is usually over before another
    thread runs.
    """
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        core = cores[os.getpid() % len(cores)]  # two runs at once may get different cores
        os.sched_setaffinity(0, {core})


class Log:
    """Prints what happens and, with --logdir, writes curves for TensorBoard."""
    def __init__(self, options, progress):
        self.options = options
        self.progress = progress
        self.lock = threading.RLock()  # reentrant, because `episode` calls `progress_line`
        self.episodes = 0  # of all learners
        self.scores = collections.deque(maxlen=50)  # of their latest episodes
        self.writer = None

    def begin(self, graph):
        """Open the file for TensorBoard, print the first line and start the clock."""
        if self.options.logdir is not None:
            self.writer = tf.summary.FileWriter(self.options.logdir, graph)
        self.print(f"Seed {self.options.seed}, {self.options.workers} learning threads")
        self.start_time = time.perf_counter()

    def end(self):
        if self.writer is not None:
            self.writer.close()

    def seconds(self):
        return time.perf_counter() - self.start_time

    def episode(self, name, score):
        with self.lock:
            self.episodes += 1
            self.scores.append(score)
            self.write({f"score/{name}": score, "mean": sum(self.scores) / len(self.scores)})
            if self.episodes % 50 == 0:
                self.progress_line()

    def progress_line(self):
        with self.lock:
            n = len(self.scores)
            mean = sum(self.scores) / max(n, 1)
            self.print(f"{self.seconds():.1f} s, {self.progress.frames} frames, "
                       f"{self.episodes} episodes: mean {mean:.1f} of the last {n}")

    def update(self, statistics):
        names = "loss/actor", "loss/critic", "loss/entropy", "gradient"
        self.write(dict(zip(names, statistics)))

    def threshold(self):
        self.print(f"Threshold reached: mean {self.progress.mean_score():.1f} of the last "
                   f"{THRESHOLD_EPISODES} episodes")

    def evaluation(self, mean):
        self.print(f"Evaluation: mean {mean:.1f} of {EVALUATION_EPISODES} episodes")
        self.write({"evaluation": mean})

    def learned(self):
        self.print(f"Learned after {self.progress.frames} frames, {self.episodes} episodes, "
                   f"{self.seconds():.1f} s")

    def not_learned(self):
        self.print(f"Not learned after {self.progress.frames} frames")

    def print(self, line):
        print(line + "\n", end="", flush=True)  # in one piece, so that threads don't mix lines

    def write(self, curves):
        """Add a point to each curve. curves: {name: a number, or an array to be averaged}."""
        if self.writer is not None:
            values = [tf.Summary.Value(tag=x, simple_value=np.mean(y)) for x, y in curves.items()]
            self.writer.add_summary(tf.Summary(value=values), self.progress.frames)


class Checkpoint:
    """Keeps the server's weights, its optimizer's averages and the number of frames in the folder
    that --checkpoint names, if that option is set. With --play it only reads."""
    def __init__(self, options, server):
        self.folder = options.checkpoint
        self.play = options.play
        self.server = server
        self.lock = threading.Lock()  # both `main` and the test thread save

    def load(self):
        """Restore the latest checkpoint in the folder, if there is one. Call it once, when the
        graph is complete. Ends the program if the checkpoint can't be used."""
        if self.folder is None:
            return
        variables = tf.global_variables("parameter_server/")
        self.saver = tf.train.Saver(variables, save_relative_paths=True)
        if not self.play and not os.path.exists(os.path.join(self.folder, "checkpoint")):
            return
        try:
            latest = tf.train.latest_checkpoint(self.folder)
            if latest is None:
                raise ValueError("there is no checkpoint that can be read")
            shapes = tf.train.load_checkpoint(latest).get_variable_to_shape_map()
            if any(shapes.get(v.op.name) != v.shape for v in variables):
                raise ValueError("it belongs to another network or another optimizer")
            self.saver.restore(self.server.session, latest)
            frames = int(latest.rpartition("-")[2])
        except (OSError, ValueError, IndexError, tf.errors.OpError) as error:
            refuse(f"argument --checkpoint: {self.folder!r}: " + str(error).partition("\n")[0])
        self.server.progress.resume(frames, learned=self.play)

    def save(self):
        """Save the weights. While learners train, some arrays may be newer than others."""
        if self.folder is None or self.play:
            return
        with self.lock:
            path = os.path.join(self.folder, "model")
            os.makedirs(self.folder, exist_ok=True)
            self.saver.save(self.server.session, path, self.server.progress.frames,
                            write_meta_graph=False)


def show_episodes(environment, options, log):
    """Play the test episodes with the server's weights. The options say whether to film them and
    whether to show them in a window. Each run puts its films into a new folder, so it overwrites
    nothing."""
    environment.agent.brain.pull_parameter_server()
    film = options.render != "none"
    folder = os.path.join(options.video_dir, time.strftime(f"%Y%m%d-%H%M%S-seed{options.seed}"))
    if film:
        os.makedirs(folder)
        log.print(f"Films: {folder}")
    for episode in range(1, options.test_episodes + 1):
        env = environment.make("rgb_array_list" if film else None)
        if film:
            env = gym.wrappers.RecordVideo(env, folder, name_prefix=f"test-{episode}")
        if options.window:
            env = gym.wrappers.HumanRendering(env)
        score = environment.run(env)
        env.close()  # this writes the film
        log.print(f"Test episode {episode}: score {score:g}")


def parse(argv):
    """Returns the command-line options as attributes. A wrong option ends the program."""
    parser = argparse.ArgumentParser(description="Learn CartPole with A3C, and show the policy.",
                                     usage=argparse.SUPPRESS)  # so an error is one line
    add = parser.add_argument
    add("--workers", type=whole_number(1, 256), default=N_WORKERS, metavar="N",
        help="learning threads")
    add("--seed", type=whole_number(0, 2 ** 32 - 1), default=random.randrange(2 ** 32), metavar="N",
        help="same seed, same run, but only with --workers 1")
    add("--max-frames", type=whole_number(1), default=MAX_FRAMES, metavar="N",
        help="give up after N frames")
    add("--render", choices=("auto", "human", "video", "none"), default="auto",
        help="film test episodes (video), and show them in a window (human); auto: human, if "
             "a window can open")
    add("--test-episodes", type=whole_number(1), default=TEST_EPISODES, metavar="N",
        help="episodes to show")
    add("--video-dir", type=writable_folder, default="movie/A3C", metavar="DIR",
        help="films go into a new folder in DIR")
    add("--checkpoint", type=writable_folder, metavar="DIR",
        help="save in DIR, and continue from what it holds")
    add("--play", action="store_true", help="don't learn, only show what --checkpoint holds")
    add("--logdir", type=writable_folder, metavar="DIR",
        help="write graph and curves for TensorBoard")
    options = parser.parse_args(argv)
    if options.play:
        options.workers = 0
        if options.checkpoint is None:
            parser.error("argument --play: needs --checkpoint DIR")
    options.window = False
    if options.render != "none":
        for package in "pygame", "moviepy":
            if importlib.util.find_spec(package) is None:
                parser.error(f"argument --render: {package} is missing, "
                             "run  pip install -r requirements.txt")
        can_open = can_open_window()
        if not can_open:
            os.environ["SDL_VIDEODRIVER"] = "dummy"  # films are drawn in memory
            if options.render == "human":
                parser.error("argument --render: no window can open here; try video")
        options.window = can_open and options.render != "video"
    return options


def whole_number(low, high=2 ** 62):
    def number(text):
        if low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(f"give a whole number from {low} to {high}")
    return number


def writable_folder(text):
    """A folder that exists, or that can be made later."""
    path = Path(text).absolute()
    while not path.exists():
        path = path.parent
    if path.is_dir() and os.access(path, os.W_OK):
        return text
    raise argparse.ArgumentTypeError(f"can't write to folder {text!r}")


def can_open_window():
    """Whether the test thread can open a window. On macOS only the main thread can."""
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return False
    import pygame
    pygame.display.init()
    driver = pygame.display.get_driver()  # "offscreen" if there is nothing behind DISPLAY
    pygame.display.quit()
    return driver in ("x11", "wayland", "windows")


def refuse(message):
    """End the program because of wrong input, the way argparse does."""
    print(f"{os.path.basename(sys.argv[0])}: error: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    sys.exit(main())
