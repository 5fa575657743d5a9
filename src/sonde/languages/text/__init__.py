"""Plain text: words, numbers and punctuation, without a grammar."""

from sonde.languages.text.rules import PlainText

language = PlainText(__name__)
