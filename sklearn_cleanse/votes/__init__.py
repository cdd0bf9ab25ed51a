"""Who says what of a row: pure functions from other rows to votes for its candidates."""

from ._neighbors import candidate_shares, cosine_directions, hard_votes, nearest, soft_votes

__all__ = ["candidate_shares", "cosine_directions", "hard_votes", "nearest", "soft_votes"]
