import shutil
import subprocess
from types import SimpleNamespace

import pytest

from .sampling import WHOLE, choose_seed, header, leave_out, seed_of_commit


def sample(nodeids, number, seed, slow=()):
    """Which of the tests are left, and which are said to be left out."""
    said = []
    config = SimpleNamespace(
        option=SimpleNamespace(sample=number, sample_seed=seed),
        hook=SimpleNamespace(pytest_deselected=lambda items: said.extend(item.nodeid for item in items)),
    )
    items = [
        SimpleNamespace(nodeid=each, get_closest_marker=lambda name, each=each: name == "slow" and each in slow)
        for each in nodeids
    ]
    leave_out(config, items)
    return [item.nodeid for item in items], said


SWEEP = [f"a.py::sweep[{number}]" for number in range(500)]
REST = ["a.py::one", *(f"b.py::few[{number}]" for number in range(WHOLE))]
SLOW = [f"c.py::slow_{number}" for number in range(40)]


def test_without_a_sample_everything_runs():
    assert sample(SWEEP + REST + SLOW, 1, 7, SLOW) == (SWEEP + REST + SLOW, [])


def test_a_sample_is_a_part_of_each_sweep_and_of_the_slow_tests_and_all_of_the_rest():
    left, out = sample(REST + SWEEP + SLOW, 10, 7, SLOW)
    assert left[: len(REST)] == REST
    assert [sum(name in left for name in part) for part in (SWEEP, SLOW)] == [50, 4]
    assert sorted(left + out) == sorted(REST + SWEEP + SLOW)
    assert sum(name in SWEEP for name in sample(SWEEP, 400, 7)[0]) == WHOLE


def test_a_seed_gives_its_sample_again_whatever_the_order_and_the_seeds_give_everything():
    left, _ = sample(SWEEP, 10, 7)
    assert sorted(sample(SWEEP[::-1], 10, 7)[0]) == sorted(left) != sorted(sample(SWEEP, 10, 8)[0])
    assert set().union(*(sample(SWEEP, 10, seed)[0] for seed in range(120))) == set(SWEEP)


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_sample_of_no_part_is_refused(number, request, capsys):
    parser = request.config._parser
    with pytest.raises(pytest.UsageError):
        parser.parse(["--sample", number])


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Run git in a fresh repository."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # of the hook that runs these tests, perhaps
        monkeypatch.delenv(name, raising=False)

    def run(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    run("init")
    return run


def test_the_seed_is_the_commits_whatever_is_changed_beside_it(git, tmp_path):
    assert seed_of_commit(tmp_path) == 0  # no commit yet
    git("commit", "--allow-empty", "--message", "first")
    first = seed_of_commit(tmp_path)
    (tmp_path / "file.py").write_text("1")
    git("add", "file.py")
    assert seed_of_commit(tmp_path) == first > 0
    git("commit", "--message", "second")
    second = seed_of_commit(tmp_path)
    assert second != first
    git("checkout", "HEAD~1")
    assert seed_of_commit(tmp_path) == first


def test_an_archive_has_one_seed_also_inside_of_a_repository(git, tmp_path):
    git("commit", "--allow-empty", "--message", "first")
    (tmp_path / "archive").mkdir()
    assert seed_of_commit(tmp_path / "archive") == 0


def test_without_git_the_seed_is_fixed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert seed_of_commit(tmp_path) == 0


def test_the_header_gives_the_sample_again(request):
    config = SimpleNamespace(option=SimpleNamespace(sample=24, sample_seed=None))
    choose_seed(config)
    seed = config.option.sample_seed
    assert header(config) == f"sample: --sample 24 --sample-seed {seed}"
    again = request.config._parser.parse(header(config).removeprefix("sample: ").split())
    choose_seed(SimpleNamespace(option=again))
    assert (again.sample, again.sample_seed) == (24, seed)
