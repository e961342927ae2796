"""`tinyattn train`: train a model, print its table, write a folder.

Train on DATA, or on generated data, and write the folder RUN. The same command resumes a run that was killed.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from .. import __version__
from ..data.split import folds
from ..models import MODELS, PRESETS, Estimator, RunFolder
from ..options import one_of, options_of
from ..ranks import alone, ranks
from ..training import DivergedWarning, Settings
from ..training.around import epoch_in_words
from .arguments import add_options
from .measures import MEASURES
from .ops import FAST, add_ops
from .runs import describe_counts, drawing, remarks
from .tables import Evaluation, notes_on, print_folds

DEFAULT = "sasrec"
SHORT = ("data", "world", "out", "model", "preset", "ops", "epochs", "lr", "seed", "loss", "maxlen",
         "dim", "blocks", "heads", "dropout")  # fmt: skip


def add(command: Any, arguments: list[str]) -> None:
    """Add the flags of the model that `arguments` name."""
    command.shorten(SHORT)
    wanted = _named_model(arguments)
    name = wanted if wanted in MODELS else DEFAULT
    command.epilog = f"These are options of --model {name}; see --model NAME --help for others."
    measure = MEASURES[MODELS[name].table]
    measure.add_data(command)
    command.add_argument("--out", metavar="RUN", help="the folder to write (default: runs/MODEL-DATA, or PRESET-DATA)")
    text = f"one of {', '.join(MODELS)} (default: {DEFAULT}, or the preset's)"
    command.add_argument("--model", default=name, metavar="NAME", help=text)
    text = f"a paper's options, which flags override: {', '.join(PRESETS)}"
    command.add_argument("--preset", metavar="NAME", help=text)
    add_ops(command)
    add_options(command, MODELS[name])
    measure.add(command)
    if name != wanted and arguments[:1] == ["train"] and not {"-h", "--help", "--help-all"}.isdisjoint(arguments):
        command.error(f"model is {wanted!r}, expected {one_of(MODELS, wanted)}")


def _named_model(arguments: list[str]) -> str:
    """The model of --model, of --preset, or of the run of --start, or the default one."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)     # it also takes abbreviated flags
    for flag in ("--model", "--preset", "--start"):
        parser.add_argument(flag, nargs="?")
    parsed = parser.parse_known_args(arguments)[0]
    if parsed.model is None and parsed.preset in PRESETS:
        return PRESETS[parsed.preset].model
    if parsed.model is None and parsed.start is not None:
        with suppress(ValueError, KeyError):             # opening the run reports the error
            return str(RunFolder(parsed.start).config()["model"])
    return parsed.model or DEFAULT


def explain_unknown_flags(unknown: list[str], options: argparse.Namespace) -> str:
    """The error message for an option of other models, and for DATA where the model takes none; otherwise ""."""
    if options.model not in MODELS:
        return f"model is {options.model!r}, expected {one_of(MODELS, options.model)}"
    for argument in unknown:
        flag = argument.partition("=")[0]
        owners = [name for name, cls in MODELS.items() if flag in flags_of(cls)]
        if owners:
            return f"{flag} is no option of model {options.model}, but of {', '.join(owners)}"
    flags = _Flags()
    MEASURES[MODELS[options.model].table].add_data(flags)
    if not unknown[0].startswith("-") and "data" not in flags:
        return f"{unknown[0]}: model {options.model} takes no DATA, but {', '.join(sorted(flags))}"
    return ""


def flags_of(cls: type[Estimator]) -> set[str]:
    """The flags of a model: of its options, its data and its evaluation."""
    options, flags, measure = options_of(cls), _Flags(), MEASURES[cls.table]
    measure.add_data(flags)
    measure.add(flags)
    return flags | {o.flag for o in options} | {o.flag.replace("--", "--no-", 1) for o in options if o.type is bool}


class _Flags(set[str]):
    """Collects flags through the interface of a parser."""

    def add_argument(self, name: str, **how: Any) -> None:
        self.add(name)

    def add_argument_group(self, title: str) -> "_Flags":
        return self


def model_of(options: argparse.Namespace) -> tuple[Any, Any]:
    """The model that the flags describe, and its measure. Raises ValueError for invalid options."""
    if options.model not in MODELS:
        raise ValueError(f"model is {options.model!r}, expected {one_of(MODELS, options.model)}")
    cls: Any = MODELS[options.model]
    if options.ops != FAST:
        options.workers = getattr(options, "workers", 1)     # breakpoints do not stop worker processes
    chosen = {o.name: getattr(options, o.name) for o in options_of(cls) if hasattr(options, o.name)}
    measure = MEASURES[cls.table]
    both = measure.known_options(options) | chosen
    for name, needs in ((o.name, o.option.parts) for o in options_of(cls)):       # of a part that a flag replaces
        if name not in chosen and any(by in chosen for by, _ in needs) and not needs & both.items():
            both.pop(name, None)
    model = cls(**both)
    measure.fill_options(options, options.model)
    return model, measure


