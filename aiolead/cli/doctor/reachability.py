"""Checks of names, addresses, connections and certificates."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import replace
from datetime import UTC, datetime

import anyio
from anyio.streams.tls import TLSAttribute

from ..._util.name_lookup import is_literal, look_up
from .. import render
from ..process_keeper import clock
from ..server_inquiry import Inquirer, ServerAddress
from ..server_survey import why_not
from .findings import Finding, Level

SOON = 30 * 86400
"""How long before its end a certificate should be replaced, in seconds."""


async def examine_network(inquirer: Inquirer, server: ServerAddress) -> list[Finding]:
    """Check whether a server can be resolved, and connected to at each of its addresses."""
    addresses, findings = await _resolve(inquirer, server)
    for address in addresses:
        findings += await _reach(inquirer, server, address)
    if any(each.check == "tcp" and each.level is Level.OK for each in findings):
        # Clients try all addresses of a name: one without a listener costs them time.
        return [
            replace(each, level=Level.WARN)
            if each.check == "tcp" and each.level is Level.FAIL
            else each
            for each in findings
        ]
    return findings


async def _resolve(inquirer: Inquirer, server: ServerAddress) -> tuple[list[str], list[Finding]]:
    if is_literal(server.host):
        return [server.host], []
    begin = clock()
    name = str(server)
    try:
        with anyio.fail_after(inquirer.patience):
            addresses = await look_up(server.host, server.port)
    except TimeoutError:
        text = f"{server.host}: the resolver does not answer within {inquirer.patience:g} s"
        return [], [Level.FAIL.finding("dns", text, "look at /etc/resolv.conf", server=name)]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        text = f"{server.host}: {why or type(error).__name__}"
        advice = "is the name right? does this machine's resolver know it?"
        return [], [Level.FAIL.finding("dns", text, advice, server=name)]
    text = f"{server.host}: {', '.join(addresses)} ({_milliseconds(begin)})"
    return addresses, [Level.OK.finding("dns", text, server=name, addresses=addresses)]


async def _reach(inquirer: Inquirer, server: ServerAddress, address: str) -> list[Finding]:
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
        return [Level.FAIL.finding("tcp", text, advice, **details)]
    except OSError as error:
        advice = "does the server run? is that its client port, and does it listen there?"
        return [Level.FAIL.finding("tcp", f"{where}: {why_not(error)}", advice, **details)]
    findings = [Level.OK.finding("tcp", f"{where} ({_milliseconds(begin)})", **details)]
    if inquirer.is_encrypted:
        findings.append(await _check_tls(inquirer, server, address, where))
    elif not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        text = f"{where}: in the clear, credentials included"
        findings.append(Level.NOTE.finding("tls", text, "--tls, if the servers have it", **details))
    return findings


async def _check_tls(
    inquirer: Inquirer, server: ServerAddress, address: str, where: str
) -> Finding:
    details = {"server": str(server), "address": address}
    try:
        with anyio.fail_after(inquirer.patience):
            async with await inquirer.connect(server, address) as stream:
                version = stream.extra(TLSAttribute.tls_version)  # noqa: S610 - that is Django's
                certificate = stream.extra(TLSAttribute.peer_certificate)  # noqa: S610
    except TimeoutError:
        text = f"{where}: no handshake within {inquirer.patience:g} s"
        advice = "is this the port for TLS (secureClientPort)?"
        return Level.FAIL.finding("tls", text, advice, **details)
    except OSError as error:
        advice = "is this the port for TLS? do --tls-ca and --tls-hostname fit its certificate?"
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"{where}: {error.verify_message}"
        else:
            text = f"{where}: {why_not(error)}"
        return Level.FAIL.finding("tls", text, advice, **details)
    end = certificate.get("notAfter") if certificate else None
    try:
        ends = ssl.cert_time_to_seconds(end) if isinstance(end, str) else None
    except ValueError:
        ends = None  # its authority has signed an invalid date
    if ends is None:
        return Level.OK.finding("tls", f"{where}: {version}", **details)
    left = ends - datetime.now(UTC).timestamp()
    days = int(left // 86400)
    text = f"{where}: {version}, certificate for another {render.plural(days, 'day')}"
    if left < SOON:
        advice = "renew the server's certificate"
        return Level.WARN.finding("tls", text, advice, **details, days_left=days)
    return Level.OK.finding("tls", text, **details, days_left=days)


def _milliseconds(begin: float) -> str:
    return f"{(clock() - begin) * 1000:.1f} ms"
