"""Environments that exercise what CartPole does not; used by the tests only."""
