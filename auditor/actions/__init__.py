"""Holds, the gate that every instruction passes, and the ordered list of actions."""
