"""The kinds of steps that chores for the Terminal are composed of, in fifteen families, and how they are composed."""
