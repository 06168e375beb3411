// The lab's questions. A page with a server has the answers judged there, by the code of `pellucid quiz`; a saved page
// holds the key of those that need no program to be run.

const QUIZ_WORDS = {
  en: {
    check: "Check",
    next: "Next question",
    ready: "I have",
    keep: "Keep as a drill card",
    compare: "Compare with the worked answer",
    agree: "Mine agrees",
    differ: "It does not",
    run: "Run and check",
    topics: "All topics",
    number: "a number",
    yours: "Your answer",
    wait: "…",
  },
  es: {
    check: "Comprobar",
    next: "Siguiente pregunta",
    ready: "Ya está",
    keep: "Guardar como tarjeta",
    compare: "Comparar con la respuesta",
    agree: "La mía coincide",
    differ: "No coincide",
    run: "Ejecutar y comprobar",
    topics: "Todos los temas",
    number: "un número",
    yours: "Tu respuesta",
    wait: "…",
  },
};

class QuizPanel {
  constructor(app, quiz) {
    this.app = app;
    this.quiz = quiz;
    this.language = "en";
    this.index = 0;
    this.right = this.asked = 0;
    this.open = false;
    this.button = el("button", {
      type: "button",
      class: "quiz-button",
      "aria-expanded": "false",
      text: "Quiz",
      title: "Questions about autograd",
      onclick: () => this.toggle(),
    });
    this.languages = el(
      "select",
      { "aria-label": "Language", onchange: () => this.setLanguage(this.languages.value) },
      el("option", { value: "en", text: "English" }),
      el("option", { value: "es", text: "Español" }),
    );
    this.topics = el("select", { "aria-label": "Topic", onchange: () => this.show(this.first()) });
    this.body = el("div");
    this.section = el(
      "section",
      { class: "quiz", "aria-label": "Quiz" },
      el("div", { class: "section-head" }, el("h2", { text: "Quiz" }), this.topics, this.languages),
      this.body,
    );
    this.section.hidden = true;
    this.listTopics();
  }

  get question() {
    return this.quiz.questions[this.index];
  }

  get words() {
    return QUIZ_WORDS[this.language];
  }

  /** A phrase of the lab with its parts filled in. */
  say(phrase, parts = {}) {
    const text = (this.quiz.phrases[this.language] || {})[phrase] || phrase;
    const told = (part) => (typeof part === "number" ? String(Number(part.toPrecision(6))) : part);
    return text.replace(/\{(\w+)(?::g)?\}/g, (_, name) => told(parts[name]));
  }

  listTopics() {
    const names = [...new Set(this.quiz.questions.map((each) => each.topic))];
    const chosen = this.topics.value || "";
    this.topics.replaceChildren(
      el("option", { value: "", text: this.words.topics }),
      ...names.map((name) =>
        el("option", { value: name, text: (this.quiz.topics[name] || {})[this.language] || name }),
      ),
    );
    this.topics.value = chosen;
  }

  first() {
    return this.quiz.questions.findIndex((each) => !this.topics.value || each.topic === this.topics.value);
  }

  /** The next question of the topic; after the last comes the first. */
  following() {
    const { questions } = this.quiz;
    for (let i = 1; i <= questions.length; i++) {
      const index = (this.index + i) % questions.length;
      if (!this.topics.value || questions[index].topic === this.topics.value) return index;
    }
    return this.index;
  }

  setLanguage(language) {
    this.language = language;
    this.listTopics();
    this.show(this.index);
  }

  toggle(id) {
    this.open = id !== undefined || !this.open;
    this.section.hidden = !this.open;
    this.button.setAttribute("aria-expanded", String(this.open));
    const named = this.quiz.questions.findIndex((each) => each.id === id);
    if (this.open) this.show(named < 0 ? this.index : named);
    if (this.open && id === undefined) this.section.scrollIntoView({ block: "nearest" });
    if (this.app.model) writeAddress(this.app);
  }

