"""The labs: learn by building. Each is a page in `texts` (what to do, starter, hints, solution) and a file in `checks`.

`lab` reads the pages, `folder` keeps the learner's folder, `running` runs the checks in a process of its own,
`mutants` breaks a learner's code to see whether the learner's tests (run by `suite`) notice.
"""
