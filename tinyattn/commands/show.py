"""`tinyattn show`: who looks at whom, as a picture or as an interactive page.

Draw the attention weights for a history, by layer and head. With --html, write a page with the model's predictions, the
tokens that each depends on, and scores, weights and gradients of every token, layer and head. With --text instead of
RUN, a tiny model is first trained on the text.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from ..models import Decoder, Encoder, NeuralRecommender, NextItemNetwork, Recommender, RunFolder
from .arguments import add_data, add_history, add_names, add_run, reading_flags
from .measures import open_kind
from .runs import history_of, names_of, refuse_no_gif, refuse_no_picture, refuse_unwritable


def add(command: Any, arguments: list[str]) -> None:
    add_run(command, optional=True)
    add_data(command)
    which = add_history(command)
    prompt = "a text for a decoder, or for an encoder, which fills the first _ (with --html)"
    which.add_argument("--prompt", metavar="TEXT", help=prompt)
    which.add_argument("--text", metavar="TEXT", help="instead of RUN: a sentence of 2 to 64 words (with --html)")
    add_names(command)
    text = "the picture (default: RUN/figures/attention-LAST.png, after the last item)"
    output = command.add_mutually_exclusive_group()
    output.add_argument("--out", metavar="FILE", help=text)
    output.add_argument("--gif", metavar="FILE", help="write an animation, token by token, instead of the picture")
    output.add_argument("--html", metavar="FILE", help="write an interactive page, instead of the picture")
    command.add_argument("--padding", type=int, metavar="N", help="positions of padding to show (with --html)")
    command.add_argument("--against", metavar="RUN2", help="a run to show beside RUN, on that history (with --html)")


def run(options: argparse.Namespace) -> None:
    for flag in ("text", "prompt", "against", "padding"):
        if getattr(options, flag) is not None and options.html is None:
            raise ValueError(f"--{flag} is for a page: give --html FILE, too")
    read = [*options.data, options.names]
    if options.run_folder is not None:
        trained_on = RunFolder(options.run_folder).config()["data"].get("path")
        read += [trained_on] * isinstance(trained_on, str)
    if options.gif is not None:
        refuse_no_gif(options.gif, read)
    if options.out is not None:
        refuse_no_picture(options.out, "--out", read)
    if options.html is not None:
        refuse_unwritable(options.html, "--html", read)
        print(_page(options).save(options.html))
        return
    from .. import show as pictures
    from ..show.animation import MOST

    if options.run_folder is None:
        raise ValueError("say which run: tinyattn show RUN --items A,B,C")
    history, _, model, times = history_of(options)
    if not model.attends:
        weighs = isinstance(model, NeuralRecommender) and type(model.network).weights is not NextItemNetwork.weights
        why = "whose weights `tinyattn explain` shows" if weighs else "without attention: nothing can be shown"
        raise ValueError(f"{options.run_folder} is of model {model.name}, {why}")
    ids, weights = model.attention(history, times)
    if len(ids) < len(history):
        print(f"note: the model looks at the newest {len(ids)} of the {len(history)} items", file=sys.stderr)
    names = names_of(options, model)
    labels = [names.short(item) for item in ids]
    if options.gif is not None:
        if len(labels) > MOST:
            raise ValueError(f"--gif has a picture for each item, at most {MOST}, and there are {len(labels)} items")
        frames = (pictures.looking_picture(weights, labels, i) for i in range(len(labels)))
        print(pictures.animate(frames, options.gif))
        return
    name = f"attention-{''.join(c if c.isalnum() else '-' for c in str(ids[-1])[:60])}.png"
    out = options.out or str(RunFolder(options.run_folder).figures / name)
    refuse_no_picture(out, "--out")
    picture = pictures.attention_map(weights, labels, f"{model.name}, {Path(options.run_folder).name}")
    print(pictures.save(picture, out))


def _page(options: argparse.Namespace) -> Any:
    from ..show.views import visualise, visualise_text

    reads = "--text" if options.text is not None else "--prompt" if options.prompt is not None else None
    if reads:
        wrong = [options.names and "--names", reading_flags(options), reads == "--prompt" and ", ".join(options.data)]
        if named := " and ".join(flag for flag in wrong if flag):
            raise ValueError(f"{named}: for a history, and {reads} has none: leave it out")
    if options.text is not None:
        if folder := options.run_folder or options.against:
            raise ValueError(f"--text takes the place of a run: leave out {folder}")
        if options.padding:
            raise ValueError(f"--padding {options.padding} is for a history, and --text has none: leave it out")
        return visualise_text(options.text)
    if options.run_folder is None:
        raise ValueError("say which run, or give --text TEXT")
    titles = [Path(folder).name for folder in (options.run_folder, options.against) if folder is not None]
    kind = Recommender if options.prompt is None else (Decoder, Encoder)
    other = None if options.against is None else open_kind(options.against, kind, options.device)[0]
    if options.prompt is not None:
        sequence, names, times = options.prompt, None, None
        model, _ = open_kind(options.run_folder, kind, options.device)
    else:
        sequence, _, model, times = history_of(options, other)
        names = names_of(options, model).label
    if other is not None and not isinstance(other, type(model)):
        raise ValueError(f"{options.against} is of model {other.name}, expected {model.name}, as {options.run_folder}")
    how: dict[str, Any] = {"names": names, "titles": titles, "padding": options.padding or 0, "times": times}
    return visualise(model, sequence, against=other, **how)
