"""A game of Hanabi as presets and options describe it: how many cards, moves and bits there are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """A game as presets and options say."""

    players: int
    colors: int
    ranks: int
    hand_size: int
    max_information_tokens: int
    max_life_tokens: int
    observation_type: str

    @property
    def copies(self) -> list[int]:
        """Cards of each rank that there are of each colour."""
        return [3 if rank == 0 else 1 if rank == self.ranks - 1 else 2 for rank in range(self.ranks)]

    @property
    def kinds(self) -> int:
        return self.colors * self.ranks

    @property
    def cards(self) -> int:
        """Of the deck."""
        return self.colors * sum(self.copies)

    def check(self) -> None:
        """Raise ValueError unless the deck has a hand for each player."""
        hands, most = self.hand_size * self.players, self.cards // self.players
        if hands > self.cards:
            wanted = f"hand_size must be at most {most}" if most else "hand_size would have to be 0"
            raise ValueError(
                f"{wanted}, got {self.hand_size}: {self.players} players would hold {hands} cards, but {self.colors} "
                f"colours of {self.ranks} ranks have {self.cards}"
            )

    @property
    def moves(self) -> int:
        """Uids, without the no-op."""
        return 2 * self.hand_size + (self.players - 1) * (self.colors + self.ranks)

    @property
    def bits(self) -> int:
        """Of the encoding."""
        players, hand, kinds, features = self.players, self.hand_size, self.kinds, self.colors + self.ranks
        last_move = 2 * players + 4 + features + 2 * hand + kinds + 2
        table = kinds + self.max_information_tokens + self.max_life_tokens + self.cards
        knowledge = players * hand * (kinds + features) if self.observation_type != "minimal" else 0
        return (players - 1) * hand * kinds + players + self.cards - players * hand + table + last_move + knowledge
