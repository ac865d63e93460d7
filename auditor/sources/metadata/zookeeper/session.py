"""One session with ZooKeeper: its login, its server, and whether it has moved to another server.

If a connection breaks, kazoo moves to another server by itself. If the old session has expired, kazoo opens
a new one. A `Session` ends at the moment of such a move (`Session.has_moved`). So no caller mixes the answers
of two servers. The handshake contains the newest zxid that was seen before. A server that is behind this
zxid refuses the connection.
"""

from __future__ import annotations

import importlib.util
import logging
import struct
from collections.abc import Callable
from functools import wraps
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    KazooException,
    SessionClosedRequireSaslError,
    SessionExpiredError,
    WriterNotClosedException,
    ZookeeperError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from puresasl.client import SASLClient

from auditor.errors import DecodeError, StoreError
from auditor.sources.kerberos_errors import is_kerberos_error, kerberos_problem
from auditor.sources.metadata.credentials import Sasl, Tls, ZooKeeperCredentials
from auditor.sources.metadata.zookeeper.requests import (
    AddWatch,
    MultiRead,
    NodeData,
    Operation,
    PathAnswer,
    Stat,
    WatchEvent,
)

CONNECTION_ERRORS = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, KazooTimeoutError)
"""Exceptions that end a request when its connection breaks."""

GARBAGE_REASON = "an answer that does not follow ZooKeeper's protocol"
"""Reason to report if the server is not a ZooKeeper, or if the network damages its bytes."""

REFUSAL_ERRORS = (AuthFailedError, SessionClosedRequireSaslError)

# Errors here repeat kazoo's messages about lost connections, with advice. kazoo's debug messages contain
# whole answers and passwords, and ledger metadata contains passwords. So no surrounding program may switch
# them on: logging.getLogger cannot find a session's logger.
_LOGGER = logging.getLogger(__name__)
_LOGGER.addHandler(logging.NullHandler())


class NotReachedError(Exception):
    """Raised if no server accepts the connection, or the server does not answer. A retry may succeed."""


