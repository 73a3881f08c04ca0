from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pardec_chat.app.conversations import export
from pardec_chat.app.conversations.conversation import Attachment, Conversation, Node
from pardec_chat.app.conversations.export import AlreadyThere, NotExported, file_name, markdown, write
from pardec_chat.app.conversations.record import AnswerRecord
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.backends.base import Method

RECORD = AnswerRecord(
    model="Qwen2.5 Coder",
    draft="0.5B",
    runtime="llama.cpp",
    method=Method.DRAFT,
    depth=3,
    using=Method.DRAFT,
    state="active",
    reason="",
    temperature=0.0,
    predicted_n=340,
    predicted_ms=6250.0,
    steps=100,
    draft_n=300,
    draft_n_accepted=240,
    accepted_per_position=(0.9, 0.8),
    prompt_n=10,
    cache_n=0,
    prompt_ms=20.0,
    ttft_ms=40.0,
    total_ms=6300.0,
    plain_per_second=32.0,
    context_used=400,
    context_size=8192,
    finish_reason="stop",
)


def conversation(*nodes: Node, title: str = "Sorting") -> Conversation:
    talk = Conversation(title=title, created=-1e20)
    for node in nodes:
        node.parent = talk.leaf
        talk.add(node)
    return talk


def test_the_shown_branch_is_written() -> None:
    talk = conversation(
        Node("user", "Sort it.", attachments=(Attachment("a_b [1].py", "x = '```'\n"),)),
        Node("assistant", "<think>\nIt is short.\n\n```\nx\n</think>\n\nUse `sorted`.", record=RECORD),
        Node("user", "And then?"),
        Node("assistant", "Noth", state="stopped"),
    )
    asked, _, again, _ = talk.path()
    talk.nodes["other"] = Node("assistant", "Another branch.", asked.id, "other")
    talk.setup = Setup(system="Be brief.\n\nBe kind.")
    assert markdown(talk) == (
        "# Sorting\n\n"
        "## System\n\n> Be brief.\n>\n> Be kind.\n\n"
        "## You\n\nSort it.\n\n"
        "**a_b \\[1\\].py**\n\n````python\nx = '```'\n````\n\n"
        "## Qwen2.5 Coder\n\n"
        "> *Reasoning*\n>\n> It is short.\n>\n> ```\n> x\n\n"
        "Use `sorted`.\n\n"
        "*54.4 tok/s · 1.70x plain · 340 tokens · 3.4 a step · 80 % of 300 accepted · draft*\n\n"
        "## You\n\nAnd then?\n\n"
        "## Assistant\n\nNoth\n\n**Stopped.**\n"
    )
    talk.show("other")
    assert "Another branch." in markdown(talk)
    assert again.text not in markdown(talk)


def test_when_it_began_is_written() -> None:
    talk = conversation()
    talk.created = 1_700_000_000.0
    assert markdown(talk).startswith("# Sorting\n\n*2023-11-1")


@pytest.mark.parametrize(
    ("node", "end"),
    [
        (Node("assistant", "a", state="length"), "a\n\n**Cut at the token limit.**\n"),
        (Node("assistant", "a", state="writing"), "a\n\n**Not finished.**\n"),
        (Node("assistant", "", state="failed", error="No *room*."), "\n\n**Failed.** No \\*room\\*.\n"),
        (Node("assistant", "why</think>so"), "\n\nwhy</think>so\n"),
        (Node("assistant", "why\n</think>\nso"), "> *Reasoning*\n>\n> why\n\nso\n"),
        (Node("assistant", "<think>why"), "> *Reasoning*\n>\n> why\n"),
        (Node("assistant", "<think>\n\n</think>\n\nso"), "## Assistant\n\nso\n"),
        (Node("assistant", "a", record=replace(RECORD, predicted_n=0, draft_n=0, steps=0)), "## Qwen2.5 Coder\n\na\n"),
        (
            Node("assistant", "a", record=replace(RECORD, method=Method.PLAIN, draft_n=0)),
            "a\n\n*54.4 tok/s · 340 tokens · 3.4 a step · plain*\n",
        ),
    ],
)
def test_how_an_answer_ended_is_written(node: Node, end: str) -> None:
    assert markdown(conversation(node)).endswith(end)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("```py\nx = 1", "```py\nx = 1\n```"),
        ("1. so:\n   ~~~~\n   x", "1. so:\n   ~~~~\n   x\n   ~~~~"),
        ("<!-- never\nclosed", "\\<!-- never\nclosed"),
        ("  <script>\nx", "  \\<script>\nx"),
        ("```\n<script>\n```", "```\n<script>\n```"),
        ("<div>a</div>", "<div>a</div>"),
    ],
)
def test_a_message_cannot_swallow_the_next_one(text: str, written: str) -> None:
    assert markdown(conversation(Node("user", text), Node("assistant", "b"))) == (
        f"# Sorting\n\n## You\n\n{written}\n\n## Assistant\n\nb\n"
    )


