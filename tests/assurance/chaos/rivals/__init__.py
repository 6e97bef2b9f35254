"""How a contender uses each library: as its documentation says, with all that it tells its user."""