class Session:
    """A ZooKeeper session that sends only reads and watches. It ends when its connection ends.

    Args:
        hosts: HOST:PORT of each server, separated by commas.
        timeout_s: seconds to wait for a connection, and for one answer.
        credentials: login and TLS files.
        newest_zxid: the newest zxid that was seen before. A server that is behind this zxid refuses the
            connection.

    Raises:
        NotReachedError: no server answered in time.
        StoreError: the server refuses the credentials, or a Python package that they need is not installed.
    """

    def __init__(
        self, hosts: str, timeout_s: float, credentials: ZooKeeperCredentials, newest_zxid: int
    ) -> None:
        self.has_moved = False
        self._is_refused = False
        self._hosts = hosts
        self._timeout_s = timeout_s
        self._service = credentials.sasl.service if credentials.sasl else "zookeeper"
        _require_kerberos_ticket(hosts, credentials.sasl)
        self._last_errors = _ConnectionErrors()
        logger = logging.Logger(__name__, logging.INFO)
        logger.parent = _LOGGER
        logger.addHandler(self._last_errors)
        self._client: Any = KazooClient(  # kazoo has no types
            hosts,
            timeout=timeout_s,
            logger=logger,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0),
            auth_data=_digest(credentials),
            sasl_options=_sasl(credentials.sasl),
            **_tls(credentials.tls),
        )
        connection = self._client._connection
        for method in ("_connect", "_read_socket"):
            setattr(connection, method, _disconnect_on_garbage(getattr(connection, method)))
        self._client.last_zxid = newest_zxid
        self._client.add_listener(self._on_state_change)
        try:
            self._client.start(timeout=timeout_s)
        except (KazooTimeoutError, KazooException, OSError) as error:
            if not isinstance(error, WriterNotClosedException):  # else its thread closes it, as in `close`
                self._client.close()
            self._raise_refusal(error)
            raise NotReachedError(f"no connection within {timeout_s:g} s{self._last_errors}") from error

    @property
    def last_zxid(self) -> int:
        """Return the zxid of the newest transaction that the server had seen when it last answered."""
        return int(self._client.last_zxid)

    def sync(self, path: str) -> None:
        """Wait until the server has every transaction that the leader has now.

        Raises:
            NotReachedError: the server did not answer. This session can no longer be used.
            StoreError: the server refuses the credentials.
        """
        try:
            self._client.sync_async(path).get(timeout=self._timeout_s)
        except (
            *CONNECTION_ERRORS,
            ZookeeperError,
            RuntimeError,
        ) as error:  # RuntimeError: an answer to another request
            self._raise_refusal(error)
            raise NotReachedError(f"{failure_reason(error, self._timeout_s)}{self._last_errors}") from error

    def multi_read(self, operation: Operation, paths: list[str]) -> Any:
        """Send one multiRead request for all paths, without waiting for the answers.

        The result is the pending request. Pass it to `answers` to get the server's answers.
        """
        return self._send(MultiRead(operation, paths))

    def ask(self, request: MultiRead) -> list[PathAnswer]:
        """Send a request, and return the server's answers.

        kazoo's own thread calls the request's ``deserialize``. At that time, it has handled all events that
        the server sent before the answer, and no later event.

        Raises:
            Exception: see `answers`.
        """
        return self.answers(self._send(request))

    def watch(self, path: str, listener: Callable[[WatchEvent], None]) -> None:
        """From now on, call ``listener`` for each event of a znode at or below ``path``.

        kazoo's own thread calls ``listener``, in the order in which the server sent the events. If the
        server sends an event before an answer, ``listener`` gets the event before the caller gets the
        answer. No event is lost until the session has moved to another server.

        Raises:
            ZookeeperError: the server does not support such a watch (before 3.6), or forbids it.
            ConnectionLoss: the connection broke. Other exceptions of `CONNECTION_ERRORS` are possible too.
            StoreError: the server refuses the credentials.
        """

        def read_event(buffer: bytes, offset: int) -> None:
            try:
                listener(WatchEvent.read(buffer, offset))
            except DecodeError:
                self.has_moved = True  # an event is lost

        # kazoo drops an event unless there is a watcher of exactly its path.
        self._client._connection._read_watch_event = read_event
        self._wait_for_answer(self._send(AddWatch(path)))

    def read(self, operation: Operation, path: str) -> Any:
        """Send a request for one path, without waiting for the answer.

        The result is the pending request. Pass it to `answer` to get the server's answer.
        """
        if operation is Operation.GET_DATA:
            return self._client.get_async(path)
        return self._client.get_children_async(path)

    def answers(self, pending_request: Any) -> list[PathAnswer]:
        """Wait for the server's answers to a request that `multi_read` sent.

        Raises:
            ConnectionLoss: the connection broke, or another server may have sent the answers. Other
                exceptions of `CONNECTION_ERRORS` are possible too.
            StoreError: the server refuses the credentials.
        """
        response: list[PathAnswer] = self._wait_for_answer(pending_request)
        return response

    def answer(self, pending_request: Any) -> PathAnswer:
        """Wait for the server's answer to a request that `read` sent.

        The answer has the same form as one of the answers that `answers` returns.
        """
        try:
            response = self._wait_for_answer(pending_request)
        except CONNECTION_ERRORS:
            raise
        except ZookeeperError as error:
            return int(error.code)
        if isinstance(response, list):
            return response
        data, stat = response
        return NodeData(data or b"", Stat._make(stat))

    def close(self) -> None:
        """End the session."""
        self.has_moved = True
        try:
            self._client.stop()
        except WriterNotClosedException:
            return  # kazoo's thread still waits for a silent server, and closes the connection later
        except (OSError, KazooException):
            pass  # `stop` writes to a socket that may be closed already
        self._client.close()

    def _send(self, request: MultiRead | AddWatch) -> Any:
        pending_request = self._client.handler.async_result()
        self._client._call(request, pending_request)
        return pending_request

    def _wait_for_answer(self, pending_request: Any) -> Any:
        try:
            response = pending_request.get(timeout=self._timeout_s)
        except (*REFUSAL_ERRORS, *CONNECTION_ERRORS) as error:
            self._raise_refusal(error)
            raise
        except (DecodeError, RuntimeError) as error:  # kazoo: an answer to another request
            self.has_moved = True  # no further answer of this server can be trusted
            raise ConnectionLoss(f"{GARBAGE_REASON}: {error}") from error
        if self.has_moved:
            # Another server, perhaps one that is behind, may have sent this answer.
            raise ConnectionLoss("the connection moved to another server")
        return response

    def _on_state_change(self, connection_state: str) -> None:
        """Record a change of the connection's state.

        kazoo's own thread calls this method before it connects to another server.
        """
        self._is_refused = self._is_refused or self._client.client_state == KeeperState.AUTH_FAILED
        self.has_moved = self.has_moved or connection_state != KazooState.CONNECTED

    def _raise_refusal(self, error: Exception) -> None:
        if self._last_errors.last_kerberos_error is not None:
            problem = kerberos_problem(self._last_errors.last_kerberos_error, f"{self._service}/HOST")
            raise StoreError(f"ZooKeeper at {self._hosts}: {problem}") from error
        if self._is_refused or isinstance(error, REFUSAL_ERRORS):
            raise StoreError(
                f"not authorised: ZooKeeper at {self._hosts} refuses these credentials; "
                "check user, password and mechanism in the --credentials file"
            ) from error


