"""Names, addresses, connections and certificates."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import replace
from datetime import UTC, datetime

import anyio
from anyio.streams.tls import TLSAttribute

from .. import render
from ..process_keeper import clock
from ..survey import why_not
from ..words import Inquirer, Server
from .findings import Finding, Level

__all__ = ["examine_network"]

SOON = 30 * 86400
"""How long before its end a certificate should be replaced, in seconds."""


async def examine_network(inquirer: Inquirer, server: Server) -> list[Finding]:
    """Finds out whether a server can be found and connected to, at each of its addresses."""
    addresses, findings = await _look_up(inquirer, server)
    for address in addresses:
        findings += await _reach(inquirer, server, address)
    if any(each.check == "tcp" and each.level is Level.OK for each in findings):
        # Clients try all addresses of a name: one that nobody listens at costs them time.
        return [_eased(each) if each.check == "tcp" else each for each in findings]
    return findings


def _eased(finding: Finding) -> Finding:
    return replace(finding, level=Level.WARN) if finding.level is Level.FAIL else finding


async def _look_up(inquirer: Inquirer, server: Server) -> tuple[list[str], list[Finding]]:
    if _is_address(server.host):
        return [server.host], []
    begin = clock()
    details: dict[str, object] = {"server": str(server)}
    try:
        with anyio.fail_after(inquirer.patience):
            found = await anyio.getaddrinfo(
                server.host, server.port, type=socket.SocketKind.SOCK_STREAM
            )
    except TimeoutError:
        text = f"{server.host}: the resolver does not answer within {inquirer.patience:g} s"
        return [], [Finding("dns", Level.FAIL, text, "look at /etc/resolv.conf", details)]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        text = f"{server.host}: {why or type(error).__name__}"
        advice = "is the name right? does this machine's resolver know it?"
        return [], [Finding("dns", Level.FAIL, text, advice, details)]
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    text = f"{server.host}: {', '.join(addresses)} ({_milliseconds(begin)})"
    details = {**details, "addresses": addresses}
    return addresses, [Finding("dns", Level.OK, text, "", details)]


async def _reach(inquirer: Inquirer, server: Server, address: str) -> list[Finding]:
    where = f"{server} at {address}" if address != server.host else str(server)
    details = {"server": str(server), "address": address}
    begin = clock()
    try:
        with anyio.fail_after(inquirer.patience):
            stream = await anyio.connect_tcp(address, server.port)
            await stream.aclose()
    except TimeoutError:
        text = f"{where}: no answer within {inquirer.patience:g} s"
        advice = "is a firewall in between? is the machine up?"
        return [Finding("tcp", Level.FAIL, text, advice, details)]
    except OSError as error:
        advice = "does the server run? is that its client port, and does it listen there?"
        return [Finding("tcp", Level.FAIL, f"{where}: {why_not(error)}", advice, details)]
    findings = [Finding("tcp", Level.OK, f"{where} ({_milliseconds(begin)})", "", details)]
    if inquirer.is_encrypted:
        findings.append(await _shake_hands(inquirer, server, address, where))
    elif not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        text = f"{where}: in the clear, credentials included"
        findings.append(Finding("tls", Level.NOTE, text, "--tls, if the servers have it", details))
    return findings


async def _shake_hands(inquirer: Inquirer, server: Server, address: str, where: str) -> Finding:
    details: dict[str, object] = {"server": str(server), "address": address}
    try:
        with anyio.fail_after(inquirer.patience):
            async with await inquirer.connect(server, address) as stream:
                version = stream.extra(TLSAttribute.tls_version)  # noqa: S610 - that is Django's
                certificate = stream.extra(TLSAttribute.peer_certificate)  # noqa: S610
    except TimeoutError:
        text = f"{where}: no handshake within {inquirer.patience:g} s"
        advice = "is this the port for TLS (secureClientPort)?"
        return Finding("tls", Level.FAIL, text, advice, details)
    except OSError as error:
        advice = "is this the port for TLS? do --tls-ca and --tls-hostname fit its certificate?"
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"{where}: {error.verify_message}"
        else:
            text = f"{where}: {why_not(error)}"
        return Finding("tls", Level.FAIL, text, advice, details)
    end = certificate.get("notAfter") if certificate else None
    try:
        ends = ssl.cert_time_to_seconds(end) if isinstance(end, str) else None
    except ValueError:
        ends = None  # its authority has signed what is no date
    if ends is None:
        return Finding("tls", Level.OK, f"{where}: {version}", "", details)
    left = ends - datetime.now(UTC).timestamp()
    text = f"{where}: {version}, certificate for another {render.plural(int(left // 86400), 'day')}"
    details["days_left"] = int(left // 86400)
    if left < SOON:
        return Finding("tls", Level.WARN, text, "renew the server's certificate", details)
    return Finding("tls", Level.OK, text, "", details)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _milliseconds(begin: float) -> str:
    return f"{(clock() - begin) * 1000:.1f} ms"
