"""Holds, the gate that permits or refuses instructions, and the ordered list of actions."""
