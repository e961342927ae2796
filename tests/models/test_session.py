"""A history that grows: what a session gives is what `recommend` gives for all of it."""

import itertools
import pickle

import numpy as np
import pytest

from tests.covering import covering
from tests.devices import DEVICES, MISSING
from tests.helpers import noisy
from tests.models.test_past import CANNOT
from tests.models.test_seams import OWN
from tinyattn import backend
from tinyattn.data import SeriesWorld, leave_one_out, pad
from tinyattn.layers import BLOCK_FORMS, MECHANISMS, MIXERS, POSITIONS, nbytes
from tinyattn.models import MF, GRU4Rec, Popularity, SASRec, SASRecNetwork
from tinyattn.tree import flatten, tree_map

SPLIT = leave_one_out(SeriesWorld(series=6, episodes=5, users=40, most_open=3, shortest=5, longest=9).generate())
ITEMS = SPLIT.data.items.ids[:14].tolist()
SMALL = {"maxlen": 10, "dim": 12, "dropout": 0.0, "epochs": 1, "seed": 1}
EVERY = [each for each in itertools.product(MECHANISMS, POSITIONS, BLOCK_FORMS, (False, True), (None, 0.1))
         if POSITIONS[each[1]].gives <= MECHANISMS[each[0]].takes]  # fmt: skip


def made(kind=SASRec, dtype=np.float64, **options):
    """As if it had learned: initial parameters, moved a little."""
    model, rng = kind(**SMALL | options), np.random.default_rng(3)
    model.items, model.users = SPLIT.data.items, SPLIT.data.users
    model.network = model.known_network()
    p = noisy(model.network.init(rng), rng, 0.2)
    model.parameters = flatten(p, dtype)[1]
    return model


def same(session, model, history, **how):
    ids, scores = session.best(5, **how)
    expected, values = model.recommend(history, 5, **how)
    assert ids.tolist() == expected.tolist()
    np.testing.assert_allclose(scores, values, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("mechanism", "position", "form", "scaled", "eps"),
                         [*covering(EVERY, 1), ("full", "rope", "pre", True, None)])  # fmt: skip
def test_item_by_item_it_is_what_recommend_gives_for_all(mechanism, position, form, scaled, eps):
    model = made(mechanism=mechanism, position=position, block_form=form, heads=2, emb_scale=scaled, last_eps=eps,
                 **OWN.get(mechanism, {}))  # fmt: skip
    session = model.session(ITEMS[:2])
    assert session.keeps == (not POSITIONS[position].at_tokens and mechanism not in CANNOT)
    for i in range(2, 13):                                       # beyond maxlen, too
        same(session, model, ITEMS[:i])
        session.add(ITEMS[i])
    assert not session.keeps


@pytest.mark.parametrize("mixer", [name for name, cls in MIXERS.items() if cls().extends and not cls.keeps_tokens])
def test_a_state_is_kept_of_a_recurrent_mixer_and_grows_no_further(mixer):
    for position in ("none", "learned"):                         # those count from the newest item: see below
        model, size = made(mixer=mixer, position=position), set()
        session = model.session(ITEMS[:2])
        for i in range(2, 13):                                   # beyond maxlen, too
            assert session.keeps == (position == "none" and i < 10)
            same(session, model, ITEMS[:i])
            size |= {nbytes(session.past)} if session.past else set()
            session.add(ITEMS[i])
        assert len(size) == (position == "none")


@pytest.mark.parametrize("model", [made(GRU4Rec, layers=2), made(position="none", user_embedding=True),
                                   Popularity().fit(SPLIT)], ids=["gru4rec", "users", "popularity"])  # fmt: skip
def test_every_recommender_has_sessions(model):
    for pieces in ([9], [1, 2, 6], [3] * 3, [1] * 9):
        session, at = model.session(), 0
        for n in pieces:
            session.add(*ITEMS[at : at + n])
            at += n
            same(session, model, ITEMS[:at])
        same(session, model, ITEMS[:9], exclude=ITEMS[9:11])
        same(session, model, ITEMS[:9], only=ITEMS, repeats=True)
    assert len(session) == 9


def test_what_is_read_once_is_read_once(monkeypatch):
    model = made(position="rope")
    read = []
    whole = type(model.network).extend
    monkeypatch.setattr(type(model.network), "extend", lambda *given: read.append(given[2].shape) or whole(*given))
    session = model.session(ITEMS[:4])
    for i in range(4, 9):
        session.best(3)
        session.best(2)
        session.add(ITEMS[i])
    session.best(3)
    session.add(ITEMS[9])                                        # the tenth: as many as maxlen
    session.best(3)
    assert session.past.length == 10
    assert read == [(1, 4)]                                      # the others one by one, which comes sooner
    assert nbytes(session.past) == 2 * 2 * 10 * 12 * 8           # keys and values, two blocks, ten items


