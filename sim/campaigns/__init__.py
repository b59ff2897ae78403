"""Campaigns that outlive their processes: leases of seeds, judged by processes, kept in one file."""
