"""Mutation testing: does a small change in the code that keeps secrets make a test fail?

`mutants` finds all changes (cosmic-ray's operators) and draws a sample; `targets` says which tests belong to a module;
`running` tries one mutant in a copy of the repository; `score` says what it comes to. `make mutate` runs it.
"""
