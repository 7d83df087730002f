"""Asynchronous Advantage Actor-Critic (A3C) on CartPole, in one file.

`python a3c_cartpole.py` learns to balance a pole, films it and, where there is a screen, shows it.

If you know DQN: A3C (arXiv:1602.01783) has no Q, no replay memory and no target network. Its
network has two heads. The actor gives the policy π(a|s), the probability of each action, and the
critic gives V(s), the return to expect from state s. Successive steps of an episode are very
similar, which is why DQN mixes old steps in its replay memory. A3C lets several threads play
different episodes instead, and each of them repeats:
    pull    copy the shared network's weights into its own copy
    play    up to ten steps, with actions drawn from π
    update  compute the gradient of the loss with its copy, and apply it to the shared network
Actions whose return exceeds V(s) become more likely. The excess is called the advantage.

The classes are in the order of the Japanese tutorial that this file follows; § marks its
sections: https://qiita.com/sugulu/items/acbc909dd9b74b043e45. From the tutorial, not from the
paper, come returns of a fixed length (five rewards), random actions with probability ε, and time
limits that count as an end.
"""
import argparse
import collections
import gc
import math
import os
import random
import signal
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's C++ code prints little
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # with oneDNN it would print even so
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # importing Keras 3 would take half a second
os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")  # OpenGL may crash beside TensorFlow
gc.disable()  # these imports are faster if nothing looks for garbage
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
except KeyboardInterrupt:
    sys.exit(130)
gc.enable()
gc.freeze()  # what has been imported stays, so it isn't garbage

tf.disable_eager_execution()
tf.get_logger().setLevel("FATAL")
gym.logger.min_level = gym.logger.ERROR  # hides advice to use v1; the tutorial uses v0

ENV = "CartPole-v0"
NUM_STATES = 4  # cart position and velocity, pole angle and angular velocity
NUM_ACTIONS = 2  # push the cart to the left or to the right
TIME_LIMIT_IS_END = True  # treat the time limit as an end; False: expect more reward there
LEARNED_MEAN = 199  # mean score to exceed, in training and then in an evaluation; 200 is the best
THRESHOLD_EPISODES = 10  # in training, the mean is over the latest ten episodes of all learners
EVALUATION_EPISODES = 10  # episodes that another thread, the test thread, plays in an evaluation
MAX_FRAMES = 1_000_000  # frames before the learners give up; a frame is a step of any learner
N_WORKERS = 8  # learners: the threads that learn
SHARE_ONE_CORE = True  # run all learners on one CPU core, see `share_one_core`
Tmax = 10  # steps a learner plays between two updates, at most
HIDDEN_UNITS = 16
LEARNING_RATE = 5e-3
RMSPROP_DECAY = 0.99
LOSS_V = 0.5  # weight of the critic's loss; the actor's has weight 1
LOSS_ENTROPY = 0.01  # weight of the entropy bonus, which favours policies that aren't certain
GAMMA = 0.99  # discount γ: a reward one step later counts 0.99 times as much
N_STEP_RETURN = 5  # rewards in a return
EPS_START = 0.5  # ε, the chance of a random action (drawing from π explores, too)
EPS_END = 0.0  # ε falls linearly to this
EPS_STEPS = 1600  # over this many frames


