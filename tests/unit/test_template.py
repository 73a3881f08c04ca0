"""T02, T04 and X03: chat templates of any make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from pardec_chat.app.chat.overflow import fit
from pardec_chat.app.chat.request import Message
from pardec_chat.app.chat.template import Template, TemplateWorker, folded, merged
from pardec_chat.backends.errors import ContextFull, TemplateFailed
from pardec_chat.tests.fakes import ScriptedVocabulary

_VOCABULARY = ScriptedVocabulary([b"?", b"a", b"", b""], {3}, ["?", "a", "<|im_start|>", "<|im_end|>"], None)
_TALK = [Message("system", "S"), Message("user", "U"), Message("assistant", "A"), Message("user", "V")]
_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Köln"}'}}
_CALLED = [
    Message("user", "U"),
    Message("assistant", "", {"tool_calls": [_CALL]}),
    Message("tool", "rain", {"tool_call_id": "c1", "name": "weather"}),
    Message("tool", "cold", {"tool_call_id": "c2"}),
]
_KNOWS_TOOLS = (
    "{% if tools %}<tools>{% for t in tools %}{{ t | tojson(separators=(',', ':')) }}{% endfor %}</tools>{% endif %}"
    "{% for m in messages %}[{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}({{ c.function.name }} {{ c.function.arguments }}){% endfor %}"
    "{% if m.tool_call_id %}#{{ m.tool_call_id }} {{ m.name }}{% endif %}]{% endfor %}"
)
_KNOWS_NONE = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"


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


# Tools


def test_tools_calls_and_results_reach_a_template_that_knows_them(worker: TemplateWorker) -> None:
    rendered = _template(worker, _KNOWS_TOOLS).render(_CALLED, _TOOLS)
    assert rendered.text == (
        '<tools>{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}</tools>'
        '[user:U][assistant:(weather {"city": "Köln"})][tool:rain#c1 weather][tool:cold#c2 ]'
    )
    assert rendered.notices == ()


def test_the_variable_tools_is_there_only_with_tools(worker: TemplateWorker) -> None:
    source = "{{ 'some' if tools is defined else 'none' }}"
    assert _template(worker, source).render(_TALK).text == "none"
    assert _template(worker, source).render(_TALK, _TOOLS).text == "some"


@pytest.mark.parametrize("system", [True, False])
def test_a_template_that_knows_no_tools_gets_them_in_the_system_prompt(worker: TemplateWorker, system: bool) -> None:
    messages = [*([Message("system", "S")] if system else []), *_CALLED]
    rendered = _template(worker, _KNOWS_NONE).render(messages, _TOOLS)
    assert rendered.text.startswith("[system:S\n\n# Tools" if system else "[system:# Tools")
    assert '<tools>\n{"type": "function", "function": {"name": "weather"' in rendered.text
    assert '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>' in rendered.text
    assert '[assistant:<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>]' in rendered.text
    assert rendered.text.endswith(
        "[user:<tool_response>\nrain\n</tool_response>\n<tool_response>\ncold\n</tool_response>]"
    )
    assert rendered.notices == ("The model's chat template knows no tools; they are described in the system prompt.",)


def test_no_tools_and_no_system_role_either(worker: TemplateWorker) -> None:
    source = "{% for m in messages if m.role == 'system' %}{{ raise_exception('no system') }}{% endfor %}" + _KNOWS_NONE
    rendered = _template(worker, source).render([Message("user", "U")], _TOOLS)
    assert rendered.text.startswith("[user:# Tools")
    assert rendered.text.endswith("\n\nU]")
    assert len(rendered.notices) == 2


def test_a_template_that_breaks_on_tools_is_told_of_them_and_stays_the_models_own(worker: TemplateWorker) -> None:
    template = _template(worker, "{% if tools %}{{ tools + 1 }}{% endif %}" + _KNOWS_NONE)
    assert "# Tools" in template.render([Message("user", "U")], _TOOLS).text
    assert template.render([Message("user", "U")]).text == "[user:U]"


def test_what_a_client_puts_into_a_message_does_not_cost_the_model_its_template(worker: TemplateWorker) -> None:
    source = (
        "{% for m in messages %}[{{ m.role }}:{{ m.content }}"
        "{% if m.tool_calls %}{{ m.tool_calls + 1 }}{% endif %}]{% endfor %}"
    )
    template = _template(worker, source)
    rendered = template.render(_CALLED)
    assert '"arguments": {"city": "Köln"}' in rendered.text
    assert "refuses tool calls" in rendered.notices[0]
    assert template.render([Message("user", "U")]).text == "[user:U]"


def test_a_template_without_the_role_tool_gets_results_as_text(worker: TemplateWorker) -> None:
    source = (
        "{% for m in messages if m.role == 'tool' %}{{ raise_exception('what is tool?') }}{% endfor %}" + _KNOWS_NONE
    )
    rendered = _template(worker, source).render(_CALLED)
    assert "[user:<tool_response>\nrain" in rendered.text


def test_no_message_with_more_than_text_is_joined_or_lost() -> None:
    named = Message("user", "V", {"name": "Ada"})
    assert merged([*_CALLED, Message("user", "U"), named, Message("user", "W")]) == [
        *_CALLED,
        Message("user", "U"),
        named,
        Message("user", "W"),
    ]
    assert folded([Message("system", "S"), named, *_CALLED[1:]]) == [
        Message("user", "S\n\nV", {"name": "Ada"}),
        *_CALLED[1:],
    ]


def test_role_and_content_are_those_of_the_message(worker: TemplateWorker) -> None:
    message = Message("user", "U", {"role": "system", "content": "else"})
    assert _template(worker, _KNOWS_NONE).render([message]).text == "[user:U]"


def test_K07_a_tools_result_goes_only_with_its_call() -> None:
    def encode(messages: Sequence[Message]) -> list[int]:
        return [0] * (10 * len(messages))

    kept: list[Sequence[Message]] = []

    def noted(messages: Sequence[Message]) -> list[int]:
        kept.append(list(messages))
        return encode(messages)

    talk = [Message("system", "S"), *_CALLED, Message("assistant", "A"), *_CALLED]
    ids, dropped = fit(talk, noted, 60, 80, drop=True)
    assert (len(ids), dropped) == (50, 5)
    assert kept[-1] == [Message("system", "S"), *_CALLED]
    with pytest.raises(ContextFull):
        fit(talk, encode, 40, 80, drop=True)