  show(index) {
    this.index = index;
    const { question, language } = this;
    this.said = el("div", { class: "verdict", role: "status" });
    const asking = el("div", {}, ...this.form());
    const predict = question.predict ? this.predict(question.predict[language], asking) : null;
    asking.hidden = Boolean(predict);
    const heading = el("h3", { class: "question", tabindex: -1, lang: language, text: question.question[language] });
    this.body.replaceChildren(
      ...[
        el("p", { class: "quiet", text: `${question.id}, ${this.scoreText()}` }),
        heading,
        predict,
        asking,
        this.said,
      ].filter(Boolean),
    );
    if (this.app.model) writeAddress(this.app);
    return heading;
  }

  scoreText() {
    return this.say("score", { right: this.right, asked: this.asked });
  }

  /** Pause and predict: the answers come after a thought. */
  predict(text, asking) {
    const part = el(
      "p",
      { class: "pause" },
      `${this.say("predict", { text })} `,
      el("button", {
        type: "button",
        text: this.words.ready,
        onclick: () => {
          part.hidden = true;
          asking.hidden = false;
          const first = asking.querySelector("input,textarea,button");
          if (first) first.focus();
        },
      }),
    );
    return part;
  }

  // --- what is asked for

  form() {
    const { question } = this;
    if (question.choices) return this.choices(question);
    if (question.kind === "free" && !question.parts) return this.free();
    if (question.kind === "code") return this.code(question);
    return this.numbers(question);
  }

  submitting(fields, answerOf, label = this.words.check) {
    const act = (event) => {
      event.preventDefault();
      const answer = answerOf();
      if (answer) this.judge(answer);
    };
    this.submit = el("button", { type: "submit", text: label });
    return [el("form", { class: "answers", onsubmit: act }, ...fields, this.submit)];
  }

  choices(question) {
    const kind = question.kind === "single" ? "radio" : "checkbox";
    const inputs = question.choices.map((_, i) => el("input", { type: kind, name: "choice", value: "abcdefghij"[i] }));
    const labels = question.choices.map((choice, i) =>
      el("label", {}, inputs[i], el("span", { lang: this.language, text: choice[this.language] })),
    );
    return this.submitting(labels, () => {
      const letters = inputs.filter((input) => input.checked).map((input) => input.value);
      return letters.length ? { letters, text: letters.join("") } : null;
    });
  }

  numbers(question) {
    const fields = question.parts.map((name) =>
      el("input", { type: "text", "aria-label": name, placeholder: this.words.number, autocomplete: "off" }),
    );
    const labels = question.parts.map((name, i) =>
      el("label", {}, question.kind === "numeric" ? null : el("span", { text: `${name} =` }), fields[i]),
    );
    return this.submitting(labels, () => {
      const texts = fields.map((field) => field.value.trim());
      if (!texts.some(Boolean)) return null;
      const named = question.parts.map((name, i) => `${name} = ${texts[i]}`).filter((_, i) => texts[i]);
      return { numbers: texts, text: question.kind === "numeric" ? texts[0] : named.join(", ") };
    });
  }

  code(question) {
    const area = el("textarea", { rows: 12, spellcheck: "false", "aria-label": this.words.yours });
    area.value = question.starter;
    return this.submitting([area], () => ({ text: area.value }), this.words.run);
  }

  /** The learner compares with the worked answer. */
  free() {
    const area = el("textarea", { rows: 4, "aria-label": this.words.yours });
    return this.submitting([area], () => ({ text: "-", compare: true }), this.words.compare);
  }

  // --- the verdict

  async judge(answer) {
    this.submit.disabled = true;
    this.said.replaceChildren(el("p", { class: "quiet", text: this.words.wait }));
    const { question } = this;
    try {
      const verdict = question.answer ? this.judgeHere(answer) : await this.judgeThere(answer);
      if (question === this.question) this.tell(verdict, answer);
    } catch (error) {
      this.said.replaceChildren(el("p", { class: "trouble", text: error.message }));
    }
    this.submit.disabled = false;
  }

  judgeThere(answer) {
    return asked("answer", { id: this.question.id, answer: answer.text, language: this.language });
  }

  judgeHere(answer) {
    const { question, language } = this;
    const remarks = answer.letters
      ? this.wrongLetters(answer.letters)
      : answer.numbers
        ? this.wrongNumbers(answer)
        : [];
    if (!remarks) return { again: this.say("unreadable", { text: answer.text }) };
    return { right: !remarks.length, remarks, answer: question.answer[language], explain: question.explain[language] };
  }

