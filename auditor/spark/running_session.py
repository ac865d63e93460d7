"""The Spark session of an application that an audit runs in, which keeps its settings.

An audit sets how Spark plans its queries and how large batches are. Other threads of the application ask
their own queries meanwhile, so that nothing is set in a session that was there before: the audit gets a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from auditor.spark.types import SparkSession

_CONTEXT_ATTRIBUTES = frozenset(("_sc", "_jsc", "_jvm", "_profiler_collector"))
"""What PySpark's session has of its context; everything else belongs to one session, as its ``conf``."""


def running_session() -> SparkSession | None:
    """Return the session of this process, whichever thread started it.

    Returns None if there is none. `SparkSession.getActiveSession` knows only the session of its own thread.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        return active
    if (context := SparkContext._active_spark_context) is None:
        return None
    default = SparkSession._instantiatedSession
    # `SparkSession.builder` would ask the environment for a server of Spark Connect first.
    return default if default is not None and default._sc is context else SparkSession(context)


def copy_session(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a session of the same context whose settings are its own: those of ``session``, then these.

    Settings of the context, which all sessions share, are left out. Settings that were made at run time, as
    the credentials of an object store, come along; `SparkSession.newSession` would forget them.
    """
    own = copy.copy(session)  # PySpark's constructor would have every `RDD.toDF` use the copy
    for name in vars(own).keys() - _CONTEXT_ATTRIBUTES:
        delattr(own, name)
    own._jsparkSession = session._jsparkSession.cloneSession()
    for key, value in settings.items():
        if own.conf.isModifiable(key):
            own.conf.set(key, value)
    return own
