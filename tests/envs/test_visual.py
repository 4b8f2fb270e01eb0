"""Environments that show images: what can be seen there, that it has to be, and that everything carries them."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import math
import os
import pickle
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

import rlvr
from rlvr.envs import TextEnv
from rlvr.envs.core.images import data_url, image_of, read_data_url, read_png, text_of, with_text, write_png
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct
from rlvr.envs.vector import VectorEnv
from rlvr.envs.visual import charts, clocks, geometry, grid_world, tables
from rlvr.envs.visual.canvas import COLOURS, UNITS, on_circle
from rlvr.envs.visual.mazes import MARGIN, STEPS
from rlvr.envs.wrappers import (
    ActionRepair,
    ConfidenceReward,
    DifficultySchedule,
    EpisodeRecorder,
    EpisodeStatistics,
    History,
    LengthLimit,
    OwnVerdict,
    PotentialShaping,
    PromptFormat,
    RandomPromptFormat,
    RubricReward,
    Scratchpad,
    SpuriousReward,
    SummaryHistory,
    SystemPrompt,
    TurnLimit,
    read_records,
    replay_record,
)

VISUAL = rlvr.list_envs("rlvr/Visual")
QUESTIONS = [env_id for env_id in VISUAL if env_id != "rlvr/VisualGridWorld-v0"]
WORLD = "rlvr/VisualGridWorld-v0"
LEVELS = range(1, 6)


def made(name: str, **settings: Any) -> TextEnv:
    env = gym.make(name if "/" in name else f"rlvr/Visual{name}-v0", **settings).unwrapped
    assert isinstance(env, TextEnv)
    return env


def tasks(name: str, level: int, count: int) -> Any:
    """States of a level, each with its picture, a pixel a unit."""
    env = made(name, level=level)
    for seed in range(count):
        observation, _ = env.reset(seed=seed)
        yield env.get_state().state, observation["image"].astype(int)


def near(pixel: Any, colour: tuple[int, int, int], most: int = 60) -> bool:
    return int(np.abs(np.asarray(pixel) - colour).max()) <= most


# the image is needed, and it is enough


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("env_id", QUESTIONS)
def test_the_same_words_are_asked_of_scenes_with_different_answers(env_id, level):
    """Whoever knows the words alone, and of each the most frequent answer, is right no more often than by luck."""
    task: Any = made(env_id).task
    env = made(env_id, level=level)
    answers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for seed in range(300):
        state = env._draw("train", level, seed, 0)
        answers[task.observe(state)][state.answer] += 1
    repeated = [counts for counts in answers.values() if counts.total() >= 5]
    shown = sum(counts.total() for counts in repeated)
    if shown < 100:  # the words name two of eleven nodes, say: pairs are rare, and differ all the more
        pairs = [counts for counts in answers.values() if counts.total() > 1]
        assert len(pairs) >= 10
        assert sum(len(counts) > 1 for counts in pairs) > 0.8 * len(pairs)
        return
    best = sum(max(counts.values()) for counts in repeated) / shown
    luck = sum(1 / len(counts) for counts in repeated) / len(repeated)
    assert best < max(0.35, luck + 0.15), best
    assert all(len(counts) > 1 for counts in repeated)


def test_the_grid_worlds_words_say_nothing_of_the_board():
    for level in LEVELS:
        env = made(WORLD, level=level)
        first = {(text_of(env.reset(seed=seed)[0]), env.solve()) for seed in range(40)}
        assert len({text for text, _ in first}) == 1
        assert len({move for _, move in first}) == 4


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("env_id", VISUAL)
def test_other_scenes_are_other_images_and_the_same_scene_the_same_bytes(env_id, level):
    env, twin = made(env_id, level=level, side=224), made(env_id, level=level, side=224)
    images = set()
    for seed in range(4):
        image = env.reset(seed=seed)[0]["image"]
        assert image.shape == (224, 224, 3)
        assert image.dtype == np.uint8
        assert image.tobytes() == twin.reset(seed=seed)[0]["image"].tobytes()
        assert 0.01 < (image != image[0, 0]).any(axis=2).mean() < 0.99, "there is something to see"
        images.add(image.tobytes())
    assert len(images) == 4


def fingerprint() -> str:
    digest = hashlib.sha256()
    for env_id in VISUAL:
        for level in (1, 5):
            digest.update(made(env_id, level=level).reset(seed=3)[0]["image"].tobytes())
    return digest.hexdigest()


def test_images_are_the_same_bytes_in_another_process():
    code = (
        "import importlib.util, sys;"
        "spec = importlib.util.spec_from_file_location('visual', sys.argv[1]);"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module);"
        "print(module.fingerprint())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, __file__],
        env=os.environ | {"PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == fingerprint()


def test_the_walls_of_a_maze_can_be_read_off_its_pixels():
    for level in LEVELS:
        for state, image in tasks("Mazes", level, 4):
            maze = state.scene
            wide = (UNITS - 2 * MARGIN) / maze.size
            for cell, ways in enumerate(maze.open):
                row, column = divmod(cell, maze.size)
                x, y = MARGIN + (column + 0.5) * wide, MARGIN + (row + 0.5) * wide
                seen = ""
                for letter, (down, right) in STEPS.items():
                    across, along = round(y + down * wide / 2), round(x + right * wide / 2)
                    around = image[across - 2 : across + 3, along - 2 : along + 3]
                    seen += "" if (around.max(axis=2) < 100).any() else letter
                assert seen == ways


def test_counted_shapes_stand_in_their_colours_where_the_scene_says():
    for level in (1, 2, 3, 4):
        for state, image in tasks("Counting", level, 5):
            for each in state.scene.shapes:
                assert near(image[round(each.y), round(each.x)], COLOURS[each.colour])
            shown = [(s.kind, s.colour) for s in state.scene.shapes]
            if level == 1:
                (kind,) = {k for k in ("circle", "square", "triangle", "star", "cross") if k in state.text}
                assert int(state.answer) == sum(k == kind for k, _ in shown)
            if level == 2:
                assert int(state.answer) == sum(f"{c} {k}" in state.text for k, c in shown)


def test_covered_shapes_stay_visible():
    for state, image in tasks("Counting", 5, 6):
        for each in state.scene.shapes:
            x, y, r = round(each.x), round(each.y), round(each.radius)
            around = image[max(0, y - r) : y + r + 1, max(0, x - r) : x + r + 1].reshape(-1, 3)
            assert (np.abs(around - COLOURS[each.colour]).max(axis=1) < 60).mean() > 0.1, each


def test_hands_and_marks_stand_where_the_time_says():
    for level in (1, 2, 3):
        for state, image in tasks("Clocks", level, 12):
            (face,) = state.scene
            middle = UNITS / 2, UNITS / 2
            for length, degrees in ((0.4, face.minutes / 2), (0.7, 6 * face.minutes)):
                x, y = on_circle(middle, length * 140, degrees + face.turn)
                assert near(image[round(y), round(x)], clocks.HANDS[face.hands], 110)
            if level == 3:
                x, y = on_circle(middle, 0.9 * 140, face.turn)
                if abs((6 * face.minutes) % 360) > 6 and abs((6 * face.minutes) % 360 - 360) > 6:
                    assert near(image[round(y), round(x)], clocks.MARK)
            hours, minutes = map(int, state.answer.split(":"))
            assert hours % 12 * 60 + minutes == face.minutes


def test_clocks_in_a_mirror_run_the_other_way_round():
    for state, image in tasks("Clocks", 5, 8):
        for face, x0 in zip(state.scene, (UNITS / 4 + 2, 3 * UNITS / 4 - 2), strict=True):
            x, y = on_circle((x0, UNITS / 2), 0.4 * 78, -(face.minutes / 2 + face.turn))
            assert near(image[round(y), round(x)], clocks.HANDS[face.hands], 130)
        first, second = (face.minutes for face in state.scene)
        assert (first + int(state.answer)) % 720 == second


def test_the_heights_of_bars_are_their_values():
    for state, image in tasks("Charts", 1, 12):
        chart = state.scene
        colour = COLOURS[chart.colours[0]]
        for place in range(len(chart.names)):
            column = image[:, round(charts.middle_of(chart, place))]
            (filled,) = np.nonzero([near(pixel, colour, 30) for pixel in column[40:300]])
            height = (300 - (40 + filled.min())) / 260 * chart.step * chart.lines
            assert abs(height - chart.values[0][place]) < 0.25 * chart.step
        name = state.text.split()[2]
        assert state.answer == str(chart.values[0][chart.names.index(name)])


def test_slices_have_the_areas_that_their_order_needs():
    for state, image in tasks("Charts", 4, 10):
        chart = state.scene
        if chart.kind != "pie":
            continue
        disc = image[16:262].reshape(-1, 3)
        areas = [(np.abs(disc - COLOURS[colour]).max(axis=1) < 10).sum() for colour in chart.colours]
        assert np.argsort(areas).tolist() == np.argsort(chart.values[0]).tolist()


@pytest.mark.parametrize("level", LEVELS)
def test_no_cell_of_a_table_holds_the_answer(level):
    for state, _ in tasks("Tables", level, 40):
        assert all(int(state.answer) not in row for row in state.scene.cells)


def test_tinted_cells_have_their_tint():
    for state, image in tasks("Tables", 5, 4):
        table = state.scene
        wide = (UNITS - 16) / (len(table.columns) + 1)
        high = (UNITS - 16) / (len(table.rows) + 1)
        for row, tints in enumerate(table.tints):
            for column, tint in enumerate(tints):
                pixel = image[round(8 + (row + 1) * high + 4), round(8 + (column + 1) * wide + 4)]
                assert near(pixel, tables.TINTS.get(tint, (255, 255, 255)), 12)


def test_coloured_areas_are_as_large_as_the_answers():
    for level in (1, 4, 5):
        for state, image in tasks("Geometry", level, 8):
            blue = (np.abs(image - geometry.SHADE).max(axis=2) < 40).sum()
            grey = 1.09  # lines of the grid lie over it
            # The edges of a thin triangle are mostly of mixed colours.
            assert math.isclose(blue * grey / geometry.WIDE**2, float(state.answer), rel_tol=0.12, abs_tol=1.2)


def test_angles_are_drawn_as_large_as_they_are():
    for state, _ in tasks("Geometry", 2, 60):
        corners, labels, outside = state.scene
        for i, label in enumerate(labels):
            exact = geometry.corner_angle(list(corners), i)
            said = 180 - float(state.answer) if label == "x" and outside else float(label.strip("x°") or state.answer)
            assert abs(exact - said) < 2.1


def test_reflections_and_turns_keep_distances():
    for state, _ in tasks("Geometry", 3, 80):
        (px, py), (one, other) = state.scene
        x, y = map(int, state.answer.split(", "))
        for anchor in (one, other):
            assert math.isclose(math.dist((px, py), anchor), math.dist((x, y), anchor))
        if one == other:
            turn = (px - one[0]) * (y - one[1]) - (py - one[1]) * (x - one[0])
            assert (turn < 0) == (" clockwise" in state.text)


def test_every_edge_of_a_graph_is_drawn():
    for level in LEVELS:
        for state, image in tasks("Graphs", level, 4):
            graph = state.scene
            for one, other, _ in graph.edges:
                (ax, ay), (bx, by) = graph.points[one], graph.points[other]
                for share in (0.3, 0.7):
                    x, y = round(ax + (bx - ax) * share), round(ay + (by - ay) * share)
                    assert (image[y - 2 : y + 3, x - 2 : x + 3].max(axis=2) < 190).any()


def test_the_options_of_a_matrix_alone_do_not_tell_which_is_right():
    """Each value that the right option has is that of half of the options."""
    for level in LEVELS:
        for state, _ in tasks("Matrices", level, 20):
            options = state.scene.options
            assert len(set(options)) == 8
            for values in zip(*options, strict=True):
                assert sorted(Counter(values).values()) in ([8], [4, 4])


@pytest.mark.parametrize("level", LEVELS)
def test_rows_of_a_matrix_follow_their_rules_with_the_right_option_alone(level):
    for state, _ in tasks("Matrices", level, 30):
        panels = [*state.scene.panels, state.scene.options["ABCDEFGH".index(state.answer)]]
        for place, name in enumerate(("shape", "colour", "number", "size")):
            rows = [[panel[place] for panel in panels[start : start + 3]] for start in (0, 3, 6)]
            alike = all(len(set(row)) == 1 for row in rows)
            three = all(set(row) == set(rows[0]) and len(set(row)) == 3 for row in rows)
            numbers = name in ("number", "size")
            more = numbers and all(row[1] - row[0] == row[2] - row[1] == 1 for row in rows)
            sums = name == "number" and all(row[0] + row[1] == row[2] for row in rows)
            assert alike or three or more or sums, (name, rows)


def test_the_board_of_the_grid_world_is_in_its_picture_at_every_turn():
    for level in (1, 3, 5):
        env = made(WORLD, level=level)
        for seed in range(3):
            observation, _ = env.reset(seed=seed)
            over = False
            while not over:
                room, image = env.get_state().state.room, observation["image"].astype(int)
                wide, doors = (UNITS - grid_world.BAR) / room.size, dict(room.doors)
                for cell in range(room.size**2):
                    row, column = divmod(cell, room.size)
                    y, x = round(row * wide + 0.14 * wide), round(12 + column * wide + 0.14 * wide)
                    fill = grid_world.STONE if cell in room.walls else grid_world.FLOOR
                    fill = grid_world.LAVA if cell in room.lava else COLOURS.get(doors.get(cell, ""), fill)
                    assert near(image[y, x], fill), (cell, room)
                row, column = divmod(room.player, room.size)
                assert near(image[round((row + 0.74) * wide), round(12 + (column + 0.5) * wide)], COLOURS["blue"])
                observation, _, terminated, truncated, _ = env.step(env.solve())
                over = terminated or truncated


# grading


@pytest.mark.parametrize(
    ("name", "level", "right", "wrong", "unread"),
    [
        ("Clocks", 1, ["{}", "0{}", " {} "], ["7", "13:99"], ["soon", "25:00", "٣:٠٥"]),
        ("Clocks", 4, ["{}", "00{}"], [], ["-5", "1.5", "²", "9" * 50]),
        ("Geometry", 4, ["{}", "{}°"], [], ["1.25", "four", "1e3", "-7", "7/2", "inf"]),
        ("Geometry", 3, ["{}", "({})", "[{}]"], [], ["3", "1, 2, 3", "x, y"]),
        ("Mazes", 2, ["{}"], ["URDL", "U"], ["north", "", "U" * 1_000]),
        ("Graphs", 3, ["{}"], ["A", "A, B"], ["Z, Q", "AB", ", ".join("A" * 80)]),
    ],
)
def test_answers_are_read_in_their_forms(name, level, right, wrong, unread):
    env = made(name, level=level)
    task: Any = env.task
    for seed in range(6):
        env.reset(seed=seed)
        state = env.get_state().state
        for form in right:
            assert env.task.apply(state, f"\\boxed{{{form.format(state.answer)}}}")[1].reward == 1.0, form
        for answer in [*wrong, *unread]:
            verdict = task.apply(state, f"\\boxed{{{answer}}}")[1]
            assert verdict.reward == 0.0
            assert verdict.status == "unparsable" or answer not in unread, verdict


def test_a_way_through_a_wall_or_past_the_goal_is_wrong_and_a_longer_way_is_right():
    env = made("Mazes", level=3)
    walls = 0
    for seed in range(10):
        env.reset(seed=seed)
        state = env.get_state().state
        maze, way = state.scene, state.answer
        for blocked in set("UDLR") - set(maze.open[maze.start[0] * maze.size + maze.start[1]]):
            walls += 1
            assert "wall" in env.task.apply(state, f"\\boxed{{{blocked + way}}}")[1].reason
        assert "end" in env.task.apply(state, f"\\boxed{{{way[:-1]}}}")[1].reason
        back = {"U": "D", "D": "U", "L": "R", "R": "L"}[way[0]]
        assert env.task.apply(state, f"\\boxed{{{way[0] + back + way.lower()}}}")[1].reward == 1.0
    assert walls >= 10


def test_a_detour_is_no_shortest_way_and_arrows_are_one_way():
    env = made("Graphs", level=4)
    longer = backwards = 0
    for seed in range(25):
        env.reset(seed=seed)
        state = env.get_state().state
        first, *rest = state.answer.split(", ")
        pairs = {(one, other) for one, other, _ in state.scene.edges}
        assert all(
            ("ABCDEFGHIJK".index(a), "ABCDEFGHIJK".index(b)) in pairs
            for a, b in zip([first, *rest], rest, strict=False)
        )
        loop = env.task.apply(state, f"\\boxed{{{', '.join([first, rest[0], first, *rest])}}}")[1]
        assert loop.reward == 0.0
        backwards += "nothing leads" in loop.reason
        longer += "shorter" in loop.reason
    assert backwards > 20


def test_the_grid_world_keeps_its_rules():
    env = made(WORLD, level=3)
    env.reset(seed=1)
    room = env.get_state().state.room
    (door,), way = room.doors, grid_world.shortest(room)
    assert way is not None
    without = room._replace(keys=())
    assert grid_world.shortest(without) is None, "the door cannot be passed without its key"
    beside = next(
        (cell, move)
        for cell in range(room.size**2)
        for move in grid_world.MOVES
        if grid_world.neighbour(room.size, cell, move) == door[0] and cell not in room.walls
    )
    locked, message = grid_world.moved(room._replace(player=beside[0]), beside[1])
    assert (locked.player, message) == (beside[0], f"The {door[1]} door is locked.")
    opened, _ = grid_world.moved(room._replace(player=beside[0], held=(door[1],)), beside[1])
    assert (opened.player, opened.doors) == (door[0], ())
    lava = next(
        (cell, move)
        for cell in range(room.size**2)
        for move in grid_world.MOVES
        if grid_world.neighbour(room.size, cell, move) in room.lava and cell not in room.walls
    )
    content = env.content
    _, verdict, over, _ = env.task.apply(grid_world.Walk(room, room._replace(player=lava[0])), lava[1])
    assert (verdict.reward, verdict.reason, over) == (0.0, "stepped on lava", True)
    env.step(env.solve())
    assert env.content == content, "whatever is played, it is the same task"


# settings and bad input


@pytest.mark.parametrize("side", [112, 448])
def test_the_side_changes_the_picture_and_not_the_task(side):
    env, usual = made("Charts", side=side), made("Charts")
    observation, _ = env.reset(seed=5)
    assert observation["image"].shape == (side, side, 3)
    assert observation in env.observation_space
    assert text_of(observation) == text_of(usual.reset(seed=5)[0])
    assert env.content == usual.content


@pytest.mark.parametrize("side", [0, 111, 1_345, 336.0, "336", True, None])
def test_a_bad_side_is_refused_with_the_range(side):
    with pytest.raises(ValueError, match="side must be a whole number of pixels from 112 to 1344"):
        gym.make("rlvr/VisualMazes-v0", side=side)


def test_without_pillow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.ImageDraw", None)
    with pytest.raises(ImportError, match=r"rlvr\[visual\]"):
        gym.make("rlvr/VisualMazes-v0")


class Blot(Task[int]):
    """A task of somebody's own: a grey square whose shade is asked for."""

    image_shape = (8, 4, 3)

    def __init__(self, *, wrong_shape: bool = False) -> None:
        self.wrong_shape = wrong_shape

    def start(self, rng: Any, level: int) -> int:
        return int(rng.randrange(256))

    def content(self, state: int) -> str:
        return str(state)

    def observe(self, state: int) -> str:
        return "Which shade?"

    def image(self, state: int) -> Any:
        return Image.new("RGB", (4, 4 if self.wrong_shape else 8), (state,) * 3)

    def apply(self, state: int, action: str) -> Transition:
        return Transition(state, correct(), terminated=True)

    def solve(self, state: int) -> str:
        return str(state)


