"""The site: every name has an entry, every link leads somewhere, and nothing is fetched by who reads."""

import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

from tinyattn import layers, models, ops
from tinyattn.cli import parser
from tinyattn.options import option

ROOT = Path(__file__).parent.parent
FRONT = (ROOT / "website/index.md").read_text()
PACKAGES = [f"tinyattn.{path.parent.name}" for path in sorted(ROOT.glob("tinyattn/*/__init__.py"))]
PACKAGES.remove("tinyattn.commands")  # for the command line alone
ALIASES = {"data.Truth", "experiments.Results"}  # other names of types
NAMES = [f"{package}.{name}" for package in PACKAGES for name in importlib.import_module(package).__all__]


def commands(text):
    """The commands between backticks, each a list of words; what && joins is taken apart."""
    joined = [code for code in re.findall(r"`([^`\n]+)`", text) if re.match(r"(pip|tinyattn) ", code)]
    return [shlex.split(part) for code in joined for part in code.split("&&")]


def test_the_front_pages_commands_are_real():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = commands(FRONT)
    assert {tuple(words[:2]) for words in found} >= {("tinyattn", c) for c in ("course", "check", "train")}
    for words in found:
        if words[0] == "tinyattn":
            parser(words[1:]).parse_args(words[1:])
        else:
            assert words[:3] == ["pip", "install", "-e"]
            assert re.fullmatch(rf"\.(\[({'|'.join(extras)})\])?", words[3]), words


def test_every_op_shows_forward_and_backward_beside_each_other():
    """Set by hand on the page, or from its docstrings, which then begin with the equation and nothing else."""
    pytest.importorskip("sphinx")
    from website.extensions.ops_page import aligned
    from website.extensions.ops_page import sections as generated

    page, sections = "", []
    for path in ROOT.glob("website/api/ops_*.md"):
        text = path.read_text()
        page += text
        sections += re.split(r"^## ", text + generated(text, path.stem.removeprefix("ops_")), flags=re.M)
    both_ways = [name for name in ops.__all__ if f"{name}_backward" in ops.__all__]
    assert len(both_ways) > 10
    for name in both_ways:
        docs = [getattr(ops, each).__doc__ or "" for each in (name, f"{name}_backward")]
        assert f":: {name}\n" in page or all(map(aligned, docs)), (
            f"{name}: the first sentence of both docstrings must be equations alone, without backticks or words; "
            "or set it by hand on its page, website/api/ops_*.md"
        )
        [section] = [s for s in sections if f"autofunction:: {name}\n.. autofunction:: {name}_backward\n" in s]
        halves = section.split("{container} pair")[1].split("{container} half")[1:]
        assert len(halves) == 2, name
        assert all("$$" in half for half in halves), name


@pytest.mark.parametrize("folder", ["mechanisms", "mixers", "positions", "refinements"])
def test_every_part_of_a_block_is_on_the_page_of_layers(folder):
    """By being in `__all__` of its folder; what the page leaves out of the folder stands there by another name."""
    page = (ROOT / "website/api/layers.md").read_text()
    [excluded] = re.findall(rf"automodule:: tinyattn\.layers\.{folder}\n   :exclude-members: (.*)", page)
    module = importlib.import_module(f"tinyattn.layers.{folder}")
    assert {entry.__name__ for entry in getattr(layers, folder.upper()).values()} <= set(module.__all__)
    assert set(excluded.split(", ")) <= set(layers.__all__)


def test_every_model_is_on_the_page_of_models():
    """Which has what `__all__` names."""
    assert {model.__name__ for model in models.MODELS.values()} <= set(models.__all__)


def test_a_section_is_set_from_docstrings():
    pytest.importorskip("sphinx")
    from website.extensions.ops_page import aligned, sections

    page = (ROOT / "website/api/ops_maps.md").read_text()
    made = sections(page, "maps")
    assert made.startswith("## ")
    assert "## Batch normalisation\n" in made
    assert "\n## Root-mean-square normalisation\n" in made
    assert "::: linear" not in made
    assert sections(page + made, "maps") == ""
    assert aligned("y = x_hat ⊙ γ, with x_hat = x / √(mean(x²) + eps). And so on.\n\nMore.") == (
        r"\begin{aligned} y &= \hat x \odot  \gamma  \\ \hat x &= x / \sqrt{\operatorname{mean}(x^2) + \varepsilon } "
        r"\end{aligned}"
    )
    assert aligned("dW = xᵀ dy over tokens.") == (
        r"\begin{aligned} dW &= x^\top  dy \quad \text{over tokens} \end{aligned}"
    )
    for prose in ("The map of every token.", "y = x, the same for every token.", "c = `scale` or 1."):
        assert aligned(prose) == ""


