"""The configuration centre.

    snapshot    what was published: reading it as a whole, and its form in the history
    config      the recipe: publishing, rolling back
    view        following it

Layout, below the path:

    (data)              the number of the version, in decimal digits
    keys/<key>          the values
    history/<number>    each version as a whole, in JSON: see `snapshot`
"""
