"""Break the script line by line and see that a test turns red: python tests/sabotage.py [WORD]

Every fault is put into a copy of the script, and the test that is to catch it is run on the copy. A fault that
survives, or no longer fits the script, is reported, and the exit status is 1. WORD: only the faults that contain it.
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RETURN = "test_agent.py::test_n_step_return_equals_the_sum_of_its_discounted_rewards"
SAMPLE = "test_agent.py::test_a_sample_is_queued_as_soon_as_its_five_rewards_are_there"
EPSILON = "test_agent.py::test_epsilon_falls_linearly_over_the_frames_of_all_threads"
ACTIONS = "test_agent.py::test_actions_follow_epsilon_and_the_policy"
GREEDY = "test_agent.py::test_greedy_takes_the_likelier_action_and_the_first_on_a_tie"
LOSS = "test_local_brain.py::test_forward_pass_and_loss_equal_numpy"
UPDATE = "test_local_brain.py::test_two_threads_update_the_server_by_rmsprop_with_shared_averages"
BATCH = "test_local_brain.py::test_fewer_than_five_samples_stay_queued"
COPY = "test_local_brain.py::test_pull_and_push_copy_every_weight_and_nothing_else"
BOTH = "test_local_brain.py::test_both_ways_of_calling_the_graph_agree"
REWARD = "test_environment.py::test_reward_is_zero_until_the_end_and_then_tells_success_from_failure"
ORDER = "test_environment.py::test_updates_fall_every_ten_steps_and_at_the_end_each_followed_by_a_pull"
TESTER = "test_environment.py::test_a_learner_counts_frames_and_the_test_thread_neither_counts_nor_changes_anything"
ACTS = "test_environment.py::test_the_test_thread_acts_greedily"
COUNT = "test_worker_thread.py::test_eight_learners_live_and_frames_and_trials_are_counted_exactly"
PASSED = "test_worker_thread.py::test_an_exam_that_is_passed_ends_learning_and_its_weights_go_to_the_server"
FAILED = "test_worker_thread.py::test_an_exam_that_is_failed_lets_everybody_go_on_and_the_claimant_start_a_new_ten"
BAR = "test_worker_thread.py::test_a_claim_needs_ten_trials_that_average_more_than_199"
ALL = "test_worker_thread.py::test_claims_at_once_and_during_an_exam_and_at_the_end_of_the_budget_are_all_examined"
OTHER = "test_worker_thread.py::test_a_claim_that_waits_when_another_passes_does_not_hang"
CRASH = "test_worker_thread.py::test_an_exception_in_a_thread_stops_all"
WAKE = "test_worker_thread.py::test_stop_wakes_a_claimant_and_the_test_thread"
GRAPH = "test_worker_thread.py::test_the_graph_is_legible"
MAIN = "test_script.py::test_main_builds_one_finalized_graph_before_the_first_thread_starts"
SEED = "test_script.py::test_one_worker_with_one_seed_gives_the_same_run_trial_by_trial"
GOES_ON = "test_script.py::test_training_goes_on_from_a_checkpoint"
BAD = "test_script.py::test_bad_input_gets_one_line_and_writes_nothing"
NETWORK = "test_script.py::test_a_checkpoint_of_another_network_is_refused"
DAMAGED = "test_script.py::test_a_damaged_checkpoint_is_refused"
SIGNAL = "test_script.py::test_a_signal_ends_it_orderly_and_saves"
PIPE = "test_script.py::test_a_reader_that_leaves_ends_it_quietly"
SHOWN = "test_script.py::test_an_exception_in_a_thread_is_shown_once_with_the_threads_name"

FAULTS = [  # what stands in the script, what to put there, the test that catches it
    ("self.R += GAMMA ** len(self.memory) * r", "self.R += GAMMA ** N_STEP_RETURN * r", RETURN),
    ("self.R = (self.R - oldest_r) / GAMMA if", "self.R = (self.R - oldest_r) * GAMMA if", RETURN),
    ("self.R = (self.R - oldest_r) / GAMMA if", "self.R = (self.R + oldest_r) / GAMMA if", RETURN),
    ("self.memory.pop(0)", "self.memory.pop()", RETURN),
    ("len(self.memory) == N_STEP_RETURN or", "len(self.memory) > N_STEP_RETURN or", SAMPLE),
    (" or (s_ is None and self.memory):", ":", RETURN),
    ("NONE_STATE, 0.0) if s_ is None", "NONE_STATE, 1.0) if s_ is None", RETURN),
    ("one_hot[a] = 1.0", "one_hot[1 - a] = 1.0", RETURN),
    ("min(self.frames / EPS_STEPS, 1.0)", "self.frames / EPS_STEPS", EPSILON),
    ("(EPS_END - EPS_START)", "(EPS_START - EPS_END)", EPSILON),
    ("self.rng.random() < self.server.epsilon()", "self.rng.random() > self.server.epsilon()", ACTIONS),
    ("self.rng.choices(range(NUM_ACTIONS), p.tolist())[0]", "int(p.argmax())", ACTIONS),
    ("if not greedy and self.rng", "if self.rng", GREEDY),
    ("int(p.argmax()) if greedy", "int(p.argmin()) if greedy", GREEDY),
    ("advantage = target - v", "advantage = v - target", LOSS),
    ("actor = -log_pi", "actor = log_pi", LOSS),
    ("-log_pi * tf.stop_gradient(advantage)", "-log_pi * advantage", UPDATE),
    ("critic = LOSS_V * tf.square", "critic = tf.square", LOSS),
    ("entropy = LOSS_ENTROPY *", "entropy = -LOSS_ENTROPY *", LOSS),
    ("tf.reduce_mean(actor", "tf.reduce_sum(actor", LOSS),
    ("tf.nn.relu(", "tf.nn.tanh(", LOSS),
    ("GAMMA_N * tf.stop_gradient(self.forward(s_)[1]) * mask", "GAMMA_N * self.forward(s_)[1] * mask", UPDATE),
    ("tf.stop_gradient(self.forward(s_)[1]) * mask", "tf.stop_gradient(self.forward(s_)[1])", UPDATE),
    ("R + GAMMA_N * tf", "R + GAMMA * tf", UPDATE),
    ("zip(gradients, self.server.weights)", "zip(gradients, self.weights)", UPDATE),
    ("RMSPropOptimizer(LEARNING_RATE, RMSPROP_DECAY)", "RMSPropOptimizer(LEARNING_RATE, 0.9)", UPDATE),
    (">= MIN_BATCH", "> MIN_BATCH", BATCH),
    ("samples, self.train_queue = self.train_queue, []", "samples = self.train_queue", UPDATE),
    ("[mine.assign(theirs) for", "[theirs.assign(mine) for", COPY),
    ("[theirs.assign(mine) for mine, theirs in weights]", "[theirs.assign(mine) for mine, theirs in weights[1:]]",
     COPY),
    ("make_callable([*fetches, *targets]", "make_callable([*fetches]", BOTH),
    ("-1.0 if step < 199", "-1.0 if step < 200", REWARD),
    ("-1.0 if step < 199", "-1.0 if step < 198", REWARD),
    ("done = terminated or truncated", "done = terminated", REWARD),
    ("None if done else s_)", "None if terminated else s_)", REWARD),
    ("if done or step % Tmax == 0", "if step % Tmax == 0", ORDER),
    ("if done or step % Tmax == 0", "if done or step % Tmax == 1", ORDER),
    ("greedy=not self.learning", "greedy=self.learning", ACTS),
    ("            self.frames += learning\n", "            self.frames += 1\n", TESTER),
    ("self.frames >= self.max_frames", "self.frames > self.max_frames", COUNT),
    ("self.learned = self.stopped = False", "self.learned = True; self.stopped = False", COUNT),
    ("sum(last_ten) / 10\n            self", "sum(last_ten) / 9\n            self", BAR),
    ("if mean > LEARNED_MEAN:", "if mean >= LEARNED_MEAN:", BAR),
    ("                last_ten = [0] * 10  # failed", "                pass  # failed", FAILED),
    ("server.learned = mean > LEARNED_MEAN", "server.learned = True", FAILED),
    ("server.claims.pop(0)", "server.claims.clear()", ALL),
    ("self.server.learned or self.name not in", "self.name not in", OTHER),
    ("            server.wait_until(lambda: server.claims or not server.learners)\n",
     "            server.wait_until(lambda: server.claims)\n", FAILED),
    ("                server.wait_until(lambda: not server.learners)\n", "", PASSED),
    ("                brain.push_parameter_server()", "                pass", PASSED),
    ("self.server.failure, self.server.stopped = error, True", "self.server.failure = error", CRASH),
    ("            if self.stopped:\n                raise Stopped\n", "", WAKE),
    ("graph.finalize()", "graph", MAIN),
    ("tf.name_scope(name + \"/\")", "tf.name_scope(name)", GRAPH),
    ("tf.set_random_seed(run.seed)", "pass", SEED),
    ("random.Random(f\"{seed} {self.name}\")", "random.Random()", SEED),
    ("server.max_frames + server.frames", "server.max_frames", GOES_ON),
    ("server.frames = self.saved_frames = int", "self.saved_frames = int", GOES_ON),
    ("                    raise ValueError(\"weights of other shapes\")", "                    pass", NETWORK),
    ("raise ValueError(\"nothing found\")", "pass", DAMAGED),
    ("if not low <= vars(self)[flag] < 2 ** 32", "if not low <= vars(self)[flag]", BAD),
    ("        self.save()\n\n    def finish", "\n    def finish", SIGNAL),
    ("            self.server.stopped = True\n        for", "        for", SIGNAL),
    ("except BrokenPipeError:", "except ZeroDivisionError:", PIPE),
    ("error, True\n            raise\n", "error, True\n", SHOWN),
]


def survives(old, new, test):
    """Whether the test stays green (or does not exist) with the fault in the script."""
    text = (ROOT / "a3c_cartpole.py").read_text(encoding="utf-8")
    if old not in text:
        return "does not fit the script any more"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tests", Path(folder, "tests"), ignore=shutil.ignore_patterns("__pycache__"))
        Path(folder, "a3c_cartpole.py").write_text(text.replace(old, new, 1), encoding="utf-8")
        try:
            result = subprocess.run([sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", f"tests/{test}"],
                                    cwd=folder, capture_output=True, text=True, timeout=180)
        except subprocess.TimeoutExpired:
            return None  # a fault that makes the script hang is seen, too
    return None if result.returncode == 1 else "SURVIVES" if result.returncode == 0 else result.stdout[-500:]


def main():
    word, failures = (sys.argv + [""])[1], 0
    faults = [fault for fault in FAULTS if word in str(fault)]
    for number, (old, new, test) in enumerate(faults, 1):
        trouble = survives(old, new, test)
        failures += trouble is not None
        print(f"{number}/{len(faults)} {trouble or 'caught'} by {test}: {old.strip()!r} -> {new.strip()!r}", flush=True)
    print(f"{len(faults)} faults, {failures} survivors")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
