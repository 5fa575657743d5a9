"""``sonde show``: one function as models read it, compared with plain forward passes."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from typer.testing import CliRunner

import sonde
from sonde.base.errors import InputError, UnknownNameError
from sonde.base.fingerprint import hash_text
from sonde.cli.commands import app
from sonde.models import find_training_file
from sonde.models.engine.model_names import bundled_folder
from tests.experiments.conftest import CODE
from tests.models.conftest import tiny_tokenizer
from tests.report.browser import needs_browser, opened

RUN = CliRunner()

AXE = Path(__file__).parents[1] / "report" / "axe" / "axe.min.js"

VIOLATIONS = """async () => {
  const found = await axe.run(document);
  return found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200))]);
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shown") / "shapes.py"
    path.write_text(CODE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def showing(file: Path) -> sonde.api.show.FunctionView:
    return sonde.show(file, ["sonde/mini-decoder", "sonde/mini-encoder"])


def test_surprisal_is_that_of_a_plain_forward(showing: sonde.api.show.FunctionView) -> None:
    folder = str(bundled_folder("sonde/mini-decoder"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = tokenizer(showing.text, add_special_tokens=False)["input_ids"]
    given = torch.tensor([[tokenizer.bos_token_id, *ids]])
    with torch.inference_mode():
        logs = model(input_ids=given).logits[0, :-1].log_softmax(-1)
    read = showing.reads[0]
    wanted = [-float(logs[place, one]) / math.log(2) for place, one in enumerate(ids)]
    assert read.tokens["bits"].to_list() == pytest.approx(wanted, abs=1e-4)
    assert read.tokens["rank"][5] == int((logs[5] > logs[5, ids[5]]).sum()) + 1
    assert read.bits_per_byte == pytest.approx(sum(wanted) / len(showing.text.encode()), abs=1e-5)


def test_arcs_are_those_of_eager_attention(showing: sonde.api.show.FunctionView) -> None:
    folder = str(bundled_folder("sonde/mini-decoder"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    coded = tokenizer(showing.text, add_special_tokens=False, return_offsets_mapping=True)
    given = torch.tensor([[tokenizer.bos_token_id, *coded["input_ids"]]])
    with torch.inference_mode():
        attentions = model.eval()(input_ids=given, output_attentions=True).attentions
    read = showing.reads[0]
    found = read.arcs.filter(read.arcs["found"]).to_dicts()
    assert found

    def pieces(begin: int, size: int) -> list[int]:
        inside = [
            place
            for place, (start, end) in enumerate(coded["offset_mapping"])
            if start < begin + size and end > begin and showing.text[start:end].strip()
        ]
        return [place + 1 for place in inside]

    for arc in found:
        weights = attentions[arc["layer"]][0, arc["head"]]
        asked = pieces(arc["asked"], len(arc["asked_text"]))
        picked = pieces(arc["picked"], len(arc["picked_text"]))
        paid = weights[asked].mean(0)[picked].sum()
        # No other word of one piece gets more.
        others = [one for one in range(1, asked[0]) if one not in picked]
        assert all(weights[asked].mean(0)[one] <= paid + 1e-5 for one in others)
        assert arc["picked"] == arc["expected"]


def test_a_masked_model_is_read_from_both_sides(showing: sonde.api.show.FunctionView) -> None:
    causal, masked = showing.reads
    assert (causal.objective, masked.objective) == ("causal", "pll")
    assert masked.tokens["bits"].is_finite().all()
    assert masked.relations["side"].unique().to_list() == ["encoder"]
    assert "".join(masked.tokens["text"].to_list()) == showing.text


def test_bits_of_nodes_add_up(showing: sonde.api.show.FunctionView) -> None:
    read = showing.reads[0]
    assert read.nodes["bits"][0] == pytest.approx(read.tokens["bits"].sum(), rel=1e-5)
    name = next(row for row in read.nodes.to_dicts() if row["kind"] == "identifier")
    inside = read.tokens.filter((read.tokens["end"] > name["start"]) & (read.tokens["start"] < name["end"]))
    assert showing.text[name["start"] : name["end"]] == "area"
    assert name["bits"] == pytest.approx(inside["bits"].sum(), rel=1e-5)


def test_a_function_is_chosen_by_name(file: Path) -> None:
    found = sonde.show(file, "sonde/mini-decoder", function="Shape.sides")
    assert (found.name, found.others, found.line) == ("Shape.sides", ("area",), 12)
    with pytest.raises(UnknownNameError, match=r"did you mean 'Shape\.sides'"):
        sonde.show(file, "sonde/mini-decoder", function="sides")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("broken.py", "def f(:\n    return 1\n", "does not parse"),
        ("notes.txt", "Some words \x1b[31m and no code.", "no syntactic relations are declared for text"),
        ("long.py", "def f():\n" + "    a = b\n" * 200, "attention is read between at most 400"),
    ],
)
def test_what_has_no_attention_says_why(tmp_path: Path, name: str, text: str, why: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    done = RUN.invoke(app, ["show", str(tmp_path / name), "-m", "sonde/mini-decoder"])
    assert done.exit_code == 0, done.output
    assert "No heads are shown: " in done.stdout and why in done.stdout
    assert "\x1b" not in done.stdout


def test_a_body_is_shown_without_surprisal(file: Path, tmp_path: Path) -> None:
    body = tmp_path / "body"
    held = bundled_folder("sonde/mini-encoder")
    assert held is not None
    shutil.copytree(held, body)
    AutoModel.from_pretrained(held).save_pretrained(body)
    shown = sonde.show(file, ["sonde/mini-encoder", str(body)])
    whole, bare = shown.reads
    assert (bare.bits_per_byte, bare.objective) == (None, "")
    assert bare.unscored == "this encoder has no masked-LM head"
    assert bare.tokens["rank"].sum() == 0 and bare.tokens["bits"].is_nan().all()
    assert bare.arcs.equals(whole.arcs) and not bare.without
    page = tmp_path / "page.html"
    text = RUN.invoke(app, ["show", str(file), "-m", str(body), "--tree", "-o", str(page)]).stdout
    assert "no bits per byte: this encoder has no masked-LM head" in text
    assert text.replace(str(file), "").count("bits") == 1 and "Relations, each with the head" in text
    assert "No bits are shown: this encoder has no masked-LM head." in page.read_text(encoding="utf-8")


def test_tied_embeddings_of_a_classifier_are_named(file: Path, tmp_path: Path) -> None:
    held = bundled_folder("sonde/mini-decoder")
    assert held is not None
    shutil.copytree(held, tmp_path / "classifier")
    path = tmp_path / "classifier" / "config.json"
    named = {"architectures": ["LlamaForSequenceClassification"]}
    path.write_text(json.dumps(json.loads(path.read_text()) | named))
    page = tmp_path / "page.html"
    text = RUN.invoke(app, ["show", str(file), "-m", str(path.parent), "-o", str(page)]).stdout
    said = "its tied input embeddings; its configuration names LlamaForSequenceClassification"
    assert f"Its head: {said}" in text and said in page.read_text(encoding="utf-8")


def test_what_is_refused_is_refused_before_a_model_is_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr("sonde.api.label.load_model", lambda name, **_: read.append(name))
    with pytest.raises(UnknownNameError):
        sonde.show(file, ["sonde/mini-decoder", "sonde/mini-decodr"])
    assert read == []


def test_attention_that_cannot_be_verified_leaves_the_rest(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "a layer's are 1 x 4 x 26 x 65 for 26 tokens, not by query and key"
    monkeypatch.setattr("sonde.capture.attention_backend.unreadable_reason", lambda _: reason)
    read = sonde.show(file, "sonde/mini-decoder").reads[0]
    assert read.without == reason and read.arcs.is_empty()
    assert read.tokens["bits"].is_finite().any()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_lines_however_they_end(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(end.join(["x = 1", "def f(a, b):", "    c = a", "    return b + c", ""]).encode())
    text = RUN.invoke(app, ["show", str(path), "-m", "sonde/mini-decoder", "--tree"]).stdout
    assert "(" + str(path) + ", line 2)" in text
    assert "def f(a, b):\n    c = a\n    return b + c\n" in text
    assert {int(line) for line in re.findall(r"line (\d+): ", text)} == {2, 3, 4}


def test_an_unreadable_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\x00\xff\x00")
    with pytest.raises(InputError, match="nothing to show"):
        sonde.show(tmp_path / "a.py", "sonde/mini-decoder")
    with pytest.raises(InputError, match="no such file"):
        sonde.show(tmp_path / "b.py", "sonde/mini-decoder")


def test_the_command_prints_the_same_as_text_and_as_data(file: Path) -> None:
    arguments = ["show", str(file), "-m", "sonde/mini-decoder", "--tree"]
    text = RUN.invoke(app, arguments).stdout
    assert "bits per byte, each subword from the text before it" in text
    assert "Least expected subwords:" in text and "chosen on this text, so not a finding" in text
    assert (
        "function_definition" in text and "Other functions of the file (--function NAME): Shape.sides" in text
    )
    data = json.loads(RUN.invoke(app, [*arguments, "--json"]).stdout)
    assert data["name"] == "area" and data["reads"][0]["tokens"][0]["text"] == "def"
    assert f"{data['reads'][0]['bits_per_byte']:.2f} bits per byte" in text


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder with random weights whose subwords are single bytes."""
    folder = tmp_path_factory.mktemp("models") / "bytewise"
    tokenizer = tiny_tokenizer(bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=512,
        bos_token_id=0,
        pad_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("is_base", [True, False])
def test_models_of_different_tokenizers_are_compared_by_code_token(
    file: Path, bytewise: Path, is_base: bool
) -> None:
    names = ["sonde/mini-decoder", str(bytewise)][:: 1 if is_base else -1]
    found = sonde.show(file, [*names, "sonde/mini-encoder"])
    text, rows = found.text, found.differences.to_dicts()
    # The encoder reads from both sides, so its bits are no others'.
    assert [(row["base"], row["model"]) for row in rows[:1]] == [tuple(names)]
    tokenizer = AutoTokenizer.from_pretrained(bytewise)
    ids = [0, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    assert len(ids) == len(text.encode()) + 1 and text.isascii()
    model = AutoModelForCausalLM.from_pretrained(bytewise, dtype=torch.float32).eval()
    with torch.inference_mode():
        logs = model(torch.tensor([ids])).logits[0, :-1].double().log_softmax(-1)
    bits = [-float(logs[place, one]) / math.log(2) for place, one in enumerate(ids[1:])]
    costs: dict[int, tuple[float, float]] = {}
    begin = 0
    bundled = found.reads[0 if is_base else 1]
    for unit in bundled.units.filter(pl.col("start") < pl.col("end")).to_dicts():
        if unit["part"] == "exact":
            # Of single bytes nothing goes on beyond the end of a code token.
            pair = (unit["nats"] / math.log(2), sum(bits[begin : unit["end"]]))
            costs[unit["start"]] = pair if is_base else pair[::-1]
        begin = unit["end"]
    for row in rows:
        assert row["text"] == text[row["start"] : row["end"]]
        assert (row["base_bits"], row["bits"]) == pytest.approx(costs[row["start"]], abs=1e-3)
        assert row["difference"] == pytest.approx(row["bits"] - row["base_bits"])
    differences = {start: other - base for start, (base, other) in costs.items()}
    worst = sorted((one for one in differences.values() if one > 0), reverse=True)[:2]
    best = sorted((one for one in differences.values() if one < 0), reverse=True)[-2:]
    assert [row["difference"] for row in rows] == pytest.approx([*worst, *best], abs=1e-3)


def test_the_command_prints_where_models_differ(file: Path, bytewise: Path) -> None:
    arguments = ["show", str(file), "-m", "sonde/mini-decoder", "-m", str(bytewise)]
    text = RUN.invoke(app, arguments).stdout
    data = json.loads(RUN.invoke(app, [*arguments, "--json"]).stdout)
    rows = data["differences"]
    _, _, said = text.partition(
        f"Code tokens at which {bytewise} and sonde/mini-decoder differ most, in bits:\n"
    )
    lines = said.splitlines()[: len(rows)]
    for row, line in zip(rows, lines, strict=True):
        # Long texts are cut.
        assert row["text"][:20] in line
        assert line.endswith(f" {row['bits']:.1f} and {row['base_bits']:.1f} ({row['difference']:+.1f})")
    alone = RUN.invoke(app, arguments[:4]).stdout
    assert "differ most" not in alone


HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.mark.slow
@needs_browser
def test_the_page_shows_where_models_differ(bytewise: Path, tmp_path: Path) -> None:
    file, page = tmp_path / "hostile.py", tmp_path / "page.html"
    file.write_text(f'def area(shape):\n    name = "{HOSTILE}"\n    return name\n', encoding="utf-8")
    arguments = ["show", str(file), "-m", "sonde/mini-decoder", "-m", str(bytewise)]
    rows = json.loads(RUN.invoke(app, [*arguments, "-o", str(page), "--json"]).stdout)["differences"]
    assert any(row["text"] == HOSTILE for row in rows)
    with opened(page.read_text(encoding="utf-8"), tmp_path) as shown:
        worst = shown.locator(".ex-worst")
        assert worst.inner_text() == ""
        shown.locator(".ex-beside").select_option(label=f"difference from {bytewise}")
        found = {
            line.locator("button").inner_text(): [
                float(cell) for cell in line.locator(".num").all_inner_texts()
            ]
            for line in worst.locator("tr:has(button)").all()
        }
        visible = {
            f"{row['text'][:24]}{'…' * (len(row['text']) > 24)}".replace(" ", "␣"): row for row in rows
        }
        assert found.keys() == visible.keys()
        for name, row in visible.items():
            # Here the bundled decoder is the one that the other is subtracted from.
            wanted = [row["base_bits"], row["bits"], -row["difference"]]
            assert found[name] == pytest.approx(wanted, abs=0.011)
        worst.locator("button").first.click()
        chosen = shown.locator(".ex-code .t.on").first.text_content() or ""
        assert chosen.strip()
        assert shown.evaluate("document.images.length") == 0
        # A number whose difference means nothing has no such list.
        shown.locator(".ex-colour").select_option(label="Rank")
        assert worst.inner_text() == ""


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_the_page_stands_in_a_browser(tmp_path: Path, width: int, dark: bool) -> None:
    file = tmp_path / "hostile.py"
    text = (
        f'def area(shape):\n    name = "{HOSTILE}"\n    if shape:\n        return length(shape.side) + name\n'
    )
    file.write_text(text, encoding="utf-8")
    page = tmp_path / "page.html"
    done = RUN.invoke(
        app, ["show", str(file), "-m", "sonde/mini-decoder", "-m", "sonde/mini-encoder", "-o", str(page)]
    )
    assert done.exit_code == 0 and f"page: {page}" in done.stdout
    with opened(page.read_text(encoding="utf-8"), tmp_path, width=width, dark=dark) as shown:
        assert shown.locator(".ex-code").text_content() == text.rstrip()
        shown.locator(".ex-beside").select_option(label="sonde/mini-encoder")
        codes = shown.locator(".ex-code")
        said = [codes.nth(one).text_content() or "" for one in range(2)]
        assert [one.partition("\n")[2] for one in said] == [text.rstrip()] * 2
        codes.first.locator(".t").nth(3).hover()
        told = shown.locator(".ex-detail").inner_text()
        assert "rank" in told and told.count(" bits") >= 2
        # One reads from the left and the other from both sides: their bits are not subtracted.
        shown.locator(".ex-beside").select_option(label="difference from sonde/mini-encoder")
        assert "No difference" in (shown.locator(".ex-title").nth(1).text_content() or "")
        shown.locator(".ex-colour").select_option(label="Attention: all relations")
        assert shown.locator(".ex-code .t.right, .ex-code .t.wrong").count() > 2
        shown.get_by_text("Arcs: on the right").first.click()
        assert shown.locator("svg path").first.is_visible()
        assert shown.evaluate("document.images.length") == 0
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        shown.add_script_tag(content=AXE.read_text(encoding="utf-8"))
        assert shown.evaluate(VIOLATIONS) == []


def test_a_model_that_was_trained_on_the_function_says_so(file: Path, tmp_path: Path, monkeypatch) -> None:
    said = "The model was trained on this function and may have memorised it."
    given = ["show", str(file), "-m", "sonde/mini-decoder"]
    assert said not in RUN.invoke(app, given).stdout
    monkeypatch.setattr("sonde.api.show.seen_items", lambda name, ids: frozenset(ids))
    page = tmp_path / "shown.html"
    assert said in RUN.invoke(app, [*given, "-o", str(page)]).stdout
    assert said in page.read_text(encoding="utf-8")
    assert json.loads(RUN.invoke(app, [*given, "--json"]).stdout)["reads"][0]["seen"] is True


def test_the_training_file_is_named_if_it_has_the_text_of_the_file_shown(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"distribution": "lib", "version": "1.2", "path": "lib/a.py", "hash": hash_text(file.read_text())}
    pl.DataFrame([{**row, "path": "lib/b.py", "hash": "0"}, row]).write_parquet(tmp_path / "manifest.parquet")
    assert find_training_file(str(tmp_path), "1") == find_training_file(str(file.parent), row["hash"]) == ""
    monkeypatch.setattr("sonde.api.show.seen_items", lambda name, ids: frozenset(ids))
    monkeypatch.setattr(
        "sonde.api.show.find_training_file", lambda _, text_hash: find_training_file(str(tmp_path), text_hash)
    )
    said = "The model was trained on this function (lib 1.2, lib/a.py) and may have memorised it."
    page = tmp_path / "shown.html"
    shown = RUN.invoke(app, ["show", str(file), "-m", "sonde/mini-decoder", "-o", str(page)])
    assert said in shown.stdout and said in page.read_text(encoding="utf-8")
