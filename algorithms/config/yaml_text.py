"""YAML that somebody else wrote: plain values, with bounds on its length, its depth, and what its aliases stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

MAX_CHARACTERS: Final = 200_000
MAX_DEPTH: Final = 30
MAX_VALUES: Final = 20_000  # with each alias counted as all that it stands for


def read_yaml_file(path: Path) -> Any:
    """The plain value in a YAML file: texts, numbers, lists, mappings.

    Raises:
        ValueError: it cannot be read, is no YAML, or is over one of the bounds; in one sentence.
    """
    import yaml

    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
        if len(text) > MAX_CHARACTERS:
            raise ValueError(f"it has over {MAX_CHARACTERS:,} characters")
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):  # without recursion, and before anything is built
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            count, depth = _size(root, {})
            if count > MAX_VALUES or depth > MAX_DEPTH:
                much = f"holds over {MAX_VALUES:,} values" if count > MAX_VALUES else f"is over {MAX_DEPTH} deep"
                raise ValueError(f"with its aliases written out it {much}")
        return yaml.safe_load(text)
    except (OSError, ValueError, OverflowError, TypeError, yaml.YAMLError) as error:
        raise ValueError(f"cannot read the config {path}: {' '.join(str(error).split())}") from error


def _size(node: Any, sizes_by_id: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values a node holds, and how deep they stand, with what its aliases stand for.

    An alias comes after what it stands for, so that is in ``known`` (by the id of a node) when the alias is met.

    Raises:
        ValueError: a node holds itself.
    """
    import yaml

    if not isinstance(node, yaml.CollectionNode):
        return 1, 0
    if id(node) not in sizes_by_id:
        sizes_by_id[id(node)] = (0, 0)  # under way
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        sizes = [_size(part, sizes_by_id) for part in parts]
        sizes_by_id[id(node)] = 1 + sum(count for count, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)
    if sizes_by_id[id(node)] == (0, 0):
        raise ValueError("an alias stands for what it is a part of")
    return sizes_by_id[id(node)]
