"""Evaluation protocols: the candidates that the target is ranked against.

    full      every item, except those the user has had (the default; with `repeats` of a split "keep": every item)
    uni100    the target and 100 items drawn uniformly, with replacement, from those not in the user's training part
              (Kang & McAuley 2018 and their code: the target itself may be drawn, and then ties with itself)
    pop100    the target and 100 unseen items drawn by popularity, without replacement (Sun et al. 2019)

A split by time with all targets of its window has Recall@k and NDCG@k of several items, under full ranking.
Sampled metrics are much higher than full ones, and may order models differently (Krichene & Rendle 2020).
"""

import re
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..data import Seen, Split, Truth, distinct, read
from ..files import write_atomically
from ..random import Stream, generator
from ..ranks import ranks as job
from .lazy import SCORES_AT_ONCE, LazyScores, Score, WholeRows
from .ranking import all_ranks, hit_rate, metrics, ndcg, ndcg_of_several, ranks, recall, reciprocal_rank

PROTOCOLS = ("full", "uni100", "pop100")
_NO_WORD = re.compile(r"[ \t\r\n,]|^[#\ufeff]")         # ids with these cannot be in a line of candidates
USERS_AT_ONCE = 8192             # bounds the memory of histories, states and pairs


class HasLazyScores(Protocol):
    """A model with lazy scores, as every `Recommender`."""

    def lazy_scores(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> LazyScores:
        """The scores of each history."""


def evaluate(
    score: Score | HasLazyScores,
    split: Split,
    stage: str = "test",
    ks: tuple[int, ...] = (10,),
    truth: Truth | None = None,
    sampled: dict[str, np.ndarray] | None = None,
    users: np.ndarray | None = None,
) -> dict[str, dict[str, float]]:
    """HR@k, NDCG@k and MRR over all users with a target: {"full": {..}} and one more entry for each of `sampled`.

    `score` is a model, or a function of histories and user numbers: score(histories, users) returns (B, n_items + 1)
    scores, column 0 being padding. A model computes only the scores that ranks need (`LazyScores`). Under "full" the
    items of a user's history are no candidates, except the target. `stage` is "valid" or "test". truth(histories)
    returns P(next | history), shaped like the scores: with it, the full metrics are expectations under P. `sampled`
    maps a protocol to every evaluated user's candidates without the target: (users, 100), from `draw_candidates`.
    `users` (n_users,) are the model's numbers of the data's users, 0 for unknown ones; by default they are the data's.
    With all targets of a window, the metrics of the test stage are Recall@k and NDCG@k of several items.
    Raises NaNScoreError for a NaN score, ValueError for a model of other items, scores of another shape or type,
    another stage, ks that are not whole numbers from 1 on, and `truth` or `sampled` with all targets.
    """
    if stage not in ("valid", "test"):
        raise ValueError(f"stage is {stage!r}, expected valid or test")
    if not isinstance(ks, Sequence) or not ks or not all(isinstance(k, Integral) and k >= 1 for k in ks):
        raise ValueError(f"ks is {ks!r}, expected whole numbers of 1 or more, as (5, 10)")
    if split.targets == "all" and stage == "test":
        if truth is not None or sampled:
            raise ValueError("all targets of a window are ranked in full, without a truth: expected neither")
        return {"full": {name: float(np.mean(each)) for name, each in of_several(score, split, ks, users).items()}}
    ranked = target_ranks(score, split, stage, sampled, users) if truth is None or sampled else {}
    means = {name: metrics(rank, ks) for name, rank in ranked.items()}
    return means if truth is None else means | {"full": _expected(score, split, stage, ks, truth, users)}


def metrics_of_users(
    score: Score | HasLazyScores, split: Split, ks: tuple[int, ...] = (10,),
    sampled: dict[str, np.ndarray] | None = None, users: np.ndarray | None = None,
) -> dict[str, dict[str, np.ndarray]]:  # fmt: skip
    """The metrics of the test stage for each user: as `evaluate`, with arrays (evaluated users,) instead of means."""
    if split.targets == "all":
        return {"full": of_several(score, split, ks, users)}
    named = (("hr", hit_rate), ("ndcg", ndcg))
    return {
        protocol: {f"{name}@{k}": f(rank, k) for k in ks for name, f in named} | {"mrr": reciprocal_rank(rank)}
        for protocol, rank in target_ranks(score, split, "test", sampled, users).items()
    }


def target_ranks(
    score: Score | HasLazyScores, split: Split, stage: str = "test", sampled: dict[str, np.ndarray] | None = None,
    users: np.ndarray | None = None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """The rank of every evaluated user's target: {"full": (evaluated users,), and one more for each of `sampled`}.

    Arguments as in `evaluate`. Inside `tinyattn.ranks.mpi` processes share the users, and each returns all ranks.
    Raises NaNScoreError for a NaN score.
    """
    targets, everyone, candidates = getattr(split, stage), split.evaluated, sampled or {}

    def ranked(places: np.ndarray) -> dict[str, np.ndarray]:
        rows = everyone[places]
        histories = split.histories(rows, stage)
        scores = _lazily(score, split, histories, rows, users)
        among = {name: drawn[places] for name, drawn in candidates.items()}
        return _ranks(scores, targets[rows], _dropped(split, histories), among, split.data.n_items + 1)

    parts = job().map(ranked, parts_of(len(everyone), min(USERS_AT_ONCE, max(1, -(-len(everyone) // job().size)))))
    return {name: np.concatenate([part[name] for part in parts]) for name in ("full", *candidates)}


def of_several(
    score: Score | HasLazyScores, split: Split, ks: tuple[int, ...] = (10,), users: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """{"recall@10": .., "ndcg@10": ..} of all targets of the window, each of shape (evaluated users,).

    Arguments as in `evaluate`. Raises NaNScoreError for a NaN score.
    """
    everyone, (owner, items) = split.evaluated, split.relevant

    def measured(places: np.ndarray) -> np.ndarray:
        rows = everyone[places]
        histories = split.histories(rows, "test")
        scores = as_floats(_lazily(score, split, histories, rows, users).whole())
        mine = slice(*np.searchsorted(owner, [rows[0], rows[-1] + 1]))
        relevant = np.zeros(scores.shape, dtype=bool)
        relevant[np.searchsorted(rows, owner[mine]), items[mine]] = True
        _mask_seen(scores, _dropped(split, histories), relevant)
        return np.stack([f(scores, relevant, k) for k in ks for f in (recall, ndcg_of_several)])

    parts = parts_of(len(everyone), max(1, SCORES_AT_ONCE // (split.data.n_items + 1)))
    values = np.concatenate(list(job().map(measured, parts)), axis=1)
    return dict(zip([f"{name}@{k}" for k in ks for name in ("recall", "ndcg")], values, strict=True))


def _dropped(split: Split, histories: list[np.ndarray]) -> list[np.ndarray]:
    """The items of each history that are not ranked."""
    return histories if split.repeats == "drop" else [np.empty(0, dtype=np.int64)] * len(histories)


def _expected(
    score: Score | HasLazyScores, split: Split, stage: str, ks: tuple[int, ...], truth: Truth, users: np.ndarray | None
) -> dict[str, float]:
    """The full metrics as expectations under the truth, from the rank of every item."""
    targets, everyone = getattr(split, stage), split.evaluated

    def measured(places: np.ndarray) -> dict[str, float]:
        rows = everyone[places]
        histories = split.histories(rows, stage)
        scores = as_floats(_lazily(score, split, histories, rows, users).whole())
        is_target = np.arange(scores.shape[1]) == targets[rows][:, None]
        _mask_seen(scores, _dropped(split, histories), is_target)    # writes into `scores`, which is a copy
        return metrics(all_ranks(scores), ks, weight=truth(histories))

    parts = parts_of(len(everyone), max(1, SCORES_AT_ONCE // (split.data.n_items + 1)))
    totals: dict[str, float] = {}
    for places, means in zip(parts, job().map(measured, parts), strict=True):
        for name, value in means.items():
            totals[name] = totals.get(name, 0.0) + value * len(places) / len(everyone)
    return totals


def numbers_of(split: Split, users: np.ndarray | None) -> np.ndarray:
    """(n_users,): the model's numbers of the data's users."""
    return np.arange(1, split.data.n_users + 1) if users is None else users


def as_read(
    score: Score | HasLazyScores, split: Split, histories: list[np.ndarray], rows: np.ndarray
) -> list[Any]:
    """The histories of these users, with their times if `score` is a model, or a method of one, that reads times.

    Raises ValueError for a model that has learned other items: the numbers of histories would mean its items.
    """
    model = getattr(score, "__self__", score)
    if hasattr(model, "refuse_other_items"):
        model.refuse_other_items(split.data)
    if not getattr(model, "reads_times", False):
        return histories
    return [split.data.timed(u, len(h)) for u, h in zip(rows.tolist(), histories, strict=True)]


def parts_of(n: int, at_once: int) -> list[np.ndarray]:
    """The numbers 0 to n - 1 in parts of about equal size, at most `at_once` each."""
    return np.array_split(np.arange(n), -(-n // at_once))


def _lazily(
    score: Score | HasLazyScores, split: Split, histories: list[np.ndarray], rows: np.ndarray, users: np.ndarray | None
) -> LazyScores:
    numbers = numbers_of(split, users)[rows]
    histories = as_read(score, split, histories, rows)
    if callable(score):
        return WholeRows(score, histories, numbers, split.data.n_items)
    return score.lazy_scores(histories, numbers)


def _ranks(
    scores: LazyScores, target: np.ndarray, histories: list[np.ndarray], among: dict[str, np.ndarray], size: int
) -> dict[str, np.ndarray]:
    """{"full": the mean rank of each target among items outside its history, name: its mean rank among drawn items}."""
    rows = np.repeat(np.arange(len(histories)), [len(h) for h in histories])
    rows, items = np.divmod(distinct(rows * size + np.concatenate(histories)), size)
    other = items != target[rows]
    rows, items = rows[other], items[other]
    n_seen, everyone = len(rows), np.arange(len(target))
    pairs = [(np.repeat(everyone, drawn.shape[1]), drawn.reshape(-1)) for drawn in among.values()]
    rows, items = (np.concatenate(parts) for parts in zip((rows, items), *pairs, strict=True))
    counts = scores.counts(target, rows, items)
    rows, seen, drawn = rows[:n_seen], counts.values[:n_seen], counts.values[n_seen:]
    # subtract the history's items from the counts over all items
    out_of = np.bincount(rows, minlength=len(target))
    above = counts.above - np.bincount(rows[seen > counts.target[rows]], minlength=len(target))
    equal = counts.equal - 1 - np.bincount(rows[seen == counts.target[rows]], minlength=len(target))
    equal += np.where(counts.target == -np.inf, out_of + 1, 0)      # such a target ties with every non-candidate
    mean_ranks = {"full": 1 + above + equal / 2}
    for name, items in among.items():
        values, drawn = np.split(drawn, [items.size])
        together = np.concatenate([counts.target[:, None], values.reshape(items.shape)], axis=1)  # the target first
        mean_ranks[name] = ranks(together, np.zeros(len(target), dtype=np.int64))
    return mean_ranks


def full_ranking(
    score: Score | HasLazyScores, split: Split, stage: str = "test", ks: tuple[int, ...] = (10,),
    truth: Truth | None = None, users: np.ndarray | None = None,
) -> dict[str, float]:  # fmt: skip
    """HR@k, NDCG@k and MRR under full ranking: `evaluate(...)["full"]`."""
    return evaluate(score, split, stage, ks, truth, users=users)["full"]


def draw_candidates(split: Split, protocol: str, seed: int = 0, count: int = 100) -> np.ndarray:
    """The item numbers that each test target is ranked against, drawn by `seed`: (evaluated users, count).

    `protocol` is "uni100" or "pop100". Raises ValueError for others, and for a user with too few items to draw from.
    """
    if protocol not in PROTOCOLS[1:]:
        raise ValueError(f"protocol is {protocol!r}, expected one of {', '.join(PROTOCOLS[1:])}")
    rng = generator(seed, Stream.CANDIDATES, PROTOCOLS.index(protocol))
    users = split.evaluated
    seen = Seen(split.train if protocol == "uni100" else split.data)
    left = split.data.n_items - seen.counts[users]
    needed = 1 if protocol == "uni100" else count
    if np.min(left) < needed:
        name = split.data.users.ids[users[np.argmin(left)]]
        raise ValueError(f"{protocol}: user {name} has {np.min(left)} items left to draw from, {needed} are needed")
    if protocol == "uni100":
        return seen.draw_unseen(rng, np.repeat(users, count)).reshape(len(users), count)
    popularity = np.bincount(split.train.flat, minlength=split.data.n_items + 1)
    with np.errstate(divide="ignore"):
        weight = np.log(popularity)                          # -inf for items without training interactions
    weight[1:] = np.maximum(weight[1:], -1e6)                # these are drawn last
    drawn = np.empty((len(users), count), dtype=np.int64)
    for row, user in zip(drawn, users.tolist(), strict=True):
        # the `count` largest of log weight + Gumbel noise are a draw by weight without replacement
        noisy = weight + rng.gumbel(size=len(weight))
        noisy[split.data.sequence(user)] = -np.inf
        row[:] = np.argpartition(-noisy, count)[:count]
    return drawn


def candidates_for(split: Split, protocols: Sequence[str], folder: str | None = None) -> dict[str, np.ndarray]:
    """The candidates of each sampled protocol: read from `folder` if it has them, otherwise drawn, and saved there."""
    candidates = {}
    for protocol in protocols:
        if protocol == "full":
            continue
        path = Path(folder) / f"{protocol}.txt" if folder else None
        if path is not None and path.exists():
            candidates[protocol] = read_candidates(path, split)
        else:
            candidates[protocol] = draw_candidates(split, protocol)
            if path is not None:
                save_candidates(path, split, candidates[protocol])
    return candidates


def save_candidates(path: Path, split: Split, candidates: np.ndarray) -> None:
    """One line a user: the user, then candidates, in the data's ids. Raises ValueError for ids that it cannot hold."""
    for ids in (split.data.users.ids, split.data.items.ids):
        if (odd := next((i for i in ids.tolist() if _NO_WORD.search(str(i))), None)) is not None:
            raise ValueError(f"{path} cannot hold the id {odd!r}: expected ids without blanks, commas or a # in front")
    users = split.data.users.ids[split.evaluated].tolist()
    rows = split.data.items.decode(candidates).tolist()
    text = "".join(f"{user} {' '.join(map(str, row))}\n" for user, row in zip(users, rows, strict=True))
    write_atomically(path, text.encode())


def read_candidates(path: Path, split: Split) -> np.ndarray:
    """Read a file in the form of `save_candidates`. Raises ValueError for missing users or unknown items."""
    lists = read(path, format="sequences")
    known = {str(user): place for place, user in enumerate(lists.users.ids.tolist())}
    wanted = [str(user) for user in split.data.users.ids[split.evaluated].tolist()]
    if (missing := next((user for user in wanted if user not in known), None)) is not None:
        raise ValueError(f"{path} has no candidates for user {missing}")
    if len(set(lists.lengths.tolist())) != 1:
        raise ValueError(f"{path}: users have different numbers of candidates")
    try:
        numbers = split.data.items.numbers(lists.items.ids.tolist())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return np.array([numbers[lists.sequence(known[user]) - 1] for user in wanted])


def as_floats(scores: np.ndarray) -> np.ndarray:
    """A copy as floats, which can hold -inf: scores may be integers, as counts are."""
    return np.array(scores, np.result_type(scores, np.float32))


def _mask_seen(scores: np.ndarray, histories: list[np.ndarray], relevant: np.ndarray) -> None:
    """Set the scores of padding and of each user's history to -inf, except where `relevant` (B, V). In place."""
    rows, items = np.repeat(np.arange(len(histories)), [len(h) for h in histories]), np.concatenate(histories)
    others = ~relevant[rows, items]
    scores[rows[others], items[others]] = -np.inf
    scores[:, 0] = -np.inf
