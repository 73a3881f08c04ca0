from __future__ import annotations

import copy
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pardec_chat.app.conversations import exchange, importing
from pardec_chat.app.conversations.conversation import Attachment, Conversation, Node
from pardec_chat.app.conversations.documents import ImportFailed
from pardec_chat.app.conversations.importing import Imported, read
from pardec_chat.app.conversations.record import AnswerRecord, StepRecord
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.plain_text import dump_json
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.tests.unit.test_export import RECORD

Document = dict[str, Any]


def talk() -> Conversation:
    """Two branches at each of two places, and everything that a message can have."""
    made = Conversation(
        title="[/INST] 図書館",
        title_by="user",
        pinned=True,
        created=1_700_000_000.25,
        setup=Setup(
            Path("/models/a.gguf"),
            Path("/models/b.gguf"),
            Method.DRAFT,
            3,
            SamplingParams(temperature=0.0, seed=7),
            100,
            "Be brief.",
        ),
        unsent="And also",
    )
    asked = made.add(Node("user", "Hi?", attachments=(Attachment("a.py", "x = 1\n", 5), Attachment("b", "y"))))
    made.add(
        Node(
            "assistant",
            "Hello there",
            asked.id,
            origins=((5, Method.PLAIN), (0, Method.DRAFT), (6, Method.DRAFT)),
            record=RECORD,
            steps=(StepRecord(1, ("Hello", " there"), 1, " you", Method.DRAFT, 2, 3.25, 30.5),),
        )
    )
    other = made.add(Node("assistant", "Hm", asked.id, state="failed", error="No room."))
    made.add(Node("user", "Why?", other.id))
    made.add(Node("user", "How?", other.id, state="stopped"))
    made.leaf = made.nodes[other.id].id
    return made


def without_ids(document: object) -> Document:
    """A document with places for ids."""
    assert isinstance(document, dict)
    places = {one["id"]: place for place, one in enumerate(document["messages"])}
    messages = [{**one, "id": places[one["id"]], "parent": places.get(one["parent"])} for one in document["messages"]]
    return {**document, "messages": messages, "leaf": places.get(document["leaf"])}


