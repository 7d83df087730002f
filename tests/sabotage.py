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
SCRIPT = "a3c_cartpole.py"
FAULTS = {  # a test: (function or setting; expression or statement in it; what to put there)
    "network::updates_equal_numpy_and_learners_share_the_averages": [
        ("LEARNING_RATE", "5e-3", "7e-3"),
        ("ParameterServer.build_update", "self.optimizer", "self.build_optimizer()"),
        ("LocalBrain._build_graph", "loss", "-loss"),
        ("LocalBrain._build_graph", "tf.reduce_mean(tf.add_n(terms))", "tf.add_n(terms)"),
        ("LocalBrain.build_loss", "tf.stop_gradient(advantage)", "advantage"),
        ("LocalBrain._build_graph", "tf.stop_gradient(R + discount * v_)", "R + discount * v_"),
        ("LocalBrain._build_graph", "discount * v_", "v_"),
        ("LocalBrain.update_parameter_server", "entropy", "critic")],
    "network::terms_of_the_loss_equal_numpy_even_where_the_policy_is_certain": [
        ("LOSS_ENTROPY", "0.01", "0.02"),
        ("LocalBrain.build_loss", "p_taken + 1e-10", "p_taken")],
    "network::the_policy_equals_numpy": [
        ("ParameterServer._build_model", "tf.nn.relu", "tf.nn.elu")],
    "network::a_gradient_that_is_not_finite_is_an_error": [
        ("LocalBrain.update_parameter_server", "not math.isfinite(norm)", "math.isinf(norm)")],
    "network::a_part_of_the_graph_is_prepared_once_not_at_each_call": [
        ("GraphCall.__call__", "self.function is None", "True")],
    "network::pull_and_push_copy_every_weight_and_nothing_else": [
        ("LocalBrain._build_graph", "mine.assign(servers, read_value=False)",
         "servers.assign(mine, read_value=False)")],
    "agent::n_step_returns_equal_sums_of_discounted_rewards": [
        ("Agent.queue_oldest", "reversed(self.memory)", "self.memory"),
        ("Agent.queue_oldest", "GAMMA ** n", "GAMMA ** N_STEP_RETURN"),
        ("Agent.queue_oldest", "0.0 if terminal else GAMMA ** n", "GAMMA ** n"),
        ("Agent.advantage_push_local_brain", "N_STEP_RETURN", "N_STEP_RETURN + 1"),
        ("Agent.advantage_push_local_brain", "done and self.memory", "False")],
    "agent::actions_follow_epsilon_and_the_policy": [
        ("Agent.explore", "1.0", "9.0"),
        ("EPS_STEPS", "1600", "160"),
        ("Agent.explore", "self.rng.randrange(NUM_ACTIONS)", "0"),
        ("Agent.explore", "self.rng.choices(range(NUM_ACTIONS), weights=p)",
         "self.rng.choices(range(NUM_ACTIONS))")],
    "agent::explore_chooses_a_learners_actions_and_greedy_play_takes_the_likeliest": [
        ("Agent.act", "p.index(max(p))", "p.index(min(p))"),
        ("Agent.act", "greedy", "not greedy"),
        ("Agent.act", "self.explore(p, frame)", "self.explore(p, 0)")],
    "environment::a_learner_pulls_plays_ten_steps_and_updates": [
        ("Environment.run", "not learning", "learning"),
        ("Environment.run", "learning and step % Tmax == 0", "learning and step == 0"),
        ("Environment.run", "self.progress.next_frame(learning)",
         "self.progress.next_frame(learning) + 1"),
        ("Progress.next_frame", "frame = self.frames", "frame = self.frames + 1"),
        ("Tmax", "10", "11"),
        ("Environment.run", "done or step % Tmax == 0", "step % Tmax == 0"),
        ("Environment.run", "score += r", "score += 1.0")],
    "environment::the_test_thread_only_plays_and_takes_the_likeliest_actions": [
        ("Environment.run", "learning and step % Tmax == 0", "step % Tmax == 0")],
    "environment::the_last_reward_tells_success_and_V_counts_only_if_it_could_go_on": [
        ("Environment.reward", "199", "200"),
        ("Environment.run", "terminated or truncated", "truncated"),
        ("Environment.run", "s = s_", "pass"),
        ("Environment.run", "self.reward(s, r, s_, step, done, terminal)",
         "self.reward(s, r, s_, step, done, terminated)")],
    "environment::each_thread_has_its_own_environment_agent_and_brain": [
        ("Environment.__init__", "self.make()",
         "vars(self.progress).setdefault('env', self.make())"),
        ("Agent.__init__", "collections.deque()",
         "vars(brain.server).setdefault('memory', collections.deque())"),
        ("LocalBrain.__init__", "[]", "vars(parameter_server).setdefault('queue', [])")],
    "environment::states_of_float64_learn_and_every_sample_is_used_once": [
        ("GraphCall.__init__", "tensor.dtype.as_numpy_dtype", "float"),
        ("LocalBrain.update_parameter_server", "self.train_queue.clear()", "pass")],
    "environment::each_episode_starts_elsewhere_but_the_same_for_the_same_seed": [
        ("Environment.run", "self.agent.rng.randrange(2 ** 31)", "0"),
        ("main", "f'{options.seed} {name}'", "f'{options.seed} {thread_type}'"),
        ("main", "f'{options.seed} {name}'", "name")],
    "environment::a_wrong_number_of_actions_is_noticed_before_anything_is_learned": [
        ("Environment.__init__", "n == NUM_ACTIONS", "True")],
    "worker_thread::after_the_last_frame_or_once_it_is_learned_only_the_test_thread_goes_on": [
        ("Progress.next_frame", "self.frames >= self.max_frames",
         "self.frames > self.max_frames"),
        ("Progress.next_frame", "self.phase == 'learned' or self.frames >= self.max_frames",
         "self.frames >= self.max_frames")],
    "worker_thread::a_stop_ends_learners_and_the_test_thread_at_their_next_step": [
        ("Progress.next_frame", "self.coordinator.should_stop()", "False")],
    "worker_thread::during_an_evaluation_learners_wait_and_a_stop_wakes_them": [
        ("Progress.next_frame", "self.wait_until(lambda: self.phase != 'evaluating')", "pass"),
        ("Progress.wait_until", "condition() or self.coordinator.should_stop()", "condition()"),
        ("Progress.stop", "self.changed.notify_all()", "pass")],
    "worker_thread::a_thread_that_fails_wakes_whoever_waits": [
        ("Worker_thread.run", "self.progress.changed.notify_all()", "pass")],
    "worker_thread::a_stop_that_ends_all_learners_is_no_end_of_learning": [
        ("Progress.wait_until", "raise Stopped", "pass")],
    "worker_thread::a_thread_whose_work_is_done_early_does_not_keep_the_run_from_ending": [
        ("Worker_thread.work", "self.progress.stop()", "pass"),
        ("Worker_thread.run", "self.progress.learners.discard(self.name)", "pass")],
    "worker_thread::threads_that_meet_at_the_last_frames_play_each_of_them_once": [
        ("Progress.next_frame", "self.changed", "threading.Semaphore(9)")],
    "worker_thread::episodes_that_end_together_are_counted": [
        ("Progress.__init__", "threading.Condition()",
         "__import__('unittest.mock').mock.MagicMock()")],
    "worker_thread::saves_never_meet": [
        ("ParameterServer.save", "self.saving", "threading.Semaphore(9)")],
    "worker_thread::the_latest_ten_scores_above_199_lead_to_an_evaluation_that_must_be_above_it_"
    "too": [
        ("Progress.episode_ended", "sum(self.recent) / THRESHOLD_EPISODES > LEARNED_MEAN",
         "sum(self.recent) / THRESHOLD_EPISODES >= LEARNED_MEAN"),
        ("Progress.episode_ended", "len(self.recent) == THRESHOLD_EPISODES",
         "len(self.recent) == THRESHOLD_EPISODES - 1"),
        ("Worker_thread.evaluate", "mean > LEARNED_MEAN", "True"),
        ("THRESHOLD_EPISODES", "10", "11"),
        ("EVALUATION_EPISODES", "10", "9"),
        ("LEARNED_MEAN", "199", "195")],
    "worker_thread::a_score_that_comes_during_the_evaluation_does_not_count": [
        ("Progress.episode_ended", "self.phase == 'training'", "True")],
    "worker_thread::after_a_failed_evaluation_ten_new_episodes_have_to_reach_the_threshold": [
        ("Worker_thread.test", "progress.phase == 'evaluating' or not progress.learners",
         "not progress.learners"),
        ("Progress.evaluated", "self.recent.clear()", "pass"),
        ("Progress.evaluated", "self.changed.notify_all()", "pass")],
    "worker_thread::the_threshold_is_awaited_as_long_as_a_learner_has_not_ended": [
        ("Worker_thread.test", "not progress.learners", "progress.frames >= progress.max_frames")],
    "worker_thread::the_weights_that_pass_are_what_stays_and_is_saved": [
        ("Worker_thread.evaluate", "brain.push_parameter_server()", "pass"),
        ("Worker_thread.evaluate", "brain.pull_parameter_server()", "pass"),
        ("Worker_thread.evaluate", "self.server.save()", "pass"),
        ("Worker_thread.evaluate", "progress.wait_until(lambda: not progress.learners)", "pass")],
    "script::it_films_every_step_of_each_test_episode": [
        ("show_episodes", "environment.env = env", "pass"),
        ("show_episodes", "f'test-{episode}'", "'test'"),
        ("show_episodes", "env.close()", "pass")],
    "script::what_it_learned_is_saved_and_plays_back_as_well": [
        ("show_episodes", "environment.agent.brain.pull_parameter_server()", "pass"),
        ("ParameterServer.save", "self.options.checkpoint is not None and (not self.options.play)",
         "self.options.checkpoint is not None"),
        ("main", "not options.play", "True"),
        ("restore_checkpoint", "if not play:\n    say(f'Continues after {frames} frames')",
         "say(f'Continues after {frames} frames')")],
    "script::every_fifty_episodes_and_around_an_evaluation_it_says_how_far_it_is": [
        ("Worker_thread.learn", "episodes % 50 == 0", "episodes % 100 == 0"),
        ("Progress.seconds", "time.perf_counter() - self.start_time", "0.0"),
        ("Progress.__init__", "time.perf_counter()", "0.0"),
        ("Progress.__init__", "50", "51"),
        ("Progress.episode_ended", "sum(self.scores) / len(self.scores)", "score"),
        ("Worker_thread.evaluate", "sum(progress.recent) / len(progress.recent)",
         "sum(progress.scores) / len(progress.scores)"),
        ("Worker_thread.evaluate",
         "f'Evaluation: mean {mean:.1f} of {EVALUATION_EPISODES} episodes'",
         "f'Evaluation: mean {mean:.1f} of {THRESHOLD_EPISODES} episodes'"),
        ("Worker_thread.evaluate", "progress.episodes", "len(progress.scores)")],
    "script::a_line_is_printed_at_once_and_in_one_piece_so_that_threads_do_not_mix_lines": [
        ("say", "print(line + '\\n', end='', flush=True)", "print(line, flush=True)"),
        ("say", "True", "False")],
    "script::each_curve_shows_its_own_numbers_over_the_frames": [
        ("LocalBrain.update_parameter_server", "actor", "critic"),
        ("Worker_thread.evaluate", "sum(scores) / len(scores)", "max(scores)"),
        ("Worker_thread.evaluate",
         "add_to_curves(self.server, {'evaluation': mean, 'threshold': LEARNED_MEAN})", "pass"),
        ("Worker_thread.learn", "{f'score/{self.name}': score, 'mean': mean}",
         "{f'score/{self.name}': score, 'mean': score}"),
        ("Worker_thread.learn", "f'score/{self.name}'", "'score/local_thread1'"),
        ("add_to_curves", "server.progress.frames", "server.progress.episodes"),
        ("add_to_curves", "np.mean(y)", "np.sum(y)")],
    "script::logdir_holds_the_graph_and_all_curves_even_of_a_run_that_fails": [
        ("ParameterServer.initialize", "self.session.graph", "None"),
        ("main", "server.curves.flush()", "pass")],
    "script::each_run_films_into_a_folder_of_its_own_and_needs_no_screen": [
        ("show_episodes", "os.makedirs(folder)", "os.makedirs(folder, exist_ok=True)"),
        ("prepare_films", "os.environ['SDL_VIDEODRIVER'] = 'dummy'", "pass")],
    "script::a_window_shows_every_step_that_is_filmed": [
        ("show_episodes", "options.window", "False")],
    "script::auto_and_human_open_a_window_where_there_is_a_screen": [
        ("parse", "('auto', 'human')", "('auto', 'human', 'video')"),
        ("parse", "'WAYLAND_DISPLAY'", "'WAYLAND'")],
    "script::without_a_screen_auto_opens_no_window_and_human_is_refused": [
        ("parse", "sys.platform == 'linux'", "True"),
        ("parse", "options.render == 'human' and (not screen)", "False")],
    "script::a_checkpoint_loads_whole_wherever_it_is_moved": [
        ("restore_checkpoint", "True", "False"),
        ("restore_checkpoint", "server.saver.restore(server.session, latest)", "pass"),
        ("restore_checkpoint", "tf.global_variables('parameter_server/')", "server.weights")],
    "script::learning_goes_on_from_a_checkpoint_as_many_frames_as_wanted": [
        ("restore_checkpoint", "server.progress.frames = frames", "pass"),
        ("restore_checkpoint", "server.progress.max_frames += frames", "pass"),
        ("restore_checkpoint", "say(f'Continues after {frames} frames')", "pass")],
    "script::it_saves_at_the_end_and_not_before": [
        ("main", "if threads:\n    server.save()", "pass"),
        ("main", "graph.finalize()", "(graph.finalize(), server.save())")],
    "script::it_saves_every_minute_or_as_often_as_is_set_and_at_the_end": [
        ("SAVE_SECONDS", "60", "70"),
        ("main", "time.monotonic() > next_save", "False"),
        ("main", "time.monotonic() > next_save", "True"),
        ("main", "if time.monotonic() > next_save:\n    server.save()\n    next_save = "
         "time.monotonic() + SAVE_SECONDS",
         "if time.monotonic() > next_save:\n    server.save()\n    next_save = math.inf")],
    "script::bad_input_is_refused_in_one_line_that_names_it": [
        ("parse", "OSError", "ValueError"),
        ("parse", "options.checkpoint is None", "False"),
        ("parse", "None if options.play else options.checkpoint", "options.checkpoint"),
        ("parse", "options.seed < 0", "False")],
    "script::a_checkpoint_that_is_damaged_or_another_networks_is_refused_and_left_alone": [
        ("restore_checkpoint", "shapes.get(v.op.name) != v.shape", "False"),
        ("restore_checkpoint", "(OSError, TypeError, ValueError, IndexError, tf.errors.OpError)",
         "OSError")],
    "script::films_that_cannot_be_made_are_refused_before_anything_is_learned": [
        ("prepare_films", "import moviepy, pygame", "import pygame"),
        ("prepare_films", "import moviepy, pygame", "import moviepy"),
        ("prepare_films", "OSError", "ValueError"),
        ("main", "prepare_films(options)", "pass")],
    "seams::network_and_optimizer_follow_the_settings": [
        ("ParameterServer._build_model", "layer('actor', HIDDEN_UNITS, NUM_ACTIONS)",
         "layer('actor', HIDDEN_UNITS, 2)"),
        ("ParameterServer.build_optimizer", "RMSPROP_DECAY", "0.99")],
    "seams::the_terms_of_the_loss_have_the_weights_of_the_settings": [
        ("LocalBrain.build_loss", "LOSS_V", "0.5")],
    "seams::a_learner_goes_to_the_shared_core_only_if_it_should": [
        ("Worker_thread.learn", "SHARE_ONE_CORE", "True")],
    "seams::options_that_are_not_given_come_from_the_settings_and_the_seed_from_chance": [
        ("parse", "MAX_FRAMES", "1000000"),
        ("parse", "random.randrange(2 ** 32)", "1")],
    "script::one_worker_and_one_seed_give_the_same_run": [
        ("main", "tf.set_random_seed(options.seed)", "pass")],
    "seams::threshold_and_evaluation_follow_the_settings_and_make_reaches_the_server": [
        ("Environment.__init__", "self.server = parameter_server", "pass"),
        ("Worker_thread.evaluate", "range(EVALUATION_EPISODES)", "range(10)"),
        ("Progress.episode_ended", "len(self.recent) == THRESHOLD_EPISODES",
         "len(self.recent) == 10")],
    "seams::a_run_goes_on_with_the_weights_and_with_the_variables_of_another_optimizer": [
        ("ParameterServer.build_update", "tf.name_scope('parameter_server/')",
         "tf.name_scope('elsewhere/')")],
    "drills::an_exception_in_any_thread_ends_all_and_names_it": [
        ("Worker_thread.run", "RuntimeError(f'{self.name} failed: {error!r}')", "error")],
    "drills::a_reward_that_is_no_number_is_shown_once_and_spoils_no_checkpoint": [
        ("LocalBrain.update_parameter_server", "not math.isfinite(norm)", "False"),
        ("main", "progress.stop()", "(progress.stop(), server.save())")],
    "drills::ctrl_c_while_a_film_is_made_is_one_line": [
        ("main", "interrupted = True", "raise")],
    "drills::ctrl_c_before_the_threads_start_saves_nothing": [
        ("main", "interrupted = True", "pass")],
    "drills::ctrl_c_while_what_films_need_is_imported_is_one_line": [
        ("main", "if threads:\n    server.save()", "server.save()")],
    "drills::ctrl_c_ends_it_even_if_a_thread_hangs": [
        ("main", "threading.Thread(target=worker.run, name=worker.name, daemon=True)",
         "threading.Thread(target=worker.run, name=worker.name)"),
        ("main", "1.5", "150.0")],
    "drills::the_shared_core_is_one_that_the_process_may_use": [
        ("share_one_core", "cores[os.getpid() % len(cores)]", "os.getpid() % os.cpu_count()")],
    "drills::learners_share_one_core_and_the_other_threads_are_free": [
        ("SHARE_ONE_CORE", "True", "False")],
    "drills::the_graph_is_finalized_before_any_thread_plays": [
        ("main", "graph.finalize()", "pass")],
    "variants::the_settings_are_those_of_the_page_and_otherwise_the_scripts": [
        ("memory.configure", "a3c.EPS_START = 0.0", "pass"),
        ("memory.LAMBDA", "0.95", "0.9"),
        ("memory.main", "a3c.main(words, Server if memory else clipped.Clipping, Brain, Agent, "
         "Environment)", "a3c.main(words, Server if memory else clipped.Server, Brain, Agent, "
         "Environment)"),
        ("memory_pendulum.configure", "a3c.GAMMA = 0.9",
         "a3c.GAMMA = 0.9 if with_memory else 0.95"),
        ("memory_pendulum.main", "NoMemoryServer", "pendulum.Server"),
        ("memory_pong.configure", "1.0", "0.95"),
        ("pendulum.configure", "-200", "-250"),
        ("pong.Server.max_norm", "40 / 20", "40"),
        ("pong.Server.epsilon", "1e-5", "1e-10"),
        ("clipped.FallingRate.build_optimizer", "self.epsilon", "1e-7"),
        ("ga3c.TRAINING_BATCH", "40", "80")],
    "variants::what_a_variant_cannot_train_on_is_refused_in_a_line": [
        ("memory.Remembering.__init__", "a3c.N_STEP_RETURN != 1", "False"),
        ("memory.Remembering.__init__", "seen != (SEEN,)", "seen < (SEEN,)"),
        ("pong.Agent.__init__", "a3c.N_STEP_RETURN < a3c.Tmax", "False"),
        ("pendulum.Environment.__init__", "shape != (DIMENSIONS,)", "False")],
    "variants::clipped_gradients_and_a_rate_that_falls_equal_numpy": [
        ("clipped.FallingRate.anneal_frames", "300_000", "350_000"),
        ("clipped.Clipping.build_update", "tf.clip_by_global_norm(gradients, self.max_norm)",
         "gradients, 1"),
        ("clipped.Clipping.build_update", "tf.clip_by_global_norm(gradients, self.max_norm)",
         "[g * self.max_norm / tf.global_norm(gradients) for g in gradients], 1"),
        ("clipped.FallingRate.build_optimizer", "self.progress.frames", "0"),
        ("clipped.FallingRate.build_optimizer", "0.0", "1e-3")],
    "variants::pendulums_loss_and_its_slopes_equal_numpy": [
        ("pendulum.configure", "2 * DIMENSIONS", "2"),
        ("pendulum.Brain.build_loss", "tf.stop_gradient(advantage)", "advantage ** 2"),
        ("pendulum.Brain.build_loss", "-a3c.LOSS_ENTROPY", "a3c.LOSS_ENTROPY"),
        ("pendulum.Brain.build_loss", "((a - mean) / spread) ** 2",
         "((tf.clip_by_value(a, -2, 2) - mean) / spread) ** 2"),
        ("pendulum.Brain.build_loss", "tf.reduce_sum(log_p, axis=1)",
         "tf.reduce_mean(log_p, axis=1)"),
        ("pendulum.Brain.build_loss",
         "tf.reduce_sum(tf.log(spread) + np.log(2 * np.pi * np.e) / 2, axis=1)",
         "tf.log(spread[:, 0]) + np.log(2 * np.pi * np.e) / 2")],
    "variants::a_torque_is_the_mean_or_drawn_with_the_spread_and_not_cut_at_2": [
        ("pendulum.Agent.act", "self.rng.gauss(*of_one)", "self.rng.gauss(mean[0], spread[0])"),
        ("pendulum.Agent.act", "np.array(a, np.float32)", "np.array(a, np.float32).clip(-2, 2)"),
        ("pendulum.Agent.act", "self.rng.gauss(*of_one)",
         "of_one[0] + self.rng.random() * of_one[1]"),
        ("pendulum.Agent.act", "np.split(self.brain.predict_p(s[np.newaxis])[0], 2)",
         "self.brain.predict_p(s[np.newaxis])[0].reshape(-1, 2).T")],
    "variants::pendulums_rewards_are_scaled_and_v_counts_after_the_last_step": [
        ("Environment.make", "ENV", "'CartPole-v0'"),
        ("Environment.run", "truncated and TIME_LIMIT_IS_END", "truncated"),
        ("pendulum.Environment.reward", "8", "16")],
    "variants::policy_value_and_memory_of_successive_states_equal_numpy": [
        ("pendulum.Server._build_model", "tf.squeeze(critic(s), axis=1)",
         "2 * tf.squeeze(critic(s), axis=1)"),
        ("pendulum.Server.state_scale", "8", "1"),
        ("pendulum.MAX_TORQUE", "2.0", "1.0"),
        ("memory.Server._build_model", "h[:1]", "0 * h[:1]"),
        ("memory.lstm.remember", "steps.cs[:, 0]", "steps.h[:, 0]"),
        ("memory_pendulum.Server._build_model", "tf.concat([mean, spread, c1, c2, h1, h2], axis=1)",
         "tf.concat([mean, spread, c1, h1, c2, h2], axis=1)"),
        ("memory_pendulum.Server._build_model", "critic(x, h2)", "critic(x, h1)"),
        ("memory_pendulum.Server._build_model", "h2[:1]", "h1[:1]"),
        ("memory_pendulum.head.forward", "tf.concat([x, h], axis=1)",
         "tf.concat([0 * x, h], axis=1)"),
        ("pong.Server._build_features", "255", "256"),
        ("pong.BACKGROUND", "87", "0"),
        ("pong.Server._build_features", "(0, 2, 3, 1)", "(0, 3, 2, 1)"),
        ("pong.Server._build_features", "tf.nn.conv2d(x, w, stride, 'VALID') + b",
         "tf.nn.conv2d(x, w, stride, 'VALID')"),
        ("memory_pong.Server._build_model", "h[:1]", "0 * h[:1]"),
        ("memory_pong.Server._build_model", "tf.concat([policy, c, h], axis=1)",
         "tf.concat([policy, h, c], axis=1)"),
        ("memory_pong.Server._build_model", "tf.nn.xw_plus_b(h, *critic)",
         "tf.matmul(h, critic[0])")],
    "variants::every_episode_begins_without_memories": [
        ("memory.Remembering.run", "self.agent.forget()", "learning and self.agent.forget()")],
    "variants::a_sample_holds_what_its_thread_has_remembered_in_its_episode": [
        ("memory.Brain.predict_p", "self.remembered = p[0, a3c.NUM_ACTIONS:]",
         "self.remembered = p[0, a3c.NUM_ACTIONS:][::-1]"),
        ("memory.Agent.act", "self.remembered = self.brain.remembered",
         "Agent.with_memory = lambda _, s, kept=self.brain.remembered: np.append(s, kept)"),
        ("memory.Agent.with_memory", "self.remembered",
         "getattr(self.brain, 'remembered', self.remembered)"),
        ("memory.Agent.advantage_push_local_brain", "s_ = self.with_memory(s_)", "pass"),
        ("memory.configure", "a3c.N_STEP_RETURN = 1", "a3c.N_STEP_RETURN = 2"),
        ("Environment.run", "done or step % Tmax == 0", "done or step % 5 == 0")],
    "variants::with_memory_the_loss_and_its_slopes_are_those_of_generalized_advantages": [
        ("memory.Brain.build_loss", "later >= 0", "later > 0"),
        ("memory.Brain.build_loss", "tf.stop_gradient(v + advantage)", "v + advantage"),
        ("memory_pong.configure", "memory.LAMBDA = 1.0", "pass"),
        ("memory_pendulum.Brain", "pendulum.Brain", "a3c.LocalBrain")],
    "variants::ga3cs_threads_play_every_frame_and_train_every_sample": [
        ("ga3c.Queue.take", "self.progress.learners > TRAINERS", "self.progress.learners"),
        ("ga3c.AskingBrain.update_parameter_server", "self.train_queue = []", "pass")],
    "variants::ga3c_gives_each_learner_the_policy_of_its_own_states": [
        ("ga3c.Predictor.work", "zip(answers, np.split(p, ends))",
         "zip(answers[::-1], np.split(p, ends))")],
    "variants::ga3cs_trainer_updates_with_forty_samples_and_says_how_old_they_are": [
        ("ga3c.Trainer.work", "size >= TRAINING_BATCH", "size > TRAINING_BATCH"),
        ("ga3c.AskingBrain.update_parameter_server", "self.begun", "self.server.updates")],
    "variants::what_ga3cs_last_learner_gives_just_before_it_ends_is_still_taken": [
        ("ga3c.Queue.take", "learners_left and (not self.progress.coordinator.should_stop())",
         "self.progress.learners > TRAINERS")],
    "variants::a_stop_ends_the_wait_at_ga3cs_queues": [
        ("ga3c.Queue.take", "self.get(timeout=0.1)", "self.get(timeout=70)"),
        ("ga3c.Queue.give", "self.put(item, timeout=0.1)", "self.put(item, timeout=70)")],
    "variants::no_velocity_is_seen": [
        ("memory.Environment.seen", "(0, 2)", "(0, 1)"),
        ("memory_pendulum.Environment.seen", "(0, 1)", "(0, 2)")],
    "variants::clipped_ends_where_its_learning_rate_is_0": [
        ("clipped.FallingRate.initialize", "min(self.progress.max_frames, self.anneal_frames)",
         "self.progress.max_frames"),
        ("clipped.FallingRate.initialize", "min(self.progress.max_frames, self.anneal_frames)",
         "self.anneal_frames"),
        ("clipped.FallingRate.initialize", "self.anneal_frames",
         "self.progress.frames + self.anneal_frames")],
    "variants::all_of_ga3cs_trainers_end_before_the_weights_that_passed_are_put_back": [
        ("ga3c.main", "progress.learners |= TRAINERS", "progress.learners.add('trainer1')")],
    "variants::ga3c_asks_the_users_agent_and_brain_and_follows_the_users_loss": [
        ("main", "[*workers, *server.helpers]", "workers"),
        ("ga3c.main", "a3c.main(argv, make_server, make_brain, agent_class, environment_class)",
         "a3c.main(argv, make_server, make_brain, environment_class=environment_class)"),
        ("ga3c.main", "Predictor(name, server, brain_class)",
         "Predictor(name, server, a3c.LocalBrain)"),
        ("ga3c.main", "Trainer(name, server, brain_class)",
         "Trainer(name, server, a3c.LocalBrain)")],
    "variants::a_variants_classes_learn_in_another_program_if_the_page_says_so": [
        ("distributed.work", "a3c.main(None, Server, **classes)", "a3c.main(None, Server)"),
        ("ga3c.AskingBrain.predict_p", "self.answer.take()", "self.answer.take()[:, :2]"),
        ("synchronous.main", "a3c.main(argv, SynchronousServer, SynchronousBrain, "
         "SynchronousAgent, environment_class)",
         "a3c.main(argv, SynchronousServer, SynchronousBrain, SynchronousAgent)")],
    "variants::synchronous_learners_make_one_update_with_the_mean_of_their_gradients": [
        ("synchronous.Server.initialize", "tf.add_n(parts) / self.learners", "tf.add_n(parts)"),
        ("synchronous.Server.initialize", "self.kept[:self.learners]", "self.kept[1:]"),
        ("synchronous.Server.initialize", "tf.zeros_like(k)", "tf.identity(k)"),
        ("synchronous.Server.has_updated", "len(self.updated) == self.learners",
         "len(self.updated) == self.learners - 1"),
        ("synchronous.Server.build_update",
         "tf.group(*[k.assign_add(g, read_value=False) for k, g in zip(kept, gradients)])",
         "super().build_update(gradients)")],
    "variants::a_synchronous_learner_has_to_pull_before_each_update": [
        ("synchronous.Server.has_updated", "number not in self.pulled", "False")],
    "variants::synchronous_learners_continue_with_the_epsilon_of_the_frames_in_the_checkpoint": [
        ("synchronous.Server.initialize", "self.progress.frames", "0")],
    "variants::the_same_seed_gives_the_same_run_of_synchronous_learners": [
        ("synchronous.Agent.explore", "self.brain.server.frame", "frame"),
        ("synchronous.Server.has_updated", "len(self.pulled) == number",
         "len(self.updated) == 0"),
        ("synchronous.Server.has_pulled",
         "self.wait_until(lambda: len(self.pulled) == self.learners)", "pass")],
    "variants::all_threads_end_whichever_fails_first": [
        ("synchronous.Server.wait_until",
         "self.progress.wait_until(lambda: condition() or len(self.progress.learners) < "
         "self.learners)",
         "self.progress.changed.wait_for(lambda: condition())")],
    "variants::synchronous_learners_end_together_when_the_frames_are_over": [
        ("synchronous.Server.wait_until",
         "condition() or len(self.progress.learners) < self.learners", "condition()")],
    "variants::pongs_returns_reach_to_the_end_of_their_segment": [
        ("pong.Agent.advantage_push_local_brain", "done or len(self.memory) == a3c.Tmax - 1",
         "done")],
    "variants::pong_shows_four_pictures_has_three_actions_and_rewards_points": [
        ("pong.ACTIONS", "(0, 2, 3)", "(0, 2, 4)"),
        ("pong.Environment.make", "gym.wrappers.AtariPreprocessing(env)",
         "gym.wrappers.AtariPreprocessing(env, frame_skip=1)"),
        ("pong.ACTIONS", "(0, 2, 3)", "(0, 2)"),
        ("pong.Environment.reward", "r", "-r")],
    "distributed::a_workers_updates_are_bit_for_bit_the_scripts": [
        ("distributed.Parameters.__init__", "self.server.build_update(gradients)", "tf.no_op()"),
        ("distributed.Parameters.__init__", "load(self.server, self.variables, values)", "pass"),
        ("distributed.Parameters.__init__", "tf.global_variables('parameter_server/')",
         "self.server.weights"),
        ("distributed.WorkerServer.initialize", "load(self, self.weights, values)", "pass"),
        ("distributed.WorkerServer.build_update", "w.assign(x, read_value=False)", "tf.no_op()")],
    "distributed::calls_may_come_twice_and_in_any_order": [
        ("distributed.Parameters.call", "number > self.latest.get((worker, learner), 0)", "True"),
        ("distributed.Parameters.call", "number > self.latest.get((worker, learner), 0)",
         "frames >= self.frames[worker]"),
        ("distributed.Parameters.call", "max(frames, self.frames[worker])", "frames"),
        ("distributed.Parameters.call", "max(episodes - self.episodes[worker], 0)",
         "episodes - self.episodes[worker]")],
    "distributed::frames_of_all_workers_and_of_earlier_runs_add_up": [
        ("distributed.Parameters.__init__", "collections.Counter(earlier=frames)",
         "collections.Counter()"),
        ("distributed.Parameters.call", "self.server.progress.frames - self.frames[worker]",
         "self.server.progress.frames"),
        ("distributed.WorkerServer.initialize", "ray.get_runtime_context().get_worker_id()",
         "'worker'"),
        ("distributed.WorkerServer.initialize", "self.progress.frames = self.others = frames",
         "self.others = frames"),
        ("distributed.WorkerServer.call", "progress.frames - self.others", "progress.frames"),
        ("distributed.WorkerServer.call", "progress.frames += new", "pass")],
    "distributed::an_older_answer_does_not_take_frames_away": [
        ("distributed.WorkerServer.call", "max(others - self.others, 0)", "others - self.others")],
    "distributed::each_score_comes_once": [
        ("distributed.Parameters.call", "self.episodes[worker] += new", "pass"),
        ("distributed.Parameters.call", "scores[-new:] if new else []", "scores[-1:]"),
        ("distributed.Parameters.look", "self.scores[seen:]", "self.scores"),
        ("distributed.Workers.run", "self.seen += len(new)", "pass")],
    "distributed::while_nothing_is_saved_the_starting_process_takes_over_values_and_frames": [
        ("distributed.Workers.run", "self.server.saving", "contextlib.nullcontext()"),
        ("distributed.Workers.run", "load(self.server, self.variables, values)", "pass"),
        ("distributed.Workers.run", "progress.frames = frames", "pass")],
    "distributed::a_gradient_that_is_not_finite_is_never_sent": [
        ("distributed.WorkerServer.call", "np.isfinite(g).all()", "True")],
    "distributed::a_stop_ends_a_call_that_the_actor_does_not_answer": [
        ("distributed.wait_for", "progress.coordinator.should_stop()", "False")],
    "distributed::an_actor_that_gives_no_answer_for_a_minute_ends_the_run": [
        ("distributed.wait_for", "progress.stop()", "pass"),
        ("distributed.wait_for", "ray.exceptions.RayActorError", "ZeroDivisionError"),
        ("distributed.wait_for", "range(120)", "range(20)")],
    "distributed::at_the_end_all_frames_seem_to_be_played": [
        ("distributed.Parameters.end", "self.server.progress.max_frames", "0")],
    "distributed::once_it_is_learned_the_actor_ends_the_workers_if_any_are_left": [
        ("distributed.Workers.run", "self.actor.end.remote()", "pass"),
        ("distributed.Workers.run", "if not self.tasks:\n    raise a3c.Stopped", "pass")],
    "distributed::a_worker_that_failed_ends_the_run_and_one_that_died_does_not": [
        ("distributed.Workers.run", "ray.get(task)", "pass"),
        ("distributed.Workers.run", "ray.exceptions.RayTaskError", "ZeroDivisionError")],
    "distributed::each_worker_has_another_core": [
        ("distributed.work", "options.seed % len(cores)", "0")],
    "distributed::a_run_continues_an_earlier_one": [
        ("distributed.Workers.start", "server.progress.frames", "0"),
        ("distributed.main.Server.initialize", "self.progress.max_frames", "1000")],
    "distributed::what_is_refused_is_one_line": [
        ("distributed.main", "own.processes < 1", "False"),
        ("distributed.main", "('local', 'auto')", "None"),
        ("distributed.Workers.start", "str(error).splitlines()[0]", "error")],
    "distributed::ctrl_c_while_ray_starts_waits_until_it_has_started": [
        ("distributed.Workers.start",
         "signal.signal(signal.SIGINT, lambda *_: early.append(True))", "pass"),
        ("distributed.Workers.start", "early.append(True)", "None")],
    "distributed::frames_updates_and_settings_are_those_of_all_processes": [
        ("distributed.Workers.start", "options.seed = (options.seed + 1) % 2 ** 32", "pass"),
        ("distributed.WorkerServer.save", "pass", "super().save()"),
        ("distributed.Parameters.__init__", "set_up()", "pass"),
        ("distributed.work", "set_up()", "pass"),
        ("distributed.main", "'Tmax'", "'GAMMA'"),
        ("distributed.main.set_up", "configure()", "pass"),
        ("distributed.main.set_up", "vars(a3c).update(constants)", "pass")],
    "distributed::what_all_learned_is_shown_once_and_saved_and_the_script_can_play_it": [
        ("distributed.work", "float('inf')", "30")],
    "distributed::a_worker_that_exits_ends_the_run_and_is_not_started_again": [
        ("distributed.work", "raise RuntimeError(f'sys.exit({error.code!r})') from error",
         "raise")],
    "distributed::whatever_ends_a_run_it_saves_and_leaves_no_process": [
        ("distributed.Workers.start", "(signal.SIGINT, signal.SIGTERM)", "(signal.SIGINT,)")],
    "distributed::no_update_is_lost_or_made_twice_if_calls_and_answers_get_lost": [
        ("distributed.Workers.start", "-1", "0")],
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


def program(place, old, new):
    """The file that a fault is in, and its text with the fault."""
    path, names = Path(SCRIPT), place.split(".")
    variant = Path("tests", "variants", names[0] + ".py")
    if (ROOT / variant).exists():
        path, names = variant, names[1:]
    tree = whole = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for name in names:
        [tree] = [node for node in tree.body if name == getattr(node, "name", None)
                  or ast.unparse(node).startswith(f"{name} = ")]
    breaker = Breaker(old, new)
    breaker.generic_visit(tree)
    if breaker.found != 1:
        raise ValueError(f"{old!r} stands {breaker.found} times in {place}")
    return path, ast.unparse(ast.fix_missing_locations(whole))


def run(tests, path, text, seconds):
    """Run tests on a copy of the project with this text in `path`: what came of it, and words."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tests", Path(folder, "tests"))
        shutil.copy(ROOT / SCRIPT, folder)
        Path(folder, path).write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider",
                   "-m", "", *tests]  # the long ones, too
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
    programs = {fault: program(*fault[1:]) for fault in faults if word in str(fault)}
    if not programs:
        sys.exit(f"{word!r} is in no fault")
    whole = (ROOT / SCRIPT).read_text(encoding="utf-8")
    result, out = run({test for test, *_ in programs}, SCRIPT, whole, 1200)
    if result != "SURVIVES":
        sys.exit(f"{out}\nThe script has to pass these tests before it is broken.")
    with concurrent.futures.ThreadPoolExecutor(2) as two:
        results = two.map(lambda fault: run(fault[:1], *programs[fault], 240), programs)
        for fault, (result, out) in zip(programs, results):
            survivors += result != "caught"
            print(result, *fault, out[-500:] * (result == "FAILS"), sep=" | ", flush=True)
    print(f"{len(programs)} faults, {survivors} survivors")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
