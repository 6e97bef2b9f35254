"""Logging in by SASL.

sasl       the user's settings, and the client's side of a login
kerberos   the mechanism GSSAPI, by the package `gssapi`
"""