  wrongLetters(letters) {
    const { right } = this.question;
    const chosen = right.map((_, i) => letters.includes("abcdefghij"[i]));
    const extra = letters.filter((_, i) => !right["abcdefghij".indexOf(letters[i])]);
    if (extra.length) return extra.map((letter) => this.say("extra", { text: `${letter})` }));
    return right.some((is, i) => is && !chosen[i]) ? [this.say("lacking")] : [];
  }

  wrongNumbers({ numbers }) {
    const given = numbers.map((text) => (text ? Number(text.replace(",", ".")) : null));
    if (given.some(Number.isNaN)) return null;
    return this.question.parts
      .map((name, i) => this.wrongNumber(name, given[i], this.question.numbers[i]))
      .filter(Boolean);
  }

  /** The same remarks as `judged` in lab/grading.py. */
  wrongNumber(name, given, { value, paths }) {
    const { tolerance } = this.question;
    if (given === null) return this.say("absent", { name });
    if (agrees(given, value, tolerance)) return "";
    const some = subsets(paths).find((kept) => agrees(given, total(kept), tolerance));
    if (some) {
      const missing = paths.filter((path) => !some.includes(path)).map((path) => path.text[this.language]);
      return this.say("missing", { name, given, paths: missing.join(", ") });
    }
    return agrees(-given, value, tolerance) ? this.say("sign", { name }) : this.say("off", { name, given });
  }

  tell(verdict, answer) {
    if (verdict.again) {
      this.said.replaceChildren(el("p", { class: "trouble", text: verdict.again }));
      return;
    }
    if (answer.compare) return this.compare(verdict);
    this.finish(verdict);
  }

  compare(verdict) {
    const agree = (right) => this.finish({ ...verdict, right, answer: "" });
    this.said.replaceChildren(
      el("pre", { text: verdict.answer }),
      el("button", { type: "button", text: this.words.agree, onclick: () => agree(true) }),
      el("button", { type: "button", text: this.words.differ, onclick: () => agree(false) }),
    );
  }

  finish({ right, remarks = [], printed = "", answer, explain }) {
    this.asked += 1;
    this.right += right ? 1 : 0;
    const next = el("button", {
      type: "button",
      class: "next-question",
      text: this.words.next,
      onclick: () => this.show(this.following()).focus(),
    });
    this.said.replaceChildren(
      ...[
        el("p", { class: right ? "is-right" : "is-wrong", text: this.say(right ? "right" : "wrong") }),
        printed ? el("pre", { text: printed }) : null,
        ...remarks.map((text) => el("p", { text })),
        right || !answer ? null : el("pre", { text: `${this.say("answer")}\n${answer}` }),
        el("p", { lang: this.language, text: explain }),
        el("p", { class: "quiet", text: this.scoreText() }),
        next,
        right || !this.quiz.keeps ? null : this.keeping(),
      ].filter(Boolean),
    );
  }

  /** A wrong answer can become a drill card. */
  keeping() {
    const button = el("button", {
      type: "button",
      text: this.words.keep,
      onclick: async () => {
        try {
          const { kept } = await asked("card", { id: this.question.id, language: this.language });
          button.replaceWith(el("span", { text: this.say("kept", { id: kept }) }));
        } catch (error) {
          button.replaceWith(el("span", { class: "trouble", text: error.message }));
        }
      },
    });
    return button;
  }
}

/** The same as `_close` in lab/grading.py. */
function agrees(given, wanted, tolerance) {
  const small = tolerance * Math.min(1, Math.abs(wanted)) || 1e-9;
  return Math.abs(given - wanted) <= Math.max(tolerance * Math.max(Math.abs(given), Math.abs(wanted)), small);
}

const total = (paths) => paths.reduce((sum, path) => sum + path.value, 0);

/** Some of the paths, but not all: the fewest first. */
function subsets(paths) {
  const every = Array.from({ length: 2 ** paths.length }, (_, bits) => paths.filter((_, i) => bits & (1 << i)));
  return every.filter((some) => some.length && some.length < paths.length).sort((a, b) => a.length - b.length);
}
