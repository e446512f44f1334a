"""Libraries of systems for the tests: one that builds on the other, used by two environments."""
