"""Old paths of modules and old names of classes lead to the new ones for one version, and warn."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import rlvr.adapters
from rlvr.adapters.serving.connection import RemoteError

MOVED = {
    "datasets": "trainers",
    "trl": "trainers",
    "gem": "suites",
    "lm_eval": "suites",
    "nemo_gym": "suites",
    "openenv": "suites",
    **dict.fromkeys(("answers", "bounded_json", "connection", "generate_server", "guard", "loopback"), "serving"),
    **dict.fromkeys(("policy_endpoint", "ray", "serve", "sessions", "wire"), "serving"),
}
NEED_THEIR_PACKAGE = {
    "openrlhf": "trainers",
    "renderers": "trainers",
    "skyrl": "trainers",
    "tinker_cookbook": "trainers",
    "verl": "trainers",
    "inspect_ai": "suites",
    "verifiers": "suites",
}


@pytest.mark.parametrize("name", MOVED)
def test_an_old_path_gives_the_module_itself_and_warns(name, monkeypatch):
    new = importlib.import_module(f"rlvr.adapters.{MOVED[name]}.{name}")
    spec, old = new.__spec__, f"rlvr.adapters.{name}"
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=rf"{old} is now called rlvr\.adapters\.{MOVED[name]}\.{name}"):
        found = importlib.import_module(old)
    assert found is new
    assert new.__spec__ is spec


@pytest.mark.parametrize("name", NEED_THEIR_PACKAGE)
def test_an_old_path_of_a_framework_leads_to_its_adapter(name, monkeypatch):
    monkeypatch.delitem(sys.modules, f"rlvr.adapters.{name}", raising=False)
    try:
        importlib.import_module(f"rlvr.adapters.{NEED_THEIR_PACKAGE[name]}.{name}")
    except ImportError as missing:
        outcome = pytest.raises(ImportError, match=re.escape(str(missing)))
    else:
        outcome = nullcontext()
    with pytest.warns(DeprecationWarning, match=rf"rlvr\.adapters\.{NEED_THEIR_PACKAGE[name]}\.{name}"), outcome:
        importlib.import_module(f"rlvr.adapters.{name}")


def test_every_module_in_a_folder_is_known_or_new():
    folders = [(folder, path.stem) for folder in ("trainers", "suites", "serving") for path in modules_in(folder)]
    assert {(folder, name) for name, folder in (MOVED | NEED_THEIR_PACKAGE).items()} <= set(folders)


def modules_in(folder):
    return [path for path in (Path(rlvr.adapters.__file__).parent / folder).glob("*.py") if path.stem != "__init__"]


def test_a_module_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        importlib.import_module("rlvr.adapters.nothing")


def test_connect_stays_the_function_whichever_way_its_module_is_imported():
    code = "import rlvr.adapters.connect as old, rlvr.adapters.serving.connect as new; import rlvr.adapters\n"
    code += "assert old is rlvr.adapters.connect is new.connect\n"
    code += "from rlvr.adapters.connect import RemoteEnv; assert RemoteEnv is new.RemoteEnv"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_was_pickled_under_an_old_path_is_read():
    old = pickle.dumps(RemoteError("late", "busy"), protocol=0).replace(b"rlvr.adapters.serving.", b"rlvr.adapters.")
    assert b"serving" not in old
    error = pickle.loads(old)
    assert (type(error), error.code) == (RemoteError, "busy")


RENAMED = {
    "serving.serve": {"Server": "EnvServer", "Face": "ServerApp"},
    "serving.sessions": {"Sessions": "SessionTable", "Slot": "SessionEnv"},
    "serving.wire": {"Request": "WireRequest", "Refusal": "ProtocolError"},
    "serving.loopback": {"Request": "HttpRequest", "Refusal": "HttpError"},
    "serving.connection": {"Connection": "WireConnection"},
    "serving.policy_endpoint": {"Connection": "HarnessConnection"},
    "spec": {"Session": "EpisodeSession"},
    "testing": {"Engine": "RecordingEngine", "Call": "EngineCall"},
}


@pytest.mark.parametrize(("module", "old"), [(module, old) for module, names in RENAMED.items() for old in names])
def test_an_old_name_gives_the_class_and_warns(module, old):
    home, new = importlib.import_module(f"rlvr.adapters.{module}"), RENAMED[module][old]
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new}"):
        found = getattr(home, old)
    assert found is getattr(home, new)