def test_a_task_of_ones_own_draws_with_whatever_it_likes():
    env = TextEnv(Blot())
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    assert (observation["image"] == int(env.solve())).all()
    with pytest.raises(ValueError, match=r"Blot promises images of \(8, 4, 3\), and draws \(4, 4, 3\)"):
        TextEnv(Blot(wrong_shape=True)).reset(seed=0)


def test_rgb_array_renders_the_picture_and_text_environments_refuse_it():
    env = gym.make(WORLD, render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    assert (env.render() == observation["image"]).all()
    later, *_ = env.step(env.unwrapped.solve())
    assert (env.render() == later["image"]).all()
    assert (observation["image"] != later["image"]).any()
    with pytest.raises(ValueError, match="GuessNumber has no images"):
        gym.make("rlvr/GuessNumber-v0", render_mode="rgb_array")


# everything carries it


LAYERS = {
    "TurnLimit": lambda env: TurnLimit(env, turns=2),
    "LengthLimit": lambda env: LengthLimit(env, episode=25),
    "History": lambda env: History(env),
    "History of one turn": lambda env: History(env, turns=1, max_chars=500),
    "Scratchpad": lambda env: Scratchpad(env),
    "SummaryHistory": lambda env: SummaryHistory(env, lambda summary, action, text: summary + action),
    "SystemPrompt": lambda env: SystemPrompt(env, "Look."),
    "PromptFormat": lambda env: PromptFormat(env, "labels"),
    "RandomPromptFormat": lambda env: RandomPromptFormat(env),
    "RubricReward": lambda env: RubricReward(env, OwnVerdict()),
    "SpuriousReward": lambda env: SpuriousReward(env, "random"),
    "PotentialShaping": lambda env: PotentialShaping(env, lambda walk: -float(walk.room.player)),
    "ConfidenceReward": lambda env: ConfidenceReward(env),
    "ActionRepair": lambda env: ActionRepair(env),
    "EpisodeStatistics": lambda env: EpisodeStatistics(env),
    "DifficultySchedule": lambda env: DifficultySchedule(env, [(0, 2)]),
    "all of the usual ones": lambda env: EpisodeStatistics(History(RandomPromptFormat(LengthLimit(env, reply=99)))),
}


def played(env: Any, actions: list[str]) -> list[Any]:
    steps = []
    for action in actions:
        observation, *others = env.step(action)
        assert observation in env.observation_space
        steps.append((text_of(observation), image_of(observation).tobytes(), repr(others)))
        if others[1] or others[2]:
            break
    return steps


@pytest.mark.parametrize("name", LAYERS)
def test_wrappers_hand_the_image_on_and_restore(name):
    env = LAYERS[name](gym.make(WORLD, level=2))
    observation, _ = env.reset(seed=4)
    assert observation in env.observation_space
    assert (observation["image"] == env.unwrapped.shown("")["image"]).all()
    state = pickle.loads(pickle.dumps(env.get_state()))
    twin = env.fork()
    actions = ["\\boxed{up}", "nonsense " * 3, "\\boxed{left}", "\\boxed{down}"]
    ahead = played(env, actions)
    assert played(twin, actions) == ahead
    env.set_state(state)
    assert played(env, actions) == ahead


def test_a_history_shows_earlier_words_beside_the_picture_of_now():
    env = History(gym.make(WORLD, level=2))
    env.reset(seed=4)
    observation, *_ = env.step("\\boxed{up}")
    assert "> \\boxed{up}" in observation["text"]
    assert (observation["image"] == env.unwrapped.shown("")["image"]).all()


def test_records_hold_the_images_and_are_replayed(tmp_path):
    path = tmp_path / "episodes.jsonl"
    env = EpisodeRecorder(gym.make(WORLD), path)
    first, _ = env.reset(seed=2)
    over = False
    while not over:
        _, _, terminated, truncated, _ = env.step(env.solve())
        over = terminated or truncated
    (record,) = read_records(path)
    assert (read_data_url(record["turns"][0]["image"]) == first["image"]).all()
    replay_record(gym.make(WORLD), record)
    other = copy.deepcopy(record)
    other["turns"][1]["image"] = record["turns"][0]["image"]
    with pytest.raises(ValueError, match="turn 2 shows another image"):
        replay_record(gym.make(WORLD), other)


@pytest.mark.parametrize("backend", ["sync", "thread", "process"])
def test_our_vector_environment_batches_images(backend):
    single = [made("Counting").reset(seed=seed)[0] for seed in range(3)]
    vector = VectorEnv("rlvr/VisualCounting-v0", 3, backend=backend)
    try:
        observations, _ = vector.reset(seed=0)
        assert observations["image"].shape == (3, 336, 336, 3)
        assert observations["text"] == tuple(map(text_of, single))
        assert (observations["image"] == np.stack([one["image"] for one in single])).all()
        assert observations in vector.observation_space
        later, rewards, *_ = vector.step(["\\boxed{1}"] * 3)
        assert later in vector.observation_space
        assert set(rewards) <= {0.0, 1.0}
    finally:
        vector.close()


def test_a_crash_in_a_batch_of_images_is_told_beside_a_black_one():
    class Crashing(TextEnv):
        def step(self, action: str) -> Any:
            raise RuntimeError("on purpose")

    vector = VectorEnv([lambda: TextEnv(Blot()), lambda: Crashing(Blot())])
    vector.reset(seed=0)
    observations, _, terminated, truncated, infos = vector.step(["a", "b"])
    assert "on purpose" in observations["text"][1]
    assert not observations["image"][1].any()
    assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, True])
    assert infos["verdict"][1].status == "env_error"


