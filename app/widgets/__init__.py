"""What draws lines and takes keys; it knows no records."""
