"""T02, T04 and X03: chat templates of any make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pardec_chat.app.chat.request import Message
from pardec_chat.app.chat.template import Template, TemplateWorker
from pardec_chat.backends.errors import TemplateFailed
from pardec_chat.tests.fakes import ScriptedVocabulary

_VOCABULARY = ScriptedVocabulary([b"?", b"a", b"", b""], {3}, ["?", "a", "<|im_start|>", "<|im_end|>"], None)
_TALK = [Message("system", "S"), Message("user", "U"), Message("assistant", "A"), Message("user", "V")]


@pytest.fixture(scope="module")
def worker() -> Iterator[TemplateWorker]:
    one = TemplateWorker(characters=10_000)
    yield one
    one.close()


def _template(worker: TemplateWorker, source: str | None) -> Template:
    return Template(source, _VOCABULARY, worker)


def test_the_models_own_template_is_rendered(worker: TemplateWorker) -> None:
    source = (
        "{{ bos_token }}{%- for m in messages %}[{{ m['role'] }}:{{ m.content | trim }}]{% endfor %}"
        "{% if add_generation_prompt %}>{% endif %}{{ eos_token }}"
    )
    assert _template(worker, source).render(_TALK).text == "[system:S][user:U][assistant:A][user:V]><|im_end|>"


def test_T02_system_text_is_folded_where_the_template_raises_on_it(worker: TemplateWorker) -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "<{{ m.role }}>{{ m.content }}{% endfor %}"
    )
    rendered = _template(worker, source).render(_TALK)
    assert rendered.text == "<user>S\n\nU<assistant>A<user>V"
    assert "system prompt" in rendered.notices[0]


def test_T02_two_system_messages_and_one_role_twice_are_joined(worker: TemplateWorker) -> None:
    source = (
        "{% for m in messages %}{% if not loop.first and m.role == messages[loop.index0 - 1].role %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    )
    messages = [Message("system", "a"), Message("system", "b"), Message("user", "c"), Message("user", "d")]
    rendered = _template(worker, source).render(messages)
    assert rendered.text == "<system>a\n\nb<user>c\n\nd"
    assert rendered.notices


def test_T02_a_refusal_that_nothing_helps_gives_the_templates_own_reason(worker: TemplateWorker) -> None:
    with pytest.raises(TemplateFailed, match="only on Sundays"):
        _template(worker, "{{ raise_exception('only on Sundays') }}").render(_TALK)


def test_T02_an_unknown_block_tag_falls_back_with_a_notice(worker: TemplateWorker) -> None:
    rendered = _template(worker, "{% frobnicate %}{{ messages }}").render(_TALK)
    assert rendered.text.endswith("<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n")
    assert "does not work" in rendered.notices[0]


def test_T02_the_generation_tag_of_training_templates_is_known(worker: TemplateWorker) -> None:
    source = "{% for m in messages %}{% generation %}{{ m.content }};{% endgeneration %}{% endfor %}"
    assert _template(worker, source).render(_TALK).text == "S;U;A;V;"


def test_a_model_without_a_template_gets_a_common_one_and_says_so(worker: TemplateWorker) -> None:
    rendered = _template(worker, None).render([Message("user", "U")])
    assert rendered.text == "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"
    assert rendered.notices
    bare = ScriptedVocabulary([b"?", b"a"], {1}, None, None)
    assert Template(None, bare, worker).render([Message("user", "U")]).text == "User: U\n\nAssistant:"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__ }}{{ self.__init__.__globals__ }}",
    ],
)
def test_X03_a_template_cannot_reach_pythons_internals(worker: TemplateWorker, source: str) -> None:
    answer = worker.render(source, _TALK, "", "")
    assert "SecurityError" in str(answer.get("error")) or answer.get("text") == ""


def test_X03_an_endless_loop_is_cut_off_and_the_next_prompt_works() -> None:
    worker = TemplateWorker(seconds=0.5)
    try:
        answer = worker.render(
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", [], "", ""
        )
        assert "longer than" in str(answer["error"])
        assert worker.render("fine", [], "", "") == {"text": "fine"}
    finally:
        worker.close()


def test_X03_too_much_output_and_too_much_memory_are_plain_errors(worker: TemplateWorker) -> None:
    answer = worker.render("{% for a in range(99999) %}xxxxxxxxxxxxxxxx{% endfor %}", [], "", "")
    assert "more than 10,000 characters" in str(answer["error"])
    answer = worker.render("{{ 'x' * 10000000000 }}", [], "", "")
    assert "memory" in str(answer["error"])
    assert worker.render("fine", [], "", "") == {"text": "fine"}


def test_closing_twice_is_harmless_and_leaves_no_process() -> None:
    worker = TemplateWorker()
    worker.start()
    process = worker._process
    worker.close()
    worker.close()
    assert process is not None and process.poll() is not None
