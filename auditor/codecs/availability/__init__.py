"""Sets of entry ids as BP-34 SequenceGroups.

The modules encode and decode such sets, do set arithmetic, and compute the entries that each bookie should
hold.
"""
