"""Folders and files as paths with sizes."""

from rlvr.envs.agentic.repository_numbers.rounding import half_up


def parts_of(path: str) -> list[str]:
    """The names of a path, with "." left out and ".." going up; ValueError if it leaves the top."""
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            if not names:
                raise ValueError(f"{path} leaves the top")
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return names


class FileTree:
    """Files with sizes, by path; folders are there as long as something is in them."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def write(self, path: str, size: int) -> None:
        """Create or replace a file; ValueError if the path names a folder, or goes through a file."""
        key = "/".join(parts_of(path))
        if any(other.startswith(key + "/") or key.startswith(other + "/") for other in self._sizes):
            raise ValueError(f"{path} is in the way")
        self._sizes[key] = size

    def remove(self, path: str) -> int:
        """Remove a file, or a folder with all in it; how many files. KeyError if there is nothing."""
        key = "/".join(parts_of(path))
        gone = [other for other in self._sizes if other == key or other.startswith(key + "/")]
        if not gone:
            raise KeyError(path)
        for other in gone:
            del self._sizes[other]
        return len(gone)

    def listing(self, folder: str) -> list[str]:
        """What is in a folder, sorted, folders with "/" at the end."""
        depth = len(parts_of(folder))
        names = set()
        for path in self._sizes:
            names_of_path = path.split("/")
            if names_of_path[:depth] == parts_of(folder) and len(names_of_path) > depth:
                names.add(names_of_path[depth] + ("/" if len(names_of_path) > depth + 1 else ""))
        return sorted(names)

    def total(self, folder: str) -> int:
        """The size of all files below a folder."""
        prefix = "".join(name + "/" for name in parts_of(folder))
        return sum(size for path, size in self._sizes.items() if path.startswith(prefix))

    def move(self, path: str, target: str) -> int:
        """Give a file or a folder another path; how many files moved. KeyError if there is nothing."""
        old, new = "/".join(parts_of(path)), "/".join(parts_of(target))
        moved = {key: size for key, size in self._sizes.items() if key == old or key.startswith(old + "/")}
        if not moved:
            raise KeyError(path)
        for key in moved:
            del self._sizes[key]
        for key, size in moved.items():
            self.write(new + key[len(old) :], size)
        return len(moved)

    def largest(self, count: int) -> list[str]:
        """The largest files, at most so many; of equal ones by path."""
        return sorted(self._sizes, key=lambda path: (-self._sizes[path], path))[:count]

    def share(self, folder: str) -> int:
        """What a folder takes of everything, in percent rounded to the nearest; 0 if there is nothing."""
        whole = self.total("")
        return half_up(100 * self.total(folder), whole) if whole > 0 else 0


MODULE = ("trees", "file_tree", "folders")
ALIASES = {"FileTree": ("FolderTree", "PathTree"), "parts_of": ("path_parts",)}
SCENARIOS = (
    "parts_of('/<w>/./<w>//<w>/<..|.|a>/x')",
    "parts_of('<a|..>/../<b|..>/c')",
    "tree = FileTree()\nfor word in <4*w>:\n    tree.write('<a|b>/' + word, len(word))\n"
    "tree.write('a/<b|c>/d', <1..9>)\n"
    "(tree.listing('a'), tree.listing(''), tree.total('a'))",
    "tree = FileTree()\ntree.write('a/b', 1)\ntree.write('<a|a/b/c|a/bc|a/b>', <2..9>)\n"
    "(tree.total(''), tree.listing('a'))",
    "tree = FileTree()\ntree.write('a/b', <1..9>)\ntree.write('ab', <1..9>)\n"
    "(tree.remove('<a|ab|a/b|b>'), tree.total(''))",
    "tree = FileTree()\ntree.write('a/b', <1..9>)\ntree.write('a/c/d', <1..9>)\n"
    "(tree.move('<a|a/c|a/b>', '<x|y/z>'), tree.listing(''), tree.listing('a'), tree.total('x'))",
    "tree = FileTree()\nfor name, size in zip('abcde', <5*1..6>):\n    tree.write(name, size)\ntree.largest(<2..4>)",
    "tree = FileTree()\ntree.write('a/b', <1..90>)\ntree.write('ab', <1..90>)\n"
    "[tree.share(name) for name in ('a', '', 'x')]",
    "tree = FileTree()\ntree.write('x/y', <1..9>)\n(tree.share('<x|w>'), tree.listing('<x|w>'))",
)
