"""Faster forms: the same numbers as the readable ones, to rounding.

`tinyattn.forms` lists them and chooses; nothing imports this package by name. A faster form takes the
arguments of the readable one, and returns NotImplemented where it does not suit them. One that saves less than 5 % of a
step, an answer or an epoch is not worth its lines (docs/speed.md says what each saves).
"""

__all__: list[str] = []