def test_mixtures_are_of_images_or_of_texts():
    env = gym.make("rlvr/Mixture-v0", envs=["rlvr/VisualClocks-v0", "rlvr/VisualMazes-v0"]).unwrapped
    parts = set()
    for seed in range(12):
        observation, info = env.reset(seed=seed)
        assert observation in env.observation_space
        parts.add(info["part"])
        assert env.step(env.solve())[1] == 1.0
    assert len(parts) == 2
    with pytest.raises(ValueError, match="images of one size, or none does"):
        gym.make("rlvr/Mixture-v0", envs=["rlvr/VisualClocks-v0", "rlvr/Countdown-v0"])
    with pytest.raises(ValueError, match="images of one size"):
        gym.make("rlvr/Mixture-v0", envs=["rlvr/VisualClocks-v0", {"id": "rlvr/VisualMazes-v0", "side": 224}])


def test_tools_come_beside_the_image():
    env = gym.make("rlvr/VisualTables-v0", level=2, tools=["calculator"]).unwrapped
    first, _ = env.reset(seed=0)
    call = '<tool_call>{"name": "calculator", "arguments": {"expression": "2 + 3"}}</tool_call>'
    heard, reward, terminated, _, info = env.step(call)
    assert (heard["text"], reward, terminated, info["role"]) == ("5", 0.0, False, "tool")
    assert (heard["image"] == first["image"]).all()
    assert env.step(env.solve())[1] == 1.0


