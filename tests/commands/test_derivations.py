"""`tinyattn derivation`: a gradient's derivation as text, as a page, and as an animation."""

from pathlib import Path
from typing import Any

import pytest

from tinyattn.cli import main
from tinyattn.show.views import derivation


def test_steps_are_printed_and_a_page_is_written(tmp_path: Path, capsys: Any) -> None:
    assert main(["derivation", "rule"]) == 0
    assert capsys.readouterr().out.startswith("1. ⟨A, B C⟩\n")
    page = tmp_path / "product.html"
    assert main(["derivation", "--seed", "2", "--html", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert page.read_text(encoding="utf-8") == derivation("product", seed=2).html()


@pytest.mark.slow(seconds=1)
def test_an_animation_is_written(tmp_path: Path, monkeypatch: Any, with_pictures: None) -> None:
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr("tinyattn.show.moving.MOVES", 1)
    film = tmp_path / "rule.gif"
    assert main(["derivation", "rule", "--gif", str(film), "--dark"]) == 0
    with image.open(film) as found:
        assert (found.n_frames, found.width) == (7, 840)
        assert found.convert("RGB").getpixel((2, 2)) == (22, 24, 28)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["flash", "--html", "FILE"], "there is no derivation 'flash', expected one of rule, product, softmax"),
        (["--gif", "FILE"], "expected a name that ends in .gif"),
        (["--html", "FILE", "--dark"], "--dark is for an animation"),
    ],
)
def test_refusals(words: list[str], says: str, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "page.html"
    assert main(["derivation", *(str(page) if word == "FILE" else word for word in words)]) == 2
    assert says in capsys.readouterr().err
    assert not page.exists()
