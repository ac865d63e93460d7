"""How Java is started for what lives a minute: compiling code once, with one thread to collect garbage.

A server that starts, answers a few hundred times and ends spends most of its time on being compiled.
"""

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
