"""A contender with each library, used as its documentation says, with all of its notifications."""
