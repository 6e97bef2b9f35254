"""Configuration: several keys that are published together.

    config            the recipe: publishing, rolling back
    config_snapshot   reading the keys as a whole, and the format of the history
    config_view       the view

Layout, below the path:

    (data)              the number of the version, in decimal digits
    keys/<key>          the values
    history/<number>    each version as a whole, in JSON
"""
