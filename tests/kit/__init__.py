"""The kit of the tests: modules that tests of several folders share."""
