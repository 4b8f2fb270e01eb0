"""What several servers need beyond one: what is counted of them, clients of many, load tests."""