class ParameterServer:
    """The shared network and its optimizer (§3.5), and everything else the threads share.

    TensorFlow 1 works in two steps. The methods called `_build_…` and `build_…` only describe
    computations, as a graph. Later a session, which holds the values of all variables, runs parts
    of the graph, and a `GraphCall` makes such a part look like a Python function.

    Learners don't take turns. TensorFlow locks a weight array and its RMSProp average while it
    changes them, so no update is lost. But a pull may catch some arrays before other threads'
    updates and some after them, and a gradient may be stale, because other threads have moved the
    weights since its thread last pulled. A3C accepts both, as Hogwild! does (arXiv:1106.5730).
    """
    def __init__(self, options, progress):
        self.options = options
        self.progress = progress
        self.session = open_session()
        self.curves = None  # a file for TensorBoard, if --logdir is given
        self.saving = threading.Lock()  # both `main` and the test thread save
        self.helpers = []  # a subclass can add more threads, each a Worker_thread
        with tf.variable_scope("parameter_server"):  # prefixes the variables' names
            self.forward = self._build_model()
        self.weights = tf.trainable_variables("parameter_server/")
        self.optimizer = self.build_optimizer()  # all threads share its averages

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
        """Returns the operation that moves the server's weights, given a gradient for each."""
        with tf.name_scope("parameter_server/"):  # so that the server owns Adam's variables, too
            pairs = zip(gradients, self.weights, strict=True)
            return self.optimizer.apply_gradients(pairs, name="update")

    def initialize(self):
        """Give all variables their first values, once the graph is complete."""
        self.session.run(tf.global_variables_initializer())
        if self.options.checkpoint is not None:
            restore_checkpoint(self)
        if self.options.logdir is not None:
            self.curves = tf.summary.FileWriter(self.options.logdir, self.session.graph)

    def save(self):
        """Save the server's variables and the number of frames, if --checkpoint is given."""
        if self.options.checkpoint is not None and not self.options.play:
            path = os.path.join(self.options.checkpoint, "model")
            with self.saving:
                self.saver.save(self.session, path, self.progress.frames, write_meta_graph=False)


def layer(name, *shape):
    """The variables of one layer, [weights, biases]. shape: the weights' shape, outputs last."""
    w = tf.get_variable(name + "/weights", shape)  # Glorot uniform (a LocalBrain chooses zeros)
    b = tf.get_variable(name + "/biases", shape[-1:], initializer=tf.zeros_initializer())
    return [w, b]


class LocalBrain:
    """A thread's own copy of the network (§3.6). It predicts π and computes gradients."""
    actions = tf.int32, (None,)  # type and shape of a batch of actions; a subclass may have others

    def __init__(self, name, parameter_server):
        self.server = parameter_server
        self.train_queue = []  # samples for the next update, see `train_push`
        # The thread's name is a scope: it prefixes names, such as local_thread1/hidden/biases.
        with tf.variable_scope(name, initializer=tf.zeros_initializer()):  # zeros until a pull
            self.forward = self._build_model()
        self.weights = tf.trainable_variables(name + "/")
        with tf.name_scope(name + "/"):  # the slash opens the same scope again, not name_1
            self._build_graph()

    def _build_model(self):
        return self.server._build_model()  # the same layers, under my name

    def build_loss(self, p, v, a, target):
        """The three terms of the loss (§2.2), each (batch,). A = target - V(s) is the advantage.

            actor: -log π(a|s)·A    critic: LOSS_V·A²    entropy: LOSS_ENTROPY·Σ π·log π

        p: the policy (batch, 2). v: V(s) (batch,). a: the actions taken (batch,).
        target: R + discount·V(s_) (batch,)."""
        advantage = target - v  # (batch,)
        p_taken = tf.reduce_sum(p * tf.one_hot(a, NUM_ACTIONS), axis=1)  # π(a|s): (batch,)
        log_p_taken = tf.log(p_taken + 1e-10)  # without 1e-10, log 0 would be -∞
        # The actor's term treats A as a constant; otherwise minimizing it would raise V(s), too.
        actor_loss = -log_p_taken * tf.stop_gradient(advantage)
        critic_loss = LOSS_V * tf.square(advantage)
        # This is minus the entropy. Minimizing it keeps the policy from becoming certain too early.
        entropy_loss = LOSS_ENTROPY * tf.reduce_sum(p * tf.log(p + 1e-10), axis=1)
        return actor_loss, critic_loss, entropy_loss

    def _build_graph(self):
        # The inputs are a batch of samples, see `train_push`.
        s = tf.placeholder(tf.float32, (None, NUM_STATES), "s")
        a = tf.placeholder(*self.actions, "a")
        R = tf.placeholder(tf.float32, (None,), "R")
        s_ = tf.placeholder(tf.float32, (None, NUM_STATES), "s_")
        discount = tf.placeholder(tf.float32, (None,), "discount")

        p, v = self.forward(s)
        _, v_ = self.forward(s_)
        # The target counts as a constant; otherwise V(s_) would move towards V(s), too.
        target = tf.stop_gradient(R + discount * v_)  # (batch,)
        with tf.name_scope("loss"):
            terms = self.build_loss(p, v, a, target)
            loss = tf.reduce_mean(tf.add_n(terms))  # mean over the batch

        # The heart of A3C: the gradient is with respect to MY weights, but moves the SERVER'S.
        gradients = tf.gradients(loss, self.weights, name="gradient")
        update = self.server.build_update(gradients)

        pairs = list(zip(self.weights, self.server.weights, strict=True))
        pull = [mine.assign(servers, read_value=False) for mine, servers in pairs]
        push = [servers.assign(mine, read_value=False) for mine, servers in pairs]
        session = self.server.session  # feeds go in, fetches come out, targets just run
        self._predict = GraphCall(session, feeds=[s], fetches=[p])
        self._update = GraphCall(session, feeds=[s, a, R, s_, discount], targets=[update],
                                 fetches=[*terms, tf.global_norm(gradients)])
        self._pull = GraphCall(session, targets=pull)
        self._push = GraphCall(session, targets=push)

    def pull_parameter_server(self):
        """Copy the server's weights into mine."""
        self._pull()

    def push_parameter_server(self):
        """Copy my weights to the server. Only the test thread does so, when no learner is left."""
        self._push()

    def update_parameter_server(self):
        """Compute the gradient for all queued samples, and apply it to the server's weights. Raises
        FloatingPointError if the gradient isn't finite."""
        if self.train_queue:  # it may be empty if N_STEP_RETURN exceeds Tmax
            s, a, R, s_, discount = zip(*self.train_queue)
            self.train_queue.clear()
            actor, critic, entropy, norm = self._update(s, a, R, s_, discount)
            if not math.isfinite(norm):
                raise FloatingPointError("the gradient isn't finite")
            add_to_curves(self.server, {"loss/actor": actor, "loss/critic": critic,
                                        "loss/entropy": entropy, "gradient": norm})

    def predict_p(self, s):
        """The policy in the states s (batch, 4): the probability of each action, (batch, 2)."""
        return self._predict(s)[0]

    def train_push(self, s, a, R, s_, discount):
        """Queue a sample for the next update. s: state (4,). a: action. R: return of n rewards.
        s_: the state n steps later (4,). discount: what V(s_) is multiplied by, γⁿ or 0."""
        self.train_queue.append((s, a, R, s_, discount))


