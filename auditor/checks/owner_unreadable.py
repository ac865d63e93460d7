"""Values of owners that cannot be read."""

from auditor.checks.check import Basis, DataFrame, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, with_fault


@check(
    Severity.ERROR,
    rests_on=Basis.OWNERS,
    asks="ownership",
    do_now="restore the owners that cannot be read from a snapshot",
)
def owner_unreadable(tables: Tables) -> DataFrame:
    """What an application keeps of its ledgers cannot be read.

    What it finds:
        Values of topics, subscriptions, schemas and logs that break their format; places of the owners' trees
        that could not be listed. One finding per znode.

    Why it matters:
        The application cannot read it either: the topic does not load. Which ledgers it names is unknown, so
        none that claims it is called unowned.

    How sure:
        Confirmed: the bytes are what they are. What could not be listed may be readable to others.

    What to do:
        Restore the znode from a snapshot of the store. `bkaudit decode` shows at which byte it goes wrong.

    Commands:
        - `bkaudit decode pulsar-managed-ledger FILE`
          says at which byte a topic's value goes wrong that was saved to a file. Risk: none; it reads the
          file.
        - `bkaudit decode pulsar-cursor FILE`
          the same of a subscription's. Risk: none; it reads the file.

    Limits:
        A value that is damaged and still follows its format is taken as it is.
    """
    return finding_rows(
        with_fault(tables, "owner-unreadable"),
        message="{path}: {damage}",
        evidence="application, path, damage, damage_offset",
    )
