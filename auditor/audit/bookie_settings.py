"""The client setting in ``--bookie-conf`` that says whether clients resolve bookie ids from registrations."""

from auditor.audit.placement_scan import read_properties
from auditor.errors import UsageError
from auditor.model.bookie_conf import uses_registrations


def read_resolver_flag(path: str | None) -> bool:
    """Return whether clients resolve bookie ids, according to the bookie's configuration file.

    Returns True if ``path`` is None.

    Raises:
        UsageError: the file does not exist or is not a properties file, or the value of the setting is
            neither true nor false.
    """
    if path is None:
        return True
    try:
        return uses_registrations(read_properties("--bookie-conf", path))
    except ValueError as error:
        raise UsageError(f"--bookie-conf {path}: {error}") from None
