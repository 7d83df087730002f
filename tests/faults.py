"""Faults that the tests have to catch, {test: its faults}. The test says what a fault would break.

A fault: the function or setting, what stands in it, what to put there. `python tests/sabotage.py`
puts one after the other into a copy of the programs, where the test has to turn red.
"""

FAULTS = {
    # test_agent.py
    "test_n_step_returns_equal_sums_of_discounted_rewards": [
        ("Agent.queue_oldest", "GAMMA ** n", "GAMMA ** N_STEP_RETURN"),
        ("Agent.queue_oldest", "0.0 if terminal else GAMMA ** n", "GAMMA ** n")],
    "test_actions_are_random_with_an_epsilon_that_falls_and_otherwise_follow_the_policy": [
        ("Agent.explore", "1.0", "9.0"),
        ("EPS_STEPS", "1600", "160"),
        ("Agent.act", "self.policy(s), frame", "self.policy(s), 0"),
        ("Agent.explore", "weights=p", "weights=None")],
    "test_greedy_play_takes_the_likeliest_action_or_the_first_of_equals": [
        ("Agent.act_greedily", "return p.index(max(p))", "return self.explore(p, 10 ** 9)"),
        ("Agent.policy", "s[np.newaxis]", "s")],

    # test_distributed.py
    "test_updates_through_a_worker_are_bit_for_bit_those_of_the_script": [
        ("distributed.RealServer.__init__", "load(self.server, self.variables",
         "load(self.server, self.server.weights"),
        ("distributed.WorkerServer.initialize", "load(self, self.weights, look.values)", "pass")],
    "test_frames_and_scores_count_once_though_a_call_may_come_twice_and_in_any_order": [
        ("distributed.RealServer.update", "max(frames, self.frames[worker])", "frames"),
        ("distributed.RealServer.update", "max(episodes - self.episodes[worker], 0)",
         "episodes - self.episodes[worker]")],
    "test_frames_of_all_workers_and_earlier_runs_add_up_even_if_an_older_answer_comes_later": [
        ("distributed.WorkerServer.update", "progress.frames - self.others", "progress.frames"),
        ("distributed.WorkerServer.update", "max(others - self.others, 0)",
         "others - self.others")],
    "test_each_score_of_a_worker_reaches_the_starting_process_once_and_in_order": [
        ("distributed.RealServer.update", "scores[-new:] if new else []", "scores[-1:]")],
    "test_the_starting_process_takes_over_frames_and_values_under_the_saving_lock": [
        ("distributed.Workers.look", "self.server.checkpoint.lock", "contextlib.nullcontext()")],
    "test_a_gradient_that_is_not_finite_is_never_sent_to_the_real_server": [
        ("finite", 'tf.check_numerics(tf.global_norm(gradients), "the gradient isn\'t finite")',
         "tf.global_norm(gradients)")],
    "test_after_a_stop_a_learner_does_not_wait_for_an_answer": [
        ("distributed.wait_for", "progress.raise_if_stopped()", "pass")],
    "test_a_server_that_gives_no_answer_for_a_minute_is_an_error": [
        ("distributed.wait_for", "120", "60")],
    "test_a_worker_stops_after_its_next_update_if_the_real_server_ends_the_run": [
        ("distributed.RealServer.end", "self.server.progress.max_frames", "0")],
    "test_once_learned_the_server_is_told_to_end_the_workers_if_any_are_left": [
        ("distributed.Workers.next_score", "self.real.end.remote()", "pass"),
        ("distributed.Workers.next_score", "if not self.tasks:", "if False:")],
    "test_an_answer_once_learned_does_not_replace_the_weights_that_have_passed": [
        ("distributed.Workers.look", "return\n", "pass\n")],
    "test_a_worker_that_was_started_again_is_told_once": [
        ("distributed.Workers.look", "look.workers > self.known", "False"),
        ("distributed.Workers.look", "self.known = look.workers", "pass")],
    "test_a_worker_that_failed_ends_the_run_and_one_that_died_does_not": [
        ("distributed.Workers.task_ended", "ray.exceptions.RayTaskError", "ZeroDivisionError"),
        ("distributed.Workers.task_ended", "failed: {a3c.reason(error.cause)}", "failed")],
    "test_each_worker_chooses_another_core": [
        ("distributed.work", "number % len(cores)", "0")],
    "test_sys_exit_in_a_worker_is_a_failure_since_ray_would_start_it_again": [
        ("distributed.work", 'raise RuntimeError(f"sys.exit({error.code!r})") from error',
         "raise")],
    "test_a_worker_that_gives_up_on_the_server_has_failed": [
        ("distributed.wait_for", "raise ConnectionError", "raise a3c.Stopped")],
    "test_a_new_run_counts_on_from_the_saved_frames": [
        ("distributed.Workers.start", "progress.frames", "0")],
    "test_only_the_starting_process_evaluates_and_the_script_can_play_what_was_learned": [
        ("distributed.work", 'float("inf")', "30")],
    "test_refusals_are_one_line_and_come_before_ray_starts_except_for_a_missing_cluster": [
        ("distributed.start_ray", "{a3c.reason(error)}", "{error}")],
    "test_ctrl_c_while_ray_or_the_server_starts_lets_it_start_but_nothing_after_it": [
        ("distributed.Workers.start", "progress.stopped:  # by", "False:  # by"),
        ("distributed.Workers.start", "progress.stopped:  # while", "False:  # while")],
    "test_signals_are_ignored_while_ray_shuts_down_and_then_do_what_they_did": [
        ("distributed.main", "signal.signal(number, signal.SIG_IGN)", "signal.getsignal(number)"),
        ("distributed.main", "signal.signal(number, handler)", "None")],
    "test_all_processes_have_the_settings_of_the_run_and_each_worker_its_own_seed": [
        ("distributed.work", "vars(a3c).update(constants)", "pass"),
        ("distributed.RealServer.__init__", "vars(a3c).update(constants)", "pass")],
    "test_a_run_saves_and_leaves_no_process_whatever_ends_it": [
        ("distributed.start_ray", "signal.getsignal(signal.SIGINT)", "signal.SIG_DFL")],

    # test_drills.py
    "test_ctrl_c_and_sigterm_soon_after_the_first_line_save_however_often_they_come": [
        ("signals_stop", "progress.interrupt()", "None"),
        ("run_program", "signal.signal(number, signal.SIG_IGN)", "pass")],
    "test_ctrl_c_while_a_film_is_made_ends_the_script_with_one_line_and_no_traceback": [
        ("Progress.interrupt", "self.interrupted = True", "pass"),
        ("Worker_thread.run", "if not self.progress.interrupted:", "if True:")],
    "test_ctrl_c_before_the_threads_start_ends_the_run_before_its_first_frame": [
        ("signals_stop", "progress.interrupt()", "None"),
        ("Progress.next_frame", "self.stopped or ", "")],
    "test_ctrl_c_while_a_finished_run_is_saved_changes_nothing": [
        ("Progress.interrupt", "not self.stopped", "True")],
    "test_ctrl_c_twice_ends_the_script_and_saves_even_if_a_thread_hangs": [
        ("main", ", daemon=True", ""),
        ("main", "thread.join(max(0.0, end - progress.seconds()))", "thread.join()"),
        ("signals_stop", "progress.interrupt()",
         "(progress.interrupt(), signal.signal(signal.SIGINT, signal.default_int_handler))")],
    "test_a_passed_evaluation_ends_the_script_and_saves_even_if_a_thread_hangs": [
        ("Worker_thread.evaluate", ", GRACE_SECONDS", "")],
    "test_an_exception_in_any_thread_ends_all_threads_and_the_error_names_the_one_that_failed": [
        ("main", "{name} failed: {type(error)", "{type(error)"),
        ("Worker_thread.run", "except BaseException", "except Exception")],
    "test_after_a_gradient_of_nan_the_last_line_names_the_thread_and_what_is_saved_is_finite": [
        ("finite", 'tf.check_numerics(tf.global_norm(gradients), "the gradient isn\'t finite")',
         "tf.global_norm(gradients)"),
        ("main", "{name} failed: {type(error)", "{type(error)")],
    "test_a_save_that_fails_at_the_end_is_one_line": [
        ("Checkpoint.save", "except Exception", "except OSError"),
        ("reason", '" ".join(str(error).split())', "str(error)")],
    "test_a_policy_that_cannot_be_saved_is_not_said_to_be_learned_and_is_not_filmed": [
        ("Worker_thread.evaluate", "progress.raise_if_stopped()", "pass")],
    "test_a_save_that_fails_while_a_run_learns_ends_the_run": [
        ("main", "server.checkpoint.save()\n                next_save", "next_save")],
    "test_a_curve_that_cannot_be_written_ends_the_run_in_one_line": [
        ("open_curves", ", session=session", ""),
        ("Progress.add_to_curves", "OSError(reason(error)) from error", "")],
    "test_after_main_ctrl_c_and_the_environment_variables_are_as_before": [
        ("signals_stop", "signal.signal(number, handler)", "pass"),
        ("signals_stop", "os.environ.clear()", "pass"),
        ("signals_stop", "os.environ.update(variables)", "pass"),
        ("signals_stop", "try:\n        yield\n    finally:", "yield\n    if True:"),
        ("signals_stop", "progress.stop()", "pass")],
    "test_the_shared_core_is_one_that_the_process_may_use": [
        ("share_one_core", "cores[os.getpid() % len(cores)]", "os.getpid() % os.cpu_count()")],
    "test_learners_share_one_core_unless_told_not_to_and_other_threads_are_free": [
        ("Worker_thread.learn", "SHARE_ONE_CORE", "True"),
        ("share_one_core", "sched_setaffinity(0,", "sched_setaffinity(os.getpid(),")],
    "test_the_graph_is_finalized_before_any_thread_plays": [
        ("main", "graph.finalize()", "pass")],

    # test_environment.py
    "test_a_learner_pulls_plays_ten_steps_or_to_the_end_and_updates": [
        ("Environment.run", "if step % Tmax == 0", "if step == 0"),
        ("Environment.run", "done or step % Tmax == 0", "step % Tmax == 0"),
        ("Environment.run", "act(s, frame)", "act(s, step)"),
        ("Environment.run", "s = s_", "pass"),
        ("Environment.run", "self.reset(self.env)", "self.env.reset()[0]")],
    "test_the_test_thread_only_plays_and_takes_the_likeliest_actions": [
        ("Environment.play", "self.agent.act_greedily(s)", "self.agent.act(s, 10 ** 9)"),
        ("Environment.play", "self.reset(env)", "self.reset(self.env)"),
        ("Environment.play", "s, r, terminated", "_, r, terminated"),
        ("Environment.play", "env.step", "self.env.step"),
        ("Environment.play", "self.progress.raise_if_stopped()", "self.progress.next_frame()")],
    "test_a_stop_ends_an_episode_before_its_next_step": [
        ("Environment.play", "self.progress.raise_if_stopped()", "pass"),
        ("Progress.next_frame", "self.stopped or ", "")],
    "test_a_learners_rewards_are_0_but_at_the_end_minus_1_and_from_step_199_on_plus_1": [
        ("Environment.reward", "step >= GOOD_STEPS", "step > GOOD_STEPS"),
        ("GOOD_STEPS", "199", "198")],
    "test_v_of_an_episodes_last_state_counts_only_after_a_time_limit_that_is_no_end": [
        ("Environment.run", "done, terminal)", "done, terminated)"),
        ("Environment.run", "truncated and TIME_LIMIT_IS_END", "truncated"),
        ("Environment.run", "self.reward(s, a, r, s_, step, done)",
         "self.reward(s, a, r, s_, step, terminal)"),
        ("Environment.run", "self.reward(s, a, r, s_,", "self.reward(s_, a, r, s_,")],
    "test_each_thread_has_its_own_environment_agent_and_brain": [
        ("Environment.__init__", "self.make()",
         'vars(self.progress).setdefault("env", self.make())')],
    "test_each_state_with_the_action_played_in_it_is_used_in_one_update": [
        ("LocalBrain.update_parameter_server", "self.train_queue.clear()", "pass"),
        ("Environment.run", "advantage_push_local_brain(s, a,",
         "advantage_push_local_brain(s, 0,")],
    "test_each_reset_takes_another_seed_from_the_threads_own_random_numbers": [
        ("Environment.reset", "self.agent.rng.randrange(2 ** 31)", "0"),
        ("Environment.reset", "self.agent.rng", "random")],
    "test_each_episode_of_each_thread_starts_differently_and_the_same_seed_repeats_all_starts": [
        ("main", 'f"{options.seed} {name}"', 'f"{options.seed} {thread_type}"'),
        ("main", 'f"{options.seed} {name}"', "name")],
    "test_a_wrong_number_of_actions_is_noticed_before_anything_is_learned": [
        ("Environment.__init__", "not in (NUM_ACTIONS, None)", "is None"),
        ("Environment.__init__", "(NUM_ACTIONS, None)", "(NUM_ACTIONS,)")],

    # test_network.py
    "test_the_policy_of_float64_states_equals_numpy": [
        ("ParameterServer._build_model", "tf.nn.relu", "tf.nn.elu"),
        ("GraphCall.__init__", "tensor.dtype.as_numpy_dtype", "float")],
    "test_loss_terms_equal_numpy_for_other_settings_and_for_a_policy_of_1_and_0": [
        ("LocalBrain.build_loss", "p_taken + 1e-10", "p_taken"),
        ("LocalBrain.build_loss", "LOSS_V * tf", "0.5 * tf")],
    "test_updates_equal_numpy_with_rmsprops_averages_shared_by_learners": [
        ("ParameterServer.build_update", "self.optimizer", "self.build_optimizer()"),
        ("LocalBrain.build_loss", "tf.stop_gradient(advantage)", "advantage"),
        ("LocalBrain._build_graph", "discount * v_", "v_")],
    "test_a_gradient_that_is_not_finite_is_an_error_and_changes_nothing": [
        ("finite", "tf.tuple(gradients, control_inputs=[norm])", "gradients"),
        ("finite", "tf.global_norm(gradients)", "gradients[0]")],
    "test_a_gradient_that_is_not_finite_reaches_no_update_of_a_subclass_either": [
        ("finite", "tf.tuple(gradients, control_inputs=[norm])", "gradients")],
    "test_of_updates_made_at_once_no_good_one_is_lost_and_no_bad_one_counts": [
        ("finite", "tf.tuple(gradients, control_inputs=[norm])", "gradients")],
    "test_pull_and_push_copy_every_weight_and_nothing_else": [
        ("LocalBrain._build_graph", "[mine.assign(shared,", "[shared.assign(mine,"),
        ("LocalBrain._build_graph", "[shared.assign(mine,", "[mine.assign(shared,")],
    "test_a_graph_call_prepares_its_part_of_the_graph_once_not_at_each_call": [
        ("GraphCall.__call__", "self.function is None", "True")],
    "test_a_brain_with_more_layers_than_the_server_is_an_error": [
        ("LocalBrain._build_graph", "strict=True", "strict=False")],

    # test_script.py
    "test_a_run_films_every_step_of_each_test_episode": [
        ("show_episodes", "environment.play(env)", "environment.play(environment.env)"),
        ("show_episodes", "env.close()  # this", "pass  # this")],
    "test_play_shows_the_learned_policy_from_its_checkpoint_and_writes_nothing": [
        ("Checkpoint.save", " or self.play", "")],
    "test_one_worker_repeats_its_run_with_the_same_seed_but_not_with_another": [
        ("main", "tf.set_random_seed(options.seed)", "pass")],
    "test_progress_is_printed_every_fifty_episodes_and_at_an_evaluation": [
        ("Progress.__init__", "maxlen=PRINT_EPISODES", "maxlen=PRINT_EPISODES + 1")],
    "test_a_line_is_printed_at_once_and_in_one_piece_so_that_threads_do_not_mix_lines": [
        ("say", 'print(line + "\\n", end="", flush=True)', "print(line, flush=True)")],
    "test_each_curve_shows_its_own_numbers_over_the_frames": [
        ("Progress.add_to_curves", "self.frames", "self.episodes")],
    "test_logdir_holds_the_graph_and_all_curves": [
        ("open_curves", "max_queue=0, session=session", "max_queue=1000")],
    "test_each_run_films_into_a_new_folder_and_on_sdls_dummy_screen": [
        ("show_episodes", "os.makedirs(folder)", "os.makedirs(folder, exist_ok=True)"),
        ("prepare_films", 'os.environ["SDL_VIDEODRIVER"] = "dummy"', "pass")],
    "test_human_shows_every_step_in_a_window_and_films_it_too": [
        ("show_episodes", "options.window", "False")],
    "test_auto_and_human_open_a_window_where_it_is_possible": [
        ("prepare_films", 'options.render != "video"', "True"),
        ("prepare_films", 'options.render == "human"', "False"),
        ("prepare_films", "sys.platform in drivers", "True"),
        ("prepare_films", 'setdefault("SDL_VIDEODRIVER"', '__setitem__("SDL_VIDEODRIVER"'),
        ("prepare_films", "contextlib.suppress(pygame.error)", "contextlib.nullcontext()")],
    "test_a_moved_checkpoint_still_restores_all_weights_and_all_of_rmsprops_variables": [
        ("Checkpoint.__init__", 'tf.global_variables("parameter_server/")', "server.weights")],
    "test_max_frames_counts_only_the_frames_after_the_checkpoint_a_run_continues_from": [
        ("Checkpoint.restore", "self.progress.max_frames += self.progress.frames", "pass")],
    "test_a_run_saves_every_minute_and_at_its_end": [
        ("main", "progress.seconds() > next_save", "False"),
        ("main", "next_save = progress.seconds() + SAVE_SECONDS", "pass")],
    "test_a_run_with_adam_goes_on_with_the_saved_weights_and_with_adams_own_variables": [
        ("ParameterServer.build_update", '"parameter_server/"', '"elsewhere/"')],
    "test_a_wrong_option_is_refused_in_one_line_that_names_it": [
        ("prepare_folder", "(OSError, ", "(ValueError, "),
        ("prepare_folder", "not tf.gfile.Glob(folder)", "False"),
        ("parse", "allow_abbrev=False", "allow_abbrev=True")],
    "test_a_folder_to_play_from_that_does_not_exist_is_called_that": [
        ("parse", "not os.path.isdir(options.checkpoint)", "False")],
    "test_the_script_refuses_a_folder_that_cannot_be_used_before_anything_is_learned": [
        ("parse", 'prepare_folder("--checkpoint", options.checkpoint)', "pass"),
        ("parse", 'prepare_folder("--logdir", options.logdir)', "pass")],
    "test_a_disk_that_is_full_is_refused": [
        ("prepare_folder", "file.write(bytes(2 ** 20))", "pass")],
    "test_a_checkpoint_that_is_damaged_or_of_another_network_is_refused_and_left_alone": [
        ("Checkpoint.restore", "shapes.get(v.op.name) != v.shape", "False"),
        ("Checkpoint.restore", "latest is None", "False"),
        ("Checkpoint.restore", '("checkpoint", "model-")', '"checkpoint"')],
    "test_films_that_cannot_be_made_are_refused_before_anything_is_learned": [
        ("main", "prepare_films(options)", "pass")],
    "test_films_without_an_ffmpeg_that_works_are_refused_but_not_needed": [
        ("prepare_films", "check=True", "check=False"),
        ("prepare_films", "except Exception", "except ImportError"),
        ("prepare_films", 'options.render == "none"', "False")],
    "test_options_that_are_not_given_come_from_the_settings_and_the_seed_from_chance": [
        ("parse", "random.randrange(2 ** 32)", "1")],

    # test_variants.py
    "test_a_variant_has_the_scripts_settings_but_for_those_in_the_variants_page": [
        ("memory_pendulum.main", "else NoMemory", "else memory.NoMemory")],
    "test_programs_can_be_configured_one_after_the_other_and_keep_what_the_user_has_set": [
        ("configure", "globals().update(CONFIGURED)", "pass"),
        ("clipped.main", "a3c.configure()", "pass")],
    "test_settings_that_a_variant_cannot_train_with_are_refused_in_one_line": [
        ("memory.Remembering.__init__", "shown != (seen,)", "shown < (seen,)"),
        ("pendulum.Server._build_model", "len(self.state_scale) != a3c.NUM_STATES", "False")],
    "test_what_a_program_cannot_run_with_is_refused_in_one_line": [
        ("ga3c.main", "if not (PREDICTORS and TRAINERS)", "if not (PREDICTORS or TRAINERS)"),
        ("ga3c.main", "issubclass(server_class, synchronous.Server)", "False"),
        ("ga3c.main", "issubclass(brain_class, returns.GAE)", "False"),
        ("ga3c.main", "issubclass(agent_class, memory.Agent)", "False"),
        ("distributed.main", "issubclass(server_class, synchronous.Server)", "False")],
    "test_a_variants_classes_train_in_another_program_just_where_the_table_says_so": [
        ("distributed.work", "a3c.main(words, Copy, *classes)", "a3c.main(words, Server)")],
    "test_shared_sums_are_those_of_all_states_and_are_pulled_used_saved_and_played_with": [
        ("LocalBrain._build_graph", "self.build_update(gradients, s)",
         "self.server.build_update(gradients)")],
    "test_a_variable_that_the_loss_does_not_reach_stays_as_it_is": [
        ("LocalBrain._build_graph", ', unconnected_gradients="zero"', "")],
    "test_the_constants_that_other_processes_get_may_be_numbers_of_numpy": [
        ("constants", "np.generic, ", "")],
    "test_an_update_with_clipped_gradients_a_falling_rate_or_both_equals_numpy": [
        ("clipped.Clipping.build_update", "self.max_norm", "1e9")],
    "test_clipped_ends_where_its_rate_is_0_says_so_and_counts_frames_of_earlier_runs": [
        ("clipped.FallingRate.initialize", "self.progress.max_frames > self.anneal_frames", "True"),
        ("clipped.FallingRate.initialize", "self.progress.max_frames = self.anneal_frames",
         "pass")],
    "test_policy_value_and_memory_of_successive_states_equal_numpy": [
        ("memory_pendulum.Server._build_model", "critic(tf.concat([x, h_critic]",
         "critic(tf.concat([x, h_actor]"),
        ("memory_pong.Server._build_model", "h[:1]", "0 * h[:1]")],
    "test_pendulums_loss_and_its_gradients_equal_numpy": [
        ("pendulum.Brain.build_loss", "tf.stop_gradient(advantage)", "advantage")],
    "test_greedy_torques_are_the_mean_and_others_are_drawn_with_the_spread_and_not_cut_at_2": [
        ("pendulum.Agent.explore", "np.float32)", "np.float32).clip(-2, 2)"),
        ("pendulum.Agent.act_greedily", "self.policy(s)[:a3c.NUM_ACTIONS // 2]", "self.act(s, 0)")],
    "test_pendulums_rewards_from_minus_16_to_0_are_scaled_to_half_of_one_around_0": [
        ("pendulum.Environment.reward", "8", "6")],
    "test_variants_with_memory_see_positions_but_no_velocities": [
        ("memory.Positions.positions", "[0, 2]", "[0, 1]")],
    "test_samples_hold_the_memory_of_their_own_thread_and_episode": [
        ("memory.Agent.advantage_push_local_brain", "s_ = self.with_memory(s_)", "pass"),
        ("memory.Remembering.reset", "self.agent.forget()",
         "env is self.env and self.agent.forget()")],
    "test_a_loss_with_memory_and_its_gradients_are_those_of_generalized_advantages": [
        ("returns.GAE.build_loss", "later >= 0", "later > 0"),
        ("memory.Brain.build_loss", "p[:, :a3c.NUM_ACTIONS]", "p")],
    "test_all_threads_end_whichever_fails_first": [
        ("ga3c.Queue.take", "and not self.progress.stopped", "")],
    "test_ga3c_plays_every_frame_and_loses_no_sample": [
        ("ga3c.AskingBrain.update_parameter_server", "self.train_queue = []", "pass"),
        ("ga3c.main", "|= {*PREDICTORS, *TRAINERS}", "|= PREDICTORS")],
    "test_ga3cs_age_is_the_number_of_updates_since_the_samples_were_begun": [
        ("ga3c.Worker.train", "brain.server.updates - begun", "0"),
        ("ga3c.Worker.train", "brain.server.updates += 1", "pass")],
    "test_what_ga3cs_last_learner_gives_just_before_it_ends_is_still_taken": [
        ("ga3c.Queue.take", "with context", "if not learners: break\n            with context")],
    "test_ga3c_gives_each_learner_the_policy_of_its_own_state": [
        ("ga3c.Worker.predict", "zip(answers,", "zip(answers[::-1],")],
    "test_a_gradient_that_is_not_finite_moves_no_shared_weight": [
        ("finite", "tf.tuple(gradients, control_inputs=[norm])", "gradients"),
        ("finite", 'tf.check_numerics(tf.global_norm(gradients), "the gradient isn\'t finite")',
         "tf.global_norm(gradients)")],
    "test_synchronous_learners_make_one_update_with_the_mean_of_all_their_samples": [
        ("synchronous.Server.initialize", "tf.add_n(parts) / samples", "tf.add_n(parts)"),
        ("synchronous.Server.initialize", "tf.zeros_like(k)", "tf.identity(k)"),
        ("synchronous.Server.has_updated", "self.samples = 0", "pass"),
        ("synchronous.Brain.build_update", "samples * g", "g")],
    "test_synchronous_learners_continue_with_the_epsilon_of_the_checkpoints_frames": [
        ("synchronous.Server.initialize", "self.progress.frames", "0")],
    "test_synchronous_takes_its_own_classes_too_and_their_subclasses": [
        ("synchronous.main", "issubclass(given, own)", "False")],
    "test_the_same_seed_gives_the_same_run_of_synchronous_learners": [
        ("synchronous.Agent.explore", "self.brain.server.frame", "frame"),
        ("synchronous.Server.frames", "self.frame", "self.progress.frames"),
        ("synchronous.Server.wait_until",
         " or len(self.progress.learning_threads) < len(self.learners)",
         "")],
    "test_samples_of_synchronous_learners_are_played_with_the_weights_of_their_round": [
        ("returns.SegmentReturns.advantage_push_local_brain", "(self.on_policy", "(None")],
    "test_pongs_states_are_four_pictures_its_actions_are_three_and_its_rewards_points": [
        ("pong.ACTIONS", "0, 2, 3", "(0, 2, 4)")],
    "test_returns_reach_to_the_end_of_their_segment_or_n_steps": [
        ("returns.SegmentReturns.advantage_push_local_brain", "step == a3c.Tmax", "False"),
        ("returns.SegmentReturns.advantage_push_local_brain", "len(self.brain.train_queue) + ",
         "")],

    # test_worker_thread.py
    "test_after_the_last_frame_or_once_the_task_is_learned_only_the_test_thread_goes_on": [
        ("Progress.next_frame", "self.frames >= self.max_frames", "self.frames > self.max_frames"),
        ("Progress.next_frame", 'self.phase == "learned" or ', ""),
        ("Progress.raise_if_stopped", "if self.stopped", "if self.frames >= self.max_frames")],
    "test_a_stop_ends_learners_and_the_test_thread_at_their_next_step_or_wait": [
        ("Progress.next_frame", "self.stopped or ", ""),
        ("Progress.raise_if_stopped", "raise Stopped", "pass"),
        ("Progress.wait_until", "self.raise_if_stopped()", "pass")],
    "test_during_an_evaluation_learners_wait_and_a_stop_wakes_them": [
        ("Progress.next_frame", 'self.wait_until(lambda: self.phase != "evaluating")', "pass"),
        ("Progress.stop", "self.changed.notify_all()", "pass")],
    "test_a_wait_with_a_time_ends_after_it_although_nothing_has_happened": [
        ("Progress.wait_until", "condition(), seconds)", "condition())"),
        ("Progress.wait_for_stop", "self.stopped, seconds)", "self.stopped)")],
    "test_a_thread_that_fails_wakes_whoever_waits": [
        ("Worker_thread.run", "self.progress.stop(error, self.name)", "pass"),
        ("Worker_thread.run", "except BaseException", "except Exception")],
    "test_a_learner_that_ends_wakes_the_test_thread": [
        ("Progress.thread_ended", "self.changed.notify_all()", "pass")],
    "test_of_several_errors_the_first_one_is_kept_with_the_name_of_its_thread": [
        ("Progress.stop", " and self.failure is None", ""),
        ("Progress.stop", "error is not None and ", ""),
        ("Worker_thread.run", "stop(error, self.name)", "stop(error, self.thread_type)")],
    "test_signals_stop_a_run_but_a_run_that_is_over_stays_what_it_was": [
        ("Progress.interrupt", "if not self.stopped", "if True"),
        ("Progress.interrupt", "self.interrupted = True", "pass"),
        ("Progress.interrupt", "self.stop()", "pass")],
    "test_ctrl_c_wakes_whoever_waits_even_if_the_main_thread_holds_the_lock_when_it_comes": [
        ("Progress.__init__", "threading.Condition()", "threading.Condition(threading.Lock())")],
    "test_after_a_stop_the_test_thread_does_not_say_not_learned_although_no_learner_is_left": [
        ("Progress.wait_until", "self.raise_if_stopped()", "pass")],
    "test_a_run_ends_once_all_its_learners_or_its_test_thread_have_returned": [
        ("Worker_thread.run", "self.progress.stop()", "pass"),
        ("Worker_thread.run", "self.progress.thread_ended(self.name)", "pass"),
        ("Progress.thread_ended", "self.learning_threads.discard(name)", "pass")],
    "test_a_learner_that_hangs_in_its_environment_is_awaited_only_for_a_while": [
        ("Worker_thread.evaluate", ", GRACE_SECONDS", ""),
        ("Progress.wait_for_evaluation", "                        GRACE_SECONDS", ""),
        ("GRACE_SECONDS", "1.5", "150"),
        ("Progress.wait_for_evaluation", "self.frames >= self.max_frames", "False")],
    "test_counting_and_saving_wait_for_their_locks": [
        ("Progress.next_frame", "self.changed", "threading.Semaphore(9)"),
        ("Progress.episode_ended", "with self.changed", "with threading.Semaphore(9)"),
        ("Checkpoint.save", "self.lock", "threading.Semaphore(9)")],
    "test_training_may_have_a_threshold_of_its_own": [
        ("Progress.episode_ended", "LEARNED_MEAN if THRESHOLD_MEAN is None else ", ""),
        ("Progress.episode_ended", " if THRESHOLD_MEAN is None else THRESHOLD_MEAN", "")],
    "test_a_mean_above_199_of_the_latest_ten_scores_leads_to_an_evaluation_that_needs_one_too": [
        ("Progress.episode_ended", "> threshold", ">= threshold"),
        ("Worker_thread.evaluate", "mean > LEARNED_MEAN", "True")],
    "test_a_score_that_comes_during_an_evaluation_does_not_change_the_mean_that_led_to_it": [
        ("Progress.episode_ended", 'self.phase == "training"', "True")],
    "test_after_a_failed_evaluation_ten_new_episodes_have_to_reach_the_threshold": [
        ("Progress.evaluated", "self.recent.clear()", "pass")],
    "test_after_the_last_frame_the_test_thread_awaits_the_threshold_until_no_learner_is_left": [
        ("Progress.wait_for_evaluation",
         'self.wait_until(lambda: self.phase == "evaluating" or not self.learning_threads,',
         "max(False,"),
        ("Progress.wait_for_evaluation",
         'self.wait_until(lambda: self.phase == "evaluating" or not self.learning_threads,',
         "self.wait_until(lambda: not self.learning_threads,")],
    "test_the_server_keeps_and_saves_the_weights_that_pass_the_evaluation": [
        ("Worker_thread.evaluate", "brain.push_parameter_server()", "pass"),
        ("Worker_thread.evaluate", "brain.pull_parameter_server()", "pass"),
        ("Worker_thread.evaluate", "brain.server.checkpoint.save()", "pass"),
        ("Worker_thread.evaluate",
         "progress.wait_until(lambda: not progress.learning_threads, GRACE_SECONDS)",
         "pass")],
    "test_threshold_and_evaluation_follow_the_settings_even_where_scores_are_negative": [
        ("Worker_thread.evaluate", "range(EVALUATION_EPISODES)", "range(10)")],
}
