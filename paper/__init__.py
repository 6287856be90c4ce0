"""The paper's tables and figures and the studies of the library, each from one command: ``python -m paper NAME``.

Not part of the installed package. `framework` holds what every target needs, `targets` one file per table or figure,
the other modules what several targets share. Where the paper's own code behaves differently from its equations, that
behaviour is in `published` and nowhere else.

Everything is written below ``out/paper``. With ``--docs docs`` a target also replaces its section of docs/paper.md
(or its page, docs/frontier.md) and its pictures there; the sections of other targets stay as they are, so one target
can be run again without the others. ``make paper`` and ``make study`` run all of them.
"""
