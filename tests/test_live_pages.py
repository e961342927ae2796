"""website/pages.py: the live pages of the site are those that the code makes now, and what is stale is named."""

import pytest

from website import pages


def test_committed_pages_are_as_made():
    assert pages.stale() == [], "run python website/pages.py"


def test_what_is_stale_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pages, "STATIC", tmp_path)
    monkeypatch.setattr(pages, "PAGES", {"bench.html": pages.PAGES["bench.html"]})
    assert pages.main(["--check"]) == 1
    assert capsys.readouterr().out == "bench.html has not been made\n"
    assert pages.main([]) == 0
    capsys.readouterr()
    assert pages.main(["--check"]) == 0
    assert capsys.readouterr().out == "1 pages are as made\n"
    path = tmp_path / "bench.html"
    path.write_text(path.read_text().replace('"scale":0.5', '"scale":0.6'))
    (tmp_path / "other.html").write_text("")
    assert pages.stale() == ["bench.html is stale: data.scale: 0.5, not 0.6", "other.html is made by nothing"]


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_live_page_is_below_a_quarter_of_a_megabyte(name):
    assert (pages.STATIC / name).stat().st_size < 250_000
