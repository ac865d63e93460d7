"""Holds (rules that forbid actions), the gate that permits or refuses an action, and the list of actions."""
