"""Databases of twelve domains with documentation, and questions in a person's words."""
