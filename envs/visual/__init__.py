"""Pictures to be looked at: what is asked stands in the text, what it is asked of stands in an image beside it."""

from rlvr.envs.core.registry import register

register("rlvr/VisualCounting-v0", "rlvr.envs.visual.counting:VisualCounting")
register("rlvr/VisualClocks-v0", "rlvr.envs.visual.clocks:VisualClocks")
register("rlvr/VisualCharts-v0", "rlvr.envs.visual.charts:VisualCharts")
register("rlvr/VisualTables-v0", "rlvr.envs.visual.tables:VisualTables")
register("rlvr/VisualGeometry-v0", "rlvr.envs.visual.geometry:VisualGeometry")
register("rlvr/VisualGraphs-v0", "rlvr.envs.visual.graphs:VisualGraphs")
register("rlvr/VisualMatrices-v0", "rlvr.envs.visual.matrices:VisualMatrices")
register("rlvr/VisualMazes-v0", "rlvr.envs.visual.mazes:VisualMazes")
register("rlvr/VisualGridWorld-v0", "rlvr.envs.visual.grid_world:VisualGridWorld")
