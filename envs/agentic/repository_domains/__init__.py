"""Modules that generated repositories are about: a hotel, a ledger, a gateway. A domain is in one split alone."""
