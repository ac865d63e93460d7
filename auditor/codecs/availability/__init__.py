"""BP-34's sets of entries: SequenceGroups, set arithmetic, and the entries that each bookie should hold."""
