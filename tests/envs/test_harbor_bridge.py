"""Task folders of Harbor in our sandbox: what they pay, what an agent cannot reach, and what is refused."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import stat
import tarfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rlvr  # noqa: F401
from rlvr.adapters.export.harbor import write_tasks
from rlvr.envs.bridges.harbor import MEMORY
from rlvr.envs.bridges.harbor_files import handed_over, opened
from rlvr.envs.bridges.harbor_folder import read_folder
from rlvr.envs.sandbox import images, plans
from rlvr.envs.sandbox.images import base_files, run_in_image

from ..needs import needs_images

ID = "rlvr/harbor.Tasks-v0"


pytestmark = needs_images
needs_users = pytest.mark.skipif(os.geteuid() != 0, reason="our verifier runs programs as another user: needs root")

CONFIG = 'schema_version = "1.4"\n[verifier]\ntimeout_sec = 60.0\n[environment]\nworkdir = "/app"\n'
DOCKERFILE = "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY start.txt .\n"
VERIFY = "#!/bin/bash\ngrep -sx done /app/result.txt | wc -l > /logs/verifier/reward.txt\n"


def task_folder(at: Path, **files: str) -> Path:
    """A small task; a name of ``files`` is a path with __ for / and without its ending."""
    named = {
        "task.toml": CONFIG,
        "instruction.md": "Write done into result.txt.\n",
        "environment/Dockerfile": DOCKERFILE,
        "environment/start.txt": "start\n",
        "tests/test.sh": VERIFY,
        "solution/solve.sh": "#!/bin/bash\necho done > result.txt\n",
        **files,
    }
    for path, text in named.items():
        (at / path).parent.mkdir(parents=True, exist_ok=True)
        (at / path).write_text(text)
    return at


def unsolved(at: Path, **files: str) -> Path:
    """A small task without a solution, for a verifier that pays nobody."""
    folder = task_folder(at, **files)
    (folder / "solution" / "solve.sh").unlink()
    return folder


def made(folder: Path, **settings: Any) -> Any:
    return gym.make(ID, folder=str(folder), **{"split": None, **settings}).unwrapped


def finished(env: Any, *scripts: str, index: int = 0) -> tuple[float, Any, str]:
    """The reward of a task after some scripts and <Done>, its verdict, and what the last script printed."""
    printed, _ = env.reset(seed=0, options={"index": index})
    for script in scripts:
        printed, _, terminated, _, _ = env.step(script)
        assert not terminated, printed
    _, reward, terminated, _, info = env.step("<Done>")
    assert terminated
    return reward, info["verdict"], printed


def solved(env: Any, index: int = 0) -> float:
    env.reset(seed=0, options={"index": index})
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = env.step(env.task.solve(env.get_state().state))
        total, over = total + reward, terminated or truncated
    return total


# what it pays


@needs_users
@pytest.mark.slow
@pytest.mark.parametrize(("name", "level", "count"), [("Terminal", 1, 4), ("CodeRepair", 2, 2), ("CodeTests", 2, 2)])
def test_what_we_export_comes_back(tmp_path: Path, name: str, level: int, count: int) -> None:
    write_tasks(f"rlvr/{name}-v0", tmp_path / "out", count, level=level)
    env = made(tmp_path / "out")
    assert env.size >= 2
    for index in range(env.size):
        assert solved(env, index) == 1.0
        reward, verdict, _ = finished(env, index=index)
        assert (reward, verdict.status) == (0.0, "wrong")


CHEATS = {
    "reward": "mkdir /logs/verifier; cd /logs/verifier; echo 1 > reward.txt; echo '{\"reward\": 1}' > reward.json",
    "tests": "ls /tests; mkdir /tmp/tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tmp/tests/test.sh",
    "modules": "for n in wire json sitecustomize; do echo 'raise SystemExit' > $n.py; done; ls",
    "home": "echo 'echo 1 > /logs/verifier/reward.txt; exit' | tee ~/.bashrc ~/.profile /etc/profile /etc/bash.bashrc",
}


@needs_users
@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS)
def test_cheats_get_0(tmp_path: Path, cheat: str) -> None:
    write_tasks("rlvr/CodeRepair-v0", tmp_path / "out", 1, level=1)
    reward, verdict, printed = finished(made(tmp_path / "out"), CHEATS[cheat])
    assert (reward, verdict.status) == (0.0, "wrong")
    assert "exit code" in printed


FILLING = "for n in home mnt opt srv var; do head -c 50000000 /dev/zero > /$n/filled; done"


@pytest.mark.slow
def test_a_policy_that_uses_up_the_memory_is_wrong_and_no_error_of_ours(tmp_path: Path, monkeypatch: Any) -> None:
    """In an action, and in a program of its own that the verifier runs."""
    if not plans.cgroup_parents():
        pytest.skip("no control group can be made here")
    verify = "#!/bin/bash\nbash /app/result.sh | wc -l > /logs/verifier/reward.txt\n"
    env = made(task_folder(tmp_path / "task", **{"tests/test.sh": verify}))
    assert finished(env, "echo 'echo done' > result.sh")[:1] == (1.0,)
    monkeypatch.setattr(images, "_MEMORY_MB", 128)
    reward, verdict, _ = finished(env, f"echo '{FILLING}' > result.sh")
    assert (reward, verdict.status) == (0.0, "wrong")
    assert verdict.reason.startswith(f"{MEMORY}; on an untouched image")
    env.reset(seed=0, options={"index": 0})
    _, reward, terminated, _, info = env.step(FILLING)
    assert (reward, terminated, info["verdict"].status, info["verdict"].reason) == (0.0, True, "wrong", MEMORY)


@pytest.mark.slow
def test_a_verifier_that_uses_up_the_memory_itself_is_no_reward(tmp_path: Path, monkeypatch: Any) -> None:
    if not plans.cgroup_parents():
        pytest.skip("no control group can be made here")
    monkeypatch.setattr(images, "_MEMORY_MB", 128)
    verify = f"#!/bin/bash\n{FILLING}\necho 1 > /logs/verifier/reward.txt\n"
    reward, verdict, _ = finished(made(task_folder(tmp_path / "task", **{"tests/test.sh": verify})))
    assert (reward, verdict.status, verdict.valid, verdict.reason) == (0.0, "verifier_error", False, MEMORY)


def test_a_task_whose_verifier_shares_the_image(tmp_path: Path) -> None:
    env = made(task_folder(tmp_path / "task"))
    assert solved(env) == 1.0
    reward, verdict, printed = finished(env, CHEATS["reward"] + "; ls /tests /solution; cat start.txt")
    assert (reward, verdict.status) == (0.0, "wrong")
    assert "start" in printed
    assert "cannot access '/tests'" in printed
    assert "cannot access '/solution'" in printed


def test_only_artifacts_reach_a_verifier_apart(tmp_path: Path) -> None:
    config = CONFIG.replace("[verifier]", 'artifacts = ["/app/result.txt"]\n[verifier]\nenvironment_mode = "separate"')
    verify = (
        VERIFY
        + "ls -A /app /opt > /logs/verifier/seen.txt; [ -e /opt/mine ] && echo 1 > /logs/verifier/reward.txt; true\n"
    )
    env = made(task_folder(tmp_path / "task", **{"task.toml": config, "tests/test.sh": verify}))
    assert solved(env) == 1.0
    assert finished(env, "touch /opt/mine; ls /opt")[0] == 0.0


APART = CONFIG.replace("[verifier]", 'artifacts = ["/app"]\n[verifier]\nenvironment_mode = "separate"')
ANSWER = {"tests/expected.txt": "done\n"}


def apart(at: Path, artifact: str = "/app", **files: str) -> Any:
    return made(task_folder(at, **{"task.toml": APART.replace('"/app"]', f'"{artifact}"]'), **ANSWER, **files}))


@pytest.mark.parametrize("artifact", ["/app", "/app/result.txt"])
@pytest.mark.parametrize(
    "script",
    [
        "ln -s /tests/expected.txt result.txt",
        "ln -s ../tests/expected.txt result.txt",
        "mkdir -p a/b; ln -s ../.. a/b/up; ln -s a/b/up/../tests/expected.txt result.txt",
        "ln -s .. up; ln -s up/tests/expected.txt result.txt",
        "ln -s ../../tests a; ln -s a/expected.txt result.txt",
        "ln -s /proc/self/root/tests/expected.txt result.txt",
    ],
)
def test_a_link_to_the_tests_is_not_handed_over(tmp_path: Path, artifact: str, script: str) -> None:
    env = apart(tmp_path / "task", artifact)
    reward, verdict, _ = finished(env, script)
    assert (reward, verdict.status) == (0.0, "wrong")
    assert finished(env, "cat start.txt > /dev/null; echo done > result.txt")[0] == 1.0


@pytest.mark.parametrize(
    "script",
    [
        "echo done > b; ln -s b result.txt",
        "mkdir -p d/e; echo done > d/e/b; ln -s d/e f; ln -s f/../../d/./e/b result.txt",
        "echo done > b; ln -s /app/b result.txt",
        "echo done > b; ln -s ../app/b result.txt",
        "echo done > b; ln b result.txt",
    ],
)
def test_a_link_inside_its_artifact_is_handed_over(tmp_path: Path, script: str) -> None:
    assert finished(apart(tmp_path / "task"), script)[0] == 1.0


@pytest.mark.parametrize(("script", "reward"), [("ln a result.txt", 1.0), ("mkfifo result.txt", 0.0)])
def test_a_hard_link_is_the_file_it_names(tmp_path: Path, script: str, reward: float) -> None:
    got, verdict, _ = finished(apart(tmp_path / "task", "/app/result.txt"), f"echo done > a; {script}")
    assert (got, verdict.valid) == (reward, True)


@pytest.mark.parametrize(
    "script",
    ["rm start.txt; mkdir start.txt; touch start.txt/a", "rm -r d; touch d", "rm -r d; ln -s start.txt d"],
)
def test_what_an_agent_turned_into_another_kind_of_file_is_handed_over(tmp_path: Path, script: str) -> None:
    files = {"environment/Dockerfile": DOCKERFILE + "COPY d d\n", "environment/d/x": "x\n"}
    reward, verdict, _ = finished(apart(tmp_path / "task", **files), f"{script}; echo done > result.txt")
    assert (reward, verdict.status) == (1.0, "correct")


def test_an_image_has_no_tests_of_its_own(tmp_path: Path) -> None:
    dockerfile = DOCKERFILE + "COPY start.txt /tests/mine.txt\n"
    verify = "#!/bin/bash\nls /tests\necho 0 > /logs/verifier/reward.txt\n"
    env = made(unsolved(tmp_path / "task", **{"environment/Dockerfile": dockerfile, "tests/test.sh": verify}))
    _, verdict, printed = finished(env, "ls /tests; touch /tests/more.py /tests/test.sh")
    assert "mine.txt" in printed
    assert verdict.reason == "test.sh"


def _tar(*entries: tuple[str, bytes, str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, kind, target, content in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size = kind, target, len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


FOLDER, FILE, LINK = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE
FORGED = {
    "below a link": (("app/d", LINK, "../tests", b""), ("app/d/test.sh", FILE, "", b"x")),
    "below a later link": (("app/d/test.sh", FILE, "", b"x"), ("app/d", LINK, "../tests", b"")),
    "twice": (("app/d", LINK, "../tests", b""), ("app/d", FOLDER, "", b""), ("app/d/test.sh", FILE, "", b"x")),
    "spelt twice": (("app/d", LINK, "../tests", b""), ("app/./d", FOLDER, "", b"")),
    "upwards": (("app/../tests/test.sh", FILE, "", b"x"),),
    "absolute": (("/tests/test.sh", FILE, "", b"x"),),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_tar_that_no_first_process_writes_is_refused(tmp_path: Path, forged: str) -> None:
    files = _tar(("app", FOLDER, "", b""), *FORGED[forged])
    with pytest.raises(ValueError, match="an image's files hold"):
        handed_over(files, ("/app",))
    env = apart(tmp_path / "task")
    env.reset(seed=0)
    assert env.task._verified(env.task.folders[0], files).status == "verifier_error"


@pytest.mark.parametrize("kind", ["nothing", "text", "cut off", "no tar inside"])
def test_what_is_no_tar_is_a_verifier_error(tmp_path: Path, kind: str) -> None:
    whole = _tar(("app", FOLDER, "", b""))
    files = {"nothing": b"", "text": b"no tar", "cut off": whole[:-12], "no tar inside": gzip.compress(b"x" * 600)}[
        kind
    ]
    env = apart(tmp_path / "task")
    assert env.task._verified(env.task.folders[0], files).status == "verifier_error"


def test_a_tar_that_swells_is_refused() -> None:
    bomb = _tar(*((f"app/{number}", FILE, "", bytes(64 << 20)) for number in range(5)))
    with pytest.raises(ValueError, match="more than 256 MB"):
        opened(bomb)


def test_parts_of_a_reward_are_kept(tmp_path: Path) -> None:
    verify = '#!/bin/bash\necho \'{"reward": 0.25, "style": 0.5}\' > /logs/verifier/reward.json\n'
    reward, verdict, _ = finished(made(task_folder(tmp_path / "task", **{"tests/test.sh": verify})))
    assert (reward, verdict.status, dict(verdict.parts)) == (0.25, "partial", {"style": 0.5})


@pytest.mark.parametrize(
    ("verify", "status"),
    [
        ("exit 1", "verifier_error"),
        ("echo nan > /logs/verifier/reward.txt", "verifier_error"),
        ("echo much > /logs/verifier/reward.txt", "verifier_error"),
        ("echo '{\"style\": 1}' > /logs/verifier/reward.json", "verifier_error"),
        ("printf '1%0400d' 0 > /logs/verifier/reward.json", "verifier_error"),
        ("printf '%060000d' 0 | tr 0 '[' > /logs/verifier/reward.json", "verifier_error"),
        ("echo 1 > /logs/verifier/reward.txt; sleep 60", "timeout"),
    ],
)
def test_a_fault_of_the_verifier_is_no_reward(tmp_path: Path, verify: str, status: str) -> None:
    config = CONFIG.replace("60.0", "1.5")
    files = {"tests/test.sh": f"#!/bin/bash\n{verify}\n", "task.toml": config}
    reward, verdict, _ = finished(made(task_folder(tmp_path / "task", **files)))
    assert (reward, verdict.status, verdict.valid) == (0.0, status, False)


@pytest.mark.parametrize(
    "program",
    ["sleep 60", "kill -9 $PPID", "rm -rf /logs/verifier", "head -c 70000000 /dev/zero > /opt/big", "kill -9 -1"],
)
def test_a_program_that_disables_the_verifier_has_failed_itself(tmp_path: Path, program: str) -> None:
    """The verifier runs what the agent wrote, and does its work where nothing was written: no fault of the task."""
    verify = "#!/bin/bash\ncd /app\nbash run.sh\necho 0 > /logs/verifier/reward.txt\n"
    files = {"tests/test.sh": verify, "task.toml": CONFIG.replace("60.0", "5.0")}
    env = made(task_folder(tmp_path / "task", **files))
    env.reset(seed=0)
    env.step(f"echo '{program}' > run.sh")
    _, reward, terminated, _, info = env.step("<Done>")
    verdict = info["verdict"]
    assert (reward, terminated, verdict.status, verdict.valid) == (0.0, True, "wrong", True), verdict


NETWORK = "#!/bin/bash\nif uvx pytest /tests; then n=1; else n=0; fi\necho $n > /logs/verifier/reward.txt\n"


def test_a_verifier_that_needs_a_network_is_no_0(tmp_path: Path) -> None:
    """As Harbor's own template installs its tools in test.sh, and writes a 0 where it could not."""
    env = made(task_folder(tmp_path / "task", **{"tests/test.sh": NETWORK}))
    for script in ("true", "echo done > result.txt"):
        reward, verdict, _ = finished(env, script)
        assert (reward, verdict.status, verdict.valid) == (0.0, "verifier_error", False)
        assert "own solution earns nothing here, where there is no network: " in verdict.reason
        assert "uvx" in verdict.reason


