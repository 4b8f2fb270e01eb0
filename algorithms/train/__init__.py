"""Training: the configured run, the learner and its optimiser, what each algorithm does with a step."""
