"""Leader election.

election   the recipe: leadership, running a worker, asking leaders to resign
campaign   contending in the background, with its states as a view
observer   a view of the leaders, for programs that do not contend
"""