@contextmanager
def _divergence_as_note() -> Iterator[None]:
    """A DivergedWarning is printed as a note."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def note(message: Any, category: Any, *where: Any, **how: Any) -> None:
            if issubclass(category, DivergedWarning):
                print(f"note: {message}", file=sys.stderr)
            else:
                show(message, category, *where, **how)

        warnings.simplefilter("always", DivergedWarning)
        warnings.showwarning = note
        yield


def run(options: argparse.Namespace) -> None:
    """Errors come before training begins. Ranks of mpiexec share the work."""
    model, measure = model_of(options)
    job = ranks()
    if isinstance(model, Settings):                      # trained by gradient steps
        _work(options, model, measure)
    elif job.number == 0:
        if job.size > 1:
            print(f"note: {options.model} has no steps to share out: rank 0 of {job.size} does it all", file=sys.stderr)
        with alone():
            _work(options, model, measure)
    job.wait()


def _work(options: argparse.Namespace, model: Any, measure: Any) -> None:
    """Train one model, or one for each of --folds."""
    loaded = measure.read(options)
    if getattr(options, "folds", None) is None:
        _train(options, model, measure, loaded)
        return
    out = Path(options.out or f"{_folder(options, loaded[0]).path}-folds")
    if (out / "config.json").exists():
        raise ValueError(f"{out} is a run without --folds: choose another --out or remove it")
    names = enumerate(folds(loaded[1], options.split, options.folds), start=1)
    plan = {number: argparse.Namespace(**vars(options) | {"split": split, "out": str(out / f"fold-{number}")})
            for number, split in names}  # fmt: skip
    for number, fold in plan.items():
        try:
            measure.split(loaded[1], fold)
        except ValueError as error:                      # no user can be tested in this window
            raise ValueError(f"fold {number} of {options.folds}, --split {fold.split}: {error}") from None
    runs = {}
    for number, fold in plan.items():
        print(f"fold {number} of {options.folds}: --split {fold.split}")
        try:
            runs[f"fold {number}"] = _train(fold, model_of(options)[0], measure, loaded)
        finally:
            with suppress(OSError):
                out.rmdir()                              # succeeds only if a refused first fold left it empty
    if ranks().number == 0:
        print_folds(runs, model)
        print(f"written to {out}: {', '.join(name.replace(' ', '-') for name in runs)}")


def _fit_in_steps(model: Any, split: Any, folder: RunFolder, fitting: dict[str, Any]) -> None:
    """Fit a model that is trained by gradient steps; training.csv is written after each epoch."""
    write = partial(folder.write_history, criterion=model.criterion)

    def on_epoch(history: list[dict[str, Any]]) -> None:
        write(history)
        if not sys.stderr.isatty():                      # where there is no progress bar
            row = history[-1]
            print(f"{epoch_in_words(row)}, {row['seconds']:.1f} s", file=sys.stderr, flush=True)

    with _divergence_as_note():
        model.fit(split, checkpoint=folder.checkpoint, on_epoch=on_epoch, **fitting)
    if ranks().number == 0:
        write(model.history)


def _folder(options: argparse.Namespace, source: Any) -> RunFolder:
    return RunFolder(options.out or f"runs/{options.preset or options.model}-{source.name}{options.computing.suffix}")


def _train(options: argparse.Namespace, model: Any, measure: Any, loaded: Any) -> tuple[Any, Evaluation]:
    """-> the metrics, and what they were measured on."""
    job = ranks()
    source, data, truth = loaded
    split = measure.split(data, options)
    computing = options.computing
    folder = _folder(options, source)
    settings = measure.settings(options)
    config = {
        "model": options.model,
        "parameters": model.identity(),
        "data": source.describe() | {"fingerprint": measure.fingerprint(data, settings["split"]), **data.sizes},
        "evaluation": settings,
        "tinyattn": __version__,
    } | computing.identity()
    model.check_data(split.train)                        # raises for data that it cannot be trained on
    job.agree({"tinyattn": __version__} | config)        # the version first: another version may have other options
    on = Evaluation(options, source, truth, split, job.once(lambda: measure.prepare(split, options)))
    with ExitStack() as stack:
        job.once(lambda: bool(stack.enter_context(folder.claimed(config))))
        print(f"{options.model} on {source.title}: {describe_counts(data, split)}")
        if columns := getattr(data, "notes", {}).get("columns"):
            print(f"read as {data.notes['format']}: {columns}")
            if more := remarks(data, getattr(model, "maxlen", None)):
                print(*more, sep="; ")
        if job.once(lambda: folder.finished):
            if job.number == 0:
                print(f"{folder.path} is complete; to train again, remove it or choose another --out")
                measure.print(folder.metrics(measure.parts), model, on)
            return job.once(lambda: folder.metrics(measure.parts)), on
        if kept := measure.kept_rows(options, split.train):
            print(kept)
        if folder.checkpoint.exists():
            print(f"resuming from {folder.checkpoint}")
        if isinstance(model, Settings):
            _fit_in_steps(model, split, folder, measure.fitting(options))
        else:
            model.fit(split)
        rows = measure.rows(model, on)
        if job.number == 0:
            with alone():
                folder.write_results(model, rows, measure.validated(model, split))       # first: pictures may fail
                with drawing(f"the pictures of {folder.path}"):
                    measure.draw(folder, model, on, rows, f"{options.model} on {source.name}")
                folder.finish()
    if job.number == 0:
        measure.print(rows, model, on)
        for note in notes_on(model, rows, split):
            print(f"note: {note}", file=sys.stderr)
        print(*computing.lines(), sep="\n")
        print(f"written to {folder.path}: {', '.join(folder.contents())}")
    return rows, on
