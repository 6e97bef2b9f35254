"""Leader election.

election   the recipe: leadership, running a worker, asking leaders to resign
campaign   contending in the background, with its states as a view
observer   the view of an election for programs that do not contend
"""