class Agent:
    """Chooses actions and computes n-step returns (§3.4). rng: the thread's own random.Random."""
    def __init__(self, brain, rng):
        self.brain = brain
        self.rng = rng
        self.memory = collections.deque()  # steps (s, a, r) whose returns aren't complete

    def act(self, s, frame, greedy=False):
        """The action for state s (4,). If greedy, it is the most likely one; if not, `explore`
        chooses it. frame: the number of frames before this one."""
        p = self.brain.predict_p(s[np.newaxis])[0].tolist()  # as a batch of one: (1, 4) -> (1, 2)
        return p.index(max(p)) if greedy else self.explore(p, frame)

    def explore(self, p, frame):
        """A random action with probability ε, and otherwise one drawn from the policy p (2,)."""
        epsilon = EPS_START + (EPS_END - EPS_START) * min(frame / EPS_STEPS, 1.0)
        if self.rng.random() < epsilon:
            return self.rng.randrange(NUM_ACTIONS)
        return self.rng.choices(range(NUM_ACTIONS), weights=p)[0]

    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        """Remember one step, and queue the samples whose returns are now complete (§2.1; by
        "advantage" the tutorial means looking n steps ahead). Ten steps into an episode, six
        samples are ready; the last four steps still lack rewards.

        s: state (4,). a: action. r: reward. s_: next state (4,). done: whether the episode is over.
        terminal: whether V(s_) counts as 0, because no rewards are expected after s_."""
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
    """A thread's own CartPole and the agent that plays it (§3.3)."""
    def __init__(self, agent, parameter_server):
        self.agent = agent
        self.server = parameter_server
        self.progress = parameter_server.progress
        self.env = self.make()
        n = getattr(self.env.action_space, "n", NUM_ACTIONS)
        assert n == NUM_ACTIONS, f"{ENV} has {n} actions, but NUM_ACTIONS is {NUM_ACTIONS}"

    def make(self, render_mode=None):
        """A new CartPole. render_mode is "rgb_array_list" for a film."""
        return gym.make(ENV, render_mode=render_mode, disable_env_checker=True)  # for speed

    def reward(self, s, r, s_, step, done, terminal):
        """The reward to learn from, instead of CartPole's own r, which is always 1: 0 until the
        episode ends, and then -1 if that was before step 199, otherwise 1, as in the tutorial.
        Another environment needs its own; `Agent.advantage_push_local_brain` explains the names."""
        if not done:
            return 0.0
        return -1.0 if step < 199 else 1.0

    def run(self, learning):
        """Play one episode. If learning, the agent learns from it; if not, it takes the most likely
        actions. Returns the score, which is the sum of the environment's own rewards: on CartPole,
        the number of steps. Raises Stopped if the thread has to end."""
        s, _ = self.env.reset(seed=self.agent.rng.randrange(2 ** 31))
        step, score, done = 0, 0.0, False
        while not done:
            frame = self.progress.next_frame(learning)
            if learning and step % Tmax == 0:
                self.agent.brain.pull_parameter_server()
            a = self.agent.act(s, frame, greedy=not learning)
            s_, r, terminated, truncated, _ = self.env.step(a)
            step += 1
            score += r
            done = terminated or truncated
            if learning:
                terminal = terminated or (truncated and TIME_LIMIT_IS_END)
                reward = self.reward(s, r, s_, step, done, terminal)
                self.agent.advantage_push_local_brain(s, a, reward, s_, done, terminal)
                if done or step % Tmax == 0:
                    self.agent.brain.update_parameter_server()
            s = s_
        return score


