"""Faults that the tests have to catch, {test: its faults}. The test says what a fault would break.

A fault: the function or setting ("" is the whole script), what stands in it, and what to put there.
`python tests/suite/sabotage.py` puts each into a copy of its program: the test has to turn red.
"""

FAULTS = {
    # test_advantages.py
    "test_the_loss_with_gae_is_that_with_summed_advantages": [
        ("advantages.GAE.build_loss", "later >= 0", "later > 0"),
        ("memory.Brain.build_loss", "p[:, :a3c.NUM_ACTIONS]", "p")],
    "test_returns_end_with_their_segment_or_sooner": [
        ("advantages.SegmentReturns.advantage_push_local_brain", "step == a3c.Tmax", "False"),
        ("advantages.SegmentReturns.advantage_push_local_brain",
         "len(self.brain.train_queue)", "0")],
    # test_agent.py
    "test_each_step_becomes_a_sample_with_its_n_step_return": [
        ("Agent.queue_oldest", "GAMMA ** n", "GAMMA ** N_STEP_RETURN"),
        ("Agent.queue_oldest", "0.0 if terminal else GAMMA ** n", "GAMMA ** n")],
    "test_an_action_is_random_with_probability_epsilon": [
        ("Agent.explore", "1.0", "9.0"), ("EPS_STEPS", "1600", "160"),
        ("Agent.act", "self.policy(s), frame", "self.policy(s), 0"),
        ("Agent.explore", "weights=p", "weights=None")],
    "test_greedy_play_takes_the_likeliest_action": [
        ("Agent.act_greedily", "return p.index(max(p))", "return self.explore(p, 10 ** 9)")],
    # test_clipped.py
    "test_play_says_nothing_of_a_falling_rate": [
        ("clipped.FallingRate.initialize", " and not self.progress.options.play", "")],
    "test_clipped_updates_with_a_falling_rate_equal_numpy": [
        ("clipped.Clipping.build_update", "self.max_norm", "1e9")],
    "test_clipped_ends_where_its_rate_is_0": [
        ("clipped.FallingRate.initialize", "self.progress.max_frames > self.anneal_frames", "True"),
        ("clipped.FallingRate.initialize", ".max_frames = ", ".others = ")],
    # test_compare_learners.py
    "test_rmsprop_from_0_differs_only_in_its_start": [
        ("compare_learners.FromZeroServer.build_optimizer", "a3c.RMSPROP_DECAY", "0.9")],
    "test_a_corrected_start_makes_up_for_averages_from_0": [
        ("compare_learners.CorrectedServer.build_optimizer", "a3c.RMSPROP_DECAY", "0.999"),
        ("compare_learners.CorrectedServer.build_optimizer", "beta1=0.0, ", "")],
    "test_no_two_rows_of_compare_py_measure_the_same": [
        ("compare_learners.main", "a3c.LEARNING_RATE *= own.rate", "pass")],
    "test_off_policy_keeps_steps_for_the_next_round": [
        ("compare_learners.OffPolicy.advantage_push_local_brain", "a3c.Agent.", "super()."),
        ("synchronous.main", "issubclass(given, own)", "False")],
    "test_learners_in_the_same_world_change_it_together": [
        ("compare_learners.SameWorld.run", "* (-1) ** changes", ""),
        ("compare_learners.SameWorld.run", "progress.episodes //", "progress.episodes // 3 //")],
    "test_taking_turns_sets_the_age_of_gradients": [
        ("compare_learners.UpdatesInTurn.update_parameter_server", "self.wait_for_turn()", "pass")],
    # test_distributed.py
    "test_ray_init_gets_the_address": [
        ("distributed.Supervisor.start", "ray.init(options.address,", 'ray.init("local",')],
    "test_ray_reserves_nothing_and_restarts_nobody": [
        ("distributed.Supervisor.start", "num_cpus=0, max_retries=0", "num_cpus=1, max_retries=0"),
        ("distributed.Supervisor.start", "max_retries=0", "max_retries=1"),
        ("distributed.Supervisor.start", ', scheduling_strategy="SPREAD"', "")],
    "test_the_line_seed_counts_the_learners_of_all_processes": [
        ("distributed.Supervisor.start", "progress.options.workers = ", "_ = ")],
    "test_updates_through_a_worker_equal_those_of_threads": [
        ("distributed.ServerProcess.__init__", "load(self.server, values)", "pass"),
        ("distributed.ServerCopy.initialize", "load(self, values)", "pass")],
    "test_a_worker_gets_what_others_have_learned": [
        ("distributed.ServerCopy.build_update",
         "return tf.group(*[w.assign(x, read_value=False) for w, x in zip(self.weights, weights)])",
         "with tf.control_dependencies(weights): return super().build_update(gradients)")],
    "test_frames_and_scores_during_a_call_are_told_later": [
        ("distributed.ServerCopy.update", "progress.recent.clear()", "pass"),
        ("distributed.ServerCopy.update", "progress.frames - self.others_frames", "0")],
    "test_a_score_told_just_before_a_worker_ends_arrives": [
        ("distributed.Supervisor.next_score",
         "ended, _ = ray.wait(list(self.tasks), timeout=0.2)\n            self.fetch_snapshot()",
         "self.fetch_snapshot()\n            ended, _ = ray.wait(list(self.tasks), timeout=0.2)")],
    "test_each_score_arrives_once_and_in_order": [
        ("distributed.ServerCopy.update", "list(progress.recent)", "list(progress.recent)[-1:]")],
    "test_frames_and_values_change_under_the_saving_lock": [
        ("distributed.Supervisor.fetch_snapshot", "self.server.checkpoint.lock",
         "a3c.contextlib.nullcontext()")],
    "test_a_stop_ends_the_wait_for_an_answer": [
        ("distributed.wait_for", "progress.raise_if_stopped()", "pass")],
    "test_no_answer_is_an_error": [
        ("distributed.wait_for", "2 * seconds", "seconds"),
        ("distributed.wait_for", "raise ConnectionError(\"the", "continue  # ")],
    "test_a_hanging_worker_doesnt_keep_a_run_from_ending": [
        ("distributed.Supervisor.task_ended", "self.server_process.end.remote()", "pass"),
        ("distributed.Supervisor.fetch_snapshot", "min(frames, progress.max_frames)", "frames"),
        ("distributed.Supervisor.fetch_snapshot", "progress.changed.notify_all()", "pass")],
    "test_a_worker_ends_once_the_run_is_over": [
        ("distributed.ServerProcess.end", "self.frames[\"end\"] =", "_ ="),
        ("distributed.ServerProcess.update", "self.frames.total() - self.frames[worker]", "0")],
    "test_once_learned_a_running_worker_ends": [
        ("distributed.Supervisor.next_score", "self.server_process.end.remote()", "pass")],
    "test_without_workers_the_server_process_isnt_called": [
        ("distributed.Supervisor.next_score", "if not self.tasks:", "if False:")],
    "test_a_late_snapshot_doesnt_replace_weights_that_passed": [
        ("distributed.Supervisor.fetch_snapshot", "return\n", "pass\n")],
    "test_a_worker_that_failed_or_died_ends_the_run": [
        ("distributed.Supervisor.task_ended", "getattr(error, \"cause\", error)", "error"),
        ("distributed.Supervisor.task_ended", "except ray.exceptions.RayError",
         "except ray.exceptions.RayTaskError")],
    "test_ctrl_c_while_ray_starts_prevents_the_workers": [
        ("distributed.Supervisor.start", "progress.raise_if_stopped()\n\n", "pass\n\n"),
        ("distributed.main", "contextlib.suppress(a3c.Stopped)", "contextlib.nullcontext()"),
        ("distributed.Supervisor.end", "ray.shutdown()", "pass")],
    "test_the_reason_of_a_worker_that_exits_is_kept": [
        ("distributed.work", "error.code", "'failed'")],
    "test_a_worker_has_room_for_all_scores_between_two_calls": [
        ("distributed.work", "THRESHOLD_EPISODES = 1000", "THRESHOLD_EPISODES += 0")],
    "test_workers_of_a_machine_get_different_cores": [
        ("distributed.Supervisor.start", "number // machines", "number"),
        ("distributed.Supervisor.start", 'node["Alive"]', "1")],
    "test_a_worker_uses_only_allowed_cores": [("distributed.work", "core % len(cores)", "0")],
    "test_each_run_counts_on_from_the_saved_frames": [
        ("distributed.Supervisor.start", "progress.frames, server", "0, server"),
        ("distributed.Supervisor.words", "progress.max_frames", "progress.max_frames * 3")],
    "test_workers_play_on_at_the_threshold": [
        ("distributed.work", "THRESHOLD_EPISODES = 1000", "THRESHOLD_EPISODES = 1")],
    "test_play_uses_the_users_own_classes": [
        ("distributed.main", "brain_class, agent_class, Scores)",
         "environment_class=Environment)"),
        ("distributed.main", "Scores(environment_class)", "Scores(a3c.Environment)"),
        ("distributed.main", "class Mirror(server_class)", "class Mirror(a3c.ParameterServer)")],
    "test_a_missing_cluster_is_refused_in_one_line": [
        ("distributed.Supervisor.start", "{a3c.reason(error)}", "{error}")],
    "test_all_processes_get_the_users_constants": [
        ("constants", "np.generic, ", ""),
        ("distributed.work", "vars(a3c).update(constants)", "pass"),
        ("distributed.ServerProcess.__init__", "vars(a3c).update(constants)", "pass")],
    "test_a_run_that_is_ended_saves_and_leaves_no_process": [
        ("distributed.Supervisor.start", "signal.getsignal(signal.SIGINT)", "signal.SIG_DFL"),
        ("distributed.Supervisor.end", "signal.getsignal(signal.SIGTERM)", "signal.SIG_DFL")],
    # test_drills.py
    "test_ctrl_c_and_sigterm_save_however_often": [
        ("signals_stop", "progress.interrupt()", "None"),
        ("run_program", "signal.signal(number, signal.SIG_IGN)", "pass")],
    "test_ctrl_c_during_the_imports_ends_quietly": [
        ("", "signal.signal(signal.SIGINT, signal.SIG_DFL)", "pass")],
    "test_ctrl_c_before_the_threads_start_changes_nothing_saved": [
        ("Progress.interrupt", "self.interrupted = True", "pass"),
        ("Progress.interrupt", "self.stop()", "pass")],
    "test_a_second_ctrl_c_saves_though_a_thread_hangs": [
        ("main", ", daemon=True", ""),  # Python would wait for the thread that hangs
        ("signals_stop", "progress.interrupt()",
         "(progress.interrupt(), signal.signal(signal.SIGINT, signal.default_int_handler))")],
    "test_ffmpeg_ended_by_ctrl_c_isnt_called_missing": [
        ("prepare_films", "if progress.interrupted", "if False")],
    "test_an_error_in_any_thread_ends_the_run": [
        ("main", "{name} failed: {type(error)", "{type(error)"),
        ("Worker_thread.run", "self.progress.stop(error, self.name)", "pass"),
        ("Progress.stop", "self.stopped = True", "self.stopped = name != 'local_thread2'"),
        ("Worker_thread.run", "except BaseException", "except Exception"),
        ("main", "{reason(error)}\") from error", "{reason(error)}\") from None")],
    "test_a_policy_not_saved_is_not_called_learned": [
        ("Worker_thread.evaluate", "progress.raise_if_stopped()", "pass"),
        ("Checkpoint.save", "except Exception", "except OSError"),
        ("reason", '" ".join(str(error).split())', "str(error)")],
    "test_a_failed_save_during_a_run_ends_it": [
        ("main", "server.checkpoint.save()\n                next_save", "next_save"),
        ("Progress.wait_for_stop", "self.stopped, seconds)", "self.stopped)")],
    "test_a_failed_save_is_reported_even_after_ctrl_c": [
        ("main", "if progress.failure is not None",
         "if progress.failure and not progress.interrupted")],
    "test_a_curve_not_written_ends_the_run": [
        ("open_curves", ", session=session", ""),
        ("Progress.add_to_curves", "OSError(reason(error)) from error", "")],
    "test_main_puts_signals_and_environment_variables_back": [
        ("signals_stop", "signal.signal(number, handler)", "pass"),
        ("signals_stop", "os.environ.clear()", "pass"),
        ("signals_stop", "os.environ.update(variables)", "pass"),
        ("signals_stop", "try:\n        yield\n    finally:", "yield\n    if True:")],
    "test_if_a_thread_cannot_start_the_others_end": [("signals_stop", "progress.stop()", "pass")],
    "test_two_runs_choose_different_allowed_cores": [
        ("share_one_core", "cores[os.getpid() % len(cores)]", "os.getpid() % os.cpu_count()"),
        ("share_one_core", "os.getpid() % len(cores)", "0")],
    "test_only_learners_share_one_core": [
        ("share_one_core", "SHARE_ONE_CORE and ", ""),
        ("share_one_core", "sched_setaffinity(0,", "sched_setaffinity(os.getpid(),")],
    "test_the_graph_is_finalized_before_any_thread_plays": [("main", "graph.finalize()", "pass")],
    # test_environment.py
    "test_a_learner_pulls_plays_and_updates": [
        ("Environment.run", "if step % Tmax == 0", "if step == 0"),
        ("Environment.run", "done or step % Tmax == 0", "step % Tmax == 0"),
        ("Environment.run", "self.reset(self.env)", "self.env.reset()[0]")],
    "test_a_learner_acts_on_states_and_sums_rewards": [
        ("Environment.run", "act(s, frame)", "act(s, step)"),
        ("Environment.run", "s = s_", "pass"), ("Environment.run", "score += r", "score += 1")],
    "test_the_test_thread_only_plays": [
        ("Environment.play", "self.agent.act_greedily(s)", "self.agent.act(s, 10 ** 9)"),
        ("Environment.play", "self.reset(env)", "self.reset(self.env)"),
        ("Environment.play", "s, r, terminated", "_, r, terminated"),
        ("Environment.play", "env.step", "self.env.step"),
        ("Environment.play", "self.progress.raise_if_stopped()", "self.progress.next_frame()")],
    "test_a_stop_ends_a_test_episode_at_once": [
        ("Environment.play", "self.progress.raise_if_stopped()", "pass")],
    "test_only_the_end_is_rewarded": [
        ("Environment.reward", "step >= GOOD_STEPS", "step > GOOD_STEPS"),
        ("GOOD_STEPS", "199", "198")],
    "test_only_a_true_end_is_terminal": [
        ("Environment.run", "done, terminal)", "done, terminated)"),
        ("Environment.run", "truncated and TIME_LIMIT_IS_END", "truncated")],
    "test_reward_and_agent_get_states_action_and_done": [
        ("Environment.run", "s_, step, done)", "s_, step, terminal)"),
        ("Environment.run", "self.reward(s, a, r, s_,", "self.reward(s_, a, r, s_,"),
        ("Environment.run", "brain(s, a,", "brain(s, 0,")],
    "test_threads_share_no_environment_agent_or_brain": [
        ("Environment.__init__", "self.make()",
         'vars(self.progress).setdefault("env", self.make())'),
        ("main", 'random.Random(f"{options.seed} {name}")',
         'vars(progress).setdefault("rng", random.Random(options.seed))')],
    "test_only_the_same_seed_repeats_an_episodes_start": [
        ("Environment.reset", "self.agent.rng.randrange(2 ** 31)", "0"),
        ("Environment.reset", "self.agent.rng", "random"),
        ("main", 'f"{options.seed} {name}"', 'f"{options.seed} {thread_type}"'),
        ("main", 'f"{options.seed} {name}"', "name")],
    "test_a_wrong_number_of_actions_is_noticed": [
        ("Environment.__init__", "not in (NUM_ACTIONS, None)", "is None")],
    "test_continuous_actions_arent_compared_with_num_actions": [
        ("Environment.__init__", "(NUM_ACTIONS, None)", "(NUM_ACTIONS,)")],
    # test_exercises.py
    "test_check_py_accepts_only_gae": [
        ("check.gae", "0.0 if terminal else v[-1]", "v[-1]"),
        ("check.check_gae", '(7, True, "at the end")', '(7, False, "at the end")'),
        ("check.check_gae", '(7, True, "at the end")', '(10, True, "at the end")'),
        ("check.check_gae", "all(np.allclose(m, -g, atol=1e-3)", "any(np.allclose(m, -g, atol=1)")],
    "test_check_py_accepts_both_right_answers_to_exercise_20": [
        ("check.play_rounds", "samples.setdefault(self, [])", "samples.setdefault(0, [])"),
        ("check.check_update", "is_sum(ones / len(ones)) or ", ""),
        ("check.check_update", " or is_sum(sizes / sizes.sum())", "")],
    "test_check_py_refuses_wrong_answers_to_exercise_20": [
        ("check.gradient_descent", "Counting(rate)", "Counting(2 * rate)"),
        ("check.check_synchronous", "max(updates, len(rounds) - 1)", "len(rounds) - 1"),
        ("check.check_update", "is_sum(ones) or is_sum(sizes):", "is_sum(sizes):"),
        ("check.check_update", "is_sum(ones) or is_sum(sizes):", "is_sum(ones):"),
        ("check.check_update", "any(map(is_sum, np.eye(len(ones))))", "False"),
        ("check.check_update", "atol=1e-4", "atol=1"),
        ("check.check_synchronous", "any(outdated)", "False"),
        ("check.check_synchronous", "len(rounds) == 1", "False"),
        ("check.check_synchronous", "updates > FRAMES / LEARNERS / 4", "False"),
        ("check.check_synchronous", "pairwise(rounds)", "pairwise(rounds[:2])")],
    # test_figures.py
    "test_errors_of_updates_equal_those_of_plain_loops": [
        ("record.errors_of_state", "later < n", "later <= n"),
        ("record.errors_of_state", "1 - 1 / n", "1 - 1 / (n + 1)")],
    # test_ga3c.py
    "test_ga3cs_threads_share_the_learners_core": [
        ("ga3c.Predictor.learn", "a3c.share_one_core()", "pass"),
        ("ga3c.Trainer.learn", "a3c.share_one_core()", "pass")],
    "test_ga3c_refuses_variables_that_it_cannot_share": [
        ("ga3c.main", "!= before", "is before")],
    "test_only_ga3cs_test_thread_has_its_own_network": [
        ("ga3c.main", "return brain_class(name, server)", "pass"),
        ("ga3c.main", "return AskingBrain(name, server)", "return brain_class(name, server)"),
        ("ga3c.main", "|= HELPERS.keys()", "|= {'predictor'}")],
    "test_ga3c_plays_every_frame_and_loses_no_sample": [
        ("ga3c.AskingBrain.update_parameter_server", "self.train_queue = []", "pass")],
    "test_ga3cs_learners_know_their_names": [
        ("ga3c.AskingBrain.__init__", "name, server\n", "'', server\n")],
    "test_ga3cs_predictor_answers_each_learner": [
        ("ga3c.Predictor.learn", "zip(answers,", "zip(answers[::-1],"),
        ("ga3c.Predictor.learn", "np.split(p, ends[:-1])", "np.split(p, len(answers))")],
    # test_measurements.py
    "test_launch_learn_returns_what_the_run_printed": [
        ("launch.learn", 'text.count("Evaluation: ") - bool(learned)', "0")],
    "test_forgetting_py_counts_an_episode_where_it_was_played": [
        ("forgetting.record", "self.env.unwrapped.world", "self.world")],
    "test_forgetting_py_compares_scores_before_and_after_an_absence": [
        ("forgetting.absences", "score[:left + 1].max() >= GOOD", "True"),
        ("forgetting.absences", "len(score) - 1", "0"),
        ("forgetting.absences", "run[:, 2] < 1", "run[:, 2] > 0"),
        ("forgetting.absences", "other[:left + 1]", "other")],
    "test_the_interval_has_the_ratios_that_wilcoxon_doesnt_reject": [
        ("run_statistics.ratio", "1.96 * deviation", "1.65 * deviation"),
        ("run_statistics.ratio", "[skipped]", "[skipped + 3]"),
        ("run_statistics.ratio", "np.median(means)", "np.median(logs)")],
    "test_clipping_py_counts_large_gradients_and_episode_ends": [
        ("clipping.run", "ends > 0", "ends <= 0")],
    "test_clipping_py_clips_only_the_chosen_updates": [
        ("clipping.run", '"end": end, "no end": tf.logical_not(end)',
         '"end": tf.logical_not(end), "no end": end')],
    # test_memory.py
    "test_networks_with_memory_equal_numpy": [
        ("memory_pendulum.Server._build_model", "[x, h_critic]", "[x, h_actor]")],
    "test_variants_with_memory_see_positions_but_no_velocities": [
        ("memory.Positions.positions", "[0, 2]", "[0, 1]")],
    "test_memory_lasts_through_an_episode_and_is_then_forgotten": [
        ("memory.Agent.advantage_push_local_brain", "s_ = self.with_memory(s_)", "pass")],
    "test_a_thread_remembers_only_what_it_plays": [
        ("memory.Agent.policy", "self.remembered = ", "Agent.remembered = ")],
    "test_evaluations_and_films_begin_without_memory": [
        ("memory.Remembering.reset", "self.agent.forget()",
         "env is self.env and self.agent.forget()"),
        ("memory.Remembering.reset", "self.agent.forget()",
         "env is self.env or self.agent.forget()")],
    # test_network.py
    "test_first_weights_have_glorots_limit_and_biases_are_0": [
        ("layer", '"/weights", shape)',
         '"/weights", shape, initializer=tf.glorot_normal_initializer())'),
        ("layer", "tf.zeros_initializer()", "tf.ones_initializer()")],
    "test_an_update_adds_its_losses_and_its_norm_to_the_curves": [
        ("LocalBrain._build_graph", "[*terms, norm]", "[*terms, terms[0]]")],
    "test_the_policy_equals_numpy": [
        ("ParameterServer._build_model", "tf.nn.relu", "tf.nn.elu"),
        ("GraphCall.__init__", "tensor.dtype.as_numpy_dtype", "float")],
    "test_loss_terms_equal_numpy": [
        ("LocalBrain.build_loss", "p_taken + 1e-10", "p_taken"),
        ("LocalBrain.build_loss", "LOSS_V * tf", "0.5 * tf")],
    "test_learners_update_the_shared_weights_as_in_numpy": [
        ("ParameterServer.build_update", "self.optimizer", "self.build_optimizer()"),
        ("LocalBrain.build_loss", "tf.stop_gradient(advantage)", "advantage"),
        ("LocalBrain._build_graph", "discount * v_", "v_"),
        ("LocalBrain.update_parameter_server", "self.train_queue.clear()", "pass")],
    "test_after_a_bad_gradient_the_next_one_counts": [
        ("LocalBrain.update_parameter_server", "self.train_queue.clear()", "pass")],
    "test_a_gradient_that_isnt_finite_changes_nothing": [
        ("finite", "tf.tuple(gradients, control_inputs=[norm])", "gradients"),
        ("finite", "tf.check_numerics(", "(lambda norm, _: norm)("),
        ("finite", "tf.global_norm(gradients)", "gradients[0]")],
    "test_no_update_is_lost_when_threads_update_at_once": [
        ("finite", "tf.tuple(gradients, control_inputs=[norm])", "gradients"),
        ("ParameterServer.build_update", "self.optimizer.apply_gradients(pairs, name=\"update\")",
         # RMSProp, but with separate reads and writes
         "[self.optimizer._create_slots(self.weights)] and tf.group(*[w.assign(w - LEARNING_RATE * "
         "g / tf.sqrt(m.assign(0.99 * m + 0.01 * g * g) + 1e-10)) for g, w in pairs "
         "for m in [self.optimizer.get_slot(w, \"rms\")]])")],
    "test_pull_and_push_copy_just_the_weights": [
        ("LocalBrain._build_graph", "[mine.assign(shared,", "[shared.assign(mine,"),
        ("LocalBrain._build_graph", "[shared.assign(mine,", "[mine.assign(shared,")],
    "test_a_graph_call_is_prepared_once": [("GraphCall.__call__", "self.function is None", "True")],
    # test_pendulum.py
    "test_pendulums_loss_and_its_gradients_equal_numpy": [
        ("pendulum.Brain.build_loss", "tf.stop_gradient(advantage)", "advantage")],
    "test_torques_are_drawn_with_the_policys_spread": [
        ("pendulum.Agent.explore", "np.float32)", "np.float32).clip(-2, 2)")],
    "test_greedy_torques_are_the_mean": [
        ("pendulum.Agent.act_greedily", "self.policy(s)[:a3c.NUM_ACTIONS // 2]", "self.act(s, 0)")],
    "test_the_seed_decides_pendulums_torques": [
        ("pendulum.Agent.explore", "self.rng.gauss", "np.random.normal")],
    "test_pendulums_rewards_are_scaled": [("pendulum.Environment.reward", "8", "6")],
    "test_v_counts_after_pendulums_time_limit": [
        ("pendulum.TASK", '"TIME_LIMIT_IS_END": False', '"TIME_LIMIT_IS_END": True')],
    "test_pendulum_is_evaluated_over_a_hundred_episodes": [("pendulum.TASK", "100}", "10}")],
    "test_pendulums_network_equals_numpy": [
        ("pendulum.Server.state_scale", "1, 1, 8  #", "1, 1, 1  #")],
    # test_pong.py
    "test_pongs_network_equals_numpy": [("pong.Server._build_model", "x - BACKGROUND", "x")],
    "test_pongs_films_run_at_the_games_speed": [
        ("pong.Environment.make", '["render_fps"] = 15', '["fps"] = 15')],
    "test_pongs_state_is_the_last_four_pictures": [
        ("pong.Environment.make", "FlattenObservation(env)", "FlattenObservation(gym.wrappers."
         "TransformObservation(env, lambda s: s[[3] * 4], env.observation_space))")],
    "test_a_step_of_pong_lasts_four_frames": [
        ("pong.Environment.make", "AtariPreprocessing(env)",
         "AtariPreprocessing(env, frame_skip=2)")],
    "test_games_of_pong_begin_differently": [
        ("pong.Environment.make", "AtariPreprocessing(env)",
         "AtariPreprocessing(env, noop_max=0)")],
    "test_pongs_paddle_goes_up_and_down": [
        ("pong.Environment.make", "ACTIONS[a]", "ACTIONS[min(a, 1)]"),
        ("pong.ACTIONS", "0, 2, 3", "(0, 2, 4)")],
    # test_programs.py
    "test_without_memory_all_other_settings_stay": [
        ("memory_pendulum.main", "else PlainServer", "else memory.PlainServer")],
    "test_programs_can_be_configured_in_turn": [
        ("configure", "globals().update(CONFIGURED)", "pass"),
        ("two_worlds.configure", "a3c.configure(", "vars(a3c).update("),
        ("clipped.main", "a3c.configure()", "pass")],
    "test_unfit_settings_are_refused_in_one_line": [
        ("memory.Remembering.__init__", "shown != (seen,)", "shown < (seen,)"),
        ("pendulum.Server._build_model", "len(self.state_scale) != a3c.NUM_STATES", "False")],
    "test_variants_train_with_synchronous_ga3c_and_distributed": [
        ("distributed.work", "a3c.main(words, Server, *classes)", "a3c.main(words, Server)")],
    "test_variants_that_use_gae_are_refused_by_ga3c": [
        ("ga3c.main", "issubclass(brain_class, advantages.GAE)", "brain_class is advantages.GAE")],
    "test_ga3c_and_distributed_refuse_synchronous": [
        ("ga3c.main", "issubclass(server_class, synchronous.Server)", "False"),
        ("distributed.main", "issubclass(server_class, synchronous.Server)", "False")],
    "test_normalized_py_sums_up_the_states_trained_with": [
        ("LocalBrain._build_graph", "self.build_update(gradients, s)",
         "self.server.build_update(gradients)")],
    "test_the_policy_of_normalized_states_equals_numpy": [
        ("LocalBrain._build_model", "self.server._build_model()",
         "ParameterServer._build_model(self.server)")],
    "test_a_layer_without_gradients_does_no_harm": [
        ("LocalBrain._build_graph", ', unconnected_gradients="zero"', "")],
    "test_if_any_thread_fails_all_end": [
        ("ga3c.Queue.take", "and not self.progress.stopped", "")],
    # test_script.py
    "test_seconds_begin_with_the_threads": [
        ("main", "progress.start_time = time.perf_counter()", "pass")],
    "test_threads_are_awaited_before_the_last_save": [
        ("main", "thread.join(max(0.0, end - progress.seconds()))", "thread.join(GRACE_SECONDS)"),
        ("main", "thread.join(max(0.0, end - progress.seconds()))", "pass")],
    "test_importing_keeps_the_users_onednn_setting": [
        ("", 'setdefault("TF_ENABLE_ONEDNN_OPTS"', '__setitem__("TF_ENABLE_ONEDNN_OPTS"')],
    "test_the_garbage_collector_is_on_again": [("", "gc.enable()", "gc.disable()")],
    "test_for_films_sdl_gets_drivers_that_need_no_devices": [
        ("prepare_films", 'os.environ["SDL_VIDEODRIVER"] = "dummy"', "pass"),
        ("prepare_films", 'os.environ.setdefault("SDL_AUDIODRIVER", "dummy")', "pass")],
    "test_an_error_without_a_message_is_named": [("reason", " or repr(error)", "")],
    "test_films_show_every_step": [
        ("show_episodes", "environment.play(env)", "environment.play(environment.env)"),
        ("show_episodes", "env.close()  # this", "pass  # this")],
    "test_play_shows_the_learned_policy": [("Agent.policy", "s[np.newaxis]", "s")],
    "test_play_changes_nothing": [("Checkpoint.save", " or self.play", "")],
    "test_a_run_without_success_has_status_1": [
        ("", "\n    run_program(main)", "\n    main()"),
        ("run_program", "sys.exit(main())", "main()"),
        ("main", 'int(progress.phase != "learned")', "0")],
    "test_one_worker_and_one_seed_repeat_a_run": [
        ("main", "tf.set_random_seed(options.seed)", "pass")],
    "test_another_seed_begins_with_other_weights": [
        ("main", "tf.set_random_seed(options.seed)", "tf.set_random_seed(0)")],
    "test_progress_is_printed": [
        ("Progress.__init__", "maxlen=PRINT_EPISODES", "maxlen=PRINT_EPISODES + 1"),
        ("Worker_thread.evaluate", "range(EVALUATION_EPISODES)", "range(10)")],
    "test_a_line_is_printed_in_one_piece": [
        ("say", 'print(line + "\\n", end="", flush=True)', "print(line, flush=True)")],
    "test_a_curves_point_is_a_batchs_mean": [
        ("Progress.add_to_curves", "self.frames", "self.episodes")],
    "test_scores_and_evaluations_go_to_their_curves": [
        ("Worker_thread.learn", '"mean": mean', '"mean": score')],
    "test_graph_and_curves_are_on_disk_after_a_run": [
        ("open_curves", "max_queue=0, session=session", "max_queue=1000")],
    "test_human_shows_and_films_every_step": [
        ("show_episodes", "options.window", "False"),
        ("show_episodes", "name_prefix=", "video_length=3, name_prefix=")],
    "test_a_window_opens_if_it_can_and_may": [
        ("prepare_films", 'options.render != "video"', "True"),
        ("prepare_films", "sys.platform in drivers", "True"),
        ("prepare_films", "contextlib.suppress(pygame.error)", "contextlib.nullcontext()")],
    "test_a_window_opens_with_the_users_own_driver": [
        ("prepare_films", 'setdefault("SDL_VIDEODRIVER"', '__setitem__("SDL_VIDEODRIVER"')],
    "test_human_is_refused_if_no_window_opens": [
        ("prepare_films", 'options.render == "human"', "False")],
    "test_a_moved_checkpoint_still_restores_everything": [
        ("Checkpoint.__init__", 'tf.global_variables("parameter_server/")', "server.weights")],
    "test_max_frames_counts_from_the_checkpoint_on": [
        ("Checkpoint.restore", "self.progress.max_frames += self.progress.frames", "pass")],
    "test_a_run_saves_every_minute": [
        ("main", "progress.seconds() > next_save", "False"),
        ("main", "next_save = progress.seconds() + SAVE_SECONDS", "pass")],
    "test_adams_variables_are_saved_and_restored": [
        ("ParameterServer.build_update", '"parameter_server/"', '"elsewhere/"')],
    "test_a_wrong_option_is_refused": [
        ("prepare_folder", "(OSError, ", "(ValueError, "),
        ("prepare_folder", "not tf.gfile.Glob(folder)", "False"),
        ("parse", "allow_abbrev=False", "allow_abbrev=True"),
        ("parse", 'prepare_folder("--checkpoint", options.checkpoint)', "pass"),
        ("parse", 'prepare_folder("--logdir", options.logdir)', "pass")],
    "test_a_checkpoint_of_another_network_is_refused": [
        ("Checkpoint.restore", "shapes.get(v.op.name) != v.shape", "False")],
    "test_a_damaged_checkpoint_is_refused": [
        ("Checkpoint.restore", "latest is None", "False"),
        ("Checkpoint.restore", '("checkpoint", "model-")', '"checkpoint"')],
    "test_films_that_cannot_be_made_are_refused": [("main", "prepare_films(progress)", "pass")],
    "test_without_films_no_ffmpeg_is_needed": [
        ("prepare_films", 'options.render == "none"', "False")],
    "test_films_need_an_ffmpeg_that_works": [
        ("prepare_films", "check=True", "check=False"),
        ("prepare_films", "except Exception", "except ImportError")],
    "test_all_settings_have_their_values": [
        ("SHARE_ONE_CORE", "True", "False"), ("MAX_FRAMES", "1_000_000", "100_000"),
        ("TIME_LIMIT_IS_END", "True", "False"), ("GRACE_SECONDS", "1.5", "150")],
    "test_options_not_given_have_their_defaults": [
        ("parse", "random.randrange(2 ** 32)", "1"),
        ("parse", 'default="auto"', 'default="video"')],
    # test_synchronous.py
    "test_synchronous_learners_are_in_the_order_of_their_numbers": [
        ("synchronous.Server.__init__", "sorted(", "list(")],
    "test_a_round_makes_one_update": [
        ("synchronous.Server.initialize", "tf.add_n(parts) / samples", "tf.add_n(parts)"),
        ("synchronous.Server.initialize", "tf.zeros_like(k)", "tf.identity(k)"),
        ("synchronous.Server.has_updated", "self.samples = 0", "pass"),
        ("synchronous.Brain.build_update", "samples * g", "g")],
    "test_synchronous_continues_with_the_saved_epsilon": [
        ("synchronous.Server.initialize", "self.progress.frames", "0")],
    "test_epsilon_gets_the_frames_after_each_round": [
        ("synchronous.Server.has_updated", "self.frame = self.progress.frames", "pass")],
    "test_a_subclass_may_extend_a_brains_update": [
        ("synchronous.Server.build_update", "tf.control_dependencies(None)",
         "tf.name_scope(None)"),
        ("synchronous.Server.build_update", '.split("/")[0]', "")],
    "test_a_server_may_use_its_schedule_in_initialize": [
        ("synchronous.Server.__init__", "self.frame = 0", "pass")],
    "test_a_seed_repeats_a_run_of_synchronous_learners": [
        ("synchronous.Server.frames", "self.frame", "self.progress.frames")],
    "test_epsilon_is_that_of_the_rounds_beginning": [
        ("synchronous.Agent.explore", "self.brain.server.frame", "frame")],
    "test_synchronous_learners_all_end": [
        ("synchronous.Server.wait_until", " or len(", " or 9 * len(")],
    "test_no_synchronous_sample_waits_for_the_next_round": [
        ("synchronous.Agent", "advantages.SegmentReturns", "a3c.Agent")],
    # test_timeline.py
    "test_each_update_names_the_version_its_thread_pulled": [
        ("timeline.Brain.note", "self.pulled, made))", "max(made - 1, 0), made))")],
    "test_age_counts_the_updates_since_the_pull": [
        ("timeline.ages", "event.made - 1 - event.pulled", "event.made - event.pulled"),
        ("timeline.ages", "event.made - 1 - event.pulled",
         "min(1, event.made - 1 - event.pulled)")],
    # test_two_worlds.py
    "test_world_minus_1_exchanges_the_actions": [
        ("two_worlds.World.step", "1 - a", "a"),
        ("two_worlds.World.reset", "self.state(s)", "np.append(s, np.float32(1))")],
    "test_a_learner_changes_its_world_every_few_episodes": [
        ("two_worlds.Environment.run", "self.episodes % EPISODES == 0", "True"),
        ("two_worlds.Environment.reset", "env.unwrapped.world = ", "_ = ")],
    "test_a_threads_first_world_is_drawn_by_chance": [
        ("two_worlds.Environment.__init__", "choice((1, -1))", "choice((1, 1))")],
    "test_worlds_take_turns_in_evaluations_and_films": [
        ("two_worlds.Environment.play", "-self.world", "self.world"),
        ("two_worlds.Environment.reset", "env.unwrapped.world = ", "env.world = ")],
    # test_worker_thread.py
    "test_a_stop_ends_every_thread": [
        ("Progress.next_frame", "self.stopped or ", ""),
        ("Progress.raise_if_stopped", "raise Stopped", "pass"),
        ("Progress.wait_until", "self.raise_if_stopped()", "pass")],
    "test_learners_wait_during_an_evaluation": [
        ("Progress.next_frame", 'self.wait_until(lambda: self.phase != "evaluating")', "pass"),
        ("Progress.evaluated", "notify_all", "notify")],
    "test_the_first_of_several_errors_is_kept": [
        ("Progress.stop", " and self.failure is None", ""),
        ("Progress.stop", "error is not None and ", ""),
        ("Worker_thread.run", "except Stopped", "except ZeroDivisionError"),
        ("Worker_thread.run", "stop(error, self.name)", "stop(error, self.thread_type)")],
    "test_an_error_after_ctrl_c_is_no_failure": [
        ("Worker_thread.run", "if not self.progress.interrupted:", "if True:"),
        ("Worker_thread.run", "self.progress.wait_for_stop(0.1)", "pass")],
    "test_a_signal_after_a_run_changes_nothing": [
        ("Progress.interrupt", "if not self.stopped", "if True")],
    "test_ctrl_c_wakes_whoever_waits": [
        ("Progress.stop", "self.changed.notify_all()", "pass"),
        ("Progress.__init__", "threading.Condition()", "threading.Condition(threading.Lock())")],
    "test_a_hanging_learner_is_not_awaited_forever": [
        ("Worker_thread.run", "self.progress.stop()", "pass"),
        ("Worker_thread.run", "self.progress.thread_ended(self.name)", "pass"),
        ("Progress.thread_ended", "self.learning_threads.discard(name)", "pass"),
        ("Progress.thread_ended", "self.changed.notify_all()", "pass"),
        ("Worker_thread.evaluate", ", GRACE_SECONDS", ""),
        ("Progress.wait_for_evaluation", "                        GRACE_SECONDS", ""),
        ("Progress.wait_for_evaluation", "self.frames >= self.max_frames", "False"),
        ("Progress.wait_until", "condition(), seconds)", "condition())"),
        ("Progress.next_frame", "self.frames >= self.max_frames", "False")],
    "test_learners_end_once_the_task_is_learned": [
        ("Progress.next_frame", 'self.phase == "learned" or ', "")],
    "test_counting_and_saving_wait_for_their_locks": [
        ("Progress.next_frame", "self.changed", "threading.Semaphore(9)"),
        ("Progress.episode_ended", "with self.changed", "with threading.Semaphore(9)"),
        ("Checkpoint.save", "self.lock", "threading.Semaphore(9)")],  # it lets nine in
    "test_ten_scores_above_199_on_average_start_an_evaluation": [
        ("Progress.episode_ended", "LEARNED_MEAN if THRESHOLD_MEAN is None else ", ""),
        ("Progress.episode_ended", "> threshold", ">= threshold")],
    "test_an_evaluation_passes_above_199": [
        ("Worker_thread.evaluate", "mean > LEARNED_MEAN", "mean >= LEARNED_MEAN")],
    "test_only_an_evaluation_above_199_ends_with_learned": [
        ("Worker_thread.test", 'progress.phase != "learned"', 'progress.phase != "training"'),
        ("Worker_thread.evaluate", "mean > LEARNED_MEAN", "True"),
        ("Progress.wait_for_evaluation", "                        or not self.learning_threads)",
         "                        or False)")],
    "test_training_may_have_a_threshold_of_its_own": [
        ("Progress.episode_ended", " if THRESHOLD_MEAN is None else THRESHOLD_MEAN", "")],
    "test_a_late_score_isnt_in_the_thresholds_mean": [
        ("Progress.episode_ended", 'self.phase == "training"', "True")],
    "test_after_a_failed_evaluation_ten_new_scores_count": [
        ("Progress.evaluated", "self.recent.clear()", "pass")],
    "test_episodes_that_end_last_can_start_an_evaluation": [
        ("Progress.wait_for_evaluation", "or not self.learning_threads,", "or True,"),
        ("Progress.wait_for_evaluation", 'self.phase == "evaluating" or not', "not")],
    "test_weights_that_pass_are_those_that_played": [
        ("Worker_thread.evaluate", "brain.pull_parameter_server()", "pass"),
        ("Worker_thread.evaluate", "brain.push_parameter_server()", "pass"),
        ("Worker_thread.evaluate", "brain.server.checkpoint.save()", "pass"),
        ("Worker_thread.evaluate", "not progress.learning_threads, GRACE", "True, GRACE")],
}
