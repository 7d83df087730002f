"""Asynchronous Advantage Actor-Critic (A3C) on CartPole, in one file.
`python a3c_cartpole.py` learns, then films the learned policy and, if a window can open, shows it (options: --help).

Read it beside sugulu's tutorial, whose sections (§) it names: https://qiita.com/sugulu/items/acbc909dd9b74b043e45
Several threads play at once, each with a network of its own: its actor π(a|s) chooses actions, its critic V(s) predicts
what is to be gained from s on. An action that brought more than predicted, whose advantage A is positive, becomes
likelier. All threads improve one shared network, and copy it again and again (Mnih et al. 2016, arXiv:1602.01783).
All of A3C is in the five classes and `main`; skip what comes after. New to TensorFlow's graphs: README.md. The path of
a frame, one step, a good place to begin: Environment.run -> Agent.act -> env.step -> Agent.advantage_push_local_brain
-> LocalBrain.train_push; every Tmax steps and at a trial's end LocalBrain.update_parameter_server and its pull.

Changes from the tutorial
- Today's packages: TensorFlow 2's version-1 interface, no Keras; Gymnasium or Gym 0.26. Threads share a core (Linux).
- The graph is finalized before any thread starts: threads that went on building it killed one another. What they share
  belongs to the ParameterServer, not to globals; frames are counted exactly. Each has its own random generator.
- A learner *claims* to have learned; then the test thread examines the server's policy, taking the likelier actions.
  The weights that pass go back to the server when no learner is left to overwrite them. The program ends by itself.
- V(s') comes in the update's graph call. Trials under 5 steps get the right return. Worker_threads keep the last ten.
"""
import bisect, signal, sys
if __name__ == "__main__": signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C in the slow imports just ends it
import argparse, contextlib, ctypes, importlib.util, io, itertools, os, pathlib, random, tempfile, threading, time
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0",  # oneDNN slows down matrices this small
                  TF_USE_LEGACY_KERAS="1")  # tf_keras, not installed: TensorFlow starts sooner with no Keras
try:
    import numpy as np
    import tensorflow.compat.v1 as tf
    gym = importlib.import_module("gymnasium" if importlib.util.find_spec("gymnasium") else "gym")  # gym 0.26 will do
except ImportError as e: sys.exit(f"{str(e.__cause__ or e).splitlines()[0]}: run  pip install -r requirements.txt")
tf.disable_eager_execution()
tf.get_logger().setLevel("FATAL")
gym.logger.min_level = gym.logger.ERROR  # no advice to take CartPole-v1: v0 is the tutorial's

ENV = "CartPole-v0"
_env = gym.make(ENV)
NUM_STATES = _env.observation_space.shape[0]  # 4: cart position x and velocity v, pole angle θ and its velocity ω
NUM_ACTIONS = int(_env.action_space.n)  # 2: push the cart to the left, to the right
ONE_HOT = np.eye(NUM_ACTIONS)  # row a stands for action a
NONE_STATE = np.zeros(NUM_STATES)  # fed for s' where the trial has ended: the mask drops its V
LEARNED_MEAN = 199  # ten trials must average more steps than this; a trial ends at 200
HIDDEN_UNITS, MIN_BATCH = 16, 5  # an update waits for so many samples (never with Tmax = 10: no trial is that short)
LOSS_V, LOSS_ENTROPY = 0.5, 0.01  # weights of the critic's loss and of the entropy term, beside the actor's loss
LEARNING_RATE, RMSPROP_DECAY = 5e-3, 0.99
GAMMA, N_STEP_RETURN = 0.99, 5
GAMMA_N = GAMMA ** N_STEP_RETURN
N_WORKERS, Tmax = 8, 10  # learning threads; steps between two updates of a thread, at most
EPS_START, EPS_END = 0.5, 0.0  # ε, the chance of a random action at first and at last: exploration beside that of π
EPS_STEPS = 200 * N_WORKERS  # frames of all threads together in which ε falls, whatever --workers is


class Stopped(Exception):
    """Tells a thread to end: the task is learned, the frames are used up, or all threads have to stop."""