class Worker_thread:
    """The work of one thread (§3.2). A "learning" thread plays and learns. The "test" thread
    evaluates the policy and, once the task is learned, shows it."""
    def __init__(self, thread_name, thread_type, environment, parameter_server):
        self.name = thread_name
        self.thread_type = thread_type
        self.environment = environment
        self.server = parameter_server
        self.progress = parameter_server.progress
        if thread_type == "learning":
            self.progress.learners.add(thread_name)

    def run(self):
        """Do this thread's work. If it fails, the coordinator keeps the exception for `main`."""
        with self.progress.coordinator.stop_on_exception():
            try:
                self.work()
            except Stopped:
                pass
            except Exception as error:
                raise RuntimeError(f"{self.name} failed: {error!r}") from error
        with self.progress.changed:
            self.progress.learners.discard(self.name)
            self.progress.changed.notify_all()  # if this one failed, those who wait must end, too

    def work(self):
        if self.thread_type == "learning":
            self.learn()
        else:
            self.test()
            self.progress.stop()  # the run is over when the test thread has finished

    def learn(self):
        if SHARE_ONE_CORE:
            share_one_core()
        while True:  # until Stopped is raised
            score = self.environment.run(learning=True)
            episodes, mean = self.progress.episode_ended(score)
            if episodes % 50 == 0:
                say(f"{self.progress.seconds():.1f} s, {self.progress.frames} frames, "
                    f"{episodes} episodes: mean {mean:.1f} of the last 50")
            add_to_curves(self.server, {f"score/{self.name}": score, "mean": mean})

    def test(self):
        progress = self.progress
        while progress.phase != "learned":
            progress.wait_until(lambda: progress.phase == "evaluating" or not progress.learners)
            if progress.phase != "evaluating":  # then no learner is left
                say(f"Not learned after {progress.frames} frames")
                return
            self.evaluate()
        show_episodes(self.environment, self.server.options)

    def evaluate(self):
        """Pull the server's weights and play greedy episodes with them. If the mean score is high
        enough, push them back, because a learner may have finished an update after the pull."""
        progress, brain = self.progress, self.environment.agent.brain
        mean = sum(progress.recent) / len(progress.recent)
        say(f"Threshold reached: mean {mean:.1f} of the last {THRESHOLD_EPISODES} episodes")
        brain.pull_parameter_server()
        scores = [self.environment.run(learning=False) for _ in range(EVALUATION_EPISODES)]
        mean = sum(scores) / len(scores)
        say(f"Evaluation: mean {mean:.1f} of {EVALUATION_EPISODES} episodes")
        add_to_curves(self.server, {"evaluation": mean, "threshold": LEARNED_MEAN})
        passed = mean > LEARNED_MEAN
        progress.evaluated(passed)
        if passed:
            progress.wait_until(lambda: not progress.learners)
            brain.push_parameter_server()
            self.server.save()
            say(f"Learned after {progress.frames} frames, {progress.episodes} episodes, "
                f"{progress.seconds():.1f} s")