def test_every_op_is_on_a_page_and_where_all_of_them_stood_is_a_link_to_it():
    pytest.importorskip("sphinx")
    from website.extensions.ops_page import family, index

    assert {f"ops_{family(getattr(ops, name).__module__)}" for name in ops.__all__} == {
        path.stem for path in ROOT.glob("website/api/ops_*.md")
    }
    for name in ops.__all__:
        assert re.search(rf'id="tinyattn.ops.{name}" href="ops_\w+.html#tinyattn.ops.{name}"', index()), name
    assert family("tinyattn.ops.positions.rotary") == "positions"
    assert family("tinyattn.random") == "maps"


def test_what_the_errata_name_is_where_they_say():
    rows = [line for line in (ROOT / "docs/errata.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 5
    for row in rows:
        shown_by = row.split(" | ")[2]
        files = re.findall(r"\]\(([^)#]+)", shown_by)
        assert files, row
        text = "".join((ROOT / "docs" / file).read_text() for file in files)
        for name in re.findall(r"`([^`]+)`", shown_by):
            assert re.search(rf"(def |\"|^ *){re.escape(name)}\b", text, re.MULTILINE), name


def test_arrays_have_no_annotation_on_the_page():
    """They are annotated as Any; what else is annotated stays."""
    from website.extensions.docstrings import without_any

    given = "(q: ~typing.Any, mask: ~typing.Any | None = None, rate: float = 0.0, p: dict[str, ~typing.Any] = {})"
    shown = "(q, mask=None, rate: float = 0.0, p: dict[str, ~typing.Any] = {})"
    assert without_any(None, "", "", None, None, given, "tuple[~typing.Any, ~typing.Any | None]") == (shown, None)
    assert without_any(None, "", "", None, None, None, "Rows | ~typing.Any") == (None, "Rows | ~typing.Any")


def test_docstrings_become_markup():
    pytest.importorskip("sphinx")
    from website.extensions.docstrings import as_rst

    docstring = """y = x_hat * γ, for `x` and `x + 1`. Shapes: x (..., d) -> y (..., d). It is |x|.

        f(x)      an example

    Raises ValueError for a rate outside
    [0, 1), TypeError for dtypes. Nothing else.
    """
    assert as_rst(docstring.replace("\n    ", "\n")) == [
        r"\ y = x\_hat \* γ, for \ :py:obj:`x`\  and \ ``x + 1``\ . It is \|x\|.",
        "",
        r":Shapes: x (..., d) → y (..., d)",
        "",
        ".. code-block:: text",
        "",
        "    f(x)      an example",
        "",
        r"\ Nothing else.",
        "",
        ":Raises: ValueError for a rate outside [0, 1), TypeError for dtypes",
        "",
    ]


def test_options_are_listed_as_they_are_declared():
    pytest.importorskip("sphinx")
    from website.extensions.docstrings import options_table, rewrite

    @dataclass
    class Shape:
        """A shape."""

        sides: int = option(4, "how many there are", at_least=3)
        colour: str = option("red", "of the *paint*", choices=["red", "blue"])
        width: float | None = option(None, "(default: as needed)", above=0, below=1)

    rows = [
        ("``sides``", "int, at least 3", "``4``", "how many there are"),
        ("``colour``", "one of ``'red'``, ``'blue'``", "``'red'``", r"of the \*paint\*"),
        ("``width``", "float, above 0, below 1, or None", "``None``", "(default: as needed)"),
    ]
    for row in rows:
        assert "\n     - ".join(row) in "\n".join(options_table(Shape))
    lines = ["A shape.", ""]
    rewrite(None, "class", "Shape", Shape, None, lines)
    assert lines == [r"\ A shape.", "", *options_table(Shape)]
    assert options_table(dataclass(type("Plain", (), {}))) == []


def test_a_table_is_shown_by_its_keys():
    pytest.importorskip("sphinx")
    from website.extensions.docstrings import rewrite

    for table, shown in (({"full": 1, "window": 2}, "``'full'``, ``'window'``"), ({(int, str): 1}, "``(int, str)``")):
        lines = []
        rewrite(None, "data", "TABLE", table, None, lines)
        assert lines == [shown, ""]


def test_a_picture_of_a_view_is_the_view(tmp_path, monkeypatch):
    pytest.importorskip("sphinx")
    from docutils import nodes
    from docutils.utils import new_document

    from website.extensions import live

    assert all(path.exists() for path in live.PICTURES)
    page = new_document("views")
    page += [nodes.image("", uri=f"../figures/{name}.png", alt='"both"') for name in ("view-mirror", "attention")]
    builder = SimpleNamespace(format="html")
    app = SimpleNamespace(env=SimpleNamespace(docname="docs/views"), builder=builder, outdir=tmp_path)
    live.enliven(app, page)
    frame, picture = page.children
    assert 'src="../_static/mirror.html"' in frame.astext()
    assert 'title="&quot;both&quot;"' in frame.astext()
    assert isinstance(picture, nodes.image)
    monkeypatch.setattr(live, "PAGES", {"mirror": live.PAGES["mirror"]})
    app.builder.format = "latex"
    live.write_pages(app)
    assert not list(tmp_path.rglob("*.html"))
    app.builder.format = "html"
    live.write_pages(app)
    assert "<title>" in (tmp_path / "_static" / "mirror.html").read_text(encoding="utf-8")


def test_a_picture_with_links_is_a_part_of_its_page():
    """Its chapters are links to pages of the site, one tab stop each; an ordinary picture stays a picture."""
    pytest.importorskip("sphinx")
    from website.extensions.pictures import LINK, inline

    drawing = (ROOT / "figures/00-map.svg").read_text()
    builder = SimpleNamespace(get_relative_uri=lambda page, other: f"to/{other}.html")
    made = inline(drawing, 'all "chapters"', SimpleNamespace(builder=builder, env=SimpleNamespace(docname="docs/a")))
    assert made.startswith('<svg class="inline" role="group" aria-label="all &quot;chapters&quot;" ')
    links = re.findall(r"<a href=\"([^\"]+)\"(.*?)>(.*?)</a>", made, re.S)
    stops = [(to, inside) for to, hidden, inside in links if not hidden]
    chapters = [path.stem for path in sorted(ROOT.glob("notebooks/[0-9]*.py"))]
    assert [to for to, _ in stops] == [f"to/notebooks/{name}.html" for name in chapters]
    assert all(re.search(r">[^<]*[a-z√][^<]*</(text|tspan)>", inside) for _, inside in stops)     # its name, to be read
    assert all(hidden == " tabindex=-1 aria-hidden=true" for _, hidden, _ in links if hidden)
    assert "body[data-theme=dark] {" in made
    assert "<title>" not in made
    assert not LINK.search((ROOT / "figures/01-weights.svg").read_text())


def build(source, to):
    """Warnings are errors, and the first ones are shown."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", source / "website", source, to]
    return subprocess.run(command, capture_output=True, text=True)


class Links(HTMLParser):
    """What a page refers to, what it can be referred to by, what it loads, and its text outside of code."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.loads, self.text, self.inside = set(), set(), set(), [], []
        self.alts = {}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[key] for key in ("id", "name") if attrs.get(key)}
        if tag == "a" and attrs.get("href"):
            self.links.add(attrs["href"])
        elif attrs.get("src") or (tag == "link" and attrs.get("href")):
            self.loads.add(attrs.get("src") or attrs["href"])
        if tag == "img":
            self.alts[attrs["src"]] = attrs.get("alt", "")
        if tag in {"code", "pre", "script", "style"}:
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data):
        if not self.inside:
            self.text.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The one that .ci/run has just built, or one of our own: each process of pytest would build another."""
    pytest.importorskip("sphinx")
    if "SITE" in os.environ:
        return Path(os.environ["SITE"]).resolve()
    to = tmp_path_factory.mktemp("site")
    done = build(ROOT, to)
    assert done.returncode == 0, done.stderr
    return to


@pytest.fixture(scope="module")
def pages(site):
    return {path: Links(path) for path in site.rglob("*.html")}


@pytest.mark.slow
def test_every_public_name_has_an_entry(site):
    ids = "\n".join(page.read_text() for page in (site / "website/api").glob("*.html"))
    missing = [name for name in NAMES if f'id="{name}"' not in ids and f'id="module-{name}"' not in ids]
    assert missing == []
    assert len(NAMES) > 100


@pytest.mark.slow
def test_every_entry_leads_to_the_line_it_begins_in(site):
    """Past what decorates it."""
    entry = re.compile(r'id="tinyattn\.([\w.]+)">(.*?)</dt>', re.S)
    led = 0
    for page in (site / "website/api").glob("*.html"):
        for name, signature in entry.findall(page.read_text()):
            link = re.search(r'href="[./]*source/(tinyattn/[^"#]+)\.html#line-(\d+)"', signature)
            if link is None:  # a table, a number, the values of an enumeration
                assert name.rpartition(".")[2].isupper() or name in ALIASES, name
                continue
            lines = (ROOT / link[1]).read_text().splitlines()[int(link[2]) - 1 :]
            first = next(line for line in lines if not line.lstrip().startswith("@"))
            assert re.match(rf"\s*(def|class) {name.rpartition('.')[2]}\b", first), f"{name}: {first}"
            led += 1
    assert led > 100


@pytest.mark.slow
def test_every_page_of_the_repository_is_a_page_that_the_front_leads_to(site, pages):
    wanted = [*ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/results/*.md"), *ROOT.glob("notebooks/[0-9]*.ipynb")]
    wanted += [ROOT / "notebooks/README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("website/api/*.md")]
    front = site / "website/index.html"
    reached = {(front.parent / urlsplit(link).path).resolve() for link in pages[front].links if link[0] != "#"}
    for path in wanted:
        assert site / path.relative_to(ROOT).with_suffix(".html") in reached, path


@pytest.mark.slow
def test_the_errata_have_the_table_of_every_chapter_that_ends_in_one(site, pages):
    shown = pages[site / "docs/errata.html"]
    for source in ROOT.glob("notebooks/[0-9]*.py"):
        text = source.read_text()
        title = re.search(r"^# # (.+)$", text, re.M)[1]
        section = re.sub(r"^[^a-z]+|-$", "", re.sub("[^a-z0-9]+", "-", title.lower()))  # as docutils makes its id
        assert (section in shown.ids) is ("| what is often said" in text), source
    assert "divide by the root of the model's width" in "".join(shown.text)  # a row of chapter 02


@pytest.mark.slow
def test_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(pages):
    for path, page in pages.items():
        for target in page.loads | page.links:
            parts = urlsplit(target)
            if parts.scheme in {"http", "https"}:
                assert target in page.links - page.loads, f"{path} loads {target}"
                continue
            if parts.scheme == "data":
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert there.exists(), f"{path} refers to {target}"
            if parts.fragment and there in pages:
                assert unquote(parts.fragment) in pages[there].ids, f"{path} refers to {target}"


@pytest.mark.slow
def test_views_are_live_and_small(site, pages):
    frames = {src for src in pages[site / "docs/views.html"].loads if "_static/" in src and src.endswith(".html")}
    assert frames == {f"../_static/{name}.html" for name in ("player", "visualiser", "mirror", "derivation")}
    assert "../_static/mirror.html" in pages[site / "website/index.html"].loads
    assert all((site / "docs" / src).stat().st_size < 250_000 for src in frames)


@pytest.mark.slow
def test_formulas_are_drawn_and_no_markup_is_left_over(pages):
    text = {path: "".join(page.text) for path, page in pages.items()}
    for path, said in text.items():
        if "source" not in path.parts and "Shapes" not in said:
            assert "$$" not in said, path
            assert "\\frac" not in said, path
    assert sum(p.read_text().count("<math") for p in pages if p.match("website/api/ops_*.html")) > 40
    assert ":py:obj:" not in "".join(text.values())


@pytest.mark.slow
def test_every_picture_says_what_there_is_to_see(pages):
    """In words: Sphinx writes the file's name where nobody has said anything."""
    said = {(path, src): alt for path, page in pages.items() for src, alt in page.alts.items() if "_images" in src}
    assert len(said) > 20
    for where, alt in said.items():
        assert len(alt.split()) > 2, where


@pytest.mark.slow
def test_an_unknown_command_in_a_formula_ends_the_build(tmp_path):
    pytest.importorskip("sphinx")
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'website/extensions')!r})\n"
        'extensions = ["myst_nb", "formulas"]\nmyst_enable_extensions = ["dollarmath"]\n'
        'html_math_renderer = "mathml"\n'
    )
    (tmp_path / "index.md").write_text("# Wrong\n\n$\\sofmtax(x)$\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", tmp_path, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "sofmtax" in done.stderr
    assert "index.md:3" in done.stderr