def put(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def refused(path: Path) -> ImportFailed:
    with pytest.raises(ImportFailed) as caught:
        read(path)
    assert caught.value.next_step
    assert not [c for c in str(caught.value) if ord(c) < 32]
    return caught.value


# Our own.


def test_a_conversation_comes_back_with_all_it_had(tmp_path: Path) -> None:
    made = talk()
    path = tmp_path / "talk.json"
    path.write_text(dump_json(exchange.dump(made)), encoding="utf-8-sig")
    imported = read(path)
    assert imported.source == "pardec-chat"
    assert imported.skipped == []
    (back,) = imported.conversations
    assert without_ids(exchange.dump(back)) == without_ids(exchange.dump(made))
    assert [node.text for node in back.path()] == ["Hi?", "Hm"]
    nodes = zip(back.nodes.values(), made.nodes.values(), strict=True)
    for new, old in nodes:
        assert (new.text, new.attachments, new.origins, new.record, new.steps, new.state, new.error, new.created) == (
            (old.text, old.attachments, old.origins, old.record, old.steps, old.state, old.error, old.created)
        )
    assert (back.setup, back.unsent, back.pinned, back.updated) == (made.setup, made.unsent, True, made.updated)


def test_what_is_imported_overwrites_nothing(tmp_path: Path) -> None:
    made = talk()
    path = put(tmp_path / "talk.json", [exchange.dump(made), exchange.dump(made)])
    first, second = read(path).conversations
    assert len({made.id, first.id, second.id}) == 3
    assert not made.nodes.keys() & first.nodes.keys() | first.nodes.keys() & second.nodes.keys()
    for one in (first, second):
        assert [node.id for node in one.nodes.values()] == list(one.nodes)


def test_a_document_is_the_same_before_and_behind_json() -> None:
    document = exchange.dump(talk())
    assert without_ids(exchange.dump(exchange.load(document))) == without_ids(document)
    assert json.loads(dump_json(document))["messages"][1]["origins"] == "plain 5 draft 0 6"


def test_an_answer_that_was_being_written_is_one_that_was_stopped() -> None:
    made = talk()
    made.path()[1].state = "writing"
    document: Any = exchange.dump(made)
    assert document["messages"][2]["state"] == "stopped"
    document["messages"][2]["state"] = "writing"
    assert exchange.load(document).path()[1].state == "stopped"


def test_every_figure_has_a_type_that_is_checked() -> None:
    assert {str(field.type) for field in fields(AnswerRecord)} <= exchange._RECORD_TYPES.keys()


def test_a_record_of_another_version_is_left_out() -> None:
    document: Any = exchange.dump(talk())
    document["messages"][1]["record"].pop("model")
    assert exchange.load(document).nodes.popitem()
    assert [node.record for node in exchange.load(document).nodes.values()] == [None] * 5


def test_keys_that_are_not_known_are_passed_over() -> None:
    document: Any = exchange.dump(talk())
    expected = without_ids(copy.deepcopy(document))
    document["colour"] = document["messages"][0]["colour"] = document["messages"][1]["record"]["colour"] = "red"
    assert without_ids(exchange.dump(exchange.load(document))) == expected


def test_what_is_missing_has_a_default() -> None:
    made = exchange.load(
        {
            "format": exchange.FORMAT,
            "version": 1,
            "messages": [{"id": "a", "parent": None, "role": "user", "text": "Hi"}],
        }
    )
    assert [node.text for node in made.path()] == ["Hi"]
    assert (made.title, made.title_by, made.pinned, made.setup) == ("", "words", False, Setup())


def test_origins_of_a_text_that_was_changed_are_not_known() -> None:
    document: Any = exchange.dump(talk())
    document["messages"][1]["text"] = "Hello"
    assert list(exchange.load(document).nodes.values())[1].origins == ()


def test_halves_of_a_surrogate_pair_do_no_harm(tmp_path: Path) -> None:
    document: Any = exchange.dump(talk())
    document["title"] = document["messages"][0]["text"] = "a\ud800b"
    document["messages"][0]["attachments"][0]["name"] = "\udfff"
    document["messages"][1]["record"]["model"] = document["messages"][1]["steps"][0][3] = "\ud800"
    document["messages"][1]["steps"][0][1] = ["\ud800", "b"]
    document["setup"]["system"] = document["setup"]["model"] = "/\ud800"
    document["messages"][0]["id"] = document["messages"][1]["parent"] = document["messages"][2]["parent"] = "\ud800"
    (back,) = read(put(tmp_path / "a.json", document)).conversations
    assert back.title == "a\ufffdb"
    dump_json(exchange.dump(back)).encode()
    assert "\\ud" not in json.dumps(exchange.dump(back))


def test_a_newer_format_is_refused_politely(tmp_path: Path) -> None:
    document = {**exchange.dump(talk()), "version": 2}
    error = refused(put(tmp_path / "a.json", document))
    assert error.what == "a.json: it is from a newer pardec-chat: it has format 2, this one reads formats up to 1."
    assert error.next_step == "Update pardec-chat, then import it again."


DAMAGE: list[tuple[str, tuple[str | int, ...], object, str]] = [
    ("version", ("version",), "1", '"version" of the conversation is not a whole number'),
    ("no version", ("version",), None, '"version" of the conversation is not a whole number'),
    ("version, true", ("version",), True, '"version" of the conversation is not a whole number'),
    ("title", ("title",), 1, '"title" of the conversation is not text'),
    ("pinned", ("pinned",), "no", '"pinned" of the conversation is not true or false'),
    ("title_by", ("title_by",), ["user"], '"title_by" of the conversation is not one of words, model, user'),
    ("created", ("created",), 1e300, '"created" of the conversation is not a number in its range'),
    ("huge", ("created",), 10**400, '"created" of the conversation is not a number in its range'),
    ("infinite", ("updated",), float("inf"), '"updated" of the conversation is not a number in its range'),
    ("setup", ("setup",), [], '"setup" is no object'),
    ("sampling", ("setup", "temperature"), 10**400, '"temperature" of the setup is no number that can be set'),
    ("path", ("setup", "model"), "a" * 300, '"model" of the setup is no path'),
    ("messages", ("messages",), {}, '"messages" of the conversation is not a list'),
    ("message", ("messages", 1), "Hi", "message 2 is no object"),
    ("leaf", ("leaf",), "nobody", '"leaf" of the conversation is no message before it'),
    ("leaf type", ("leaf",), [], '"leaf" of the conversation is no message before it'),
    ("text", ("messages", 0, "text"), None, '"text" of message 1 is not text'),
    ("role", ("messages", 0, "role"), "system", '"role" of message 1 is not one of user, assistant'),
    ("state", ("messages", 0, "state"), {}, '"state" of message 1 is not one of'),
    ("id", ("messages", 0, "id"), 5, '"id" of message 1 is not text'),
    ("parent", ("messages", 1, "parent"), "nobody", '"parent" of message 2 is no message before it'),
    ("error", ("messages", 0, "error"), 5, '"error" of message 1 is not text'),
    ("attachments", ("messages", 0, "attachments"), 5, '"attachments" of message 1 is not a list'),
    ("attachment", ("messages", 0, "attachments", 1), 5, "number 2 of the attachments of message 1 is no object"),
    ("tokens", ("messages", 0, "attachments", 0, "n_tokens"), -1, '"n_tokens" of number 1 of the attachments'),
    ("origins", ("messages", 1, "origins"), "plain x", '"origins" of message 2 are no methods and lengths'),
    ("origins order", ("messages", 1, "origins"), "5 plain", '"origins" of message 2 are no methods and lengths'),
    ("origins size", ("messages", 1, "origins"), "plain " + "9" * 5000, '"origins" of message 2'),
    ("origins type", ("messages", 1, "origins"), [], '"origins" of message 2 is not text'),
    ("record", ("messages", 1, "record"), [], "the record of message 2 is no object"),
    ("figure", ("messages", 1, "record", "predicted_n"), "5", '"predicted_n" of the record of message 2'),
    ("figure, true", ("messages", 1, "record", "steps"), True, '"steps" of the record of message 2'),
    ("huge figure", ("messages", 1, "record", "draft_n"), 10**400, '"draft_n" of the record of message 2'),
    ("infinite figure", ("messages", 1, "record", "prompt_ms"), float("inf"), '"prompt_ms" of the record'),
    ("name", ("messages", 1, "record", "model"), None, '"model" of the record of message 2'),
    ("list", ("messages", 1, "record", "accepted_per_position"), ["a"], '"accepted_per_position" of the record'),
    ("steps", ("messages", 1, "steps"), "a", '"steps" of message 2 is not a list'),
    ("step", ("messages", 1, "steps", 0), {"a": 1}, "a step of message 2 is not what it should be"),
    ("short step", ("messages", 1, "steps", 0), [1], "a step of message 2 is not what it should be"),
    ("step method", ("messages", 1, "steps", 0, 4), "magic", "a step of message 2 is not what it should be"),
    ("step texts", ("messages", 1, "steps", 0, 1), [1], "a step of message 2 is not what it should be"),
    ("step count", ("messages", 1, "steps", 0, 2), 9, "a step of message 2 is not what it should be"),
    ("step time", ("messages", 1, "steps", 0, 6), 10**400, "a step of message 2 is not what it should be"),
]


def damaged(document: Document, place: tuple[str | int, ...], value: object) -> Document:
    document = copy.deepcopy(document)
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return document


@pytest.mark.parametrize(("place", "value", "what"), [one[1:] for one in DAMAGE], ids=[one[0] for one in DAMAGE])
def test_U06_damage_is_named(place: tuple[str | int, ...], value: object, what: str) -> None:
    with pytest.raises(ImportFailed) as caught:
        exchange.load(damaged(exchange.dump(talk()), place, value))
    assert caught.value.what.startswith("the conversation cannot be read: " + what)


def test_U06_trees_that_are_none_are_refused() -> None:
    document: Any = exchange.dump(talk())
    first, second = document["messages"][:2]
    for changed, what in [
        ([{**first, "parent": first["id"]}], '"parent" of message 1 is no message before it'),
        ([{**first, "parent": second["id"]}, second], '"parent" of message 1 is no message before it'),
        ([second, first], '"parent" of message 1 is no message before it'),
        ([first, first], "message 2 has the id of an earlier one"),
        ([{key: value for key, value in first.items() if key != "parent"}], 'message 1 has no "parent"'),
        ([{key: value for key, value in first.items() if key != "id"}], 'message 1 has no "id"'),
    ]:
        with pytest.raises(ImportFailed) as caught:
            exchange.load({**document, "messages": changed, "leaf": None})
        assert caught.value.what == f"the conversation cannot be read: {what}."


PLACES = [
    (),
    ("messages",),
    ("setup",),
    *((key,) for key in ("title", "title_by", "pinned", "created", "updated", "unsent", "leaf", "version", "format")),
    *(("messages", 1, key) for key in ("id", "parent", "role", "created", "text", "origins", "record", "steps")),
    *(("messages", 1, "record", key) for key in ("model", "method", "depth", "accepted_per_position", "draft_n")),
    *(("messages", 1, "steps", 0, place) for place in range(8)),
    *(("messages", 0, "attachments", 0, key) for key in ("name", "text", "n_tokens")),
    *(("setup", key) for key in ("model", "method", "depth", "temperature", "seed", "max_tokens", "system")),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([10**400, "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(PLACES), VALUES)
@settings(max_examples=400, deadline=None)
def test_U06_any_value_anywhere_is_read_or_refused(place: tuple[str | int, ...], value: Any) -> None:
    document: Any = damaged(exchange.dump(talk()), place, value) if place else value
    try:
        made = exchange.load(document)
    except ImportFailed:
        return
    for node in made.nodes.values():
        assert node.parent is None or node.parent in made.nodes
    made.path()
    dump_json(exchange.dump(made)).encode()


# Files.


def test_files_that_hold_nothing_are_refused_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    whole = json.dumps(exchange.dump(talk()))
    for content, what in [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"\xff\xfea", "the file is no text in UTF-8"),
        (b"\x89PNG\r\n", "the file is no text in UTF-8"),
        (b"# Notes\n", "the file is no JSON, line 1 cannot be read"),
        (b'{"a": 1,\n}', "the file is no JSON, line 2 cannot be read"),
        (b'{"a": NaN}', "the file is no JSON: NaN is no number there"),
        (b"9" * 5000, "the file is no JSON: Exceeds the limit (4300 digits) for integer string conversion"),
        (b"[" * 100_000, "the file is nested too deeply"),
        (b'{"a":' * 100_000, "the file is nested too deeply"),
        (whole[: len(whole) // 2].encode(), "the file breaks off, its end is missing"),
        (b"5", "its form is not known here"),
        (b"null", "its form is not known here"),
        (b'{"messages": [{"role": "user"}]}', "its form is not known here"),
        (b"[1, 2]", "its form is not known here"),
        (b"[]", "there is no conversation in it"),
    ]:
        path.write_bytes(content)
        assert refused(path).what.startswith(f"a.json: {what}"), content[:20]
    assert "it cannot be read: No such file" in refused(tmp_path / "missing.json").what
    assert "it cannot be read" in refused(tmp_path / ("a" * 300)).what
    assert "it cannot be read" in refused(Path("a\0b")).what
    assert "it cannot be read" in refused(Path("~nobody_is_called_so/a")).what
    os.mkfifo(tmp_path / "pipe")
    assert "neither a file nor a folder" in refused(tmp_path / "pipe").what
    monkeypatch.setattr(importing, "MOST_BYTES", 10)
    path.write_text(whole)
    assert "too much to import at once" in refused(path).what


def test_U06_a_file_that_breaks_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = dump_json(exchange.dump(talk())).encode()
    path = tmp_path / "a.json"
    for end in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:end])
        refused(path)
    path.write_bytes(whole)
    assert len(read(path).conversations) == 1


def test_U06_one_that_cannot_be_read_does_not_cost_the_others(tmp_path: Path) -> None:
    good: Any = exchange.dump(talk())
    imported = read(put(tmp_path / "a.json", [good, damaged(good, ("title",), 1), 5, good]))
    assert len(imported.conversations) == 2
    assert imported.skipped == [
        'a.json, number 2: the conversation cannot be read: "title" of the conversation is not text',
        "a.json, number 3: its form is not known here",
    ]


def test_X05_names_of_files_are_shown_without_control_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2J\n.json"
    path.write_text("{")
    assert refused(path).what == "a␛[2J .json: the file breaks off, its end is missing."


# Open WebUI.


def message(name: str, parent: str | None, role: str, content: object, time: object, **more: object) -> Document:
    return {
        "id": name,
        "parentId": parent,
        "childrenIds": [],
        "role": role,
        "content": content,
        "timestamp": time,
        **more,
    }


def webui(*messages: Document, current: str | None = None, **more: object) -> Document:
    """A chat as the export of Open WebUI has it."""
    history = {"messages": {one["id"]: one for one in messages}, "currentId": current or messages[-1]["id"]}
    chat = {
        "title": "Bicycle [advice]",
        "models": ["qwen"],
        "params": {"system": "Be kind.", "temperature": 0.2},
        "history": history,
        "messages": [],
        "timestamp": 1_700_000_000_000,
        "files": [],
    }
    return {
        "id": "uuid",
        "user_id": "me",
        "title": "Bicycle [advice]",
        "chat": chat,
        "created_at": 1_700_000_000,
        "updated_at": 1_700_000_900,
        "pinned": True,
        "archived": False,
        **more,
    }


def test_open_webui_keeps_branches_models_times_and_the_system_prompt(tmp_path: Path) -> None:
    chat = webui(
        message("q", None, "user", "Which?", 1_700_000_001),
        message("a", "q", "assistant", "This.", 1_700_000_002, model="qwen:7b", modelName="Qwen 7B", done=True),
        message("b", "q", "assistant", "That.", 1_700_000_003, model="llama:8b", done=True),
        message("r", "b", "user", "Why?", 1_700_000_004),
        message("c", "r", "assistant", "Bec", 1_700_000_005, done=False),
        message("d", "r", "assistant", "", 1_700_000_006, error={"content": "No\nroom"}),
        current="c",
    )
    imported = read(put(tmp_path / "export.json", [chat]))
    assert (imported.source, imported.skipped) == ("Open WebUI", [])
    (made,) = imported.conversations
    assert (made.title, made.title_by, made.pinned, made.setup) == (
        "Bicycle [advice]",
        "user",
        True,
        Setup(system="Be kind."),
    )
    assert (made.created, made.updated) == (1_700_000_000, 1_700_000_900)
    assert [node.text for node in made.path()] == ["Which?", "That.", "Why?", "Bec"]
    asked, this, that, why, cut, failed = made.nodes.values()
    assert made.siblings(that.id) == [this, that]
    assert [node.record.model if node.record else None for node in made.nodes.values()] == (
        [None, "Qwen 7B", "llama:8b", None, None, None]
    )
    assert [node.created for node in made.nodes.values()] == [1_700_000_001 + n for n in range(6)]
    assert (cut.state, failed.state, failed.error) == ("stopped", "failed", "No room")
    assert (asked.parent, why.parent) == (None, that.id)


def test_open_webui_reasoning_stands_between_our_marks(tmp_path: Path) -> None:
    def details(head: str, summary: str, body: str = "") -> str:
        return f'<details type="{head}>\n<summary>{summary}</summary>\n{body}</details>\n'

    thought = details('reasoning" done="true" duration="5"', "Thought for 5 seconds", "{}\n")
    calls = details('tool_calls" done="true" id="1" name="f" arguments="&gt;" result="x"', "Ran")
    code = details('code_interpreter" done="true" output="1"', "Analyzed", "```py\n1\n```\n")
    output = [
        {"type": "reasoning", "content": [{"type": "output_text", "text": "because"}]},
        {"type": "function_call", "name": "f"},
        {"type": "message", "content": [{"type": "output_text", "text": "So."}]},
    ]
    texts = [
        (thought.format("> it is\n> \n> a < b") + "So.", None, "<think>\nit is\n\na < b\n</think>\n\nSo."),
        (thought.format("&gt; a &lt; b\n&gt; c") + "So.", None, "<think>\na < b\nc\n</think>\n\nSo."),
        ("First.\n" + calls + "Then.", None, "First.\n\nThen."),
        (code + "Done.", None, "```py\n1\n```\nDone."),
        ('<details type="other">x</details>', None, '<details type="other">x</details>'),
        ('<details type="reasoning" done', None, '<details type="reasoning" done'),
        ("<think>a</think>b", None, "<think>a</think>b"),
        ("", output, "<think>\nbecause\n</think>\n\nSo."),
        ("So!", output, "<think>\nbecause\n</think>\n\nSo!"),
        ([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}], None, "a"),
        (None, None, ""),
    ]
    chats = [
        webui(message("q", None, "user", "?", 1), message("a", "q", "assistant", text, 2, output=given))
        for text, given, _ in texts
    ]
    imported = read(put(tmp_path / "export.json", chats))
    assert [made.path()[1].text for made in imported.conversations] == [text for _, _, text in texts]
    assert imported.skipped == [
        "Bicycle [advice]: 1 tool call",
        "Bicycle [advice]: 1 tool call",
        "Bicycle [advice]: 1 tool call",
        "Bicycle [advice]: 1 image",
    ]


def test_open_webui_files_are_attached_where_their_text_is_there(tmp_path: Path) -> None:
    files = [
        {"type": "image", "url": "data:image/png;base64,AAAA"},
        {"type": "image", "url": "data:image/png;base64,AAAA"},
        {"type": "file", "name": "a\x1b.py", "file": {"data": {"content": "x = 1"}, "filename": "a.py"}},
        {"type": "collection", "name": "all"},
        5,
    ]
    imported = read(put(tmp_path / "export.json", [webui(message("q", None, "user", "See.", 1, files=files))]))
    assert imported.conversations[0].path()[0].attachments == (Attachment("a␛.py", "x = 1"),)
    assert imported.skipped == ["Bicycle [advice]: 2 images, 2 files"]


def test_open_webui_trees_are_mended(tmp_path: Path) -> None:
    chat = webui(
        message("c", "b", "assistant", "third", 3),
        message("a", None, "system", "Be odd.", 1),
        message("b", "a", "user", "second", 2),
        message("t", "c", "tool", "result", 4),
        message("d", "t", "user", "fourth", 5),
        message("x", "y", "user", "circle", 6),
        message("y", "x", "assistant", "circle", 7),
        message("o", "lost", "user", "orphan", 8),
        current="d",
    )
    imported = read(put(tmp_path / "export.json", [chat]))
    (made,) = imported.conversations
    assert [node.text for node in made.path()] == ["second", "third", "fourth"]
    assert [node.text for node in made.nodes.values()] == ["second", "third", "fourth", "orphan"]
    assert made.setup.system == "Be kind."
    assert imported.skipped == ["Bicycle [advice]: 2 unlinked messages, 1 other message"]


def test_open_webui_exports_without_a_history_have_one_branch(tmp_path: Path) -> None:
    chat = {
        "title": "",
        "system": "Old.",
        "messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}],
    }
    (made,) = read(put(tmp_path / "export.json", {"chat": chat})).conversations
    assert [(node.role, node.text) for node in made.path()] == [("user", "a b"), ("assistant", "c")]
    assert (made.title, made.title_by, made.setup.system) == ("a b", "words", "Old.")
    assert abs(made.created - (tmp_path / "export.json").stat().st_mtime) < 1


def test_long_chains_and_unclosed_details_cost_little(tmp_path: Path) -> None:
    messages = [message("0", None, "user", "0", 1)]
    messages += [message(str(n), str(n - 1), "assistant" if n % 2 else "user", str(n), n) for n in range(1, 20_000)]
    messages.append(message("end", "19999", "assistant", '<details type="reasoning">' * 20_000, 20_001))
    (made,) = read(put(tmp_path / "export.json", [webui(*messages)])).conversations
    assert len(made.path()) == 20_001


# LM Studio.


def text(*texts: str, **more: object) -> list[Document]:
    return [{"type": "text", "text": one, **more} for one in texts]


def user(*contents: list[Document], selected: int = 0) -> Document:
    versions = [{"type": "singleStep", "role": "user", "content": content} for content in contents]
    return {"versions": versions, "currentlySelected": selected}


def block(content: list[Document], stop: str = "", *, thinking: bool = False, at: int = 0) -> Document:
    step: Document = {"type": "contentBlock", "stepIdentifier": f"{at}-0.5", "content": content}
    if stop:
        step["genInfo"] = {"identifier": "qwen-id", "stats": {"stopReason": stop, "predictedTokensCount": 5}}
    if thinking:
        step |= {"style": {"type": "thinking", "ended": True, "title": "Thought for 1 second"}, "prefix": "<think>"}
    return step


def answer(*versions: list[Document], selected: int = 0, sender: str | None = "qwen") -> Document:
    made = [
        {
            "type": "multiStep",
            "role": "assistant",
            "steps": [*steps, {"type": "debugInfoBlock", "debugInfo": "x"}],
            **({"senderInfo": {"senderName": sender}} if sender else {}),
        }
        for steps in versions
    ]
    return {"versions": made, "currentlySelected": selected}


def studio(*messages: Document, **more: object) -> Document:
    """A file as LM Studio writes it."""
    return {
        "name": "Spreadsheet",
        "pinned": True,
        "createdAt": 1_784_921_389_195,
        "tokenCount": 5,
        "systemPrompt": "",
        "messages": list(messages),
        "usePerChatPredictionConfig": True,
        "perChatPredictionConfig": {"fields": [{"key": "llm.prediction.systemPrompt", "value": "Be careful."}]},
        "clientInput": "not sent",
        "lastUsedModel": {"identifier": "last-model"},
        **more,
    }


def only(imported: Imported) -> Conversation:
    (made,) = imported.conversations
    assert imported.source == "LM Studio"
    return made


def test_lm_studio_keeps_versions_models_times_and_the_system_prompt(tmp_path: Path) -> None:
    document = studio(
        user(text("draft"), text("question", "more"), selected=1),
        answer(
            [block(text("Yes."), "eosFound", at=1_784_921_390_000)],
            [
                block(text("\nhm\n"), thinking=True, at=1_784_921_391_000),
                block(text("He", fromDraftModel=True) + text("re.", fromDraftModel=False), "userStopped"),
            ],
            selected=1,
        ),
        user(text("Again?")),
        answer([block(text("Wel"), "maxPredictedTokensReached")], sender=None),
        answer([block(text("No."))], sender=None),
        assistantLastMessagedAt=1_784_921_399_000,
    )
    made = only(read(put(tmp_path / "1784921389195.conversation.json", document)))
    assert (made.title, made.title_by, made.pinned, made.unsent) == ("Spreadsheet", "user", True, "not sent")
    assert made.setup == Setup(system="Be careful.")
    assert (made.created, made.updated) == (1_784_921_389.195, 1_784_921_399.0)
    assert [node.text for node in made.path()] == [
        "question\nmore",
        "<think>\nhm\n</think>\n\nHere.",
        "Again?",
        "Wel",
        "No.",
    ]
    draft, question, yes, here, again, cut, no = made.nodes.values()
    assert made.siblings(question.id) == [draft, question]
    assert made.siblings(here.id) == [yes, here]
    assert yes.parent == question.id
    assert [(node.state, node.record.model if node.record else "") for node in (yes, here, cut, no)] == [
        ("whole", "qwen"),
        ("stopped", "qwen"),
        ("length", "qwen-id"),
        ("whole", "last-model"),
    ]
    assert [node.created for node in (question, yes, here, again)] == [
        1_784_921_389.195,
        1_784_921_390.0,
        1_784_921_391.0,
        1_784_921_391.0,
    ]


def test_lm_studio_images_and_tool_calls_are_noted(tmp_path: Path) -> None:
    image = {"type": "file", "fileIdentifier": "1 - 2.png", "fileType": "image", "sizeBytes": 5}
    document = studio(
        user([*text("See."), image, image, {**image, "fileType": "document"}]),
        answer(
            [
                block([*text("Let me look."), {"type": "toolCallRequest", "name": "f", "parameters": {}}]),
                {"type": "toolStatus"},
                block([{"type": "toolCallResult", "content": "5"}]),
                block([*text("<|x|>", isStructural=True), *text("It is 5.")]),
            ]
        ),
    )
    imported = read(put(tmp_path / "a.json", document))
    assert [node.text for node in only(imported).path()] == ["See.", "Let me look.\n\nIt is 5."]
    assert imported.skipped == ["Spreadsheet: 2 images, 1 file, 1 tool call"]


def test_lm_studio_files_that_are_odd_lose_little(tmp_path: Path) -> None:
    document = studio(
        {"versions": [], "currentlySelected": 0},
        {"versions": [{"role": "system", "content": text("Be odd.")}], "currentlySelected": 0},
        user(text("first words of it " * 5), selected=9),
        {"versions": [5, {"role": "robot"}], "currentlySelected": "x"},
        {"role": "assistant", "versions": [{"content": "plain"}], "currentlySelected": 0},
        name=None,
        createdAt=0,
        systemPrompt=5,
        perChatPredictionConfig=None,
        lastUsedModel=None,
    )
    imported = read(put(tmp_path / "a.json", document))
    made = only(imported)
    assert [node.text for node in made.path()] == ["first words of it " * 5, "plain"]
    assert (made.title, made.title_by) == ("first words of it first words of it first words of it first…", "words")
    assert made.setup.system == "Be odd."
    assert imported.skipped == [f"{made.title}: 2 other messages"]
    assert refused(put(tmp_path / "b.json", studio())).what == (
        "b.json: there is no conversation in it. Spreadsheet: no messages."
    )


def test_a_folder_is_read_with_those_in_it(tmp_path: Path) -> None:
    put(tmp_path / "chats" / "b" / "2.conversation.json", studio(user(text("b")), name="Two"))
    put(tmp_path / "chats" / "1.conversation.json", studio(user(text("a")), name="One"))
    put(tmp_path / "chats" / "3.conversation.json", studio(name="Three"))
    put(tmp_path / "chats" / "4.json", {"a": 1})
    (tmp_path / "chats" / "5.json").write_text("{")
    (tmp_path / "chats" / "6.png").write_bytes(b"\x89")
    (tmp_path / "chats" / "7.json").symlink_to(tmp_path / "missing")
    imported = read(tmp_path / "chats")
    assert [made.title for made in imported.conversations] == ["One", "Two"]
    assert imported.source == "LM Studio"
    assert imported.skipped == [
        "Three: no messages",
        "4.json: its form is not known here",
        "5.json: the file breaks off, its end is missing",
        "7.json: it cannot be read: No such file or directory",
    ]
    put(tmp_path / "chats" / "0.json", exchange.dump(talk()))
    assert read(tmp_path / "chats").source == "several programs"
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty").what == "empty: there is no conversation in it."


def test_a_folder_is_read_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        put(tmp_path / f"{number}.json", studio(user(text("a"))))
    monkeypatch.setattr(importing, "MOST_BYTES", 2 * (tmp_path / "0.json").stat().st_size)
    imported = read(tmp_path)
    assert len(imported.conversations) == 2
    assert "2.json: more than" in imported.skipped[0]
    monkeypatch.setattr(importing, "_MOST_ENTRIES", 2)
    assert "the folder holds more than 2 files" in refused(tmp_path).what


FOREIGN_PLACES = [
    (0, ("chat",)),
    *((0, ("chat", key)) for key in ("history", "messages", "params", "title", "timestamp", "system")),
    *((0, ("chat", "history", key)) for key in ("messages", "currentId")),
    *(
        (0, ("chat", "history", "messages", "a", key))
        for key in (
            "parentId",
            "role",
            "content",
            "timestamp",
            "model",
            "modelName",
            "files",
            "error",
            "done",
            "output",
        )
    ),
    *((0, (key,)) for key in ("title", "created_at", "updated_at", "pinned")),
    *(
        (1, (key,))
        for key in ("name", "createdAt", "systemPrompt", "perChatPredictionConfig", "lastUsedModel", "messages")
    ),
    *((1, ("messages", 1, key)) for key in ("versions", "currentlySelected")),
    *((1, ("messages", 1, "versions", 0, key)) for key in ("role", "steps", "senderInfo", "content")),
    *(
        (1, ("messages", 1, "versions", 0, "steps", 0, key))
        for key in ("type", "content", "genInfo", "style", "stepIdentifier")
    ),
]


@given(st.sampled_from(FOREIGN_PLACES), VALUES)
@settings(max_examples=400, deadline=None)
def test_U06_any_value_in_a_foreign_file_is_read_or_refused(
    place: tuple[int, tuple[str | int, ...]], value: Any
) -> None:
    number, keys = place
    documents = (
        webui(message("q", None, "user", "?", 1), message("a", "q", "assistant", "!", 2)),
        studio(user(text("?")), answer([block(text("!"), "eosFound")])),
    )
    imported = Imported()
    try:
        importing._add(imported, damaged(documents[number], keys, value), "a.json", 5.0)
    except ImportFailed:
        return
    for made in imported.conversations:
        assert all(node.parent is None or node.parent in made.nodes for node in made.nodes.values())
        exchange.load(json.loads(dump_json(exchange.dump(made)))).path()