class Stopped(Exception):
    """Ends a thread: the task is learned, the frames are used up, or all threads have to stop."""


class Progress:
    """What the threads tell each other. In the tutorial these values are globals.

    A run begins in the phase "training". At the threshold it is "evaluating": the learners wait
    while the test thread evaluates the policy. Then it is "learned", or "training" again.

    Even `frames += 1` reads, adds and writes, and other threads may do so in between. So a thread
    changes these values, and makes decisions that depend on several of them, only while it holds
    the lock `changed`. While it waits for a change, it releases the lock. Reading one value takes
    no lock.
    """
    def __init__(self, options):
        self.changed = threading.Condition()  # a thread that holds it may take it once more
        self.coordinator = tf.train.Coordinator()  # knows if all have to stop, and who has failed
        self.phase = "learned" if options.play else "training"
        self.learners = set()  # names of the learning threads that haven't ended
        self.frames = 0  # steps of all learners
        self.max_frames = options.max_frames
        self.episodes = 0  # of all learners
        self.scores = collections.deque(maxlen=50)  # of the latest episodes, to be printed
        self.recent = collections.deque(maxlen=THRESHOLD_EPISODES)  # the same, for the threshold
        self.start_time = time.perf_counter()

    def seconds(self):
        return time.perf_counter() - self.start_time

    def next_frame(self, learning):
        """Each step begins with this call. It counts the steps of learners, returns how many there
        were before, and makes learners wait during an evaluation. Raises Stopped at the end."""
        with self.changed:
            if learning and self.phase == "evaluating":
                self.wait_until(lambda: self.phase != "evaluating")
            over = learning and (self.phase == "learned" or self.frames >= self.max_frames)
            if over or self.coordinator.should_stop():
                raise Stopped
            frame = self.frames
            if learning:
                self.frames += 1
            return frame

    def episode_ended(self, score):
        """A learner has finished an episode, and the mean score may now exceed the threshold.
        Returns the number of episodes, and the mean score of the latest fifty."""
        with self.changed:
            self.episodes += 1
            self.scores.append(score)
            if self.phase == "training":
                self.recent.append(score)
                full = len(self.recent) == THRESHOLD_EPISODES
                if full and sum(self.recent) / THRESHOLD_EPISODES > LEARNED_MEAN:
                    self.phase = "evaluating"
                    self.changed.notify_all()
            return self.episodes, sum(self.scores) / len(self.scores)

    def evaluated(self, passed):
        """The test thread has evaluated the policy. If it passed, the learners end. If not, they go
        on, and it takes ten new episodes to reach the threshold again."""
        with self.changed:
            self.phase = "learned" if passed else "training"
            self.recent.clear()
            self.changed.notify_all()

    def wait_until(self, condition):
        """Wait until condition() holds. Raises Stopped if all threads have to stop."""
        with self.changed:
            self.changed.wait_for(lambda: condition() or self.coordinator.should_stop())
            if self.coordinator.should_stop():
                raise Stopped

    def stop(self):
        """Make all threads raise Stopped, while they wait or at their next frame."""
        self.coordinator.request_stop()
        with self.changed:
            self.changed.notify_all()