def _disconnect_on_garbage(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a step of kazoo's connection, so that bytes that cannot be decoded end the connection.

    Without this wrapper, the error would end kazoo's thread with a traceback on standard error.
    """

    @wraps(method)
    def raise_on_refusal(*method_arguments: Any) -> Any:
        try:
            return method(*method_arguments)
        except (struct.error, ValueError, IndexError, TypeError, RuntimeError) as error:
            raise ConnectionDropped(f"{GARBAGE_REASON} ({error})") from error

    return raise_on_refusal


def failure_reason(error: Exception, timeout_s: float) -> str:
    """Return a text that says why a request failed with the exception ``error``.

    If there was no answer in time, the text contains ``timeout_s``, the time limit of the request in seconds.
    """
    if isinstance(error, KazooTimeoutError):
        return f"no answer within {timeout_s:g} s; raise --timeout if it is slow"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class _ConnectionErrors(logging.Handler):
    """A log handler that keeps the last failure of a connection, because kazoo reports it only in its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last_message = ""
        self.last_kerberos_error: BaseException | None = None  # the last Kerberos error of a login

    def emit(self, log_record: logging.LogRecord) -> None:
        # "Connection dropped: ...", "Connection time-out: ..."; other messages only say that kazoo gives up.
        if log_record.getMessage().startswith("Connection "):
            self._last_message = log_record.getMessage()
        # Without a ticket kazoo fails to begin a login, or raises "Unknown error" from the Kerberos error.
        raised_error = log_record.exc_info[1] if log_record.exc_info else None
        for error in (raised_error, *(log_record.args if isinstance(log_record.args, tuple) else ())):
            cause = error.__cause__ if isinstance(error, BaseException) else None
            self.last_kerberos_error = next(
                (kerberos_error for kerberos_error in (error, cause) if is_kerberos_error(kerberos_error)),
                self.last_kerberos_error,
            )

    def __str__(self) -> str:
        return f" ({self._last_message})" if self._last_message else ""


def _digest(credentials: ZooKeeperCredentials) -> list[tuple[str, str]]:
    login = credentials.digest
    return [("digest", f"{login.user}:{login.password}")] if login else []


def _sasl(sasl: Sasl | None) -> dict[str, str] | None:
    if sasl is None:
        return None
    python_packages = ("puresasl", "kerberos") if sasl.mechanism == "GSSAPI" else ("puresasl",)
    for python_package in python_packages:
        if importlib.util.find_spec(python_package) is None:
            raise StoreError(
                f"SASL {sasl.mechanism} needs the Python package {python_package}, which is not installed"
            )
    if sasl.login:
        login = {"username": sasl.login.user, "password": sasl.login.password}
        return {"mechanism": sasl.mechanism, "service": sasl.service, **login}
    principal = {"principal": sasl.principal} if sasl.principal else {}
    return {"mechanism": sasl.mechanism, "service": sasl.service, **principal}


def _require_kerberos_ticket(hosts: str, sasl: Sasl | None) -> None:
    """Refuse a Kerberos login if there is no ticket for its principal.

    Without this check, kazoo's thread would end with a traceback on standard error.

    Raises:
        StoreError: there is no valid ticket. The message quotes Kerberos.
    """
    if sasl is None or sasl.principal is None or importlib.util.find_spec("kerberos") is None:
        return
    host = hosts.split(",")[0].rpartition(":")[0].strip("[]")
    try:
        SASLClient(host, sasl.service, mechanism=sasl.mechanism, principal=sasl.principal)
    except Exception as error:
        if not is_kerberos_error(error):
            raise
        problem = kerberos_problem(error, f"{sasl.service}/{host}")
        raise StoreError(f"ZooKeeper at {hosts}: {problem}") from None


def _tls(tls: Tls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    return {
        "use_ssl": True,
        "ca": tls.ca,
        "certfile": tls.certificate,
        "keyfile": tls.key or tls.certificate,
        # With None, OpenSSL would ask at the terminal for the password of an encrypted key.
        "keyfile_password": tls.key_password or "",
        "verify_certs": tls.verify,
        "check_hostname": tls.check_hostname,
    }
