"""Asynchronous Advantage Actor-Critic (A3C) on CartPole, in one file.

`python a3c_cartpole.py` learns to balance a pole, then films the learned policy and, where a window
can open, shows it (options: --help). Read it beside sugulu's tutorial, whose sections (§) it names:
https://qiita.com/sugulu/items/acbc909dd9b74b043e45

Several threads play at once, each with a copy of one network: its actor π(a|s) chooses actions, its
critic V(s) predicts what is to be gained from s on. An action that brought more than predicted,
whose advantage A is positive, becomes likelier. All learn into the shared network and copy it,
again and again: that is A3C (arXiv:1602.01783). Begin with Environment.run, and end with `main`.

Changes from the tutorial: today's packages, no Keras. The graph is complete before threads start.
What threads tell each other is in `Progress`; if one fails, TensorFlow's Coordinator ends all.
Learners share a core. Returns are summed from scratch. A sample holds the factor of V(s'), γⁿ or
0, in place of GAMMA_N, NONE_STATE, mask. A learner only *claims* to have learned: the test thread
examines a copy of the network, taking the likelier actions, and copies back what passes.
"""
import argparse
import collections
import contextlib
import os
import random
import signal
import sys
import threading
import time
import unittest.mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # oneDNN slows down matrices as small as these
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # TensorFlow starts sooner without a Keras
os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")  # OpenGL crashes beside TensorFlow
try:
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.core.protobuf.config_pb2 import CallableOptions
    try:
        import gymnasium as gym
    except ModuleNotFoundError:
        import gym  # 0.26 will do
except ModuleNotFoundError as error:
    sys.exit(f"{error}: run  pip install -r requirements.txt")
except KeyboardInterrupt:
    sys.exit(130)

tf.disable_eager_execution()
tf.get_logger().setLevel("FATAL")
gym.logger.min_level = gym.logger.ERROR  # no advice to take CartPole-v1: v0 is the tutorial's

ENV = "CartPole-v0"
NUM_STATES = 4  # cart position x and velocity v, pole angle θ and its velocity ω
NUM_ACTIONS = 2  # push the cart to the left, to the right
TIME_LIMIT_IS_END = True  # nothing follows step 200; if False, V(s') stands for what would follow
LEARNED_MEAN = 199  # the mean score (a trial's steps, at most 200) must exceed this ...
CLAIM_TRIALS = 10  # ... over so many latest trials of a learner: then it claims to have learned
EXAM_TRIALS = 10  # ... and over so many trials of the test thread: then the claim is confirmed
TEST_TRIALS = 3  # trials that are shown at the end
MAX_FRAMES = 1_000_000  # steps of all learners together, before they give up
N_WORKERS = 8  # learning threads
Tmax = 10  # steps between two updates of a thread, at most
MIN_BATCH = 5  # an update waits for so many samples (as set here, only after trials under 5 steps)
HIDDEN_UNITS = 16
LEARNING_RATE = 5e-3
RMSPROP_DECAY = 0.99
LOSS_V = 0.5  # weight of the critic's loss, beside the actor's
LOSS_ENTROPY = 0.01  # weight of the entropy term
GAMMA = 0.99  # γ: what a reward counts that comes a step later
N_STEP_RETURN = 5  # rewards in a return
EPS_START = 0.5  # ε, the chance of a random action, beside the exploration of π: at first ...
EPS_END = 0.0  # ... and at last
EPS_STEPS = 1600  # frames of all threads together in which it falls


class GraphCall:
    """TensorFlow works in two steps: a graph describes computations, then a session runs parts of
    it. A GraphCall runs one part, like a function: its arguments fill the inputs `feeds`; `fetches`
    come back as a list of arrays; `targets` are run only for what they do (assign weights)."""
    def __init__(self, session, feeds=(), fetches=(), targets=()):
        names = [[part.name for part in parts] for parts in (feeds, fetches, targets)]
        self.options = CallableOptions(feed=names[0], fetch=names[1], target=names[2])
        self.types = [tensor.dtype.as_numpy_dtype for tensor in feeds]
        self.session = session
        self.function = None  # made at the first call; one thread uses it, and the graph stays

    def __call__(self, *arrays):
        if self.function is None:
            # Not in TensorFlow's public interface, but takes a tenth of the time of `Session.run`.
            self.function = self.session._make_callable_from_options(self.options)
        # It checks no types: a float64 array where float32 is expected would end the process.
        return self.function(*map(np.asarray, arrays, self.types))


