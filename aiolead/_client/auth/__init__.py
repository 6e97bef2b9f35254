"""Logging in by SASL.

sasl       what users configure, and the side of a login that makes the tokens
kerberos   the mechanism GSSAPI, by the package `gssapi`
"""
