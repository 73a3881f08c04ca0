from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from pardec_chat.app.conversations.conversation import Attachment, Conversation, Node
from pardec_chat.app.conversations.search import folded, phrases
from pardec_chat.app.conversations.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "conversations.db")
    yield store
    store.close()


def put(store: Store, title: str, *texts: str, updated: float = 0.0) -> Conversation:
    conversation = Conversation(title=title, created=updated, updated=updated)
    store.put(conversation)
    for text in texts:
        node = conversation.add(Node("user", text, parent=conversation.leaf, created=updated))
        store.put_node(conversation.id, node)
    return conversation


def found(store: Store, query: str) -> list[str]:
    return [summary.title for summary in store.search(query)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Merge two sorted lists", "merge"),
        ("Merge two sorted lists", "LIST"),
        ("Merge two sorted lists", "sorted mer"),
        ("Merge two sorted lists", "m"),
        ("Merge two sorted lists", "  two  "),
        ("max_tokens = 5", "max_tok"),
        ("max_tokens = 5", "tokens"),
        ("std::vector<int>", "std::vec"),
        ("std::vector<int>", "vector<int>"),
        ("I use C++ and C#.", "c++"),
        ("don't", "don't"),
        ("a (b) [c] {d}", "(b"),
        ("costs 1,234.50 €", "1,234.5"),
        ("costs 5 €", "€"),
        ("naïve café, déjà vu", "NAIVE cafe deja"),
        ("naive cafe", "naïve"),
        ("nai\u0308ve", "naïve"),
        ("Straße", "STRASSE"),
        ("Łódź, Ørsted", "lodz orsted"),
        ("İstanbul, ISPARTA", "istanbul ısparta"),
        ("Ёлка и йод", "елка"),
        ("Οδυσσεύς", "οδυσσευσ"),
        ("מִדְבָּר", "מדבר"),
        ("مُحَمَّد", "محمد"),
        ("می‌خواهم", "میخواهم"),
        ("हिन्दी में", "हिन्"),
        ("図書館の開館時間を教えて", "図書"),
        ("図書館の開館時間を教えて", "館の開"),
        ("図書館の開館時間を教えて", "時間 図書"),
        ("図書館の開館時間を教えて", "間"),
        ("パーティーとガス", "パーティ"),
        ("ｶﾞｽ ＧＰＵ", "ガス gpu"),
        ("か\u3099す", "がす"),
        ("GPUの速度は3倍", "gpuの速"),
        ("GPUの速度は3倍", "3倍"),
        ("我想学习中文", "学习"),
        ("도서관은 언제 열어요", "서관"),
        ("도서관은 언제 열어요", "언제"),
        ("ห้องสมุดเปิดกี่โมง", "สมุด"),
        ("A party 🎉 for 👩‍💻", "🎉"),
        ("A party 🎉 for 👩‍💻", "👩‍💻"),
        ("𠮷野家", "野家"),
        ("before\0after", "after"),
        ("<think>Hmm, carburettor</think>Answer", "carbur"),
        ("soft\u00adware", "software"),
        ("“quoted” — word…", "quoted word"),
    ],
)
def test_text_is_found_however_it_is_asked_for(store: Store, text: str, query: str) -> None:
    put(store, "something else", "entirely different")
    put(store, "in a message", "Hello.", text)
    titled = put(store, text, "Hello.")
    ids = [summary.id for summary in store.search(query)]
    assert (ids[0], len(ids)) == (titled.id, 2)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Merge two sorted lists", "erge"),
        ("Merge two sorted lists", "mer two"),  # only the last word may be unfinished
        ("Merge two sorted lists", "merge three"),
        ("Merge AND two", "NOT"),
        ("two sorted", "two-lists"),
        ("図書館", "館書"),
        ("図書館", "図館"),
        ("か", "が"),
        ("cat", "concat"),
    ],
)
def test_other_text_is_not_found(store: Store, text: str, query: str) -> None:
    put(store, text, text)
    assert found(store, query) == []


#: Between line feeds: what FTS5, LIKE, regular expressions or SQLite itself could take for something else than text.
ODD = """"
""
'
*
-
a*
-a
"a
a"
a OR
OR
AND
NOT a
NEAR(a b)
NEAR(
(
)
{a b}: c
text: a
words:
a + b
^a
a:
a;b
%
_
a%
\\
a\\
[
(?:
a{
?
?1
´
ﬁ
…"""


def test_no_query_is_a_mistake(store: Store) -> None:
    put(store, "a", "b c")
    long = ("a " * 500, "a" * 5000, "図" * 5000, "( " * 400)
    for query in (*ODD.split("\n"), *long, "\0", "a\0b", "\ud800", "\U0010ffff", "\x1b[2J", "\u202e", "\n", "\u3000"):
        assert set(found(store, query)) <= {"a"}, query


def test_a_query_of_signs_is_looked_for_in_titles(store: Store) -> None:
    put(store, "What is -> in C?", "a")
    put(store, "50 % of *", "a -> b")
    assert found(store, "->") == ["What is -> in C?"]
    assert found(store, "*") == ["50 % of *"]
    assert found(store, " % ") == ["50 % of *"]


def test_U01_brackets_are_no_markup_and_no_syntax(store: Store) -> None:
    put(store, "[red]alert[/red]", "see [link](http://x)")
    assert found(store, "[red") == found(store, "[/red]") == found(store, "[link](h") == ["[red]alert[/red]"]
    assert store.search("link")[0].snippet == "see [link](http://x)"


def test_without_a_word_the_list_is_as_it_always_is(store: Store) -> None:
    for number in range(5):
        put(store, str(number), "Hi", updated=number)
    assert found(store, "") == found(store, " \t") == ["4", "3", "2", "1", "0"]
    assert [one.title for one in store.search("", limit=2)] == ["4", "3"]
    assert [one.title for one in store.search("h", limit=2)] == ["4", "3"]


