"""Who says what of a row: pure functions from other rows to votes for its candidates."""

from ._neighbors import cosine_directions, hard_votes, nearest, restrict, soft_votes

__all__ = ["cosine_directions", "hard_votes", "nearest", "restrict", "soft_votes"]
