"""What runs within a sandbox: carried there by ``bundle``, with the standard library alone, beside a hostile program.

The user's process starts it (``native``, ``direct``), speaks to it (``channel``, ``wire``) and never runs it.
"""
