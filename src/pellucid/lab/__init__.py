"""The lab: learn autograd by doing it. Drill cards, quizzes, and what they are made of.

`reading` reads the YAML files, `cards` and `questions` say what they may hold; `review` drills in the terminal and
keeps its progress with `progress`; `quiz` asks and `grading` judges, running what a learner computes; `export` carries
decks to Anki and back.
"""
