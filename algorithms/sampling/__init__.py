"""Where the tokens of a run are sampled, and how new weights get there."""
