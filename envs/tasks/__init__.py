"""Bases of tasks: what most environments derive from in place of ``Task``.

``questions``: one question, one answer, one turn. ``answers``: the same for lists and boards. ``tables``: the rows of a
data set. ``prompts`` says how an answer is asked for, ``readings`` which ways to write it are understood.
"""