def test_a_solution_that_needs_a_network_is_no_0_either(tmp_path: Path) -> None:
    env = made(task_folder(tmp_path / "task", **{"solution/solve.sh": "curl https://done.example > result.txt\n"}))
    assert finished(env)[1].status == "verifier_error"
    assert finished(env, "echo done > result.txt")[0] == 1.0


def test_a_solution_has_its_folder_and_its_variables(tmp_path: Path) -> None:
    config = CONFIG + '[solution.env]\nWORD = "done"\n'
    solve = "#!/bin/bash\ncat /solution/start.txt; echo $WORD > result.txt\n"
    files = {"task.toml": config, "solution/solve.sh": solve, "solution/start.txt": "x\n"}
    env = made(task_folder(tmp_path / "task", **files))
    assert finished(env)[1].status == "wrong"  # for the solution is paid
    assert solved(env) == 1.0


def test_the_last_turn_hands_in(tmp_path: Path) -> None:
    env = made(task_folder(tmp_path / "task"), max_turns=1)
    env.reset(seed=0)
    _, reward, terminated, truncated, _ = env.step("```bash\necho done > result.txt\n```")
    assert (reward, terminated, truncated) == (1.0, False, True)


# what an agent has, and has not


def test_files_stay_and_all_else_ends_with_the_action(tmp_path: Path) -> None:
    env = made(task_folder(tmp_path / "task"), seconds=20.0)
    script = "cd /tmp; export NAME=me; echo kept > /opt/a; (sleep 0.2; echo late > /opt/late) & echo x"
    _, _, printed = finished(env, script, "pwd; echo [$NAME]; cat /opt/a; ls /opt")
    assert printed.splitlines()[:4] == ["/app", "[]", "kept", "a"]


