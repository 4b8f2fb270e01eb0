"""Rows of a Parquet file, which is inflated in a process of its own.

How large a page or a dictionary becomes shows only as it is inflated, by C code, whose memory the kernel alone bounds.
The process is started as this file: it imports pyarrow, nothing of ours, and sends record batches.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEMORY = 4 << 30  # bytes of address space of the process
BATCH_ROWS = 1_000
BATCH_BYTES = 16 << 20  # that a batch of fewer rows aims at where rows are long


def scan_batches(path: Path, start: int = 0) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """The rows of a file from one on, a batch at a time, and the bytes of each batch.

    Raises:
        ModuleNotFoundError: pyarrow is missing.
        OSError: the file cannot be read, or a batch of it does not fit into `MEMORY`.
    """
    import pyarrow

    command = [sys.executable, "-I", __file__, str(path), str(start)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        try:
            with pyarrow.ipc.open_stream(reader.stdout) as batches:
                for batch in batches:
                    yield batch.to_pylist(), batch.nbytes
        except (pyarrow.ArrowInvalid, OSError):  # the stream broke off
            pass
        except BaseException:
            reader.kill()
            raise
        words = reader.stderr.read().decode(errors="replace").split("\n")
        if reader.wait():
            raise OSError(words[0] or f"{BATCH_ROWS:,} of its rows take over {MEMORY >> 30} GiB")


def _send(path: str, start: int) -> None:
    """What the process does: record batches to standard output, without dictionaries, which inflate later.

    Row groups that end before the first row that is wanted are not read.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import pyarrow
    from pyarrow import parquet

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    try:
        with parquet.ParquetFile(path) as file:
            schema = pyarrow.schema([field.with_type(_without_dictionaries(field.type)) for field in file.schema_arrow])
            with pyarrow.ipc.new_stream(sys.stdout.buffer, schema) as out:
                groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
                size = sum(group.total_byte_size for group in groups)
                rows = max(1, min(BATCH_ROWS, BATCH_BYTES * file.metadata.num_rows // max(1, size)))
                first = 0
                while first < len(groups) and groups[first].num_rows <= start:
                    start -= groups[first].num_rows
                    first += 1
                for group in range(first, len(groups)):  # each by itself: a reader of several holds what it has read
                    for batch in file.iter_batches(rows, row_groups=[group], use_threads=False):
                        if start < batch.num_rows:
                            out.write_batch(batch.slice(start).cast(schema))
                        start = max(0, start - batch.num_rows)
    except MemoryError:
        sys.exit(f"{BATCH_ROWS:,} of its rows take over {MEMORY >> 30} GiB")
    except (pyarrow.ArrowException, OSError) as error:
        sys.exit(" ".join(str(error).split()))


def _without_dictionaries(kind: Any) -> Any:
    from pyarrow import list_, struct, types

    if types.is_dictionary(kind):
        return kind.value_type
    if types.is_struct(kind):
        return struct([field.with_type(_without_dictionaries(field.type)) for field in kind])
    if types.is_list(kind):
        return list_(kind.value_field.with_type(_without_dictionaries(kind.value_type)))
    return kind


if __name__ == "__main__":
    _send(sys.argv[1], int(sys.argv[2]))
