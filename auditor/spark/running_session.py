"""Copies the Spark session of a running application, so that the application's session keeps its settings.

An audit sets how Spark plans queries, and how large batches are. Meanwhile, other threads of the
application may run their own queries. So the audit never changes an existing session, but works on a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from auditor.spark.types import SparkSession

_CONTEXT_ATTRIBUTES = frozenset(("_sc", "_jsc", "_jvm", "_profiler_collector"))
"""Attributes of a PySpark session that belong to its Spark context. All sessions of a context share them."""


def running_session() -> SparkSession | None:
    """Return the Spark session of this process, or None if there is none.

    It does not matter which thread started the session. `SparkSession.getActiveSession` would find only the
    session of the calling thread.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if (active_session := SparkSession.getActiveSession()) is not None:
        return active_session
    if (context := SparkContext._active_spark_context) is None:
        return None
    default_session = SparkSession._instantiatedSession
    # `SparkSession.builder` would first look for a Spark Connect server in the environment.
    return (
        default_session
        if default_session is not None and default_session._sc is context
        else SparkSession(context)
    )


def copy_session(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a copy of ``session`` in the same Spark context, changed by ``settings``.

    Items of ``settings`` that belong to the Spark context are skipped, because all its sessions share them.
    The copy keeps settings that were changed at run time, for example the credentials of an object store.
    `SparkSession.newSession` would lose them.
    """
    session_copy = copy.copy(session)  # with PySpark's constructor, every `RDD.toDF` would use the copy
    for name in vars(session_copy).keys() - _CONTEXT_ATTRIBUTES:
        delattr(session_copy, name)
    session_copy._jsparkSession = session._jsparkSession.cloneSession()
    for setting_name, setting_value in settings.items():
        if session_copy.conf.isModifiable(setting_name):
            session_copy.conf.set(setting_name, setting_value)
    return session_copy