def test_an_action_past_its_time_is_stopped_and_the_episode_goes_on(tmp_path: Path) -> None:
    env = made(task_folder(tmp_path / "task"), seconds=1.0)
    env.reset(seed=0)
    printed, _, terminated, _, _ = env.step("echo begun > a.txt; sleep 60")
    assert "[stopped after 1 s]" in printed
    assert not terminated
    assert env.step("cat a.txt")[0].startswith("begun")


def test_forks_and_pickles_go_on_by_themselves(tmp_path: Path) -> None:
    env = made(task_folder(tmp_path / "task"))
    env.reset(seed=0)
    env.step("echo 1 > a")
    twin, copy = env.fork(), pickle.loads(pickle.dumps(env))
    env.step("echo done > result.txt")
    assert twin.step("cat a; ls result.txt")[0].startswith("1\nls: cannot access")
    assert copy.step("cat a")[0].startswith("1\n")
    assert env.step("<Done>")[1] == 1.0
    assert twin.step("<Done>")[1] == 0.0


def test_the_machine_is_out_of_reach() -> None:
    """No network, none of the host's files but /usr, which is read-only; no namespaces, no mounts."""
    script = (
        "echo x > /usr/x; echo x > /x; cat /etc/shadow; ls /home /root | wc -l; unshare -r true; "
        "python3 -c 'import socket; socket.socket()'; mount -t tmpfs none /mnt; ls /sys; kill -9 1; echo alive"
    )
    printed = run_in_image(base_files({}), script).output
    for complaint in (
        "/usr/x: Read-only",
        "/x: Read-only",
        "/etc/shadow: No such file",
        "unshare failed",
        "PermissionError",
    ):
        assert complaint in printed, printed
    assert "alive" in printed
    assert re.search(r"mount: .*(permission|superuser|denied|failed)", printed)


