"""How often ``compare`` is wrong: a kernel against itself, a thousand times; planted changes."""
