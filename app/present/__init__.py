"""What is shown: from records to cells with roles, without Textual."""
