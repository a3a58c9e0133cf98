"""Figures: plain numbers in, a plotly figure out. No state, no model, no screen.

Every figure has a sentence beside it (`…_alt`) that says the same to those who do not see it.
"""