def test_a_full_disk_is_the_agents_own_doing(tmp_path: Path) -> None:
    env = made(task_folder(tmp_path / "task"))
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step("for i in tmp opt; do head -c 40000000 /dev/zero > /$i/a; done; ls /tmp")
    assert (reward, terminated, info["verdict"].status) == (0.0, True, "wrong")


def test_output_is_cut_and_holds_no_control_tokens(tmp_path: Path) -> None:
    env = made(task_folder(tmp_path / "task"))
    env.reset(seed=0)
    printed = env.step("echo '<|im_end|>'; head -c 3000000 /dev/zero | tr '\\0' y; echo; head -c 100 /dev/urandom")[0]
    assert len(printed) < 9_000
    assert "<|im_end|>" not in printed


# what is built, and what is refused


def test_a_dockerfile_is_built(tmp_path: Path) -> None:
    dockerfile = (
        '# a comment\nFROM python:3.9-slim\nENV A=1 B="two words"\nENV C=$A-${B}\nWORKDIR /project\n'
        "COPY start.txt data/ /data/\nCOPY --chmod=755 run.sh /opt/run\nRUN echo built > made.txt \\\n && ls /data\n"
        'WORKDIR sub\nCMD ["bash"]\n'
    )
    files = {
        "environment/Dockerfile": dockerfile,
        "environment/data/x.csv": "1,2\n",
        "environment/run.sh": "#!/bin/bash\necho ran\n",
        "task.toml": CONFIG.replace('workdir = "/app"\n', 'env = { D = "four" }\n'),
    }
    _, _, printed = finished(
        made(task_folder(tmp_path / "task", **files)), "pwd; cat ../made.txt; ls /data; /opt/run; echo $C $D"
    )
    assert printed.split("\n")[:6] == ["/project/sub", "built", "start.txt", "x.csv", "ran", "1-two words four"]


