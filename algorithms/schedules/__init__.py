"""When a run samples and when it updates."""
