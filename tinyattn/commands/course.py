"""`tinyattn course`: the chapters and their exercises, as notebooks.

List the chapters, write them as notebooks to work in, count solved exercises, grade a class, and check the course.
"""

import argparse
from typing import Any


def add(command: Any, arguments: list[str]) -> None:
    parts = {
        "list": ("the chapters and exercises", "List chapters and exercises, with difficulty and time."),
        "build": ("write notebooks to work in", "Write the chapters as notebooks, exercises unsolved, into a folder."),
        "slides": ("a chapter as slides",
                   "Run a chapter, unsolved, and write its slides: one HTML file that fetches nothing. Arrow keys turn "
                   "them, n opens the notes, printing gives a PDF."),
        "check": ("does every stub fail, every solution pass?", "Run all chapters, unsolved and solved."),
        "status": ("exercises solved, tried and untouched in a folder of notebooks",
                   "Count exercises solved, tried and untouched, and the estimated time left, from the saved "
                   "outputs of a folder of notebooks. Nothing is executed."),
        "grade": ("grade the submissions of a class",
                  "Grade a folder of submissions, each a folder, notebook or .py file named after its author. Answers "
                  "are taken from the source, never from saved outputs, and run in sandboxed processes. Writes FILE, "
                  "with a row for each person, and FILE.answers.csv, with each answer and its verdict. The same "
                  "command resumes an interrupted one."),
    }  # fmt: skip
    commands = command.add_subparsers(dest="what", title="commands", metavar="COMMAND", required=True)
    for what, (text, description) in parts.items():
        part = commands.add_parser(what, help=text, description=description)
        if what == "status":
            part.add_argument("folder", metavar="DIR", help="the folder that `tinyattn course build` wrote")
        elif what == "grade":
            part.add_argument("folders", nargs="+", metavar="DIR", help="a folder with a submission for each person")
            part.add_argument("--csv", required=True, metavar="FILE", help="the table of marks to write")
            part.add_argument("--chapter", nargs="+", type=int, default=[], metavar="NN",
                              help="chapters by number (default: those that are answered)")  # fmt: skip
            part.add_argument("--class", dest="people", metavar="FILE",
                              help="rows NAME,SEED: report notebooks with another seed")  # fmt: skip
            part.add_argument("--workers", type=int, default=2, metavar="N", help="processes (default: 2)")
            part.add_argument("--unfenced", action="store_true", help="run answers even without a sandbox")
        elif what == "slides":
            part.add_argument("chapters", nargs=1, type=int, metavar="NN", help="the chapter's number")
            part.add_argument("--html", metavar="FILE", help="the file to write (default: NN_name.html)")
        else:
            part.add_argument("chapters", nargs="*", type=int, metavar="NN", help="chapters by number (default: all)")
        if what == "build":
            where = part.add_mutually_exclusive_group(required=True)
            where.add_argument("--to", metavar="DIR", help="the folder to write; overwrites nothing")
            where.add_argument("--nbgrader", metavar="DIR", help="write a course folder of nbgrader instead")
            where.add_argument("--otter", metavar="DIR", help="write folders that `otter generate` reads instead")
            part.add_argument("--seed", metavar="NUMBER", help="seed of the exercises' numbers and planted bugs")
            part.add_argument("--class", dest="people", metavar="FILE",
                              help="rows NAME,SEED: write a folder with its seed for each person")  # fmt: skip
            part.add_argument("--update", action="store_true",
                              help="update the chapters of the notebooks in DIR, and keep what was written there")
            part.add_argument("--solutions", action="store_true", help="with the solutions filled in")
            part.add_argument("--for", dest="audience", choices=("student", "instructor"), default="student",
                              help="instructor: with solutions, common mistakes and what to say")
            part.add_argument("--install", nargs="?", default="", const="tinyattn[check]", metavar="WHAT",
                              help="a first cell installs WHAT with pip, as on Colab (default: tinyattn[check])")


def run(options: argparse.Namespace) -> int:
    from ..course.command import run

    return run(options)