def main(argv=None, server_class=ParameterServer, brain_class=LocalBrain, agent_class=Agent,
         environment_class=Environment):
    """Learn, then show the policy (§3.1). argv: the words of a command line; None: the program's.

    Returns the exit status: 0 learned, 1 not learned, 130 interrupted by Ctrl-C. If a thread fails,
    its exception is raised here."""
    options = parse(argv)
    progress = Progress(options)
    threads, interrupted = [], False
    try:
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            # M0. What all threads share
            tf.set_random_seed(options.seed)
            server = server_class(options, progress)

            # M1. For each thread a worker, with its own environment, agent and copy of the network
            types = {f"local_thread{i + 1}": "learning" for i in range(options.workers)}
            types["test_thread"] = "test"
            workers = []
            for name, thread_type in types.items():
                brain = brain_class(name, server)
                agent = agent_class(brain, random.Random(f"{options.seed} {name}"))
                environment = environment_class(agent, server)
                workers.append(Worker_thread(name, thread_type, environment, server))
            server.initialize()
            graph.finalize()  # no changes from here on: they aren't safe while threads use it

        # M2. Start the threads
        if options.render != "none":
            prepare_films(options)
        if not options.play:
            say(f"Seed {options.seed}, {options.workers} learning threads")
        threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True)
                   for worker in [*workers, *server.helpers]]
        progress.start_time = time.perf_counter()
        for thread in threads:
            thread.start()

        # M3. Wait until the test thread has finished or a thread has failed; save now and then
        next_save = time.monotonic() + SAVE_SECONDS
        while not progress.coordinator.wait_for_stop(1):  # on Windows, Ctrl-C waits for this call
            if time.monotonic() > next_save:
                server.save()
                next_save = time.monotonic() + SAVE_SECONDS
    except KeyboardInterrupt:
        interrupted = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C must not interrupt saving
    finally:
        progress.stop()
        if threads and server.curves is not None:
            server.curves.flush()
        # If a thread has failed, this raises its exception, and nothing more is saved.
        progress.coordinator.join(threads, stop_grace_period_secs=1.5, ignore_live_threads=True)
    if threads:  # otherwise Ctrl-C came before anything was learned
        server.save()
    if interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print(f"Stopped after {progress.frames} frames", file=sys.stderr)
        return 130
    return int(progress.phase != "learned")


# -------------------------------------------------------------------------------------------------
# Nothing below this line belongs to A3C.

FILMS = "movie/A3C"  # each run makes a new folder here
SAVE_SECONDS = 60  # time between two saves


class GraphCall:
    """A function that runs a part of the graph. Its arguments fill the inputs `feeds`, and it
    returns the `fetches` as a list of arrays. `targets` run only for their effects. `Session.run`
    would take several times as long; here a private method prepares the call, at its first use."""
    def __init__(self, session, feeds=(), fetches=(), targets=()):
        names = [[part.name for part in parts] for parts in (feeds, fetches, targets)]
        self.options = CallableOptions(feed=names[0], fetch=names[1], target=names[2])
        self.types = [tensor.dtype.as_numpy_dtype for tensor in feeds]
        self.session = session
        self.function = None

    def __call__(self, *arrays):
        if self.function is None:
            self.function = self.session._make_callable_from_options(self.options)
        # The prepared call doesn't check types: float64 where float32 is expected would crash.
        feeds = [np.asarray(x, dtype) for x, dtype in zip(arrays, self.types, strict=True)]
        return self.function(*feeds)


def open_session():
    """A session for small calls: the thread that makes a call runs it, without helper threads."""
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.device_count["GPU"] = 0
    config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)


def share_one_core():
    """Keep the calling thread on the core that all learners share (on Linux only). A graph call
    releases Python's lock, the GIL, for a few microseconds. Meanwhile a thread on another core
    could take it and hold up the caller."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        core = cores[os.getpid() % len(cores)]  # two runs at once may get different cores
        os.sched_setaffinity(0, {core})


def say(line):
    print(line + "\n", end="", flush=True)  # in one piece, so that threads don't mix lines


def add_to_curves(server, numbers):
    """Add a point to each of these curves, over the frames. numbers: {name: number or array}."""
    if server.curves is not None:
        values = [tf.Summary.Value(tag=x, simple_value=np.mean(y)) for x, y in numbers.items()]
        server.curves.add_summary(tf.Summary(value=values), server.progress.frames)


def restore_checkpoint(server):
    """Make the server's saver, and continue from the latest checkpoint, if the folder has one. The
    checkpoint's frames count for ε, but not for --max-frames."""
    folder, play = server.options.checkpoint, server.options.play
    variables = tf.global_variables("parameter_server/")  # weights and the optimizer's averages
    server.saver = tf.train.Saver(variables, save_relative_paths=True)
    if not play and not os.path.exists(os.path.join(folder, "checkpoint")):
        return
    try:
        latest = tf.train.latest_checkpoint(folder)
        shapes = tf.train.load_checkpoint(latest).get_variable_to_shape_map()
        if any(shapes.get(v.op.name) != v.shape for v in variables):
            raise ValueError("arrays of other names or shapes")
        server.saver.restore(server.session, latest)
        frames = int(latest.rpartition("-")[2])
    except (OSError, TypeError, ValueError, IndexError, tf.errors.OpError):
        refuse(f"argument --checkpoint: nothing in {folder!r} fits this network and optimizer")
    server.progress.frames = frames
    server.progress.max_frames += frames
    if not play:
        say(f"Continues after {frames} frames")


