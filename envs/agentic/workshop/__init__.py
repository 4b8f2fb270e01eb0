"""Workshop: years of work whose rules and prices are learned in the first and needed in the others."""
