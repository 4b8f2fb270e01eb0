"""The domains of the service worlds, as data: one module each, with a ``DOMAIN``."""

from __future__ import annotations

import importlib
from functools import cache

from rlvr.envs.agentic.services.schema import Domain


@cache
def domain_named(name: str) -> Domain:
    """The domain of a name; its module is imported when it is first needed."""
    domain: Domain = importlib.import_module(f"rlvr.envs.agentic.service_domains.{name}").DOMAIN
    return domain