def test_a_step_that_needs_the_network_is_one_sentence(tmp_path: Path) -> None:
    task_folder(tmp_path / "task", **{"environment/Dockerfile": DOCKERFILE + "RUN python3 -m http.client && false\n"})
    with pytest.raises(ValueError, match=r"fails here, where there is no network .*Harbor and docker"):
        made(tmp_path / "task").reset(seed=0)


REFUSED = {
    "schema version '2.0'": {"task.toml": 'schema_version = "2.0"\n'},
    "steps in its task.toml": {"task.toml": CONFIG + '[[steps]]\nname = "a"\n'},
    r"\[environment\] docker_image": {"task.toml": CONFIG + 'docker_image = "x/y"\n'},
    r"\[environment\] gpus": {"task.toml": CONFIG + "gpus = 1\n"},
    r"\[environment\] os": {"task.toml": CONFIG + 'os = "windows"\n'},
    r"\[agent\] user": {"task.toml": CONFIG + '[agent]\nuser = "me"\n'},
    "takes KEY from the variables": {"task.toml": CONFIG + '[environment.env]\nKEY = "${KEY}"\n'},
    "has environment/docker-compose.yaml": {"environment/docker-compose.yaml": "services: {}\n"},
    "is FROM alpine": {"environment/Dockerfile": "FROM alpine:3\n"},
    "is FROM python:3.99": {"environment/Dockerfile": "FROM python:3.99\n"},
    "more than one FROM": {"environment/Dockerfile": "FROM debian\nFROM debian\n"},
    "has ARG": {"environment/Dockerfile": "FROM debian\nARG x\n"},
    "has USER me": {"environment/Dockerfile": "FROM debian\nUSER me\n"},
    "has ADD https": {"environment/Dockerfile": "FROM debian\nADD https://x.example/a /a\n"},
    "has COPY --from": {"environment/Dockerfile": "FROM debian\nCOPY --from=x a b\n"},
    r"has COPY \.\./environment2/secret": {
        "environment/Dockerfile": "FROM debian\nCOPY ../environment2/secret .\n",
        "environment2/secret": "x\n",
    },
    "has COPY a/../../x": {"environment/Dockerfile": "FROM debian\nCOPY a/../../x .\n"},
    "has the artifact": {"task.toml": 'artifacts = ["../x"]\n' + CONFIG},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_run_here_is_refused_at_the_start(tmp_path: Path, reason: str) -> None:
    task_folder(tmp_path / "task", **REFUSED[reason])
    with pytest.raises(
        ValueError, match=f"task cannot be run here: .*{reason}.*; run this task with Harbor and docker"
    ):
        made(tmp_path / "task")


def test_a_link_in_a_folder_is_refused(tmp_path: Path) -> None:
    task = task_folder(tmp_path / "task")
    (task / "environment" / "link").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match="holds environment/link, which is no plain file"):
        made(task)


