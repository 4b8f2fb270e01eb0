"""Programs that are put together from typed blocks: what CodeTests asks for and CodeRepair breaks."""