# images as PNG


@given(arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))))
def test_a_png_comes_back(image):
    assert (read_png(write_png(image)) == image).all()
    assert (read_data_url(data_url(image)) == image).all()


@given(st.binary(max_size=200), st.integers(0, 120))
def test_what_is_no_png_is_a_value_error(junk, cut):
    good = write_png(np.zeros((5, 4, 3), np.uint8))
    for data in (junk, good[:cut] + junk, good[: len(good) // 2]):
        with suppress(ValueError):  # and nothing else
            assert read_png(data).shape[2] == 3


def test_bad_images_are_refused():
    for image in (np.zeros((3, 3, 3)), np.zeros((3, 3), np.uint8), np.zeros((0, 3, 3), np.uint8)):
        with pytest.raises(ValueError, match=r"an image is an array \[H, W, 3\] of uint8"):
            write_png(image)
    with pytest.raises(ValueError, match="data:image/png;base64"):
        read_data_url("http://example.org/cat.png")


def test_other_pngs_are_read_and_bombs_are_not():
    grey = io.BytesIO()
    Image.fromarray(np.arange(12, dtype=np.uint8).reshape(4, 3)).save(grey, "PNG")
    assert (read_png(grey.getvalue()) == np.arange(12).reshape(4, 3, 1)).all()
    bomb = io.BytesIO()
    Image.new("1", (5_000, 5_000)).save(bomb, "PNG")
    with pytest.raises(ValueError, match="too many"):
        read_png(bomb.getvalue())
    jpeg = io.BytesIO()
    Image.new("RGB", (8, 8)).save(jpeg, "JPEG")
    with pytest.raises(ValueError, match="not a PNG"):
        read_png(jpeg.getvalue())


def test_a_text_is_an_observation_without_an_image():
    assert (text_of("a"), image_of("a"), with_text("a", "b")) == ("a", None, "b")
    both = {"text": "a", "image": np.zeros((1, 1, 3), np.uint8)}
    assert (text_of(both), with_text(both, "b")["text"], both["text"]) == ("a", "b", "a")
    json.dumps(text_of(both))
