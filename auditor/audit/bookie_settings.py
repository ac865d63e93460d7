"""Client settings in ``--bookie-conf``: whether clients resolve bookie ids from registrations."""

from auditor.audit.placement_scan import read_properties
from auditor.errors import UsageError
from auditor.model.bookie_conf import resolves_ids


def read_resolver_flag(path: str | None) -> bool:
    """Return whether clients resolve bookie ids, as the bookie's configuration file says.

    Returns True without a file.

    Raises:
        UsageError: the file does not exist, is no properties file, or has a value other than true or false.
    """
    if path is None:
        return True
    try:
        return resolves_ids(read_properties("--bookie-conf", path))
    except ValueError as error:
        raise UsageError(f"--bookie-conf {path}: {error}") from None