@pytest.mark.parametrize(
    ("title", "heading"),
    [
        ("[/INST] a[0] [bold", "\\[/INST\\] a\\[0\\] \\[bold"),
        ("*a* `b` <c> &amp; \\d", "\\*a\\* \\`b\\` \\<c> \\&amp; \\\\d"),
        ("snake_case _and_ C#", "snake_case \\_and\\_ C#"),
        ("closed ##", "closed \\##"),
        ("図書館の開館時間", "図書館の開館時間"),
        ("two\nlines", "two lines"),
        ("", "Conversation"),
    ],
)
def test_U01_brackets_in_titles_and_names_are_text(title: str, heading: str) -> None:
    node = Node("assistant", "a", record=replace(RECORD, model=title, predicted_n=0, steps=0, draft_n=0))
    lines = markdown(conversation(node, title=title)).splitlines()
    assert lines[0] == f"# {heading}"
    assert lines[2] == f"## {heading if title else 'Assistant'}"


@given(st.text(), st.text(), st.text())
@settings(deadline=None)
def test_X05_no_control_byte_is_exported(text: str, name: str, title: str) -> None:
    controls = "\x1b[2J\x9b\x07\x00\u202e\ud800"
    talk = conversation(
        Node("user", text + controls, attachments=(Attachment(name + controls, text + controls),)),
        Node(
            "assistant",
            "<think>" + text + controls,
            state="failed",
            error=controls,
            record=replace(RECORD, model=controls),
        ),
        title=title + controls,
    )
    talk.setup = Setup(system=text + controls)
    written = markdown(talk)
    assert not [c for c in written if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert "\u202e" not in written
    assert written.encode().decode() == written


def test_a_file_is_there_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "talk.md"
    write(path, "größer\ud800\n")
    assert path.read_bytes() == "größer?\n".encode()
    with pytest.raises(AlreadyThere, match=r"talk\.md is there already"):
        write(path, "b")
    assert path.read_text() == "größer?\n"
    write(path, "b", overwrite=True)
    assert path.read_text() == "b"

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "write_atomically", fail)
    for name, overwrite in (("talk.md", True), ("new.md", False)):
        with pytest.raises(NotExported, match="could not be written: No space left on device"):
            write(tmp_path / name, "c", overwrite=overwrite)
    assert [one.name for one in tmp_path.iterdir()] == ["talk.md"]
    assert path.read_text() == "b"


def test_paths_that_cannot_be_written_are_refused_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for overwrite in (False, True):
        with pytest.raises(NotExported, match="is a folder"):
            write(tmp_path, "a", overwrite=overwrite)
        with pytest.raises(NotExported, match=r"The folder .*nowhere is not there"):
            write(tmp_path / "nowhere" / "a.md", "a", overwrite=overwrite)
        for name in ("a" * 300, "a\0b"):
            with pytest.raises(NotExported, match="could not be written"):
                write(tmp_path / name, "a", overwrite=overwrite)
    (tmp_path / "link.md").symlink_to(tmp_path / "target.md")
    with pytest.raises(AlreadyThere):
        write(tmp_path / "link.md", "a")
    monkeypatch.setenv("HOME", str(tmp_path))
    write(Path("~/a.md"), "a")
    assert (tmp_path / "a.md").read_text() == "a"


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Sorting lists", "Sorting lists.md"),
        ("[/INST] a[0]", "[-INST] a[0].md"),
        ("../../etc/passwd", "etc-passwd.md"),
        ("a\\b:c*d?e", "a-b-c-d-e.md"),
        ("", "conversation.md"),
        (" ... ", "conversation.md"),
        (".hidden", "hidden.md"),
        ("CON", "CON conversation.md"),
        ("nul.txt", "conversation nul.txt.md"),
        ("com1", "com1 conversation.md"),
        ("console", "console.md"),
        ("a\x1b[2J\nb\u202e\ud800c", "a[2J bc.md"),
        ("図書館の開館時間", "図書館の開館時間.md"),
        ("-rf", "rf.md"),
    ],
)
def test_titles_become_names_of_files(title: str, name: str) -> None:
    assert file_name(title, ".md") == name


def test_long_names_are_cut_between_characters() -> None:
    assert file_name("図" * 60, ".md") == "図" * 32 + ".md"
    assert file_name("a" * 200, ".json") == "a" * 95 + ".json"
    assert file_name("a" * 96 + " b", ".md") == "a" * 96 + ".md"


@given(st.text() | st.text(alphabet="./\\:con 1a図\u200d\u0301\x00"))
@settings(deadline=None)
def test_every_file_system_takes_the_name(title: str) -> None:
    name = file_name(title, ".md")
    assert name.endswith(".md")
    assert len(name) > 3
    assert len(name.encode()) <= 100
    assert not set(name) & set('/\\:*?"<>|')
    assert not name.startswith((".", " ", "-"))
    assert all(unicodedata.category(c) not in ("Cc", "Cs") for c in name)
    assert name.split(".")[0].strip().upper() not in ("CON", "NUL", "PRN", "AUX", "COM1")
    assert unicodedata.is_normalized("NFC", name)
    assert file_name(name.removesuffix(".md"), ".md") == name, "a name stays as it is"