def prepare_films(options):
    """Import what films need. If a thread did so later, Ctrl-C meanwhile would give a traceback."""
    if not options.window:
        os.environ["SDL_VIDEODRIVER"] = "dummy"  # so films need no screen
    try:
        import moviepy, pygame  # noqa: E401, F401
        os.makedirs(FILMS, exist_ok=True)
    except (ModuleNotFoundError, OSError) as error:
        refuse(f"argument --render: {error} (see requirements.txt, or try none)")


def show_episodes(environment, options):
    """Play the test episodes with the server's weights, film them and show them."""
    environment.agent.brain.pull_parameter_server()
    film = options.render != "none"
    if film:
        folder = os.path.join(FILMS, time.strftime(f"%Y%m%d-%H%M%S-seed{options.seed}"))
        os.makedirs(folder)  # it is new, so no film is overwritten
        say(f"Films: {folder}")
    for episode in range(1, options.test_episodes + 1):
        environment.env.close()
        env = environment.make("rgb_array_list" if film else None)
        if film:
            env = gym.wrappers.RecordVideo(env, folder, name_prefix=f"test-{episode}")
        if options.window:
            env = gym.wrappers.HumanRendering(env)
        environment.env = env
        score = environment.run(learning=False)
        env.close()  # this writes the film
        say(f"Test episode {episode}: score {score:g}")


def parse(argv):
    """Returns the command-line options as attributes. A wrong option ends the program."""
    parser = argparse.ArgumentParser(description=f"Learn {ENV} with A3C, and show the policy.",
                                     usage=argparse.SUPPRESS)  # so that an error is one line
    add = parser.add_argument
    add("--workers", type=int, default=N_WORKERS, metavar="N",
        help="learning threads (default: %(default)s)")
    add("--seed", type=int, default=random.randrange(2 ** 32), metavar="N",
        help="same seed, same run, but only with --workers 1")
    add("--max-frames", type=int, default=MAX_FRAMES, metavar="N",
        help="give up after N frames (default: %(default)s)")
    add("--render", choices=("auto", "human", "video", "none"), default="auto",
        help="video: film test episodes; human: also show them; auto: human if there is a screen")
    add("--test-episodes", type=int, default=3, metavar="N",
        help="episodes to show (default: %(default)s)")
    add("--checkpoint", metavar="DIR", help="save in DIR, and continue from what it holds")
    add("--play", action="store_true", help="don't learn, only show what --checkpoint holds")
    add("--logdir", metavar="DIR", help="write graph and curves for TensorBoard")
    options = parser.parse_args(argv)
    if min(options.workers, options.max_frames, options.test_episodes) < 1 or options.seed < 0:
        parser.error("--workers, --max-frames and --test-episodes begin at 1, --seed at 0")
    if options.play:
        options.workers = 0
        if options.checkpoint is None:
            parser.error("argument --play: needs --checkpoint DIR")
    screen = sys.platform == "win32"  # on macOS only the main thread may open a window
    if sys.platform == "linux":
        screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if options.render == "human" and not screen:
        parser.error("argument --render: no window can open here; try video")
    options.window = screen and options.render in ("auto", "human")
    try:
        for folder in options.logdir, None if options.play else options.checkpoint:
            if folder is not None:
                os.makedirs(folder, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --checkpoint or --logdir: {error}")
    return options


def refuse(message):
    """End the program because of wrong input, the way argparse does."""
    print(f"{os.path.basename(sys.argv[0])}: error: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    sys.exit(main())
