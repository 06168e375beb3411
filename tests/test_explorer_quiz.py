"""The explorer's quiz in a real browser, and a page that has a server to ask."""

import pytest

import pellucid as torch
from explorer_chromium import changes, texts
from pellucid.cli import quiz_for_the_page
from pellucid.explorer import examples, page
from pellucid.explorer.examples import seen_examples
from pellucid.explorer.server import Server
from pellucid.explorer.snapshot import look


@pytest.fixture(scope="module")
def quiz_page(tmp_path_factory):
    quiz = quiz_for_the_page()
    path = tmp_path_factory.mktemp("quiz") / "quiz.html"
    path.write_text(page(examples()[:2], "Quiz", quiz=quiz.as_json(key=True)), encoding="utf-8")
    return path.as_uri()


def test_a_saved_page_judges_what_needs_no_program(opened, quiz_page):
    tab = opened(f"{quiz_page}#quiz=q-01-01")
    assert not tab.locator(".answers").is_visible() and "Pause and predict" in tab.inner_text(".quiz")
    tab.click(".pause button")
    tab.fill(".answers input[aria-label=a]", "3")
    tab.fill(".answers input[aria-label=b]", "5")
    tab.keyboard.press("Enter")
    said = tab.inner_text(".verdict")
    assert "b: 5 is not the whole gradient; the path through the sum" in said and "a + 2b" in said
    tab.click(".next-question")
    assert tab.evaluate("location.hash").endswith("quiz=q-01-02")
    assert "0 of 1 right" in tab.inner_text(".quiz")


def test_a_saved_page_and_the_lab_judge_alike(opened, quiz_page):
    """Every question of the saved page, answered rightly and wrongly: the verdict of pellucid.lab.grading."""
    from pellucid.lab.grading import grade
    from pellucid.lab.questions import read_questions

    tab = opened(f"{quiz_page}#quiz=q-01-01")
    asked = {each.id: each for each in read_questions()}
    tried = [
        (index, asked[id], answer)
        for index, id in enumerate(tab.evaluate(IDS))
        for answer in answers_to(asked[id])
    ]  # fmt: skip
    assert len(tried) > 100
    for (_, question, answer), found in zip(
        tried, tab.evaluate(JUDGE, [[index, answer] for index, _, answer in tried]), strict=True
    ):
        verdict = grade(question, answer_text(question, answer), "en")
        assert (found["right"], found["remarks"]) == (verdict.right, list(verdict.remarks)), (question.id, answer)


IDS = "document.getElementById('app').explorer.quiz.questions.map((each) => each.id)"
JUDGE = """(tried) => {
  const { quizPanel } = document.getElementById("app").explorer;
  return tried.map(([index, answer]) => {
    quizPanel.index = index;
    return quizPanel.judgeHere(answer);
  });
}"""


def answers_to(question):
    """Answers that are right and wrong; none to a question that the learner judges."""
    if question.choices:
        letters = "abcdefghij"[: len(question.choices)]
        several = [letters] if question.kind == "multiple" else []
        return [{"letters": list(each), "text": each} for each in [*letters, *several]]
    right = [f"{part.value!r}" for part in question.parts]
    off = [f"{part.paths[0][1] if part.paths else -part.value!r}" for part in question.parts]
    return [{"numbers": each, "text": ""} for each in (right, off, ["12345.5"] * len(right)) if right]


def answer_text(question, answer):
    if "letters" in answer:
        return answer["text"]
    if question.kind == "numeric":
        return answer["numbers"][0]
    return ", ".join(f"{part.name} = {text}" for part, text in zip(question.parts, answer["numbers"], strict=True))


@pytest.fixture
def served(opened):
    """A page from a server, with the programs of the examples and the quiz; its own requests are no trouble."""
    kept = []
    quiz = quiz_for_the_page()
    quiz.keep = lambda question, language: kept.append((question.id, language))
    seen = seen_examples()
    x = torch.randn(20, 30, requires_grad=True)
    large = look(lambda x: (x @ x.T).logsumexp(0).sum(), x, title="large", scope={"x": x})
    data = [each.data for each in [*seen, large]]
    with Server(data, "Served", programs=[each.program for each in [*seen, large]], quiz=quiz) as server:
        tab = opened(server.url, own=f"http://127.0.0.1:{server.http.server_port}/")
        yield tab, kept


def test_the_server_judges_and_keeps_a_card(served):
    tab, kept = served
    tab.click("button.quiz-button")
    tab.select_option(".quiz select >> nth=1", "es")
    tab.click(".pause button")
    tab.fill(".answers input[aria-label=a]", "3")
    tab.fill(".answers input[aria-label=b]", "3")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".is-wrong")
    assert "falta el camino directo" in tab.inner_text(".verdict")
    tab.click("text=Guardar como tarjeta")
    tab.wait_for_selector("text=Guardada como la tarjeta q-01-01")
    assert kept == [("q-01-01", "es")]


def test_the_server_runs_the_program_that_answers(served):
    tab, _ = served
    tab.evaluate("document.getElementById('app').explorer.quizPanel.toggle('q-01-06')")
    tab.fill(".answers textarea", "da, db = 3.0, 5.0\nprint('<b>hello</b>')")
    tab.click(".answers button")
    tab.wait_for_selector(".is-wrong", timeout=30_000)
    said = tab.inner_text(".verdict")
    assert (
        "db lacks the path through the sum" in said
        and "<b>hello</b>" in said
        and tab.locator(".verdict b").count() == 0
    )


def test_the_server_computes_what_the_page_cannot(served):
    tab, _ = served
    tab.select_option("header select", label="large")
    before = texts(tab, 0)[1]
    tab.locator("input[data-leaf-times]").evaluate(
        "(slider) => { slider.value = 0.5; slider.dispatchEvent(new Event('input')); }"
    )
    changes(tab, "g.box .grad", before)
    assert "v0=x0.5" in tab.evaluate("location.hash")
    tab.click("text=Reset")
    assert texts(tab, 0)[1] == before


def test_a_server_that_is_gone_is_told(served):
    tab, _ = served
    tab.route("**/expression", lambda route: route.abort())
    tab.fill(".playground input", "a * b")
    tab.evaluate("window.quiet = true")
    tab.click("text=Show it")
    tab.wait_for_selector("text=Pellucid does not answer any more")
