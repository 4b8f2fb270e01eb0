"""Several learned policies in one run: who has which player of a game, and how their steps go together."""
