from __future__ import annotations

import pytest

from pardec_chat.app.conversations.title import QUESTION, cells, clean, from_words


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Bicycle advice", "Bicycle advice"),
        (
            "Write a Python function that merges two lists. Then test it.",
            "Write a Python function that merges two lists",
        ),
        ("Write a Python function that merges two sorted lists.", "Write a Python function that merges two sorted…"),
        ("Is it raining? I have no umbrella.", "Is it raining?"),
        ("Hi! Can you help me with my bicycle, please?", "Hi! Can you help me with my bicycle, please?"),
        ("Use e.g. numpy for this. Nothing else.", "Use e.g. numpy for this"),
        ("\n\n  # **Plan** for `x_y`\n\nand more", "Plan for x_y"),
        ("- first do that\n- then this", "first do that"),
        ("> quoted", "quoted"),
        ("What does __init__ do with 2**3?", "What does __init__ do with 2**3?"),
        ("Fix this:", "Fix this"),
        ("Wait...", "Wait..."),
        ("図書館の開館時間を教えてください。あと電話番号も。", "図書館の開館時間を教えてください"),
        ("日本語" * 30, "日本語" * 7 + "日本…"),
        ("a" * 100, "a" * 47 + "…"),
        ("word " * 30, "word word word word word word word word word…"),
        ("supercalifragilisticexpialidocious " * 3, "supercalifragilisticexpialidocious…"),
        ("```py\nx = 1\n```\nWhat is wrong here?", "What is wrong here?"),
        ("main.py:\n~~~\nx = 1\n~~~\nWhat is wrong here?", "What is wrong here?"),
        ("Look:\n```\nx\n```", "Look"),
        ("```py\nx = 1", "Untitled"),
        ("", "Untitled"),
        (" \n\t\n", "Untitled"),
        ("```\n```", "Untitled"),
    ],
)
def test_the_first_words_make_a_title(text: str, title: str) -> None:
    assert from_words(text) == title


def test_a_title_is_never_wider_than_asked_for_and_never_empty() -> None:
    for text in (
        "word " * 40,
        "日本" * 40,
        "ab日本" * 20,
        "👩‍💻" * 40,
        "e\u0301" * 100,
        "x" * 500_000,
        "...",
        "??",
        "#",
        "-",
    ):
        for most in (8, 20, 47, 48):
            title = from_words(text, most)
            assert title
            assert cells(title) <= most
            assert "\n" not in title


def test_X05_titles_hold_no_control_byte() -> None:
    assert from_words("\x1b]0;evil\x07 \x9b31m \u202e[b]bold[/b]") == "␛]0;evil␇ �31m �[b]bold[/b]"
    assert clean("\x1b]52;c;eA==\x07\r\n") == "␛]52;c;eA==␇"


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Merging Sorted Lists", "Merging Sorted Lists"),
        ('"Merging Sorted Lists."\n', "Merging Sorted Lists"),
        ("Title: Merging Lists.", "Merging Lists"),
        ("**Title:** “Merging Lists”", "Merging Lists"),
        ("# Merging Lists", "Merging Lists"),
        ("*Merging Lists*", "Merging Lists"),
        ("`Merging Lists`", "Merging Lists"),
        ("```\nMerging Lists\n```", "Merging Lists"),
        ('Sure! Here\'s a title:\n\n"Bike Repair"', "Bike Repair"),
        ("Here is a title for this conversation: Bike Repair", "Bike Repair"),
        ("Assistant: Bike Repair", "Bike Repair"),
        ("<think>Maybe\n\nTitle: No</think>\n\nBike Repair", "Bike Repair"),
        ("Maybe this one.</think>\nBike Repair", "Bike Repair"),
        ("Bike Repair\n\nThis title says what it is about.", "Bike Repair"),
        ("「図書館の開館時間」", "図書館の開館時間"),
        ("タイトル：図書館の開館時間。", "図書館の開館時間"),
        ("《学习中文》", "学习中文"),
        ("Titre : Réparer un vélo", "Réparer un vélo"),
        ("C++: The Basics", "C++: The Basics"),
        ("“A” and “B”", "“A” and “B”"),
        ("Is It Raining?", "Is It Raining?"),
        ("Don't Panic", "Don't Panic"),
        ("The Sorry State of CSV", "The Sorry State of CSV"),
        ("Sorry State of CSV", "Sorry State of CSV"),
        ("Unable to Mount a Disk", "Unable to Mount a Disk"),
        ("x" * 60, "x" * 60),
        ("", None),
        ("   \n", None),
        ("...", None),
        ('""', None),
        ("Title:", None),
        ("Untitled", None),
        ("<think>This goes on and", None),
        ("<think></think>", None),
        ("x" * 61, None),
        ("本" * 31, None),
        ("I'm sorry, but I can't help with that.", None),
        ("I’m really sorry, no.", None),
        ("Sorry, I do not know.", None),
        ("I cannot do that", None),
        ("I can't", None),
        ("I don't have a conversation", None),
        ("As an AI, I have no title", None),
        ("Unfortunately, no.", None),
        ("申し訳ありません", None),
        ("抱歉，我不能", None),
        ("Write a title for this conversation", None),
        ("A title of at most six words", None),
        ("User: Merge two lists", None),
    ],
)
def test_a_suggestion_is_cleaned_or_refused(answer: str, title: str | None) -> None:
    assert clean(answer) == title


def test_the_question_itself_is_no_title() -> None:
    assert "at most six words, in the language of the conversation" in QUESTION
    assert clean(QUESTION) is None