class ParameterServer:
    """The shared network and its optimizer (§3.5), and whatever else the threads share.
    No lock covers all weights. TensorFlow locks an array with its average: no update is lost, but a pull may mix arrays
    from before and after another thread's update, and a gradient may belong to weights that have moved on. A3C accepts
    that (the paper's has no locks) so that no thread waits, as "Hogwild" (arXiv:1106.5730) does. Counters change under
    `lock`: `+= 1` reads, adds, writes. Flags and claims need none: assignment, append, pop are atomic under the GIL."""
    def __init__(self, learners, max_frames=1_000_000, report=lambda line, steps=None, mean=0.0: None, observe=None):
        # Matrices this small are multiplied fastest in the calling thread: handing them to others takes longer.
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, device_count={"GPU": 0})
        config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        self.session = tf.Session(config=config)  # many threads may call it at once
        with tf.variable_scope("parameter_server"):
            self.weights, _ = self._build_model()
            self.optimizer = tf.train.RMSPropOptimizer(LEARNING_RATE, RMSPROP_DECAY)  # its averages are shared, too
        self.lock, self.frames, self.max_frames = threading.Lock(), 0, max_frames  # frames: steps of all learners
        self.learners, self.claims = learners, []  # how many learning threads are left; who waits for an exam
        self.learned = self.stopped = False  # learned: an exam was passed, or --play; stopped: all have to end
        self.failure = None  # the exception of a thread that failed (of two at once, either)
        self.report = report  # report(line, steps, mean) prints line; steps: of a learner's trial; mean: of ten trials
        self.observe = observe  # if given, gets [actor, critic, entropy, gradient's norm] of each update, to watch them

    def _build_model(self):
        """Make the variables of one network (§2.2). Returns the list of its weights and its forward pass, a function
        from states s (batch, 4) to the probabilities of the actions p (batch, 2) and the values v (batch,)."""
        def layer(name, n_inputs, units):
            return [tf.get_variable(name + "/weights", (n_inputs, units), initializer=tf.glorot_uniform_initializer()),
                    tf.get_variable(name + "/biases", (units,), initializer=tf.zeros_initializer())]
        hidden = layer("hidden", NUM_STATES, HIDDEN_UNITS)
        actor = layer("actor", HIDDEN_UNITS, NUM_ACTIONS)
        critic = layer("critic", HIDDEN_UNITS, 1)
        def forward(s):
            h = tf.nn.relu(tf.nn.xw_plus_b(s, *hidden))  # x·W + b: (batch, 16)
            p = tf.nn.softmax(tf.nn.xw_plus_b(h, *actor))  # (batch, 2)
            v = tf.squeeze(tf.nn.xw_plus_b(h, *critic), axis=1)  # (batch, 1) -> (batch,)
            return p, v
        return hidden + actor + critic, forward

    def graph_call(self, feeds=(), fetches=(), targets=()):
        """A function of float32 arrays: feeds them, runs `targets` for their effect, returns the list of `fetches`."""
        feed, fetch, target = ([part.name for part in parts] for parts in (feeds, fetches, targets))
        try:  # not in TensorFlow's public interface, but takes a tenth of the time of `Session.run`
            from tensorflow.core.protobuf.config_pb2 import CallableOptions
            return self.session._make_callable_from_options(CallableOptions(feed=feed, fetch=fetch, target=target))
        except (ImportError, AttributeError):
            call = self.session.make_callable([*fetches, *targets], feed_list=list(feeds))
            return lambda *arrays: call(*arrays)[:len(fetches)]

    def epsilon(self):
        """ε, the chance of a random action: falls linearly over the first EPS_STEPS frames of all threads."""
        return EPS_START + (EPS_END - EPS_START) * min(self.frames / EPS_STEPS, 1.0)

    def next_frame(self, learning):
        """Called before each step of a thread; counts those of learners. Raises Stopped if the thread has to end."""
        with self.lock:
            if self.stopped or learning and (self.learned or self.frames >= self.max_frames): raise Stopped
            self.frames += learning

    def wait_until(self, condition):
        """Wait until condition() holds. Raises Stopped if the threads have to end."""
        while not condition():
            if self.stopped: raise Stopped
            time.sleep(0.01)


