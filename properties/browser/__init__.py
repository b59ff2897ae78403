"""Tests that look at pages in headless Chromium: ``make test-browser``."""
