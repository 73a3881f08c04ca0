"""What kind of text is asked for: the prompt sets fall where a reader would put them."""

from __future__ import annotations

import pytest

from pardec_chat.app.chat.kind import kind_of
from pardec_chat.app.chat.prompts import Prompt, categories, load_prompts
from pardec_chat.app.chat.request import Message

KINDS = {
    "chat": "chat",
    "code": "code",
    "edit": "edit",
    "reasoning": "chat",
    "summarise": "quote",
    "translation": "translation",
}


def user(text: str) -> list[Message]:
    return [Message("user", text)]


def test_every_prompt_set_has_a_kind() -> None:
    assert sorted(KINDS) == categories()


@pytest.mark.parametrize("prompt", load_prompts(), ids=lambda prompt: f"{prompt.category}-{prompt.id}")
def test_the_prompt_sets_fall_into_their_kinds(prompt: Prompt) -> None:
    assert kind_of(prompt.messages) == KINDS[prompt.category]


@pytest.mark.parametrize("text", ["", " ", "\n", "x", "7", "?", "é", "`"])
def test_no_text_or_one_character_is_chat(text: str) -> None:
    assert kind_of(user(text)) == kind_of([], text) == "chat"


def test_no_messages_are_chat() -> None:
    assert kind_of([]) == "chat"
    assert kind_of([Message("system", "Write Python code.")]) == "chat"


def test_one_character_of_another_script_is_for_a_translator() -> None:
    assert kind_of(user("訳")) == "translation"


def test_the_users_last_message_counts() -> None:
    talk = [
        Message("system", "You translate Python code."),
        *user("Write a Python function."),
        Message("assistant", "```python\ndef f(): ...\n```"),
        *user("Thanks! What does the word mean?"),
    ]
    assert kind_of(talk) == "chat"
    assert kind_of(talk[:2]) == "code"
    assert kind_of(talk[:3]) == "code"


def test_a_raw_prompt_goes_before_messages() -> None:
    assert kind_of(user("Write a Python function."), "Once upon a time") == "chat"
    assert kind_of([], "import json\nprint(json.dumps(1));") == "code"


def test_long_material_is_quoted_and_with_code_in_it_edited() -> None:
    story = "It rained for three days and nobody went out. " * 20
    assert kind_of(user(story)) == "quote"
    assert kind_of(user(f"Fix the typo.\n```python\n{story}\n```")) == "edit"
    assert kind_of(user("訳 " * 400)) == "quote", "copied names count for more than the language"
