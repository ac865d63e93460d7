"""What a bookie keeps on its disks and says over the wire."""
