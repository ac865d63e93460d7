"""Holds, which forbid actions; the gate, which permits or refuses them; the ordered list of actions."""