class ParameterServer:
    """The shared network and its optimizer (§3.5), and the session, which holds all weights.
    TensorFlow updates each array and its RMSProp average under a lock of their own: no update is
    lost. No lock covers all arrays: a pull may mix old with new ones, and a gradient may come from
    an outdated copy. A3C accepts that, as "Hogwild" does (arXiv:1106.5730), so that threads hardly
    wait. learners: their number; max_frames: their steps, all together."""
    def __init__(self, learners, max_frames, log):
        self.log = log  # is told what happens
        self.progress = Progress(learners, max_frames)
        self.session = self._open_session()
        self.helpers = []  # a subclass may add further threads' work: objects with name and run()
        with tf.variable_scope("parameter_server"):
            self.weights, self.forward = self._build_model()
            self.optimizer = self._build_optimizer()  # with averages that all threads share

    def _open_session(self):
        # So small a call is fastest within the thread that makes it, without threads to help it.
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config.device_count["GPU"] = 0
        config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        return tf.Session(config=config)  # many threads may use it at once

    def _build_model(self):
        """Make the variables of one network (§2.2). Returns a list of them and a forward pass, from
        states s (batch, 4) to the policy p (batch, 2), π of each action, and values v (batch,)."""
        def layer(name, n_inputs, units):
            w = tf.get_variable(name + "/weights", (n_inputs, units))  # starts Glorot-uniform
            b = tf.get_variable(name + "/biases", (units,), initializer=tf.zeros_initializer())
            return [w, b]
        hidden = layer("hidden", NUM_STATES, HIDDEN_UNITS)
        actor = layer("actor", HIDDEN_UNITS, NUM_ACTIONS)
        critic = layer("critic", HIDDEN_UNITS, 1)

        def forward(s):
            h = tf.nn.relu(tf.nn.xw_plus_b(s, *hidden))  # s·w + b: (batch, 16)
            p = tf.nn.softmax(tf.nn.xw_plus_b(h, *actor))  # (batch, 2)
            v = tf.squeeze(tf.nn.xw_plus_b(h, *critic), axis=1)  # (batch, 1) -> (batch,)
            return p, v
        return hidden + actor + critic, forward

    def _build_optimizer(self):
        return tf.train.RMSPropOptimizer(LEARNING_RATE, RMSPROP_DECAY)

    def _build_update(self, gradients):
        """The operation that moves the server's weights by `gradients`, one for each of them."""
        return self.optimizer.apply_gradients(zip(gradients, self.weights), name="update")

    def initialize(self):
        """Give all variables their first values, once the graph is complete."""
        self.session.run(tf.global_variables_initializer())


