"""What makes a program smaller, and what makes it simpler."""
