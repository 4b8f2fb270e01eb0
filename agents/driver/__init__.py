"""One episode, a step at a time: its state, the calls into its environment, and the loop over many."""
