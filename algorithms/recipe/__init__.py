"""Recipe: what an algorithm is: its parts, their registries, the presets, the objectives. Nothing here needs torch."""
