"""Targets of other packages under `rlvr validate`, each where its package is installed."""

from __future__ import annotations

import importlib
import json
from importlib.util import find_spec
from typing import ClassVar

import pytest

from rlvr.cli import main
from rlvr.envs.validation.suites import is_openenv_folder
from rlvr.envs.validation.targets import names_code, resolve
from rlvr.envs.validation.watched import validate_target

foreign = [pytest.mark.foreign, pytest.mark.timeout(600)]
CHECKS = ["runtime.startup", "runtime.seed_control", "semantic.oracle_max", "semantic.floor_gap", "sound.faults"]


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(module) is None, reason=f"{module} is not installed")


@pytest.mark.parametrize("target", ["rg:chain_sum", "gem:game:Wordle-v0", "textarena:Wordle-v0"])
def test_a_package_that_is_missing_is_named(target):
    module = {"rg": "reasoning_gym", "gem": "gem", "textarena": "textarena"}[target.partition(":")[0]]
    if find_spec(module) is not None:
        pytest.skip("the package is here")
    assert not names_code(target)
    with pytest.raises(ValueError, match="pip install"):
        resolve(target, {}).make()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["openenv:http://127.0.0.1:9"], "http://127.0.0.1:9/schema could not be reached"),
        (["ors:http://127.0.0.1:9"], "http://127.0.0.1:9/list_environments could not be reached"),
        (["openenv:127.0.0.1"], "url must be an http, https, ws or wss address"),
        (["nemo_gym:http://127.0.0.1:9"], "missing 1 required keyword-only argument: 'rows'"),
        (["Countdown", "--set", "numers=4"], "Countdown has no setting 'numers'"),
    ],
)
def test_a_server_that_is_not_reached_and_a_wrong_setting_are_one_sentence(words, said, capsys):
    assert main(["validate", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_a_folder_of_openenv_is_code(tmp_path):
    (tmp_path / "openenv.yaml").write_text("app: server.app:app\n")
    assert is_openenv_folder(tmp_path)
    assert names_code(str(tmp_path))


@pytest.mark.parametrize("target", ["openenv:http://127.0.0.1:9", "ors:http://127.0.0.1:9"])
def test_a_server_that_ignores_seeds_is_left_to_the_check_of_seeds(target):
    assert not resolve(target, {}).make().unwrapped.check_seed
    assert resolve(target, {"check_seed": True}).make().unwrapped.check_seed


class TestReasoningGym:
    pytestmark: ClassVar = [*foreign, needs("reasoning_gym")]

    def test_a_sound_data_set(self):
        report = validate_target("rg:chain_sum", tasks=2, minutes=4, checks=CHECKS)
        assert not report.at_least("high"), str(report)
        assert all(result.tries for result in report.results if result.check.id != "runtime.resource_bounds")

    def test_any_text_is_paid_where_the_scorer_says_so(self):
        report = validate_target(
            "rg:game_of_life_halting", tasks=2, minutes=4, checks=["statistical.adversarial_floor"]
        )
        assert report.at_least("high"), str(report)

    def test_a_data_set_whose_settings_check_nothing(self):
        assert resolve("rg:tsumego", {}).make().reset(seed=0)[0]

    def test_settings_that_the_package_refuses(self):
        with pytest.raises(ValueError, match="refuses the settings"):
            resolve("rg:composite", {}).make()
        with pytest.raises(ValueError, match="has no data set"):
            resolve("rg:no_such_data_set", {}).make()


class TestTextArena:
    pytestmark: ClassVar = [*foreign, needs("textarena")]

    def test_a_game(self):
        report = validate_target("textarena:GuessTheNumber-v0", tasks=2, minutes=4, checks=CHECKS)
        assert next(result for result in report.results if result.check.id == "semantic.oracle_max").tries

    def test_a_game_that_is_not_there(self):
        with pytest.raises(ValueError, match="makes no game"):
            resolve("textarena:NoSuchGame-v0", {}).make()


class TestPettingZoo:
    pytestmark: ClassVar = [*foreign, needs("pettingzoo")]

    def test_a_game(self, tmp_path, monkeypatch):
        pytest.importorskip("pettingzoo.classic.tictactoe_v3")
        monkeypatch.setenv("RLVR_ALLOW_CODE", "1")
        file = tmp_path / "zoo.py"
        file.write_text("from pettingzoo.classic import tictactoe_v3\n\n\ndef game():\n    return tictactoe_v3.env()\n")
        report = validate_target(f"{file}:game", tasks=2, minutes=4, checks=[*CHECKS[:2], "sound.splits"])
        assert not report.at_least("medium"), str(report)
        assert not any(result.error for result in report.results), str(report)


class TestOpenEnv:
    pytestmark: ClassVar = [*foreign, needs("openenv")]

    def test_a_folder_and_the_form_of_the_report(self, tmp_path):
        """The server is started and ended, and OpenEnv's own model takes the report."""
        folder, report = tmp_path / "package", tmp_path / "report.json"
        assert main(["export", "--openenv", "Countdown", "--out", str(folder)]) == 0
        arguments = ["--allow-code", "--tasks", "1", "--minutes", "2", "--openenv", str(report)]
        assert main(["validate", str(folder), *arguments]) in (0, 3)
        taken = importlib.import_module("openenv.validation.report").ValidationReport.model_validate_json(
            report.read_text()
        )
        statuses = {each.check_id: each.status.value for each in taken.results}
        of_the_package = ("layout", "resource_declaration", "timeout_ceiling", "dependency_pinning")
        passed = ["runtime.startup", "runtime.state_contract", *(f"static.{name}" for name in of_the_package)]
        assert {name: statuses[name] for name in passed} == dict.fromkeys(passed, "pass")
        assert statuses["semantic.resource_envelope"] == "pass"
        assert json.loads(report.read_text())["verdict"] == taken.verdict.value
