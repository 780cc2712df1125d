"""What a person may write, and every fault in it at once, each with its place.

jsonargparse stops at the first fault, and knows no line numbers.
"""
