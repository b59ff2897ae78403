"""Campaigns: seeds drawn, run and judged, failures made small."""
