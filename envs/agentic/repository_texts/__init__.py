"""Modules that domains stand on: texts, records, tables, patterns, formulas."""