class LocalBrain:
    """A thread's own copy of the network (§3.6): gives π, and computes the gradients that move the
    server's weights. Whatever is built here only describes; a GraphCall runs it."""
    action_type, action_shape = tf.int32, ()  # an action is a number

    def __init__(self, name, parameter_server):
        self.server = parameter_server
        self.train_queue = []  # samples (s, a, R, s', factor of V(s')); s' is n steps on
        with tf.variable_scope(name):  # variables made here are new ones: name/hidden/weights, ...
            self._build_model()
        with tf.name_scope(name + "/"):  # operations: the slash takes name again, not name_1
            self._build_graph()

    def _build_model(self):
        self.weights, self.forward = self.server._build_model()  # new weights, in my scope

    def _build_loss(self, p, v, a, target):
        """The loss -log π(a|s)·A + 0.5·A² + 0.01·Σ π·log π, with the advantage A = target - V(s)
        (§2.2), as its three terms, each (batch,). p: the policy (batch, 2); v: V(s) (batch,);
        a: the actions (batch,); target: what V(s) should have been (batch,)."""
        advantage = target - v  # (batch,)
        p_taken = tf.reduce_sum(p * tf.one_hot(a, NUM_ACTIONS), axis=1)  # π(a|s): (batch,)
        # If A > 0, descent raises π(a|s); the log's slope, 1/π, makes up for how often a is drawn.
        actor = -tf.log(p_taken + 1e-10) * tf.stop_gradient(advantage)  # A is a constant here
        critic = LOSS_V * tf.square(advantage)
        # Minus the entropy, which is largest at (½, ½): keeps π from being certain too early.
        entropy = LOSS_ENTROPY * tf.reduce_sum(p * tf.log(p + 1e-10), axis=1)
        return actor, critic, entropy

    def _build_graph(self):
        # What is fed: a batch of samples
        s = tf.placeholder(tf.float32, (None, NUM_STATES), "s")
        a = tf.placeholder(self.action_type, (None, *self.action_shape), "a")
        R = tf.placeholder(tf.float32, (None,), "R")
        s_ = tf.placeholder(tf.float32, (None, NUM_STATES), "s_")
        gamma_n = tf.placeholder(tf.float32, (None,), "gamma_n")  # the factor of V(s')

        # What is predicted
        p, v = self.forward(s)
        _, v_ = self.forward(s_)
        self._predict = GraphCall(self.server.session, feeds=[s], fetches=[p])

        # The target: rewards, then V(s') as a constant; otherwise V(s') would chase V(s), too
        target = R + gamma_n * tf.stop_gradient(v_)  # (batch,)

        # The loss: the mean over the batch of the sum of its three terms
        with tf.name_scope("loss"):
            terms = self._build_loss(p, v, a, target)
            loss = tf.reduce_mean(tf.add_n(terms))

        # The heart of A3C: a gradient with respect to MY weights moves the SERVER'S weights.
        gradients = tf.gradients(loss, self.weights, name="gradient")
        update = self.server._build_update(gradients)
        figures = [*terms, tf.global_norm(gradients)]  # for the log
        self._update = GraphCall(self.server.session, [s, a, R, s_, gamma_n], figures, [update])

        # Pull and push: copies of all weights, from the server and to it
        self._pull = self._build_copy("pull", self.server.weights, self.weights)
        self._push = self._build_copy("push", self.weights, self.server.weights)

    def _build_copy(self, name, sources, copies):
        with tf.name_scope(name):
            assign = [copy.assign(x, read_value=False) for copy, x in zip(copies, sources)]
        return GraphCall(self.server.session, targets=assign)

    def pull_parameter_server(self):
        """Take the server's weights: a learner per trial and update, the test thread per exam."""
        self._pull()

    def push_parameter_server(self):
        """Copy my weights into the server: the test thread does, after a passed exam."""
        self._push()

    def update_parameter_server(self):
        """Use up the queue, if long enough, for a gradient that moves the server's weights."""
        if len(self.train_queue) >= MIN_BATCH:
            figures = self._update(*zip(*self.train_queue))  # all s, all a, all R, ...
            self.train_queue.clear()
            self.server.log.update(figures)

    def predict_p(self, s):
        """The policy (batch, 2) in the states s (batch, 4): the probabilities of the actions."""
        return self._predict(s)[0]

    def train_push(self, s, a, R, s_, gamma_n):
        """Queue a sample: state (4,), action, return, state n steps on (4,), factor of its V."""
        self.train_queue.append((s, a, R, s_, gamma_n))


class Agent:
    """Chooses actions and computes the n-step returns (§3.4). rng: the thread's random.Random."""
    brain_class = LocalBrain  # a subclass may name another

    def __init__(self, name, parameter_server, rng):
        self.progress = parameter_server.progress
        self.rng = rng
        self.brain = self.brain_class(name, parameter_server)
        self.memory = collections.deque()  # the latest steps (s, a, r), whose return is incomplete

    def begin_trial(self):
        """Called before each trial, which starts with an empty memory."""
        self.memory.clear()

    def act(self, s, greedy=False):
        """The action in state s (4,): the likelier if `greedy`; else any (chance ε), or from π."""
        if not greedy and self.rng.random() < self.progress.epsilon():
            return self.rng.randrange(NUM_ACTIONS)
        [p] = self.brain.predict_p(s[np.newaxis]).tolist()  # (4,) -> (1, 4) -> (1, 2) -> (2,)
        if greedy:
            return p.index(max(p))
        return self.rng.choices(range(NUM_ACTIONS), weights=p)[0]

    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        """Take in a step (§2.1): state (4,), action, reward, next state (4,), whether the trial is
        done, and whether s_ is terminal (nothing follows; after a time limit something may). Queue
        the samples whose return is now complete."""
        self.memory.append((s, a, r))
        if len(self.memory) == N_STEP_RETURN:
            self._push_oldest(s_, terminal)
        # At the trial's end no more rewards will come: the steps that are left have fewer.
        while done and self.memory:
            self._push_oldest(s_, terminal)

    def _push_oldest(self, s_, terminal):
        n = len(self.memory)  # steps from the oldest s to s_: 5, at a trial's end also 4, 3, 2, 1
        R = 0.0
        for _, _, r in reversed(self.memory):
            R = r + GAMMA * R  # in the end r₀ + γ·r₁ + γ²·r₂ + ...
        s, a, _ = self.memory.popleft()
        self.brain.train_push(s, a, R, s_, 0.0 if terminal else GAMMA ** n)