class LocalBrain:
    """A thread's own copy of the network (§3.6): gives π, and computes the gradients that move the server's weights."""
    def __init__(self, name, parameter_server):
        self.server = parameter_server
        self.train_queue = []  # samples (s, a, R, s', mask) for the next update
        with tf.variable_scope(name): self._build_model()  # the thread's name goes before the names of its variables
        with tf.name_scope(name + "/"): self._build_graph()  # ... and of the rest; without "/" it would be name_1

    def _build_model(self):
        self.weights, self.forward = self.server._build_model()  # the same shape, but variables of its own

    def _build_loss(self, p, v, a, target):
        """The three terms of the loss -log π(a|s)·A + 0.5·A² + 0.01·Σ π·log π, with the advantage A = target - V(s)
        (§2.2), each (batch,). p: π (batch, 2); v: V(s) (batch,); a: one-hot (batch, 2); target: for V(s) (batch,)."""
        advantage = target - v  # (batch,)
        log_pi = tf.log(tf.reduce_sum(p * a, axis=1) + 1e-10)  # (batch,): a picks the p of the action taken
        # The actor treats A as a constant. Without stop_gradient it would also raise V, to make its own loss smaller.
        actor = -log_pi * tf.stop_gradient(advantage)
        critic = LOSS_V * tf.square(advantage)
        # Σ π·log π is the negative entropy: making it low keeps the policy from being certain too early.
        entropy = LOSS_ENTROPY * tf.reduce_sum(p * tf.log(p + 1e-10), axis=1)
        return actor, critic, entropy

    def _build_graph(self):  # only describes, once; graph_call makes parts of it callable
        pairs = list(zip(self.weights, self.server.weights))  # of variables: mine, the server's
        s, s_ = (tf.placeholder(tf.float32, (None, NUM_STATES), name) for name in ("s", "s_"))
        a = tf.placeholder(tf.float32, (None, NUM_ACTIONS), "a")  # one-hot
        R, mask = (tf.placeholder(tf.float32, (None,), name) for name in ("R", "mask"))  # mask: 0 without s', else 1
        p, v = self.forward(s)
        with tf.name_scope("loss"):
            target = R + GAMMA_N * tf.stop_gradient(self.forward(s_)[1]) * mask  # (batch,); no gradient, as in DQN
            terms = self._build_loss(p, v, a, target)
            loss = tf.reduce_mean(tf.add_n(terms))
        gradients = tf.gradients(loss, self.weights, name="gradient")  # of the local weights, to move the server's
        update = self.server.optimizer.apply_gradients(zip(gradients, self.server.weights), name="update")
        figures = [tf.stack([*map(tf.reduce_mean, terms), tf.global_norm(gradients)])] if self.server.observe else []
        with tf.name_scope("pull"): pull = [mine.assign(theirs) for mine, theirs in pairs]
        with tf.name_scope("push"): push = [theirs.assign(mine) for mine, theirs in pairs]
        self._predict = self.server.graph_call([s], [p])
        self._update = self.server.graph_call([s, a, R, s_, mask], figures, [update])
        self._pull, self._push = self.server.graph_call(targets=pull), self.server.graph_call(targets=push)

    def pull_parameter_server(self):
        """Copy the server's weights: a learner as a trial starts and every Tmax steps, the test thread before exams."""
        self._pull()

    def push_parameter_server(self):
        """Copy this brain's weights into the server: only the test thread does, after a passed exam."""
        self._push()

    def update_parameter_server(self):
        """Use up the queue, if it is long enough, for one gradient, by which RMSProp moves the server's weights."""
        if len(self.train_queue) >= MIN_BATCH:
            samples, self.train_queue = self.train_queue, []
            figures = self._update(*(np.array(column, np.float32) for column in zip(*samples)))  # all s, all a, ...
            if self.server.observe: self.server.observe(figures[0].tolist())  # with --logdir

    def predict_p(self, s):
        """The probabilities of the actions, π (batch, 2), in the states s (batch, 4)."""
        return self._predict(s)[0]

    def train_push(self, s, a, R, s_):
        """Queue a sample: state (4,), one-hot action (2,), n-step return R, state n steps on or None past the end."""
        self.train_queue.append((s, a, R, NONE_STATE, 0.0) if s_ is None else (s, a, R, s_, 1.0))


