"""Footers of Parquet files: what they claim is read as Arrow reads it, and no damage ends the process."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle.records.footer import Chunk, Group, read_claims
from oracle.shipped import data_path

ROOT = Path(__file__).parent.parent.parent
# Each bit of the footer in turn: the file is refused or read (a part's seal says whether that is what was written).
DAMAGED = """
import sys
from pathlib import Path
from oracle.records.columns import TRACE, by_name
from oracle.records.parquet import read

file = Path(sys.argv[1])
column = by_name(TRACE)["target_tokens"]
whole = file.read_bytes()
length = int.from_bytes(whole[-8:-4], "little")
ends = {"refused": 0, "read": 0}
for at in range(len(whole) - 8 - length, len(whole)):
    for bit in range(8):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        file.write_bytes(damaged)
        try:
            read(file, [column])
            ends["read"] += 1
        except ValueError:
            ends["refused"] += 1
print(ends["refused"] > 100 and ends["read"] > 100)
"""


def claims(file):
    with file.open("rb") as handle:
        return read_claims(handle, file.stat().st_size)


def test_claims_are_those_that_arrow_reads(tmp_path):
    table = pa.table({"a": [1, 2, 3], "b": [[1.0], None, []], "c": ["x", "", "yy"]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    for file in (tmp_path / "t.parquet", data_path("sample") / "part-00000.parquet"):
        known = pq.ParquetFile(file).metadata
        groups = [known.row_group(number) for number in range(known.num_row_groups)]
        expected = [
            Group(group.num_rows, tuple(_chunk(group.column(number)) for number in range(group.num_columns)))
            for group in groups
        ]
        assert claims(file) == (known.num_rows, tuple(expected))


def _chunk(known):
    name = known.path_in_schema.split(".")[0]
    return Chunk(name, known.num_values, known.total_uncompressed_size, known.total_compressed_size)


def test_a_damaged_bit_of_a_footer_never_ends_the_process(tmp_path):
    file = tmp_path / "t.parquet"
    tokens = pa.array([[1, 2, 3], [4]], pa.list_(pa.int32()))
    pq.write_table(pa.table({"target_tokens": tokens}), file, store_schema=False)
    command = [sys.executable, "-c", DAMAGED, str(file)]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr[-500:]


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        b"\x15",
        b"\x19\xfc" + b"\xff" * 9,
        b"\x1c" * 100,
        b"\x15" + b"\xff" * 20,
        b"\x1b\x00",
        b"\x00",
        b"\x36\x02\x00",
    ],
)
def test_what_is_no_footer_is_refused(tmp_path, footer):
    file = tmp_path / "t.parquet"
    file.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="its footer is damaged"):
        claims(file)


def test_a_footer_longer_than_its_file_is_refused(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1" + (1000).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="longer than the file"):
        claims(tmp_path / "t.parquet")