class Environment:
    """A thread's CartPole and the agent that plays it (§3.3). thread_type: "learning" or "test"."""
    agent_class = Agent

    def __init__(self, name, thread_type, parameter_server, rng):
        self.learning = thread_type == "learning"
        self.progress = parameter_server.progress
        self.rng = rng
        self.env = self.make()
        states, actions = self.env.observation_space.shape, self.env.action_space
        if states != (NUM_STATES,) or getattr(actions, "n", NUM_ACTIONS) != NUM_ACTIONS:
            sys.exit(f"NUM_STATES or NUM_ACTIONS is wrong for {ENV}: {states}, {actions}")
        self.agent = self.agent_class(name, parameter_server, rng)

    def make(self, render_mode=None):
        """A new CartPole; for a film, with the render_mode "rgb_array_list"."""
        return gym.make(ENV, render_mode=render_mode, disable_env_checker=True)  # it is slow

    def reward(self, r, step, done):
        """What the learner gets in place of CartPole's r, which is 1 for each step: 0 on the way,
        then -1 for an end before step 199, else 1, as in the tutorial."""
        if not done:
            return 0.0
        return -1.0 if step < 199 else 1.0

    def run(self, env=None):
        """Play one trial, in `env` or the thread's own: a learner learns from it, the test thread
        takes the likelier actions and changes nothing. Returns the score, the sum of the
        environment's rewards: for CartPole the number of steps. Raises Stopped if it has to end."""
        env = env or self.env
        if self.learning:
            self.agent.brain.pull_parameter_server()  # for the first trial, or after a claim's wait
        self.agent.begin_trial()
        s, _ = env.reset(seed=self.rng.randrange(2 ** 31))
        step, score, done = 0, 0.0, False
        while not done:
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
                    self.agent.brain.pull_parameter_server()
            s = s_
        return score


class Worker_thread:
    """The work of one thread (§3.2): to learn; or to examine what was learned, then to show it."""
    environment_class = Environment

    def __init__(self, thread_name, thread_type, parameter_server, seed):
        self.name = thread_name
        self.learning = thread_type == "learning"
        self.progress = parameter_server.progress
        self.log = parameter_server.log
        rng = random.Random(f"{seed} {thread_name}")
        self.environment = self.environment_class(thread_name, thread_type, parameter_server, rng)

    def run(self):
        """Do the work of this thread. If it fails, the coordinator keeps the exception, tells all
        threads to stop, and raises it in `main`, by `join`."""
        work = self._learn if self.learning else self._test
        with self.progress.coordinator.stop_on_exception():
            try:
                work()
            except Stopped:
                pass
            except Exception as error:
                raise RuntimeError(f"{self.name} failed: {error!r}") from error
        if self.learning:
            self.progress.learner_ends()

    def _share_core(self):
        # Learners on one core are faster: while a graph call frees Python's lock (GIL) for some
        # microseconds, a thread on another core would take it, and the caller wait. Linux only.
        if hasattr(os, "sched_setaffinity"):
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})  # for this thread alone

    def _learn(self):
        self._share_core()
        scores = collections.deque(maxlen=CLAIM_TRIALS)  # of the latest trials
        while True:  # until Stopped is raised
            scores.append(self.environment.run())
            self.log.trial(self.name, scores)
            mean = sum(scores) / len(scores)
            # In these trials weights kept changing and actions were drawn: a claim, not a proof.
            if len(scores) == CLAIM_TRIALS and mean > LEARNED_MEAN:
                self.log.claim(self.name, mean)
                self.progress.claim(self.name)
                scores.clear()  # unless learned, the next claim takes as many trials again

    def _test(self):
        brain = self.environment.agent.brain
        brain.pull_parameter_server()  # for --play, which skips the loop
        while not self.progress.learned:
            if not self.progress.wait_for_claim():
                self.log.gave_up()
                return
            brain.pull_parameter_server()  # weights that stay as they are for the whole exam
            mean = sum(self.environment.run() for _ in range(EXAM_TRIALS)) / EXAM_TRIALS
            self.log.exam(self.name, mean)
            self.progress.verdict(mean > LEARNED_MEAN)
            if self.progress.learned:
                brain.push_parameter_server()  # learners have ended: nobody overwrites it
                self.log.learned()
        for trial, env in enumerate(self.log.show_trials(self.environment), 1):
            self.log.test_trial(trial, self.environment.run(env))


