"""The shell around the core: it carries out decisions and records the results. It decides nothing."""
