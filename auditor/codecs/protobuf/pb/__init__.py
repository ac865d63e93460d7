"""Modules generated from the proto files in schemas/. A test generates them again and compares the results.
"""