class Stopped(Exception):
    """Tells a thread to end: the task is learned, the frames are used up, or all have to stop."""


class Progress:
    """What threads tell each other, in the tutorial by globals: frames, claims, verdicts, the end.
    Counters change under `lock`, because `+= 1` reads, adds and writes. Flags and claims need none:
    no thread sees half of an assignment, append or pop. The Coordinator has its own."""
    def __init__(self, learners, max_frames):
        self.lock = threading.Lock()
        self.frames = 0  # steps of all learners
        self.max_frames = max_frames
        self.learners = learners  # learning threads that have not ended
        self.claims = []  # names of the learners that wait for an exam
        self.learned = False  # an exam was passed, or none is wanted (--play)
        self.coordinator = tf.train.Coordinator()  # when one thread asks it to, all stop

    def resume(self, frames, learned):
        """Go on after so many frames of earlier runs, which count for ε, but not for max_frames."""
        self.frames = frames
        self.max_frames += frames
        self.learned = learned

    def epsilon(self):
        """ε, the chance of a random action: falls linearly over the first EPS_STEPS frames."""
        return EPS_START + (EPS_END - EPS_START) * min(self.frames / EPS_STEPS, 1.0)

    def next_frame(self, learning):
        """Before each step. Counts those of learners. Raises Stopped if the thread has to end."""
        if self.coordinator.should_stop():
            raise Stopped
        if learning:
            with self.lock:
                if self.learned or self.frames >= self.max_frames:
                    raise Stopped
                self.frames += 1

    def wait_until(self, condition):
        """Wait until condition() holds. Raises Stopped if all have to stop."""
        while not condition():
            if self.coordinator.wait_for_stop(0.01):
                raise Stopped

    def claim(self, name):
        """A learner claims, then waits until verdict() sets `learned` or drops its name."""
        self.claims.append(name)
        self.wait_until(lambda: self.learned or name not in self.claims)

    def wait_for_claim(self):
        """The test thread waits. Returns whether there is a claim; if not, no learner is left."""
        self.wait_until(lambda: self.claims or not self.learners)
        return bool(self.claims)

    def verdict(self, passed):
        """The test thread has examined a claim. If it passed, wait until all learners ended."""
        self.learned = passed  # before the pop, which lets the claimer go on
        self.claims.pop(0)
        if passed:
            self.wait_until(lambda: not self.learners)

    def learner_ends(self):
        with self.lock:
            self.learners -= 1


