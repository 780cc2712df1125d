"""The one exception whose text is meant for the user."""


class UserError(ValueError):
    """Something that the user can mend; its text says what is wrong, where, what was found and what to do.

    Commands print it as it is, without a traceback, and exit with 2.
    """
