from types import SimpleNamespace

import pytest

from .sampling import WHOLE, leave_out


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


def test_a_seed_gives_its_sample_again_whatever_the_order_and_the_days_give_everything():
    left, _ = sample(SWEEP, 10, 7)
    assert sorted(sample(SWEEP[::-1], 10, 7)[0]) == sorted(left) != sorted(sample(SWEEP, 10, 8)[0])
    assert set().union(*(sample(SWEEP, 10, seed)[0] for seed in range(120))) == set(SWEEP)


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_sample_of_no_part_is_refused(number, request, capsys):
    parser = request.config._parser
    with pytest.raises(pytest.UsageError):
        parser.parse(["--sample", number])