def main(argv=None, server_class=ParameterServer, worker_class=Worker_thread):
    """Learn, then show it (§3.1). Returns the status: 0 learned, 1 not learned, 130 interrupted."""
    with interrupts_noted() as interrupted, tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        # M0. What all threads share: the graph, and the server with its session
        options = parse(argv)  # argv: the words of a command line; None: the program's own
        tf.set_random_seed(options.seed)
        log = Log(options)
        server = server_class(options.workers, options.max_frames, log)

        # M1. All threads, each with its part of the graph
        workers = [worker_class("test_thread", "test", server, options.seed)]
        while len(workers) <= options.workers and not interrupted.is_set():
            name = f"local_thread{len(workers)}"
            workers.append(worker_class(name, "learning", server, options.seed))
        server.initialize()
        log.begin(server)
        graph.finalize()  # from here on a change raises an error: it is unsafe beside threads

        # M2. Start them
        threads = [threading.Thread(target=w.run, name=w.name, daemon=True)
                   for w in [*workers, *server.helpers]]
        for thread in threads:
            thread.start()

        # M3. Wait for the test thread, the last to end; for a thread that fails; or for a Ctrl-C
        coordinator = server.progress.coordinator
        while threads[0].is_alive() and not interrupted.is_set() and not coordinator.should_stop():
            threads[0].join(0.1)
        coordinator.request_stop()
        try:  # `join` raises a thread's failure; not after a Ctrl-C, which may cut a film short
            with contextlib.suppress(RuntimeError if interrupted.is_set() else ()):
                coordinator.join(threads, stop_grace_period_secs=1.5, ignore_live_threads=True)
        finally:
            log.end(interrupted.is_set())
    return 130 if interrupted.is_set() else int(not server.progress.learned)


def whole(low, high=2 ** 62):
    def whole_number(text):
        if low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(f"give a whole number from {low} to {high}")
    return whole_number


def parse(argv):
    """The options of the command line, as attributes."""
    parser = argparse.ArgumentParser(description="Learn CartPole with A3C, and show it.",
                                     usage=argparse.SUPPRESS)  # an error is one line
    add = parser.add_argument
    add("--workers", type=whole(1, 256), default=N_WORKERS, metavar="N", help="learning threads")
    add("--seed", type=whole(0, 2 ** 32 - 1), default=random.randrange(2 ** 32), metavar="N",
        help="same seed, same run, but only with --workers 1")
    add("--max-frames", type=whole(1), default=MAX_FRAMES, metavar="N", help="then give up")
    add("--render", choices=("auto", "human", "video", "none"), default="auto",
        help="film test trials (video), in a window, too (human); auto: human where one can open")
    add("--test-trials", type=whole(1), default=TEST_TRIALS, metavar="N", help="trials to show")
    add("--video-dir", default="movie/A3C", metavar="DIR", help="films go there, a folder a run")
    add("--checkpoint", metavar="DIR", help="go on from what is saved in DIR, if any; save there")
    add("--play", action="store_true", help="do not learn, show what --checkpoint holds")
    add("--logdir", metavar="DIR", help="write graph and curves there, for TensorBoard")
    options = parser.parse_args(argv)
    options.error = parser.error
    if options.play and options.checkpoint is None:
        parser.error("argument --play: name a --checkpoint")
    options.workers = 0 if options.play else options.workers
    if options.render != "none":
        import moviepy  # noqa: F401 (if it is not there, or no ffmpeg, that shows now)
    options.window = options.render in ("auto", "human") and can_open_window()
    if options.render == "human" and not options.window:
        parser.error("argument --render: no window can open here, take video")
    return options


def can_open_window():
    """Whether a thread may open a window here; on macOS only the main thread may."""
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return False
    import pygame
    pygame.display.init()
    driver = pygame.display.get_driver()  # "offscreen" if nothing is behind DISPLAY
    pygame.display.quit()
    return driver in ("x11", "wayland", "windows")


@contextlib.contextmanager
def interrupts_noted():
    """Gives an event that a Ctrl-C or SIGTERM sets; the same again raises KeyboardInterrupt."""
    noted = threading.Event()
    def note(number, frame):
        noted.set()
        signal.signal(number, signal.default_int_handler)
    handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


