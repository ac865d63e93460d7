"""The encoder against a plain loop, and a whole audit, in one run.

python -m benchmarks
"""

from __future__ import annotations

from benchmarks import audit, codec

if __name__ == "__main__":
    codec.main()
    print()
    audit.main(100_000)
