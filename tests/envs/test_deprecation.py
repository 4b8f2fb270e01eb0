"""Renamed public names: the old one works, and warns with the new one."""

from __future__ import annotations

import pytest

from rlvr.envs.core.deprecation import RenamedAttribute, renamed_in_module


class Renamed:
    new = 3
    old = RenamedAttribute("old", "new")


def test_a_renamed_attribute_of_an_instance_warns():
    with pytest.warns(DeprecationWarning, match=r"Renamed\.old is now called new"):
        assert Renamed().old == 3
    with pytest.raises(AttributeError, match="no attribute 'old'"):
        _ = Renamed.old


def test_a_renamed_class_of_a_module_warns():
    look_up = renamed_in_module("module", {"Old": "Renamed"}, globals())
    with pytest.warns(DeprecationWarning, match=r"module\.Old is now called Renamed"):
        assert look_up("Old") is Renamed
    with pytest.raises(AttributeError, match="module 'module' has no attribute 'nothing'"):
        look_up("nothing")