class Agent:
    """Chooses the actions and computes the n-step returns (§3.4). `rng` is the thread's own random.Random."""
    def __init__(self, name, parameter_server, rng):
        self.server, self.rng = parameter_server, rng
        self.brain = LocalBrain(name, parameter_server)
        self.memory = []  # the latest steps (s, one-hot a, r) whose return still lacks rewards
        self.R = 0.0  # r₀ + γ·r₁ + γ²·r₂ + ... over the steps in memory

    def act(self, s, greedy=False):
        """The action in state s (4,): the likelier one if `greedy`; else random with chance ε, or drawn from π."""
        if not greedy and self.rng.random() < self.server.epsilon(): return self.rng.randrange(NUM_ACTIONS)
        [p] = self.brain.predict_p(s[np.newaxis]).tolist()  # (4,) -> (1, 4) -> (1, 2) -> (2,)
        if greedy: return p.index(max(p))
        # Laid end to end the probabilities fill 0 to 1, the last one the rest; a random number hits one of them.
        return bisect.bisect([*itertools.accumulate(p[:-1])], self.rng.random())

    def advantage_push_local_brain(self, s, a, r, s_):
        """Take in a step: state (4,), action, reward, next state (4,) or None if the trial has ended. Queue the samples
        whose n-step return is now complete. (§2.1 calls looking n steps ahead "Advantage"; A is in `_build_loss`.)"""
        # R covers the steps in memory: a new reward enters with the highest power of γ ...
        self.R += GAMMA ** len(self.memory) * r
        self.memory.append((s, ONE_HOT[a], r))
        # ... and when the oldest step leaves, all others move one power down. At a trial's end all leave, one by one.
        while len(self.memory) == N_STEP_RETURN or (s_ is None and self.memory):
            oldest_s, oldest_a, oldest_r = self.memory.pop(0)
            self.brain.train_push(oldest_s, oldest_a, self.R, s_)  # s_ is n steps after oldest_s, or None
            self.R = (self.R - oldest_r) / GAMMA if self.memory else 0.0  # 0: no rounding error is handed on


class Environment:
    """A thread's CartPole and the agent that plays it (§3.3). `thread_type` is "learning" or "test"."""
    def __init__(self, name, thread_type, parameter_server, rng):
        self.learning, self.server, self.rng = thread_type == "learning", parameter_server, rng
        self.env = gym.make(ENV, disable_env_checker=True)
        self.agent = Agent(name, parameter_server, rng)

    def reward(self, step, done):
        """Replaces CartPole's 1 for each step: 0 on the way; -1 at an end before step 199, 1 at one from there on."""
        return 0.0 if not done else (-1.0 if step < 199 else 1.0)

    def run(self, env=None):
        """Play one trial, in `env` or the thread's own: a learner learns from it, the test thread acts greedily and
        changes nothing. Returns the number of steps. Raises Stopped if the thread has to end."""
        env, brain = env or self.env, self.agent.brain
        if self.learning: brain.pull_parameter_server()  # for the first trial, and after waiting for an exam
        s, _ = env.reset(seed=self.rng.randrange(2 ** 31))
        step, done = 0, False
        while not done:
            a = self.agent.act(s, greedy=not self.learning)
            self.server.next_frame(self.learning)
            s_, _, terminated, truncated, _ = env.step(a)
            step += 1
            done = terminated or truncated  # step 200 is an end like any other: no bootstrapping past it
            if self.learning:
                self.agent.advantage_push_local_brain(s, a, self.reward(step, done), None if done else s_)
                if done or step % Tmax == 0:
                    brain.update_parameter_server()
                    brain.pull_parameter_server()
            s = s_
        return step