LEFT = {
    "a link": lambda path: path.symlink_to("/etc/hostname"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a pipe": os.mkfifo,
    "a device": lambda path: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5)),
    "a folder": Path.mkdir,
    "a large file": lambda path: path.write_text("#" * (2 << 20)),
    "no text": lambda path: path.write_bytes(b"\xff"),
}


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("name", ["task.toml", "instruction.md"])
def test_what_is_no_plain_text_is_not_read(tmp_path: Path, name: str, left: str) -> None:
    task = task_folder(tmp_path / "task")
    (task / name).unlink()
    try:
        LEFT[left](task / name)
    except PermissionError:
        pytest.skip("a device is made by root alone")
    with pytest.raises(ValueError, match="is no task folder of Harbor"):
        read_folder(task)


@pytest.mark.parametrize("name", ["environment", "tests", "solution"])
def test_a_folder_that_is_a_link_is_refused(tmp_path: Path, name: str) -> None:
    task = task_folder(tmp_path / "task")
    (task / name).rename(tmp_path / "elsewhere")
    (task / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=f"holds {name}, which is a link"):
        read_folder(task)


@pytest.mark.parametrize("version", ['version = "1.0"\n', 'schema_version = "1.2"\n', ""])
def test_the_version_is_read_by_its_older_name_too(tmp_path: Path, version: str) -> None:
    config = CONFIG.partition("\n")[2]
    assert read_folder(task_folder(tmp_path / "task", **{"task.toml": version + config})).seconds == 60
    with pytest.raises(ValueError, match=r"has schema version '2\.0'"):
        read_folder(task_folder(tmp_path / "other", **{"task.toml": 'version = "2.0"\n' + config}))


@pytest.mark.parametrize("target", ["/usr/share/x", "/bin/x", "/x"])
def test_what_is_the_machines_own_is_not_written(tmp_path: Path, target: str) -> None:
    task_folder(tmp_path / "task", **{"environment/Dockerfile": f"FROM debian\nCOPY start.txt {target}\n"})
    with pytest.raises(ValueError, match=r"writes to /\w+, which is this machine's own"):
        made(tmp_path / "task").reset(seed=0)


def test_a_task_stays_in_the_split_it_was_exported_from(tmp_path: Path) -> None:
    write_tasks("rlvr/CodeTests-v0", tmp_path / "out", 2, split="test")
    assert made(tmp_path / "out", split="test").size == 2
    with pytest.raises(ValueError, match="none of the 2 tasks"):
        made(tmp_path / "out", split="train")


def test_an_empty_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no task folder of Harbor"):
        made(tmp_path)
