"""Slides: what a lecturer shows of a chapter, in one file that fetches nothing."""

import base64
import re

import nbformat
import pytest

from tests.show.browser import emulated, refuse_complaints, screen
from tests.show.conftest import chromium  # noqa: F401  (a fixture)
from tinyattn.cli import main
from tinyattn.course import slides
from tinyattn.course.chapters import chapters
from tinyattn.course.slides import page, write_slides

BACKWARD = chapters([4])[0]


@pytest.fixture(scope="module")
def shown():
    """Chapter 04's slides, of the notebook as committed."""
    return page(BACKWARD.title, nbformat.read(BACKWARD.path.with_suffix(".ipynb"), 4))


def sections(text):
    return re.findall(r"(?s)<section>(.*?)</section>", re.sub(r"(?s)srcdoc='.*?'", "", text))


def test_a_heading_is_a_slide_with_its_formulas_pictures_and_results(shown):
    made = sections(shown)
    headings = [re.sub("<[^>]+>", "", re.match(r"<h\d>(.*?)</h\d>", one)[1]) for one in made]
    assert headings[0] == "04 · Attention backwards"
    assert headings.count("What saturation does to the gradient") == 3        # the question, a table, a picture
    assert [one.count("<img alt=") for one in made if "Map" in one or "The map" in one] == [1]
    assert shown.count("srcdoc=") == 4
    assert "<math" in shown
    assert "$" not in re.sub("(?s)<pre>.*?</pre>", "", "".join(made)).replace("$/code", "")


def test_long_prose_and_long_code_are_in_the_notes(shown):
    first = next(one for one in sections(shown) if "Where does this number come from" in one)
    on_slide, notes = first.split("<aside>")[0], first.split("<aside>")[1]
    assert on_slide.endswith("with the gradient.</p>")
    assert "the numbers that it is made of light up" not in on_slide
    assert "By the end of the chapter you can derive every line" in notes
    assert "def loss_from" in shown
    assert "def loss_from" not in re.sub(r"(?s)<aside>.*?</aside>", "", shown)
    assert "They add up to 100 %" in shown
    assert "They add up to 100 %" not in re.sub(r"(?s)<aside>.*?</aside>", "", shown)


def test_no_solution_and_no_address_but_those_of_links_is_in_it(shown):
    assert "raise NotImplementedError" in shown
    assert "c * ds.swapaxes(-1, -2) @ q\n    return dq, dk, dv\n    ###" not in shown
    assert "p * (dp - (p * dp).sum(axis=-1, keepdims=True))" not in shown
    assert "not answered yet" not in shown
    assert set(re.findall(r'\b(?:src|srcset|data)="(?!data:)([^"]*)"|<link\b|@import|url\((?!data:)', shown)) == set()


def small(*sources):
    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    return nbformat.v4.new_notebook(cells=[(text if one.startswith("#") else code)(one) for one in sources])


def test_an_exercise_ends_at_its_check_and_notes_without_a_slide_go_to_the_next():
    long = "x=1\n" * 30
    text = page("", small("# One\nA.", "## Two", long, "# Here\nB.", 'check("x", x)', "#### Four\nC.", "# Empty"))
    assert [re.sub(r"\s+", "", one) for one in sections(text)] == [
        "<h1>One</h1><p>A.</p>",
        f"<h1>Here</h1><p>B.</p><aside><pre><code>{30 * 'x=1'}</code></pre></aside>",
        "<h4>Four</h4><p>C.</p>",
    ]
    with pytest.raises(ValueError, match=r"the formula '\\\\nonsense'"):
        page("", small("# One\n$\\nonsense$"))


def test_refusals_leave_what_is_there(tmp_path, capsys, monkeypatch):
    theirs = tmp_path / "00_first_look.html"
    theirs.write_text("theirs")
    monkeypatch.chdir(tmp_path)
    assert main(["course", "slides", "0"]) == 2
    assert "00_first_look.html exists and is not a file of slides" in capsys.readouterr().err
    assert main(["course", "slides", "77"]) == 2
    assert "there is no chapter 77" in capsys.readouterr().err
    with pytest.raises(ValueError, match="not a file of slides"):
        write_slides(BACKWARD, tmp_path)
    assert theirs.read_text() == "theirs"

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(slides, "execute", lambda made: made)
    path = write_slides(BACKWARD, tmp_path / "new.html")
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_slides(BACKWARD, path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["00_first_look.html", "new.html"]


def spilling(driver, text, path):
    """Open slides. -> (pixels too high, pixels too wide, letters) of each."""
    path.write_text(text)
    driver.get(path.as_uri())
    return driver.execute_script(
        "return [...document.querySelectorAll('section')].map((s) => [s.scrollHeight - s.clientHeight, "
        "s.scrollWidth - s.clientWidth, s.textContent.trim().length])"
    )


@pytest.mark.slow(seconds=20)
def test_nothing_spills_over_keys_turn_and_notes_open(shown, tmp_path, chromium, with_pictures):  # noqa: F811
    from selenium.webdriver.common.keys import Keys

    wide = chapters([19])[0]                             # its formulas are
    with screen(chromium, 1280, 720):
        for text in (page("", nbformat.read(wide.path.with_suffix(".ipynb"), 4)), shown):
            sizes = spilling(chromium, text, tmp_path / "slides.html")
            assert max(max(size[:2]) for size in sizes) <= 1
            assert min(size[2] for size in sizes) > 0
        body = chromium.find_element("tag name", "body")
        for key in (Keys.ARROW_RIGHT, Keys.PAGE_DOWN, Keys.ARROW_LEFT):
            body.send_keys(key)
        assert chromium.find_element("css selector", "nav span").text == f"2 of {len(sizes)}"
        home = chromium.current_window_handle
        body.send_keys("n")
        [other] = set(chromium.window_handles) - {home}
        chromium.switch_to.window(other)
        assert "numbers that it is made of light up" in chromium.find_element("tag name", "body").text
        chromium.close()
        chromium.switch_to.window(home)
        refuse_complaints(chromium)
        emulated(chromium, "light", "print")
        pdf = chromium.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})["data"]
        assert base64.b64decode(pdf).count(b"/Type /Page\n") == len(sizes)
