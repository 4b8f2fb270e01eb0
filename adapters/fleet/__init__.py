"""Several servers: counts for Prometheus, vector environments over many, load tests."""
