"""Break the script and see that a test turns red: python tests/sabotage.py [WORD]

Each fault is put into a copy of the script, and the test that is to catch it is run on the copy. A
fault that survives or hangs is reported, and the exit status is 1. WORD: only what contains it.
"""
import ast
import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAULTS = {  # a test: (function or setting; expression or statement in it; what to put there)
    "network::updates_equal_numpy_and_learners_share_the_averages": [
        ("LEARNING_RATE", "5e-3", "7e-3"),
        ("ParameterServer._build_update", "self.optimizer", "self._build_optimizer()"),
        ("LocalBrain._build_graph", "loss", "-loss"),
        ("LocalBrain._build_graph", "tf.reduce_mean(tf.add_n(terms))", "tf.add_n(terms)"),
        ("LocalBrain._build_loss", "tf.stop_gradient(advantage)", "advantage"),
        ("LocalBrain._build_graph", "tf.stop_gradient(v_)", "v_"),
        ("LocalBrain._build_graph", "gamma_n * tf.stop_gradient(v_)", "tf.stop_gradient(v_)")],
    "network::terms_of_the_loss_equal_numpy_even_where_the_policy_is_certain": [
        ("LOSS_ENTROPY", "0.01", "0.02"),
        ("LocalBrain._build_loss", "p_taken + 1e-10", "p_taken")],
    "network::pull_and_push_copy_every_weight_and_nothing_else": [
        ("LocalBrain._build_copy", "zip(copies, sources)", "zip(sources, copies)")],
    "agent::n_step_returns_equal_sums_of_discounted_rewards": [
        ("Agent._push_oldest", "reversed(self.memory)", "self.memory"),
        ("Agent._push_oldest", "GAMMA ** n", "GAMMA ** N_STEP_RETURN"),
        ("Agent._push_oldest", "0.0 if terminal else GAMMA ** n", "GAMMA ** n"),
        ("Agent.advantage_push_local_brain", "N_STEP_RETURN", "N_STEP_RETURN + 1"),
        ("Agent.advantage_push_local_brain", "done and self.memory", "False")],
    "agent::returns_stay_exact_over_a_thousand_steps": [
        ("Agent.begin_trial", "self.memory.clear()", "pass")],
    "agent::actions_follow_epsilon_and_the_policy": [
        ("Progress.epsilon", "min", "max"),
        ("EPS_STEPS", "1600", "160"),
        ("Agent.act", "self.rng.randrange(NUM_ACTIONS)", "0"),
        ("Agent.act", "self.rng.choices(range(NUM_ACTIONS), weights=p)[0]", "p.index(max(p))")],
    "agent::greedy_takes_the_likelier_action_and_the_first_on_a_tie": [
        ("Agent.act", "not greedy", "True"),
        ("Agent.act", "p.index(max(p))", "p.index(min(p))")],
    "environment::a_trial_goes_in_this_order": [
        ("Environment.run", "self.agent.begin_trial()", "pass"),
        ("Environment.run", "not self.learning", "self.learning"),
        ("Tmax", "10", "11"),
        ("Environment.run", "done or step % Tmax == 0", "step % Tmax == 0")],
    "environment::rewards_tell_success_and_what_follows_an_end": [
        ("Environment.reward", "199", "200"),
        ("Environment.run", "terminated or truncated", "truncated"),
        ("Environment.run", "s = s_", "pass")],
    "environment::states_of_float64_learn_and_few_samples_wait_for_the_next_trial": [
        ("GraphCall.__init__", "tensor.dtype.as_numpy_dtype", "float"),
        ("LocalBrain.update_parameter_server", "MIN_BATCH", "MIN_BATCH + 1")],
    "environment::each_trial_starts_elsewhere_but_the_same_for_the_same_seed": [
        ("Environment.run", "self.rng.randrange(2 ** 31)", "0"),
        ("Worker_thread.__init__", "f'{seed} {thread_name}'", "seed")],
    "worker_thread::next_frame_counts_those_of_learners_and_ends_who_has_to_end": [
        ("Progress.next_frame", "self.frames >= self.max_frames", "self.frames > self.max_frames"),
        ("Progress.next_frame", "self.coordinator.should_stop()", "False"),
        ("Progress.resume", "self.max_frames += frames", "pass")],
    "worker_thread::threads_that_meet_while_counting_lose_nothing": [
        ("Progress.next_frame", "self.lock", "contextlib.nullcontext()"),
        ("Progress.learner_ends", "self.lock", "contextlib.nullcontext()")],
    "worker_thread::claims_are_expected_as_long_as_a_learner_has_not_ended": [
        ("Progress.wait_for_claim", "not self.learners", "self.frames >= self.max_frames")],
    "worker_thread::a_claim_takes_ten_trials_above_199_and_so_does_the_exam": [
        ("Worker_thread._learn", "mean > LEARNED_MEAN", "mean >= LEARNED_MEAN"),
        ("Worker_thread._learn", "len(scores) == CLAIM_TRIALS", "True"),
        ("Worker_thread._test", "mean > LEARNED_MEAN", "True"),
        ("LEARNED_MEAN", "199", "195")],
    "worker_thread::who_fails_an_exam_goes_on_and_needs_ten_new_trials": [
        ("Worker_thread._learn", "scores.clear()", "pass"),
        ("Worker_thread._learn", "self.progress.claim(self.name)", "pass")],
    "worker_thread::the_weights_that_pass_are_what_stays": [
        ("Worker_thread._test", "brain.push_parameter_server()", "pass"),
        ("Progress.verdict", "not self.learners", "True")],
    "script::it_learns_films_saves_and_plays_back": [
        ("Worker_thread._test", "self.environment.run(env)", "self.environment.run()")],
    "worker_thread::claims_at_once_are_examined_one_by_one": [
        ("Progress.verdict", "self.claims.pop(0)", "self.claims.clear()"),
        ("Progress.claim", "self.learned or name not in self.claims", "name not in self.claims")],
    "seams::the_seed_decides_the_first_weights": [
        ("main", "tf.set_random_seed(options.seed)", "pass")],
    "drills::an_exception_in_any_thread_ends_all_and_names_it": [
        ("Worker_thread.run", "RuntimeError(f'{self.name} failed: {error!r}')", "error")],
    "drills::a_signal_at_any_moment_leaves_nothing_half_done": [
        ("main", "log.end(interrupted.is_set())", "pass")],
    "drills::learners_share_one_core_and_the_other_threads_are_free": [
        ("main", "graph.finalize()", "pass")],
    "drills::ctrl_c_while_32_learners_are_built_ends_it_there": [
        ("main", "len(workers) <= options.workers and not interrupted.is_set()",
         "len(workers) < 33")],
}


