"""Break the script line by line and see that a test turns red: python tests/sabotage.py [WORD]

Every fault is put into a copy of the script, and the test that is to catch it is run on the copy. A fault that
survives, or no longer fits the script, is reported, and the exit status is 1. WORD: only the faults that contain it.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

EPSILON = "test_parameter_server.py::test_epsilon_falls_linearly_over_the_frames_of_all_threads"
NEXT = "test_parameter_server.py::test_next_frame_counts_those_of_learners_and_ends_whoever_has_to_end"
MEET = "test_parameter_server.py::test_threads_that_meet_while_counting_lose_no_frame_and_stay_in_the_budget"
SIGN_OFF = "test_parameter_server.py::test_learners_that_meet_while_they_end_are_all_signed_off"
WAIT = "test_parameter_server.py::test_wait_until_returns_when_the_condition_holds_and_otherwise_ends_when_stopped"
CALL = "test_parameter_server.py::test_both_ways_of_calling_the_graph_feed_fetch_and_run_the_same"
FIRST = "test_parameter_server.py::test_weights_start_uniform_within_glorots_bounds_and_biases_at_zero"
UPDATE = "test_parameter_server.py::test_two_threads_update_the_server_by_rmsprop_with_shared_averages"

FORWARD = "test_local_brain.py::test_forward_pass_equals_numpy"
LOSS = "test_local_brain.py::test_each_term_of_the_loss_equals_numpy_even_where_the_policy_is_certain"
GRADIENT = "test_local_brain.py::test_the_gradient_of_each_term_by_every_weight_equals_finite_differences"
FLOW = "test_local_brain.py::test_no_gradient_flows_through_the_advantage_of_the_actor_or_the_bootstrapped_value"
TARGET = "test_local_brain.py::test_the_target_bootstraps_unless_the_trial_has_ended"
OBSERVER = "test_local_brain.py::test_the_observer_gets_the_mean_terms_and_the_norm_of_each_updates_gradient"
BATCH = "test_local_brain.py::test_fewer_than_five_samples_stay_queued"
COPY = "test_local_brain.py::test_pull_and_push_copy_every_weight_and_nothing_else"

RETURN = "test_agent.py::test_n_step_return_equals_the_sum_of_its_discounted_rewards"
SAMPLE = "test_agent.py::test_a_sample_is_queued_as_soon_as_its_five_rewards_are_there"
ACTIONS = "test_agent.py::test_actions_follow_epsilon_and_the_policy"
THREE = "test_agent.py::test_of_three_actions_each_is_drawn_with_its_probability"
RANDOM = "test_agent.py::test_while_epsilon_is_half_every_other_action_is_random_whatever_the_policy"
GREEDY = "test_agent.py::test_greedy_takes_the_likelier_action_and_the_first_on_a_tie"

REWARD = "test_environment.py::test_reward_is_zero_until_the_end_and_then_tells_success_from_failure"
UPDATES = "test_environment.py::test_updates_fall_every_ten_steps_and_at_the_end_each_followed_by_a_pull"
ORDER = "test_environment.py::test_a_trial_goes_step_by_step_in_this_order"
START = "test_environment.py::test_every_trial_of_every_thread_starts_elsewhere_but_the_same_for_the_same_seed"
TESTER = "test_environment.py::test_a_learner_counts_frames_and_the_test_thread_neither_counts_nor_changes_anything"
ACTS = "test_environment.py::test_the_test_thread_acts_greedily"

COUNT = "test_worker_thread.py::test_eight_learners_live_and_frames_and_trials_are_counted_exactly"
REPORT = "test_worker_thread.py::test_each_trial_is_reported_with_its_steps_and_the_mean_of_the_last_ten"
PASSED = "test_worker_thread.py::test_an_exam_that_is_passed_ends_learning_and_its_weights_go_to_the_server"
ONLY_SHOWN = "test_worker_thread.py::test_what_is_learned_from_the_start_is_only_shown"
FAILED = "test_worker_thread.py::test_an_exam_that_is_failed_lets_everybody_go_on_and_the_claimant_start_a_new_ten"
BAR = "test_worker_thread.py::test_a_claim_needs_ten_trials_that_average_more_than_199_be_they_the_last"
ALL = "test_worker_thread.py::test_claims_at_once_and_during_an_exam_and_at_the_end_of_the_budget_are_all_examined"
LAST = "test_worker_thread.py::test_the_test_thread_expects_claims_until_the_last_learner_has_ended"
TWO = "test_worker_thread.py::test_of_two_claims_at_once_one_that_passes_is_enough_and_neither_hangs"
CRASH = "test_worker_thread.py::test_an_exception_in_a_thread_stops_all"
CRASH_IN_EXAM = "test_worker_thread.py::" \
    "test_a_failure_during_an_exam_ends_the_exam_and_the_claimant_and_nothing_is_learned"
WAKE = "test_worker_thread.py::test_stop_wakes_a_claimant_and_the_test_thread"
TYPE = "test_worker_thread.py::test_the_type_of_a_thread_is_compared_by_its_letters"
GRAPH = "test_worker_thread.py::test_the_graph_is_legible"

MAIN = "test_script.py::test_main_builds_one_finalized_graph_before_the_first_thread_starts"
SEED = "test_script.py::test_one_worker_with_one_seed_gives_the_same_run_trial_by_trial"
CORE = "test_script.py::test_all_threads_share_a_core_and_give_it_back"
GOES_ON = "test_script.py::test_training_goes_on_from_a_checkpoint"
BAD = "test_script.py::test_bad_input_gets_one_line_and_writes_nothing"
NETWORK = "test_script.py::test_a_checkpoint_of_another_network_is_refused"
DAMAGED = "test_script.py::test_a_damaged_checkpoint_is_refused"
MIX = "test_script.py::test_lines_of_different_threads_never_mix_and_every_fiftieth_trial_makes_one"
WHOLE = "test_script.py::test_it_learns_films_saves_and_plays_back"
SIGNAL = "test_script.py::test_a_signal_ends_it_orderly_and_saves"
PIPE = "test_script.py::test_a_reader_that_leaves_ends_it_quietly"
CRASH_SHOWN = "test_script.py::test_an_exception_in_a_thread_is_shown_once_with_the_threads_name"
NO_FILM = "test_script.py::test_a_film_that_cannot_be_made_is_one_line_and_the_weights_are_saved"

MISSING = "test_drills.py::test_a_checkpoint_with_a_part_missing_is_refused"
BYTES = "test_drills.py::test_a_damaged_checkpoint_is_refused_or_the_damage_is_without_effect"
STDOUT = "test_drills.py::test_a_disk_too_full_for_stdout_is_one_line_and_saves"
TEE = "test_drills.py::test_ctrl_c_is_130_even_when_it_ended_the_reader_too"
LATE = "test_drills.py::test_a_signal_that_came_while_python_drops_exceptions_still_stops_it"
TWICE = "test_worker_thread.py::test_of_two_exceptions_the_first_is_kept"
WINDOW = "test_drills.py::test_where_a_window_opens_each_frame_is_shown_in_it_and_filmed"
DRIVER = "test_drills.py::test_a_video_driver_that_does_not_work_is_no_window"
BUILDING = "test_drills.py::test_a_signal_while_the_graph_is_built_ends_it_there"
HANGS = "test_drills.py::test_a_thread_that_hangs_is_left_behind_and_the_first_of_two_signals_counts"
BROKEN = "test_script.py::test_tensorflow_missing_or_broken_is_one_line"
CHECKER = "test_script.py::test_a_film_is_made_without_gyms_checker"
THROWN = "test_drills.py::test_the_film_of_a_trial_that_was_stopped_is_not_even_made"
HALF = "test_drills.py::test_a_film_that_cannot_be_made_is_one_line_and_what_was_learned_is_saved"
ASCII = "test_drills.py::test_neither_an_ascii_locale_nor_a_home_that_cannot_be_written_stops_it"
FULL = "test_drills.py::test_a_disk_too_full_for_the_curves_is_one_line_and_what_was_learned_is_saved"
REASON = "test_drills.py::test_a_disk_too_full_for_the_checkpoint_is_one_line_with_the_reason"
CURVES = "test_script.py::test_logdir_gets_the_graph_and_the_curves_of_the_run"
MEANS = "test_script.py::test_the_curves_are_means_of_the_last_ten_updates_and_updates_per_second"
DEFAULTS = "test_script.py::test_the_defaults_are_those_of_the_readme_and_each_run_has_a_seed_of_its_own"
RATE = "test_script.py::test_frames_of_a_checkpoint_count_as_frames_but_not_for_the_speed"
UNUSED = "test_script.py::test_what_is_not_used_need_not_be_there"
OPENS = "test_script.py::test_a_window_opens_where_one_can_unless_only_films_are_wanted"
NOBODY = "test_drills.py::test_it_ends_even_if_nobody_reads_what_it_prints"
IDLE = "test_script.py::test_it_prints_where_stdout_is_not_a_file"
DRIVE = "test_script.py::test_a_folder_on_a_drive_that_is_not_there_is_refused"
FFMPEG = "test_script.py::test_an_ffmpeg_that_does_not_run_is_one_line_before_training"
PACKAGE = "test_script.py::test_a_package_missing_for_the_film_is_named_before_training"
DRIVERS = "test_script.py::test_a_thread_can_open_a_window_with_some_drivers"
IMPORTING = "test_script.py::test_ctrl_c_while_tensorflow_is_imported_just_ends_it"

FAULTS = [  # what stands once in the script, what to put there, the test that catches it
    # ParameterServer
    ("min(self.frames / EPS_STEPS, 1.0)", "self.frames / EPS_STEPS", EPSILON),
    ("(EPS_END - EPS_START)", "(EPS_START - EPS_END)", EPSILON),
    ("EPS_START, EPS_END = 0.5", "EPS_START, EPS_END = 0.4", EPSILON),
    ("EPS_STEPS = 200 * N_WORKERS", "EPS_STEPS = 200", EPSILON),
    ("            self.frames += learning\n", "            self.frames += 1\n", NEXT),
    ("self.frames >= self.max_frames", "self.frames > self.max_frames", NEXT),
    ("self.frames >= self.max_frames", "self.frames == self.max_frames", NEXT),
    ("self.stopped or learning and (", "self.stopped or (", NEXT),
    ("self.stopped or learning and (", "learning and (self.stopped or ", NEXT),
    ("learning and (self.learned or ", "learning and (", NEXT),
    ("        with self.lock:\n            if self.stopped", "        if True:\n            if self.stopped", MEET),
    ("with self.server.lock: self.server.learners", "if True: self.server.learners", SIGN_OFF),
    ("        while not condition():\n            if self.stopped: raise Stopped\n",
     "        if self.stopped: raise Stopped\n        while not condition():\n", WAIT),
    ("            if self.stopped: raise Stopped\n", "", WAKE),
    ("call(*arrays)[:len(fetches)]", "call(*arrays)", CALL),
    ("make_callable([*fetches, *targets]", "make_callable([*fetches]", CALL),
    ("feed_list=list(feeds)", "feed_list=list(feeds)[::-1]", CALL),
    ("fetch=fetch, target=target)", "fetch=fetch)", CALL),
    ("except (ImportError, AttributeError):", "except ImportError:", CALL),
    ("initializer=tf.glorot_uniform_initializer()", "initializer=tf.zeros_initializer()", FIRST),
    ("initializer=tf.glorot_uniform_initializer()", "initializer=tf.random_normal_initializer()", FIRST),
    ("(units,), initializer=tf.zeros_initializer()", "(units,), initializer=tf.ones_initializer()", FIRST),
    ("RMSPropOptimizer(LEARNING_RATE, RMSPROP_DECAY)", "RMSPropOptimizer(LEARNING_RATE, 0.9)", UPDATE),
    ("RMSPropOptimizer(LEARNING_RATE, RMSPROP_DECAY)", "AdamOptimizer(LEARNING_RATE)", GRAPH),
    ("LEARNING_RATE, RMSPROP_DECAY = 5e-3", "LEARNING_RATE, RMSPROP_DECAY = 7e-3", UPDATE),
    ("self.server.optimizer.apply_gradients", "tf.train.RMSPropOptimizer(LEARNING_RATE, 0.99).apply_gradients", UPDATE),
    # LocalBrain
    ("tf.nn.relu(", "tf.nn.tanh(", FORWARD),
    ("tf.nn.softmax(", "tf.nn.sigmoid(", FORWARD),
    ("tf.nn.xw_plus_b(h, *critic)", "tf.nn.xw_plus_b(h, *critic) * 2", FORWARD),
    ("advantage = target - v", "advantage = v - target", LOSS),
    ("actor = -log_pi", "actor = log_pi", LOSS),
    ("critic = LOSS_V * tf.square", "critic = tf.square", LOSS),
    ("entropy = LOSS_ENTROPY *", "entropy = -LOSS_ENTROPY *", LOSS),
    ("LOSS_V, LOSS_ENTROPY = 0.5, 0.01", "LOSS_V, LOSS_ENTROPY = 0.5, 0.02", LOSS),
    ("tf.reduce_sum(p * a, axis=1) + 1e-10", "tf.reduce_sum(p * a, axis=1)", LOSS),
    ("tf.log(p + 1e-10)", "tf.log(p)", LOSS),
    ("return actor, critic, entropy", "return critic, actor, entropy", LOSS),
    ("return actor, critic, entropy", "return actor, entropy, critic", LOSS),
    ("-log_pi * tf.stop_gradient(advantage)", "-log_pi * advantage", GRADIENT),
    ("-log_pi * tf.stop_gradient(advantage)", "-log_pi * advantage", FLOW),
    ("LOSS_V * tf.square(advantage)", "LOSS_V * tf.square(tf.stop_gradient(advantage))", GRADIENT),
    ("tf.reduce_sum(p * tf.log(p", "tf.reduce_sum(tf.stop_gradient(p) * tf.log(p", GRADIENT),
    ("GAMMA_N * tf.stop_gradient(self.forward(s_)[1]) * mask", "GAMMA_N * self.forward(s_)[1] * mask", FLOW),
    ("tf.stop_gradient(self.forward(s_)[1]) * mask", "tf.stop_gradient(self.forward(s_)[1])", TARGET),
    ("R + GAMMA_N * tf", "R + GAMMA * tf", TARGET),
    ("R + GAMMA_N * tf", "R - GAMMA_N * tf", TARGET),
    ("tf.stop_gradient(self.forward(s_)[1])", "tf.stop_gradient(self.forward(s)[1])", TARGET),
    ("tf.reduce_mean(tf.add_n(terms))", "tf.reduce_sum(tf.add_n(terms))", UPDATE),
    ("tf.reduce_mean(tf.add_n(terms))", "tf.reduce_mean(tf.add_n(terms[:2]))", UPDATE),
    ("tf.gradients(loss,", "tf.gradients(-loss,", UPDATE),
    ("zip(gradients, self.server.weights)", "zip(gradients, self.weights)", UPDATE),
    ("tf.reduce_mean, terms)", "tf.reduce_mean, terms[::-1])", OBSERVER),
    ("tf.reduce_mean, terms)", "tf.reduce_mean, (terms[1], terms[0], terms[2]))", OBSERVER),
    ("tf.reduce_mean, terms)", "tf.reduce_sum, terms)", OBSERVER),
    ("tf.global_norm(gradients)]", "tf.global_norm(self.weights)]", OBSERVER),
    ("tf.global_norm(gradients)]", "tf.global_norm(gradients[:-1])]", OBSERVER),
    ("if self.server.observe: self.server.observe(figures[0].tolist())", "pass", OBSERVER),
    ("            if self.server.observe: self", "        if self.server.observe: self", OBSERVER),
    (">= MIN_BATCH", "> MIN_BATCH", BATCH),
    ("HIDDEN_UNITS, MIN_BATCH = 16, 5", "HIDDEN_UNITS, MIN_BATCH = 16, 4", BATCH),
    ("HIDDEN_UNITS, MIN_BATCH = 16, 5", "HIDDEN_UNITS, MIN_BATCH = 15, 5", COPY),
    ("samples, self.train_queue = self.train_queue, []", "samples = self.train_queue", BATCH),
    ("[mine.assign(theirs) for", "[theirs.assign(mine) for", COPY),
    ("[mine.assign(theirs) for mine, theirs in pairs]", "[mine.assign(theirs) for mine, theirs in pairs[:-1]]",
     COPY),
    ("[theirs.assign(mine) for mine, theirs in pairs]", "[theirs.assign(mine) for mine, theirs in pairs[1:]]",
     COPY),
    # Agent
    ("self.R += GAMMA ** len(self.memory) * r", "self.R += GAMMA ** N_STEP_RETURN * r", RETURN),
    ("self.R = (self.R - oldest_r) / GAMMA if", "self.R = (self.R - oldest_r) * GAMMA if", RETURN),
    ("self.R = (self.R - oldest_r) / GAMMA if", "self.R = (self.R + oldest_r) / GAMMA if", RETURN),
    ("/ GAMMA if self.memory else 0.0", "/ GAMMA", RETURN),
    ("self.memory.pop(0)", "self.memory.pop()", RETURN),
    ("len(self.memory) == N_STEP_RETURN or", "len(self.memory) > N_STEP_RETURN or", SAMPLE),
    (" or (s_ is None and self.memory):", ":", RETURN),
    ("oldest_a, self.R, s_)", "oldest_a, oldest_r, s_)", RETURN),
    ("NONE_STATE, 0.0) if s_ is None", "NONE_STATE, 1.0) if s_ is None", RETURN),
    ("(s, a, R, NONE_STATE, 0.0)", "(s, a, R, s, 0.0)", RETURN),
    ("ONE_HOT[a], r", "ONE_HOT[1 - a], r", RETURN),
    ("self.rng.random() < self.server.epsilon()", "self.rng.random() > self.server.epsilon()", ACTIONS),
    ("bisect.bisect([*itertools.accumulate(p[:-1])], self.rng.random())", "p.index(max(p))", ACTIONS),
    ("accumulate(p[:-1])", "accumulate(p[1:])", ACTIONS),
    ("[*itertools.accumulate(p[:-1])]", "p[:-1]", THREE),
    ("return self.rng.randrange(NUM_ACTIONS)", "return 0", RANDOM),
    ("return self.rng.randrange(NUM_ACTIONS)", "self.brain.predict_p(s[np.newaxis]); return self.rng.randrange(2)",
     RANDOM),
    ("if not greedy and self.rng", "if self.rng", GREEDY),
    ("p.index(max(p))", "p.index(min(p))", GREEDY),
    ("p.index(max(p))", "int(p[1] >= p[0])", GREEDY),
    ("        if greedy: return p.index(max(p))\n", "", GREEDY),
    # Environment
    ("-1.0 if step < 199", "-1.0 if step < 200", REWARD),
    ("-1.0 if step < 199", "-1.0 if step < 198", REWARD),
    ("return 0.0 if not done", "return 1.0 if not done", REWARD),
    ("done = terminated or truncated", "done = terminated", REWARD),
    ("None if done else s_)", "None if terminated else s_)", REWARD),
    ("            s = s_\n", "", REWARD),
    ("advantage_push_local_brain(s, a,", "advantage_push_local_brain(s, 0,", REWARD),
    ("env, brain = env or self.env", "env, brain = self.env", REWARD),
    ("if done or step % Tmax == 0", "if step % Tmax == 0", UPDATES),
    ("if done or step % Tmax == 0", "if done or step % Tmax == 1", UPDATES),
    ("N_WORKERS, Tmax = 8, 10", "N_WORKERS, Tmax = 8, 11", UPDATES),
    ("        if self.learning: brain.pull_parameter_server()  #", "        #", ORDER),
    ("brain.update_parameter_server()\n                    brain.pull_parameter_server()\n",
     "brain.update_parameter_server()\n", ORDER),
    ("brain.update_parameter_server()\n                    brain.pull_parameter_server()\n",
     "brain.pull_parameter_server()\n                    brain.update_parameter_server()\n", ORDER),
    ("            self.server.next_frame(self.learning)\n            s_, _, terminated, truncated, _ = env.step(a)\n",
     "            s_, _, terminated, truncated, _ = env.step(a)\n            self.server.next_frame(self.learning)\n",
     ORDER),
    ("seed=self.rng.randrange(2 ** 31)", "seed=0", START),
    ("env.reset(seed=self.rng.randrange(2 ** 31))", "env.reset()", START),
    ("random.Random(f\"{seed} {self.name}\")", "random.Random(seed)", START),
    ("self.server.next_frame(self.learning)", "self.server.next_frame(True)", TESTER),
    ("            if self.learning:\n", "            if True:\n", TESTER),
    ("greedy=not self.learning", "greedy=self.learning", ACTS),
    # Worker_thread
    ("self.learned = self.stopped = False", "self.learned = True; self.stopped = False", COUNT),
    ("for trial in itertools.count(1)", "for trial in itertools.count()", COUNT),
    ("sum(last_ten) / 10\n            self", "sum(last_ten) / 9\n            self", BAR),
    ("last_ten[1:] + [", "last_ten[:-1] + [", REPORT),
    ("sum(last_ten) / 10\n            self", "sum(last_ten) / min(trial, 10)\n            self", REPORT),
    ("mean of last ten {mean:.1f}\", steps, mean)", "mean of last ten {mean:.1f}\", mean, steps)", REPORT),
    ("last_ten = [0] * 10  # steps", "last_ten = [200] * 10  # steps", BAR),
    ("if mean > LEARNED_MEAN:", "if mean >= LEARNED_MEAN:", BAR),
    ("LEARNED_MEAN = 199", "LEARNED_MEAN = 195", BAR),
    ("                last_ten = [0] * 10  # failed", "                pass  # failed", FAILED),
    ("                last_ten = [0] * 10  # failed", "                last_ten = [0] * 11  # failed", FAILED),
    ("server.learned = mean > LEARNED_MEAN", "server.learned = True", FAILED),
    ("server.learned = mean > LEARNED_MEAN", "server.learned = mean >= LEARNED_MEAN", FAILED),
    ("self.server.claims.append(self.name)", "self.server.learned = True", FAILED),  # a claim without an exam
    ("            if not server.claims: return  # the frames are used up\n", "", FAILED),
    ("server.wait_until(lambda: server.claims or not server.learners)", "server.wait_until(lambda: server.claims)",
     FAILED),
    ("server.wait_until(lambda: server.claims or not server.learners)",
     "server.wait_until(lambda: server.claims or server.frames >= server.max_frames)", LAST),
    ("server.claims.pop(0)", "server.claims.clear()", ALL),
    ("self.server.learned or self.name not in", "self.name not in", TWO),
    ("                self.server.wait_until(lambda: self.server.learned or self.name not in self.server.claims)\n", "",
     FAILED),
    ("self.environment.run() for _ in range(10)) / 10", "self.environment.run() for _ in range(9)) / 9", PASSED),
    ("            brain.pull_parameter_server()  # weights that stay", "            pass  # weights that stay", PASSED),
    ("                server.wait_until(lambda: not server.learners)\n", "", PASSED),
    ("                brain.push_parameter_server()", "                pass", PASSED),
    ("                brain.push_parameter_server()  # no learner is left to overwrite what passed\n"
     "                server.report(\"Learned\")  # which saves it, too, if a checkpoint is wanted\n",
     "                server.report(\"Learned\")\n                brain.push_parameter_server()\n", PASSED),
    ("                server.report(\"Learned\")", "                pass", PASSED),
    ("self.environment.agent.brain\n        brain.pull_parameter_server()",
     "self.environment.agent.brain\n        pass", ONLY_SHOWN),
    ("while not server.learned:", "while True:", ONLY_SHOWN),
    ("self.environment.run(env))", "self.environment.run())", ONLY_SHOWN),
    ("range(1, self.test_trials + 1)", "range(1, self.test_trials)", ONLY_SHOWN),
    ("failure, self.server.stopped = self.server.failure or error, True", "failure = error", CRASH),
    ("failure, self.server.stopped = self.server.failure or error, True", "failure = error", CRASH_IN_EXAM),
    ("self.server.failure or error, True", "error, True", TWICE),
    ("self.stopped or learning and (", "learning and (self.stopped or ", CRASH_IN_EXAM),
    ("finally:\n            with self.server.lock: self.server.learners -= self.learning",
     "finally:\n            with self.server.lock: self.server.learners -= 1", COUNT),
    ("self.server = thread_name, thread_type == \"", "self.server = thread_name, thread_type is \"", TYPE),
    ("self.rng = thread_type == \"", "self.rng = thread_type is \"", TYPE),
    ("tf.name_scope(name + \"/\")", "tf.name_scope(name)", GRAPH),
    ("tf.disable_eager_execution()", "tf.disable_eager_execution(); tf.disable_resource_variables()", GRAPH),
    # main and Run
    ("graph.finalize()", "graph", MAIN),
    ("as graph, tf.device(\"/cpu:0\"):", "as graph:", MAIN),
    ("            if self.server: self.server.stopped = True", "            if self.server is None: raise Stopped\n"
     "            self.server.stopped = True", BUILDING),
    (" if not run.signum]", "]", BUILDING),
    ("name=worker.name, daemon=True)", "name=worker.name)", HANGS),
    ("            if self.server.stopped: patience -= 0.02\n", "", HANGS),
    ("self.signum = self.signum or signal.Signals(signum)", "self.signum = signal.Signals(signum)", HANGS),
    ("target=worker.run, name", "target=lambda: worker.run(), name", MAIN),
    ("f\"local_thread{i + 1}\"", "f\"local_thread{i}\"", MAIN),
    ("tf.device(\"/cpu:0\"):\n            tf.set_random_seed(run.seed)\n", "tf.device(\"/cpu:0\"):\n", SEED),
    ("random.Random(f\"{seed} {self.name}\")", "random.Random()", SEED),
    ("[:-1])], self.rng.random())", "[:-1])], random.random())", SEED),
    ("            os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})\n", "", CORE),
    ("            self.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))\n", "", CORE),
    ("server.max_frames + server.frames", "server.max_frames", GOES_ON),
    ("server.frames = self.saved_frames = int", "self.saved_frames = int", GOES_ON),
    ("Saver(variables := tf.global_variables(\"parameter_server/\"),", "Saver(variables := server.weights,", GOES_ON),
    (" != variable.shape for variable in variables): raise ValueError", " is None for variable in variables): pass",
     NETWORK),
    ("except (tf.errors.OpError, ValueError, IndexError):", "except ZeroDivisionError:", DAMAGED),
    ("tf.train.latest_checkpoint(self.checkpoint) or os.devnull", "tf.train.latest_checkpoint(self.checkpoint)", BAD),
    ("if not low <= vars(self)[flag] < 2 ** 32", "if not low <= vars(self)[flag]", BAD),
    ("if \"[\" in (self.checkpoint or \"\"): self.error(", "str(", BAD),
    ("self.render == \"human\" and not self.window", "self.render == \"human\" and self.window", BAD),
    ("        self.save()\n\n    def finish", "\n    def finish", SIGNAL),
    ("            if self.server: self.server.stopped = True\n", "", SIGNAL),
    ("return 128 + self.signum", "return self.signum", SIGNAL),
    ("except OSError as reason:  # a", "except ZeroDivisionError as reason:  # a", PIPE),
    ("error, True\n            raise\n", "error, True\n", CRASH_SHOWN),
    ("if isinstance(self.server.failure, SystemExit): raise self.server.failure", "pass", NO_FILM),
    ("setLevel(\"FATAL\")", "setLevel(\"ERROR\")", MISSING),
    ("(tf.errors.OpError, ValueError, IndexError)", "(tf.errors.OpError, ValueError)", BYTES),
    ("except OSError as reason:  # a", "except BrokenPipeError as reason:  # a", STDOUT),
    ("1 if isinstance(reason, BrokenPipeError) else f", "1 if isinstance(reason, OSError) else f", STDOUT),
    ("with contextlib.suppress(OSError): print(\"Stopped", "print(\"Stopped", TEE),
    ("        if self.signum: server.stopped = True", "        if 0: server.stopped = True", LATE),
    ("(os._exit if (status := main()) > 128 else sys.exit)(status)", "sys.exit(main())", NOBODY),
    ("if hasattr(sys.stdout, \"reconfigure\"): ", "", IDLE),
    (" or part.is_symlink()), path)", "), path)", BAD),
    (" or part.is_symlink()), path)", " or part.is_symlink()))", DRIVE),
    ("finally: recorder.recording = (", "finally: (", THROWN),
    ("render_mode=\"rgb_array_list\", disable_env_checker=True", "render_mode=\"rgb_array_list\"", CHECKER),
    ("{str(e.__cause__ or e)", "{str(e)", BROKEN),
    ("self.moviepy.VideoFileClip(f\"{hidden}/rl-video-episode-0.mp4\").close()", "pass", HALF),
    ("        with self.lock:\n            frames, seconds", "        if True:\n            frames, seconds", MIX),
    ("SDL_FRAMEBUFFER_ACCELERATION=\"0\", ", "", WINDOW),  # crashes
    ("gym.wrappers.HumanRendering(recorder) if self.window else recorder", "recorder", WINDOW),
    ("if not self.window: os.environ", "os.environ", WINDOW),
    ("with contextlib.suppress(pygame.error):", "if True:", DRIVER),
    ("except Exception as e", "except (OSError, RuntimeError) as e", PACKAGE),
    ("except Exception as e", "except (ImportError, RuntimeError) as e", FFMPEG),
    ("except Exception as e", "except (ImportError, OSError) as e", FFMPEG),
    ("                self.save()\n            if steps", "            if steps", WHOLE),
    ("                self.saved_frames = frames\n", "", WHOLE),
    ("reconfigure(errors=\"backslashreplace\")", "reconfigure()", ASCII),
    ("{' '.join(str(reason).split())}", "{str(reason).splitlines()[0]}", REASON),
    ("            self.events.flush()\n", "", FULL),
    ("else {\"exam\": mean}", "else {\"exam\": 0.0}", CURVES),
    ("mean_of_last_ten/{name}\": mean}", "mean_of_last_ten/{name}\": steps}", CURVES),
    ("self.updates[-10:]", "self.updates", MEANS),
    ("\"loss/critic\", \"loss/entropy\", \"gradient\"", "\"gradient\", \"loss/entropy\", \"loss/critic\"", MEANS),
    ("len(self.updates) / seconds", "len(self.updates)", MEANS),
    ("default=3, help=\"trials", "default=1, help=\"trials", DEFAULTS),
    ("default=1_000_000", "default=500_000", DEFAULTS),
    ("default=random.randrange(2 ** 32)", "default=0", DEFAULTS),
    ("(frames - self.saved_frames) / seconds", "frames / seconds", RATE),
    ("(\"--checkpoint\", None if self.play else self.checkpoint)", "(\"--checkpoint\", self.checkpoint)", UNUSED),
    ("None if self.render == \"none\" else self.video_dir", "self.video_dir", UNUSED),
    ("        if self.render != \"none\":\n", "        if True:\n", UNUSED),
    ("self.window = self.render != \"video\"", "self.window = self.render == \"human\"", OPENS),
    ("self.window = self.render != \"video\" and", "self.window =", OPENS),
    ("(\"x11\", \"wayland\", \"windows\")", "(\"wayland\", \"windows\")", DRIVERS),
    ("(\"x11\", \"wayland\", \"windows\")", "(\"x11\", \"wayland\", \"windows\", \"cocoa\")", DRIVERS),
    ("if __name__ == \"__main__\": signal.signal(signal.SIGINT, signal.SIG_DFL)", "if True: pass", IMPORTING),
    ("max(self.best_mean, mean)", "mean", SEED),
    ("sum(self.steps[-50:]) / 50", "sum(self.steps) / 50", SEED),
    ("epsilon {self.server.epsilon():.2f}", "epsilon {EPS_START:.2f}", SEED),
    ("line = f\"{frames} frames", "line = f\"{self.saved_frames} frames", SEED),
    ("{len(self.steps)} trials, {seconds", "{len(self.steps) + 50} trials, {seconds", WHOLE),
    ("server, time.perf_counter()", "server, 0.0", WHOLE),
]


def run(script, *tests):
    """Run these tests on a copy of the project with this text as the script: (pytest's status, what it printed)."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tests", Path(folder, "tests"), ignore=shutil.ignore_patterns("__pycache__"))
        Path(folder, "a3c_cartpole.py").write_text(script, encoding="utf-8")
        command = sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests)
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              start_new_session=True) as process:
            try:
                out, _ = process.communicate(timeout=400 + 10 * len(tests))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with the scripts that it started
                return None, "DOES NOT END"
        return process.returncode, out


def survives(script, old, new, test):
    """What is wrong with this fault: its test stays green, say. None if the test catches it."""
    if script.count(old) != 1:
        return f"STANDS {script.count(old)} TIMES IN THE SCRIPT"
    status, out = run(script.replace(old, new), test)
    return {0: "SURVIVES", 1: None}.get(status, out[-500:])


def main():
    word, failures = (sys.argv + [""])[1], 0
    faults = [fault for fault in FAULTS if word in str(fault)]
    if not faults:
        sys.exit(f"No fault of the list has {word!r} in it.")
    script = (ROOT / "a3c_cartpole.py").read_text(encoding="utf-8")
    status, out = run(script, *dict.fromkeys(test for *_, test in faults))
    if status != 0:
        sys.exit(out + "\nThe script has to pass these tests before it is broken.")
    for number, (old, new, test) in enumerate(faults, 1):
        trouble = survives(script, old, new, test)
        failures += trouble is not None
        print(f"{number}/{len(faults)} {trouble or 'caught'} by {test}: {old.strip()!r} -> {new.strip()!r}", flush=True)
    print(f"{len(faults)} faults, {failures} survivors")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
