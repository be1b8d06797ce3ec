"""Distributions of accepted lengths, runs cut short counted rightly."""