class Log:
    """Prints what the threads tell it, writes it for TensorBoard, saves the server's weights."""
    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()  # any thread may tell it something: keeps counts exact
        self.server = self.saver = self.writer = self.start_time = None
        self.trials = 0  # of all learners
        self.scores = collections.deque(maxlen=50)  # of their latest trials

    def begin(self, server):
        """The graph is complete. Try all files, so that trouble shows now, and start the clock."""
        self.server, options = server, self.options
        variables = tf.global_variables("parameter_server/")
        self.saver = tf.train.Saver(variables, save_relative_paths=True)
        try:
            flag, folder = "--checkpoint", options.checkpoint  # for the message below
            if options.play or folder and os.path.exists(os.path.join(folder, "checkpoint")):
                server.progress.resume(self.load(folder), learned=options.play)
            if folder is not None:
                self.save()
                self.load(folder)  # as a later run will
            flag, folder = "--video-dir", options.video_dir
            if options.render != "none":
                os.makedirs(folder, exist_ok=True)
            flag, folder = "--logdir", options.logdir
            if folder is not None:
                os.makedirs(folder, exist_ok=True)
                self.writer = tf.summary.FileWriter(folder, server.session.graph)
        except (OSError, ValueError, IndexError, tf.errors.OpError) as error:
            options.error(f"argument {flag}: {folder!r}: " + str(error).partition("\n")[0])
        self.print(f"Seed {options.seed}, {options.workers} learning threads")
        self.start_time = time.perf_counter()

    def load(self, folder):
        latest = tf.train.latest_checkpoint(folder) or folder  # none there: refused below
        shapes = tf.train.load_checkpoint(latest).get_variable_to_shape_map()
        if any(shapes.get(v.op.name) != v.shape for v in tf.global_variables("parameter_server/")):
            raise ValueError("it is of another network")
        self.saver.restore(self.server.session, latest)
        return int(latest.rpartition("-")[2])  # its frames

    def save(self):
        folder, frames = self.options.checkpoint, self.server.progress.frames
        if folder is not None and not self.options.play:
            os.makedirs(folder, exist_ok=True)
            self.saver.save(self.server.session, f"{folder}/model", frames, write_meta_graph=False)

    def trial(self, name, scores):
        with self.lock:
            self.trials += 1
            self.scores.append(scores[-1])
            progress = self.server.progress
            if self.trials % 50 == 0:
                self.print(f"{progress.frames} frames, {self.trials} trials: "
                           f"mean {np.mean(self.scores):.1f}, epsilon {progress.epsilon():.2f}")
        self.write({f"score/{name}": scores[-1], f"mean/{name}": scores})

    def update(self, figures):
        self.write(dict(zip(("loss/actor", "loss/critic", "loss/entropy", "gradient"), figures)))

    def claim(self, name, mean):
        self.print(f"{name} claims: mean {mean:.1f} of its last {CLAIM_TRIALS} trials")

    def exam(self, name, mean):
        self.print(f"{name} examines: mean {mean:.1f} of {EXAM_TRIALS} trials")
        self.write({"exam": mean})

    def learned(self):
        self.save()
        frames, seconds = self.server.progress.frames, time.perf_counter() - self.start_time
        self.print(f"Learned after {frames} frames, {self.trials} trials, {seconds:.1f} s")

    def gave_up(self):
        self.print(f"Not learned after {self.server.progress.frames} frames")

    def show_trials(self, environment):
        """Yield an environment for each test trial, filmed and in a window as wanted."""
        options = self.options
        folder = os.path.join(options.video_dir, time.strftime(f"%Y%m%d-%H%M%S-seed{options.seed}"))
        if options.render != "none":
            os.mkdir(folder)  # fails if it is there: no film is ever overwritten
            self.print(f"Films: {folder}")
        screen = {} if options.window else {"SDL_VIDEODRIVER": "dummy"}  # draws in memory
        with unittest.mock.patch.dict(os.environ, screen):
            for trial in range(1, options.test_trials + 1):
                env = environment.make(None if options.render == "none" else "rgb_array_list")
                if options.render != "none":
                    env = gym.wrappers.RecordVideo(env, folder, name_prefix=f"trial-{trial}")
                if options.window:
                    env = gym.wrappers.HumanRendering(env)
                yield env
                env.close()  # makes the film, of a whole trial

    def test_trial(self, trial, score):
        self.print(f"Test trial {trial}: score {score:g}")

    def write(self, curves):
        if self.writer is not None:  # a point of each curve: a number, or the mean of several
            values = [tf.Summary.Value(tag=x, simple_value=np.mean(y)) for x, y in curves.items()]
            self.writer.add_summary(tf.Summary(value=values), self.server.progress.frames)

    def print(self, line):
        try:
            print(line + "\n", end="", flush=True)  # in one piece: lines of threads never mix
        except BrokenPipeError:  # who read it has left, as in `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.server.progress.coordinator.request_stop()

    def end(self, interrupted):
        if self.writer is not None:
            self.writer.close()
        self.save()
        if interrupted:
            print(f"Stopped after {self.server.progress.frames} frames", file=sys.stderr)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