class Worker_thread:
    """The work of one thread (§3.2): to learn; or to examine what was learned, and then to show it in `test_trials`
    trials. `with show() as env` gives the environment for one of these; None stands for the thread's own."""
    def __init__(self, thread_name, thread_type, parameter_server, seed, test_trials=3, show=contextlib.nullcontext):
        self.name, self.learning, self.server = thread_name, thread_type == "learning", parameter_server
        self.environment = Environment(self.name, thread_type, self.server, random.Random(f"{seed} {self.name}"))
        self.test_trials, self.show = test_trials, show

    def run(self):
        """Do the work of this thread. An exception in it ends all threads; Python prints it with the thread's name."""
        try:
            with contextlib.suppress(Stopped): self._learn() if self.learning else self._test()
        except BaseException as error:
            self.server.failure, self.server.stopped = self.server.failure or error, True
            raise
        finally:
            with self.server.lock: self.server.learners -= self.learning

    def _learn(self):
        last_ten = [0] * 10  # steps of the last ten trials, 0 for those not yet played
        for trial in itertools.count(1):
            last_ten = last_ten[1:] + [steps := self.environment.run()]
            mean = sum(last_ten) / 10
            self.server.report(f"{self.name}, trial {trial}: {steps} steps, mean of last ten {mean:.1f}", steps, mean)
            # The weights kept changing during these trials, and actions were drawn from π: a claim, not a proof.
            if mean > LEARNED_MEAN:
                self.server.report(f"{self.name} claims: mean {mean:.1f} steps over its last 10 trials")
                self.server.claims.append(self.name)  # the test thread takes it out again with its verdict
                self.server.wait_until(lambda: self.server.learned or self.name not in self.server.claims)
                last_ten = [0] * 10  # failed: it needs ten more trials to claim; passed: the next frame raises Stopped

    def _test(self):
        server, brain = self.server, self.environment.agent.brain
        brain.pull_parameter_server()  # with --play, `learned` is set from the start: no exam
        while not server.learned:
            server.wait_until(lambda: server.claims or not server.learners)
            if not server.claims: return  # the frames are used up
            brain.pull_parameter_server()  # weights that stay as they are for the whole exam
            mean = sum(self.environment.run() for _ in range(10)) / 10
            server.report(f"{self.name} examines: mean {mean:.1f} steps over 10 trials", mean=mean)
            server.learned = mean > LEARNED_MEAN
            server.claims.pop(0)  # the claimant goes on, or ends
            if server.learned:
                server.wait_until(lambda: not server.learners)
                brain.push_parameter_server()  # no learner is left to overwrite what passed
                server.report("Learned")  # which saves it, too, if a checkpoint is wanted
        steps = []
        for trial in range(1, self.test_trials + 1):
            with self.show() as env: steps.append(self.environment.run(env))
            server.report(f"Test trial {trial}: {steps[-1]} steps")
        server.report(f"Test: mean {sum(steps) / len(steps):.1f} steps over {len(steps)} trials")


def main(argv=None):
    """Learn, then show it (§3.1). The options in `argv` are attributes of `run`. Returns the exit status."""
    with Run(argv) as run:
        # M0. What all threads share: the graph, and the server with its session
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            tf.set_random_seed(run.seed)
            server = ParameterServer(run.workers, run.max_frames, run.report, run.logdir and run.updates.append)
            # M1. All threads, each with its part of the graph
            workers = [Worker_thread(f"local_thread{i + 1}", "learning", server, run.seed)
                       for i in range(run.workers) if not run.signum]  # after a Ctrl-C it makes no more of them
            workers.append(Worker_thread("test_thread", "test", server, run.seed, run.test_trials, run.show))
            server.session.run(tf.global_variables_initializer())
            run.begin(server)  # may fill the server from a checkpoint; a thread's own weights come with its first pull
            graph.finalize()  # from here on no thread can change it
        # M2. Start them. A bound method as target; `lambda: worker.run()` would run the last worker in each.
        threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True) for worker in workers]
        for thread in threads: thread.start()
        run.wait(threads)  # M3. Wait until all have ended
    return run.finish()


