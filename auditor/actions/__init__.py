"""Holds (bans on actions), the gate that permits or refuses an action, and the ordered list of actions."""
