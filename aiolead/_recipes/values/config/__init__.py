"""Configuration: several keys that are published together.

    config            the recipe: publishing, rolling back
    config_snapshot   reading all keys consistently, and the format of the history
    config_view       the view

The znode's data is the version number in decimal digits, `keys/<key>` has the values, and
`history/<number>` each whole version in JSON.
"""
