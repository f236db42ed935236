"""The terminal program: joins `refold.core` to Textual and to the command line."""
