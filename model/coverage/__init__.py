"""What a campaign should have reached: features of programs, rare situations of runs."""