def test_titles_come_first_then_the_newest(store: Store) -> None:
    put(store, "old apple", "Hi", updated=1)
    put(store, "b", "apple", updated=2)
    put(store, "apple pie", "pear", updated=3)
    put(store, "c", "pear and apple", updated=4)
    put(store, "apple", "pear", updated=5)
    assert found(store, "appl") == ["apple", "apple pie", "old apple", "c", "b"]
    assert found(store, "apple pear") == ["apple", "c", "apple pie"]
    assert found(store, "pie apple") == ["apple pie"]


def test_words_may_stand_in_different_messages(store: Store) -> None:
    put(store, "travel", "flights to Kyoto", "the weather there", "a hotel")
    assert found(store, "kyoto weather hot") == ["travel"]
    assert store.search("travel kyoto")[0].snippet == "flights to Kyoto"


def test_each_change_is_found_and_what_it_replaced_is_not(store: Store) -> None:
    conversation = put(store, "apples", "pears")
    node = conversation.path()[0]
    node.text = "plums"
    store.put_node(conversation.id, node)
    conversation.title = "cherries"
    store.put(conversation)
    assert found(store, "pears") == found(store, "apples") == []
    assert found(store, "plums") == found(store, "cherries") == ["cherries"]


def test_attached_files_are_searched_by_name_and_text(store: Store) -> None:
    conversation = put(store, "report", "Sum this up.")
    attachment = Attachment("turnover-2024.csv", "month,cucumbers\n")
    store.put_node(conversation.id, Node("user", "And this.", parent=conversation.leaf, attachments=(attachment,)))
    assert [one.snippet for one in store.search("turnover")] == ["turnover-2024.csv"]
    assert [one.snippet for one in store.search("cucum")] == ["month,cucumbers"]


def test_an_unfinished_answer_is_found_once_it_is_finished_or_the_program_starts_again(store: Store) -> None:
    conversation = put(store, "fruit", "Hi")
    answer = Node("assistant", "", parent=conversation.leaf, state="writing")
    store.put_node(conversation.id, answer)
    store.progress(answer.id, "rhubarb", [])
    assert found(store, "rhubarb") == []
    assert store.tidy()
    assert not store.tidy()
    assert found(store, "rhubarb") == ["fruit"]
    answer.text, answer.state = "rhubarb and quince", "whole"
    store.put_node(conversation.id, answer)
    assert found(store, "quince") == ["fruit"]
    assert not store.tidy()


@pytest.mark.parametrize(
    ("text", "query", "snippet"),
    [
        ("short", "sho", "short"),
        ("line\none  \t two", "two", "line one two"),
        (
            "one " * 50 + "needle" + " two" * 50,
            "needle",
            "…one one one one one needle two two two two two two two two…",
        ),
        ("x" * 100 + "needle", "needle", ""),
        ("Ein Café am Fluß" + " und" * 50, "fluss", "Ein Café am Fluß und und und und und und und und und und…"),
        ("あ" * 50 + "図書館" + "い" * 100, "書", "…" + "あ" * 19 + "図書館" + "い" * 37 + "…"),
        ("tab\x1b[31mneedle\x07\x9b", "needle", ""),
        ("\x1b]0;needle\x07 \x9b1m", "needle", "␛]0;needle␇ �1m"),
        ("de\u0301ja\u0300 vu" + "." * 90 + " de\u0301ja\u0300 lu", "deja lu", "déjà vu" + "." * 53 + "…"),
    ],
)
def test_the_snippet_is_what_stands_around(store: Store, text: str, query: str, snippet: str) -> None:
    put(store, "title", "Hi", text)
    if not snippet:
        assert store.search(query) == []  # in the middle of a word
    else:
        assert [unicodedata.normalize("NFC", one.snippet) for one in store.search(query)] == [snippet]
        assert len(snippet) <= 61


def test_X05_snippets_hold_no_control_byte(store: Store) -> None:
    put(store, "title", "".join(map(chr, range(0x250))) + " needle " + "".join(map(chr, range(0x250))))
    (summary,) = store.search("needle")
    assert "needle" in summary.snippet
    assert summary.snippet.isprintable()


def test_only_the_title_has_it(store: Store) -> None:
    put(store, "apple", "pear")
    assert store.search("apple")[0].snippet == ""


def test_every_part_of_unspaced_text_and_every_beginning_of_a_word_is_found(store: Store) -> None:
    source = random.Random(7)
    signs = "図書館開閉時間のをがはабвéöαβ ab cd12_-.(\"' 가나다ไทยहि🎉\u3000、。A"
    for number in range(60):
        text = "".join(source.choices(signs, k=40))
        conversation = put(store, f"title {number}", text)
        for _ in range(10):
            start = source.randrange(len(text))
            part = text[start : start + source.randrange(1, 6)]
            begins_word = start == 0 or not (
                text[start - 1].isalnum() or unicodedata.category(text[start - 1])[0] == "M"
            )
            unspaced = unicodedata.name(text[start]).startswith(("CJK", "HIRAGANA", "HANGUL", "PARTY", "THAI"))
            ids = [one.id for one in store.search(part, 1000)]
            if (
                phrases(part)
                and (begins_word or unspaced)
                and unicodedata.category(text[start])[0] != "M"
                and len(part.split()) == 1
            ):
                assert conversation.id in ids, (text, part)


def test_folding_goes_no_further_when_done_twice() -> None:
    for code in (*range(0x3000), *range(0x3000, 0x11000, 7), *range(0x1F000, 0x1FAFF, 3)):
        once = folded(chr(code))
        assert folded(once).split() == once.split(), hex(code)
