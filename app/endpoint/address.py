"""Where the endpoint listens, and by which names it may be asked for."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from dataclasses import dataclass, field

from pardec_chat.backends.errors import BadSetting, UserError

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
#: Ports that are looked at for one that is free.
_NEARBY = 32
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)


class PortTaken(UserError):
    """Another program listens there. offer: a free port nearby, 0 where none was found."""

    def __init__(self, what: str, next_step: str, offer: int) -> None:
        super().__init__(what, next_step)
        self.offer = offer


@dataclass(frozen=True, slots=True)
class Address:
    """host: a name or an address. port: 0 takes any that is free. key: what clients have to show; None asks for none."""

    host: str
    port: int
    key: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """What clients are given as their base, without the path of a version."""
        return f"http://{_bracketed(self.host)}:{self.port}"


def check(address: Address) -> tuple[socket.AddressFamily, str]:
    """The kind of the address and its number. Raises BadSetting for what may not be."""
    if not 0 <= address.port <= 65535:
        raise BadSetting(f"The port is {address.port}.", "Give one from 0 to 65535.")
    if address.key is not None and not re.fullmatch(r"[\x21-\x7e]+", address.key):
        raise BadSetting("The key has spaces or letters that no header can carry, or is empty.", "Give another one.")
    family, host = _resolved(address)
    if address.key is None and not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
        raise BadSetting(
            f"{address.host or host} can be reached from other machines, and there is no key.",
            "Give a key (--api-key, PARDEC_CHAT_API_KEY), or listen on 127.0.0.1.",
        )
    return family, host


def bind(address: Address) -> socket.socket:
    """A listening socket. Raises BadSetting for what may not be, PortTaken for what cannot be."""
    family, host = check(address)
    try:
        return _listening(family, host, address.port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            offer = _free_port(family, host, address.port)
            step = f"Take {offer}, which is free." if offer else "Take another one."
            raise PortTaken(f"Port {address.port} is taken by another program.", step, offer) from None
        if isinstance(error, PermissionError):
            raise BadSetting(f"Port {address.port} is for the system alone.", "Take one from 1024 on.") from None
        raise BadSetting(f"{address.host} is no address of this machine: {error.strerror}.", "Give another.") from None


def host_allowed(header: str, address: Address) -> bool:
    """Whether a Host header names this server: a page that had its own name point here would send its own.

    Loopback names and the host that was asked for, with the real port. Where all interfaces are listened on, any address in
    numbers, which no page can have as its name, and the machine's own names.
    """
    found = _HOST.fullmatch(header.strip().lower())
    if found is None or int(found[2] or 80) != address.port:
        return False
    name = found[1].rstrip(".")
    if name in _LOOPBACK_NAMES or name == _bracketed(address.host.lower()):
        return True
    try:
        number = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        own = {socket.gethostname().lower(), socket.getfqdn().lower()} if _is_wildcard(address.host) else set()
        return name in own | {f"{one}.local" for one in own}
    return number.is_loopback or _is_wildcard(address.host)


def _is_wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")  # noqa: S104  # only compared


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _resolved(address: Address) -> tuple[socket.AddressFamily, str]:
    host = address.host.strip("[]") or "0.0.0.0"  # noqa: S104  # which asks for a key
    try:
        found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise BadSetting(
            f"There is no address for the name {address.host}.", "Give another, such as 127.0.0.1."
        ) from None
    # IPv4 first: what clients try for localhost, too.
    family, _, _, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)
    return family, str(place[0])


def _listening(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    # Named, since asyncio sends small pieces at once only where the protocol is known to be TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A port whose last connections are only just closed is free; one that is listened on is not.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except BaseException:
        listener.close()
        raise
    return listener


def _free_port(family: socket.AddressFamily, host: str, port: int) -> int:
    for near in range(port + 1, min(port + 1 + _NEARBY, 65536)):
        try:
            _listening(family, host, near).close()
        except OSError:
            continue
        return near
    return 0
