"""Markup in which no text can be markup."""

from __future__ import annotations

from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.views.markup import element, joined, raw_style


class _Found(HTMLParser):
    """The elements and the text of a piece of markup."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.words += data


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\0")))
def test_text_and_attributes_come_out_as_they_went_in(text: str) -> None:
    """Whatever somebody writes: one element, one attribute, one text."""
    found = _Found(element("p", text, title=text).text)
    assert found.elements == [("p", [("title", text)])]
    assert unescape(found.words) == unescape(text)


def test_elements_are_put_into_elements_and_text_is_escaped() -> None:
    """Only what `element` made is markup."""
    made = element("p", "a<b", element("code", "x & y"), class_="note", hidden=True, id=None)
    assert made.text == '<p class="note" hidden>a&lt;b<code>x &amp; y</code></p>'
    assert joined("<", made).text.startswith("&lt;<p")


def test_coordinates_have_no_digits_that_nobody_sees() -> None:
    """A picture of a thousand bars is sent by mail."""
    assert (
        element("rect", x=10.04, width=3, stroke_width=0.5).text
        == '<rect x="10" width="3" stroke-width="0.5"></rect>'
    )


@pytest.mark.parametrize("name", ["style", "a b", "", "p>"])
def test_no_element_is_made_that_could_end_another(name: str) -> None:
    """Names are ours alone; a style sheet has a door of its own."""
    with pytest.raises(ValueError, match="is not an element"):
        element(name)


def test_an_attribute_has_a_name_and_a_style_sheet_no_angle() -> None:
    """What would break out is a fault of ours, and told at once."""
    with pytest.raises(ValueError, match="is not an attribute"):
        element("p", **{"on click": "x"})
    with pytest.raises(ValueError, match="has no"):
        raw_style("</style>")
