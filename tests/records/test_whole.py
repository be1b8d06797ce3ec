"""Files appear whole or not at all."""

import errno
import os
import stat

import pytest

from oracle.records.whole import temporary_of, writable, write_whole


def text(content):
    return lambda file: file.write_text(content)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_replaced_whole_and_keeps_its_permissions(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("old")
    file.chmod(0o640)
    write_whole(file, text("new"))
    assert file.read_text() == "new" and stat.S_IMODE(file.stat().st_mode) == 0o640
    assert names(tmp_path) == ["a.csv"]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "other").write_text("")
    write_whole(tmp_path / "a", text("new"))
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_link_stays_a_link_and_its_file_is_replaced_beside_itself(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "real").write_text("old")
    (tmp_path / "link").symlink_to("far/real")
    seen = []
    write_whole(tmp_path / "link", lambda file: (seen.append(file.parent), file.write_text("new")))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "far" / "real").read_text() == "new"
    assert seen == [tmp_path / "far"] and names(tmp_path) == ["far", "link"] and names(tmp_path / "far") == ["real"]


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), OSError("disk on fire")])
def test_a_failed_write_keeps_the_old_file_and_names_it(tmp_path, fault):
    file = tmp_path / "a.csv"
    file.write_text("old")

    def full(temporary):
        temporary.write_text("ha")
        raise fault

    with pytest.raises(OSError, match=f"{fault.strerror or fault}.*a.csv'") as caught:
        write_whole(file, full)
    assert caught.value.filename == str(file) and ".tmp" not in str(caught.value)
    assert file.read_text() == "old" and names(tmp_path) == ["a.csv"]


def test_an_interrupted_write_leaves_nothing(tmp_path):
    def interrupted(temporary):
        temporary.write_text("ha")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a", interrupted)
    assert names(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_device_is_written_straight_and_never_replaced():
    before = os.stat("/dev/full")
    from pathlib import Path

    with pytest.raises(OSError, match="No space left on device.*/dev/full"):
        write_whole(Path("/dev/full"), text("x" * 10**6))
    write_whole(Path("/dev/null"), text("x"))
    assert os.stat("/dev/full").st_rdev == before.st_rdev and stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("call", [writable, lambda target: write_whole(target, text("x"))])
def test_a_folder_is_no_file(tmp_path, call):
    with pytest.raises(IsADirectoryError, match=f"a folder.*{tmp_path.name}"):
        call(tmp_path)


def test_writable_says_so_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("old")
    for target in ("file", "new", "some/new/folder/file"):
        writable(tmp_path / target)
    writable(tmp_path, folder=True)
    writable(tmp_path / "some" / "folder", folder=True)
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "old"


def test_what_is_not_writable_is_named(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match="file/below"):
        writable(tmp_path / "file" / "below")
    with pytest.raises(NotADirectoryError, match="file"):
        writable(tmp_path / "file", folder=True)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs /proc")
def test_a_place_where_nothing_can_be_made_is_named():
    from pathlib import Path

    with pytest.raises(OSError, match="/proc/nowhere/cost.json"):
        writable(Path("/proc/nowhere/cost.json"))


def test_temporary_names_are_told_from_others():
    assert temporary_of(".part-00000.parquet.0123abcd.tmp") == "part-00000.parquet"
    for other in (
        ".a.tmp",
        "part.0123abcd.tmp",
        ".a.0123abcg.tmp",
        ".a.0123abcd.txt",
        ".0123abcd.tmp",
        ".a.0123abcd2.tmp",
    ):
        assert temporary_of(other) is None
