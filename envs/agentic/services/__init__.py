"""Service worlds: a compiler from typed schemas to databases, tools, rules, customers and goals."""
