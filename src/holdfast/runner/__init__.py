"""The shell around the core: it carries decisions out and writes down what came of them. It decides nothing."""
