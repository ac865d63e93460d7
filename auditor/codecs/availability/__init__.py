"""BP-34's sets of entries: SequenceGroups, their arithmetic, and what each bookie should hold."""
