"""Issues of real repositories: rows in SWE-bench's form, and clones on disk."""
