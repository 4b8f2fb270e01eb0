"""Research: a made-up history, the documents that tell it, and questions that need several of them."""
