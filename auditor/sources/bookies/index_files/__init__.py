"""Index files (``.idx``) of Interleaved and Sorted storage."""