# Around the lesson: command line, console, checkpoint, film, signals. Nothing from here on is about A3C.
class Run(contextlib.ExitStack):
    """One run as its user sees it, from the command line to the exit status."""
    def __init__(self, argv):
        super().__init__()
        parser = argparse.ArgumentParser(prog="a3c_cartpole.py", description="Learn CartPole with A3C, and show it.")
        parser.error = self.error = lambda message: parser.exit(2, f"a3c_cartpole.py: error: {message} (see --help)\n")
        count, add = {"type": int, "metavar": "N"}, parser.add_argument
        add("--workers", **count, default=N_WORKERS, help="learning threads (default %(default)s)")
        add("--seed", **count, default=random.randrange(2 ** 32), help="same seed, same run, but only with --workers 1")
        add("--max-frames", **count, default=1_000_000, help="give up after so many (default %(default)s)")
        add("--render", choices=("auto", "human", "video", "none"), default="auto",
            help="film test trials (video), in a window too (human); auto: human where there is a screen, else video")
        add("--test-trials", **count, default=3, help="trials to play after learning (default %(default)s)")
        add("--video-dir", metavar="DIR", default="movie/A3C", help="where the films go (default %(default)s)")
        add("--checkpoint", metavar="DIR", help="go on from the latest checkpoint in DIR, if any; save there at last")
        add("--play", action="store_true", help="do not learn, play what --checkpoint holds")
        add("--logdir", metavar="DIR", help="write graph and curves there for TensorBoard; take a new DIR for each run")
        add("--verbose", action="store_true", help="print every trial")
        parser.parse_args(argv, namespace=self)
        self.check()
        self.signum = self.server = None  # signum: the first signal, written by its handler alone
        self.saved_frames, self.best_mean, self.steps, self.films = 0, 0.0, [], []  # steps: of all learners' trials
        self.updates = []  # with --logdir, of each update the loss terms and the gradient norm: append is one step
        self.lock = threading.Lock()  # any thread may report: keeps counts exact and lines whole
        def note(signum, frame):  # raises nothing: in the middle of TensorFlow's code that might end in any error
            self.signum = self.signum or signal.Signals(signum)
            if self.server: self.server.stopped = True
        # Python runs one thread at a time; to hand that right to a thread on another core costs more than it brings.
        with contextlib.suppress(AttributeError, OSError, ValueError):  # so all share a core, where they can choose
            self.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})
        for signum in signal.SIGINT, signal.SIGTERM: self.callback(signal.signal, signum, signal.signal(signum, note))

    def check(self):
        """Refuse what can be known to fail before training, and settle the rest."""
        for flag, low in ("seed", 0), ("workers", 1), ("max_frames", 1), ("test_trials", 1):
            if not low <= vars(self)[flag] < 2 ** 32:
                self.error(f"argument --{flag.replace('_', '-')}: give a whole number from {low} to {2 ** 32 - 1}")
        for flag, folder in (("--video-dir", None if self.render == "none" else self.video_dir),
                             ("--checkpoint", None if self.play else self.checkpoint), ("--logdir", self.logdir)):
            if folder is None: continue
            try:  # to make a folder in it, or where it would be made
                path = pathlib.Path(folder or os.devnull).absolute()  # "" alone would be the current folder
                there = next((part for part in (path, *path.parents) if part.exists() or part.is_symlink()), path)
                os.rmdir(tempfile.mkdtemp(dir=there))
            except OSError as reason:
                self.error(f"argument {flag}: cannot write in {folder!r} ({reason.strerror}), name another directory")
        if "[" in (self.checkpoint or ""): self.error("argument --checkpoint: leave out [, a wildcard of TensorFlow's")
        if self.render != "none":
            try: pygame, self.moviepy = map(importlib.import_module, ("pygame", "moviepy"))  # moviepy tries ffmpeg out
            except Exception as e: self.error(f"argument --render: install it ({str(e).splitlines()[0]}), or take none")
            self.window = self.render != "video" and self.can_open_window(pygame)
            if self.render == "human" and not self.window: self.error("argument --render: no window here, take video")
            if not self.window: os.environ["SDL_VIDEODRIVER"] = "dummy"  # pygame draws in memory only
        self.show = contextlib.nullcontext if self.render == "none" else self.film
        if self.play: self.workers = 0

    def can_open_window(self, pygame):
        """Whether a thread may open a window here. On macOS ("cocoa") only the main thread may."""
        # A window drawn by OpenGL (Mesa's) crashed next to TensorFlow, and SDL would swallow a Ctrl-C.
        os.environ.update(SDL_FRAMEBUFFER_ACCELERATION="0", SDL_NO_SIGNAL_HANDLERS="1")
        os.environ.setdefault("XDG_RUNTIME_DIR", "/tmp")  # libwayland complains on stderr without it
        with contextlib.suppress(pygame.error):
            pygame.display.init()
            driver = pygame.display.get_driver()
            pygame.display.quit()
            return driver in ("x11", "wayland", "windows")

    def begin(self, server):
        """Fill the server from the checkpoint, if there is one, and start the clock."""
        self.saver = tf.train.Saver(variables := tf.global_variables("parameter_server/"), save_relative_paths=True)
        try:
            if self.play or self.checkpoint and os.path.exists(os.path.join(self.checkpoint, "checkpoint")):
                latest = self.checkpoint and tf.train.latest_checkpoint(self.checkpoint) or os.devnull  # refused below
                shapes = tf.train.load_checkpoint(latest).get_variable_to_shape_map()
                if any(shapes.get(variable.op.name) != variable.shape for variable in variables): raise ValueError
                self.saver.restore(server.session, latest)
                server.frames = self.saved_frames = int(latest.rpartition("-")[2])
                server.max_frames, server.learned = server.max_frames + server.frames, self.play
        except (tf.errors.OpError, ValueError, IndexError):
            self.error(f"argument --checkpoint: no whole checkpoint of this network in {self.checkpoint!r}, name one")
        self.server, self.start_time = server, time.perf_counter()
        if self.signum: server.stopped = True  # the signal came before its handler knew the server
        if self.logdir:
            with self.writing("curves", self.logdir):
                self.events = tf.io.TFRecordWriter(os.path.join(self.logdir, f"events.out.tfevents.{time.time_ns()}"))
            self.log(graph_def=server.session.graph.as_graph_def(add_shapes=True).SerializeToString())

    def log(self, **event):  # for TensorBoard, at the frame where the learners are
        with self.writing("curves", self.logdir):
            self.events.write(tf.Event(wall_time=time.time(), step=self.server.frames, **event).SerializeToString())
            self.events.flush()

    @contextlib.contextmanager
    def writing(self, what, folder, errors=(OSError, tf.errors.OpError, ValueError)):
        """Make the folder. Give up with one line if it, or something in it, cannot be written."""
        try:
            os.makedirs(folder, exist_ok=True)
            yield
        except errors as reason: sys.exit(f"{what} cannot be written in {folder!r}: {' '.join(str(reason).split())}")

    def save(self):  # the server's weights and RMSProp averages, unless that is done already
        if self.checkpoint and (frames := self.server.frames) != self.saved_frames:
            with self.writing("the checkpoint", self.checkpoint):
                self.saver.save(self.server.session, f"{self.checkpoint}/model", frames, write_meta_graph=False)
                self.saved_frames = frames

    def report(self, line, steps=None, mean=0.0):
        """Print what a thread says, save what is learned. Learners' trials, with `steps`, share a line for every 50."""
        with self.lock:
            frames, seconds = self.server.frames, time.perf_counter() - self.start_time
            if line == "Learned":
                line += (f" after {frames} frames, {len(self.steps)} trials, {seconds:.1f} s "
                         f"({(frames - self.saved_frames) / seconds:.0f} frames/s)")
                self.save()
            if steps is None or self.verbose: self.print(line)
            if self.updates and mean:
                name = threading.current_thread().name
                points = {f"steps/{name}": steps, f"mean_of_last_ten/{name}": mean} if steps else {"exam": mean}
                means = zip(("loss/actor", "loss/critic", "loss/entropy", "gradient"), np.mean(self.updates[-10:], 0))
                points |= dict(means, epsilon=self.server.epsilon(), updates_per_second=len(self.updates) / seconds)
                self.log(summary=tf.Summary(value=[tf.Summary.Value(tag=t, simple_value=points[t]) for t in points]))
            if steps is not None:
                self.steps.append(steps)
                self.best_mean = max(self.best_mean, mean)
                if len(self.steps) % 50 == 0:
                    line = f"{frames} frames, {len(self.steps)} trials: mean {sum(self.steps[-50:]) / 50:.1f} steps"
                    self.print(line + (f", epsilon {self.server.epsilon():.2f}" if frames < EPS_STEPS else ""))

    def print(self, line):
        try: print(line, flush=True)
        except OSError as reason:  # a full disk, or a reader that has read enough, as in `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # lest the flush at exit fails, too
            sys.exit(1 if isinstance(reason, BrokenPipeError) else f"stdout cannot be written: {reason.strerror}")

    @contextlib.contextmanager
    def film(self):
        """Give an environment that films its one trial, and shows it in a window, as far as that is wanted."""
        # Only a whole film leaves the hidden folder. 1e9: step() makes none yet. What classic Gym prints is dropped.
        with self.writing("the film", self.video_dir, OSError), contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()), \
                tempfile.TemporaryDirectory(prefix=".film-", dir=os.path.abspath(self.video_dir)) as hidden:
            bare = gym.make(ENV, render_mode="rgb_array_list", disable_env_checker=True)  # Gym's check needs NumPy 1
            recorder = gym.wrappers.RecordVideo(bare, hidden, video_length=1e9)
            with contextlib.closing(gym.wrappers.HumanRendering(recorder) if self.window else recorder) as env:
                try:
                    yield env
                    recorder.close()  # makes the film; not of a trial that was stopped, and at exit no second time
                finally: recorder.recording = (getattr(recorder, "video_recorder", None) or recorder).enabled = False
            self.server.next_frame(learning=False)  # raises Stopped: a Ctrl-C may have hit the encoder, too
            self.moviepy.VideoFileClip(f"{hidden}/rl-video-episode-0.mp4").close()  # is it whole?
            paths = (os.path.join(self.video_dir, f"a3c-{number:03}.mp4") for number in itertools.count(1))
            self.films.append(next(path for path in paths if not os.path.exists(path)))
            os.rename(os.path.join(hidden, "rl-video-episode-0.mp4"), self.films[-1])

    def wait(self, threads):
        """Wait for the threads to end (one that is told to stop and hangs is left behind after 5 s), then save."""
        patience = 5.0
        while patience > 0 and any(thread.is_alive() for thread in threads):
            time.sleep(0.02)
            if self.server.stopped: patience -= 0.02
        self.save()

    def finish(self):
        """Say how the run ended (a stop on the real stderr: a film may hold sys.stderr), and return its exit status."""
        if self.signum:
            with contextlib.suppress(OSError): print("Stopped by", self.signum.name, file=sys.__stderr__)
            return 128 + self.signum
        if isinstance(self.server.failure, SystemExit): raise self.server.failure
        if not self.server.failure and not self.server.learned:
            self.print(f"Not learned after {self.server.frames} frames: best mean of ten trials {self.best_mean:.1f}")
        for film in self.films: self.print(f"Video: {film}")
        return int(self.server.failure is not None or not self.server.learned)


if __name__ == "__main__":
    if hasattr(sys.stdout, "reconfigure"): sys.stdout.reconfigure(errors="backslashreplace")  # names it cannot spell
    (os._exit if (status := main()) > 128 else sys.exit)(status)  # exit would wait for a hanging thread's stdout
