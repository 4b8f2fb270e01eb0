"""Programs that own their loop, as they are shipped, at work on our tasks."""