def test_a_copy_goes_on_by_itself():
    model = made(position="none")
    one = model.session(ITEMS[:4])
    one.best(5)
    other = one.copy()
    one.add(ITEMS[5])
    other.add(ITEMS[6])
    for _ in range(2):
        same(one, model, [*ITEMS[:4], ITEMS[5]])
        same(other, model, [*ITEMS[:4], ITEMS[6]])
    same(other.add(ITEMS[7]), model, [*ITEMS[:4], ITEMS[6], ITEMS[7]])
    same(one.add(ITEMS[8]), model, [*ITEMS[:4], ITEMS[5], ITEMS[8]])


@pytest.mark.parametrize("position", ["learned", "rope"])
def test_a_session_can_be_pickled(position):
    model = made(position=position)
    session = model.session(ITEMS[:4])
    session.best(5)
    again = pickle.loads(pickle.dumps(session))
    for some in ([*ITEMS[:4]], [*ITEMS[:4], ITEMS[5]]):
        again.add(*some[len(again) :])
        same(again, model, some)
    assert (len(session), again.keeps) == (4, session.keeps)


def test_with_learned_positions_no_state_stays_as_it_was():
    """They count from the newest item. With distances, or none, the states of earlier items stay."""
    for position, stays in (("learned", False), ("sinusoidal", False), ("none", True), ("rope", True)):
        network = SASRecNetwork(n_items=9, maxlen=8, dim=12, position=position, dropout=0.0)
        p = network.init(np.random.default_rng(0))
        short, longer = pad([np.array([1, 2, 3])], 8), pad([np.array([1, 2, 3, 4])], 8)
        assert short.slots.tolist() == [[5, 6, 7]]
        assert longer.slots.tolist() == [[4, 5, 6, 7]]
        difference = np.abs(network.forward(p, longer)[0][:, :3] - network.forward(p, short)[0]).max(axis=-1)
        assert np.all(difference < 1e-12) if stays else np.all(difference > 1e-3)
        assert network.extends == stays


@pytest.mark.parametrize("where", [d for d in DEVICES if d != "cpu" and d not in MISSING])
def test_on_a_device(where):
    model = made(position="rope", dtype=np.float32)
    there = SASRec(**SMALL, position="rope", device=where)
    there.items, there.users, there.network = model.items, model.users, model.network
    there.parameters = tree_map(backend.module_for(where).asarray, model.parameters)
    session = there.session(ITEMS[:3])
    for i in range(3, 6):
        ids, scores = session.best(5)
        expected, values = model.recommend(ITEMS[:i], 5)
        assert ids.tolist() == expected.tolist()
        np.testing.assert_allclose(scores, values, rtol=0, atol=1e-5)
        session.add(ITEMS[i])


def test_a_session_of_a_user_alone_needs_no_item():
    model = MF(dim=4, epochs=1).fit(SPLIT, progress=False)
    for user in (SPLIT.data.users.ids[0], None):
        session, users = model.session(user=user), [user]
        for history in ([], ITEMS[:1]):
            ids, scores = session.best(3)
            expected = model.recommend([history], 3, users=users)
            assert (ids.tolist(), scores.tolist()) == (expected[0][0].tolist(), expected[1][0].tolist())
            session.add(ITEMS[0])


def test_what_cannot_be_is_refused():
    model = made(position="none")
    with pytest.raises(ValueError, match="a history is empty, and this model, which was imported"):
        model.session().best()
    session = model.session(ITEMS[:3])
    with pytest.raises(ValueError, match="unknown item id nothing: "):
        session.add(ITEMS[4], "nothing")
    assert len(session) == 3
    for k in (0, 1.5, None, True, "3", 10**30):
        with pytest.raises(ValueError, match=f"k is {k}, expected 1 to"):
            session.best(k)
    with pytest.raises(ValueError, match="only 27 items are left"):
        session.best(28)
    with pytest.raises(ValueError, match="unknown user id"):
        model.session(user="nobody at all")
    with pytest.raises(ValueError, match="has not learned anything yet: call fit first"):
        SASRec().session()
    model.parameters = made(position="none").parameters
    with pytest.raises(ValueError, match="the model has learned since this session began: begin another"):
        session.best(3)


def test_a_session_of_a_model_that_counts_notices_another_fit():
    model = Popularity().fit(SPLIT)
    session = model.session(ITEMS[:2])
    session.best(2)
    model.fit([[1, 2, 3], [4, 2, 1]])
    with pytest.raises(ValueError, match="the model has learned since this session began: begin another"):
        session.best(2)