class Breaker(ast.NodeTransformer):
    """Puts `new` for the expression or statement `old`, however that is laid out."""

    def __init__(self, old, new):
        [old], [new] = ast.parse(old).body, ast.parse(new).body
        both = isinstance(old, ast.Expr) and isinstance(new, ast.Expr)
        self.old, self.new = (old.value, new.value) if both else (old, new)
        self.found = 0

    def visit(self, node):
        if ast.dump(node) != ast.dump(self.old):
            return self.generic_visit(node)
        self.found += 1
        return self.new


def broken(script, place, old, new):
    tree = whole = ast.parse(script)
    for name in place.split("."):
        [tree] = [node for node in tree.body if name == getattr(node, "name", None)
                  or ast.unparse(node).startswith(f"{name} = ")]
    breaker = Breaker(old, new)
    breaker.generic_visit(tree)
    if breaker.found != 1:
        raise ValueError(f"{old!r} stands {breaker.found} times in {place}")
    return ast.unparse(ast.fix_missing_locations(whole))


def run(script, tests, seconds):
    """Run tests on a copy of the project with this script: what came of it, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tests", Path(folder, "tests"))
        Path(folder, "a3c_cartpole.py").write_text(script, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *tests]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, start_new_session=True) as process:
            try:
                out, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with the scripts that it started
                return "hangs", ""
    results = {0: "SURVIVES", 1: "caught", -signal.SIGABRT: "caught"}  # TensorFlow may abort
    return results.get(process.returncode, "FAILS"), out


def main():
    word, survivors = (sys.argv + [""])[1], 0
    faults = [("tests/test_" + test.replace("::", ".py::test_"), *fault)
              for test, group in FAULTS.items() for fault in group]
    faults = [fault for fault in faults if word in str(fault)]
    script = (ROOT / "a3c_cartpole.py").read_text(encoding="utf-8")
    scripts = [broken(script, *fault[1:4]) for fault in faults]
    result, out = run(script, dict.fromkeys(test for test, *_ in faults), 1200)
    if result != "SURVIVES":
        sys.exit(f"{out}\nThe script has to pass these tests before it is broken.")
    with concurrent.futures.ThreadPoolExecutor(2) as two:
        results = two.map(lambda fault, text: run(text, fault[:1], 120), faults, scripts)
        for fault, (result, out) in zip(faults, results):
            survivors += result != "caught"
            print(result, *fault, out[-500:] * (result == "FAILS"), sep=" | ", flush=True)
    print(f"{len(faults)} faults, {survivors} survivors")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
