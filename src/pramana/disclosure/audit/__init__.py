"""Does a released file match its description, and does anything in it give the secrets away?"""
